//! `include/zcrp.h` is what cbindgen makes of `src/abi.rs` today.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test header` writes it anew.

use std::path::Path;

#[test]
fn the_committed_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let made = cbindgen::Builder::new()
        .with_src(root.join("src/abi.rs"))
        .with_config(config)
        .generate()
        .expect("a header of src/abi.rs");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("text");
    let path = root.join("include/zcrp.h");
    if std::env::var_os("PINNACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("a header to write");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "include/zcrp.h is not what src/abi.rs says: run with PINNACE_BLESS=1 and look at it");
}
