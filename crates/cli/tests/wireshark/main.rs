//! The dissectors of `tools/wireshark`, and Wireshark's own for XTP 4.0, run by tshark over packets that are known.
//!
//! Where tshark is not installed these tests say so and pass.

mod a1;
#[path = "../common/mod.rs"]
mod common;
mod conversation;
mod group;
mod qmp;
mod tshark;
mod vectors;
mod vrp;
mod xtp36;
mod xtp40;
mod zcrp;

use tshark::{Capture, Tshark};

#[test]
fn the_loader_can_be_loaded_twice_and_each_dissector_alone() {
    let Some(tshark) = Tshark::find() else { return };
    let mut capture = Capture::new();
    capture.udp(&[0; 28]);
    for scripts in [&["pinnace.lua", "pinnace.lua"][..], &["zcrp.lua", "pinnace.lua"], &["zcrp.lua"], &["common.lua"]] {
        let frames = tshark.with_scripts(scripts).decode(&capture, &[]);
        assert_eq!(frames.len(), 1);
    }
}

#[test]
fn an_error_in_a_dissector_would_be_seen() {
    // What the other tests assert the absence of.
    let Some(tshark) = Tshark::find() else { return };
    let script = tshark.path("broken.lua");
    std::fs::write(
        &script,
        "local p = Proto('broken', 'Broken')\nfunction p.dissector(tvb) return tvb(0, 100):uint() end\n\
         DissectorTable.get('udp.port'):add(7001, p)\n",
    )
    .unwrap();
    let mut capture = Capture::new();
    capture.udp(b"short");
    let frames = tshark.with_scripts(&[script.to_str().unwrap()]).decode_unchecked(&capture, &[]);
    assert!(frames[0].has_lua_error());
}
