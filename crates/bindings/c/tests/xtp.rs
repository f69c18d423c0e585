//! XTP from C: `include/xtp.h` says what `src/xtp/types.rs` does, and programs that use it compile without a warning, run, and
//! say what they should.
//!
//= X-3 test
//= X-4 test
//= X-7 test
//= X-8 test
//= X-9 test
//= X-11 test
//= X-13 test
//= X-15 test
//= X-17 test
//= X-19 test
//= X-20 test
//= X-21 test

#[allow(dead_code, reason = "shared with other tests")]
mod support;
#[allow(dead_code, unreachable_pub, reason = "the library's own, to be compared with the header")]
#[path = "../src/xtp/types.rs"]
mod types;

use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use support::{check, examples, test_program};

fn check_c(program: &str, said: &str) {
    check(&test_program(program), "-std=c99", said);
}

/// A program that compiles only if sizes, places and numbers are what the library believes.
fn layout(assert: &str) -> String {
    let mut text = String::from("#include \"xtp.h\"\n#include <stdio.h>\n\n");
    let mut line = |what: String| writeln!(text, "{assert}({what}, \"{}\");", what.replace('"', "")).expect("memory");
    macro_rules! members {
        ($($name:literal $type:ident: $($member:ident)*;)*) => {
            $(
                line(format!("sizeof({}) == {}", $name, size_of::<types::$type>()));
                $(line(format!("offsetof({}, {}) == {}", $name, stringify!($member), offset_of!(types::$type, $member)));)*
            )*
        };
    }
    members! {
        "adrseg" adrseg: alen adomain aformat dst src dport sport;
        "struct xtpspan" xtpspan: low high next prev;
        "xtpcbloc" xtpcbloc: mode_flags sort_value listen_flags field_flags service rbufsize wbufsize maxdata rwindow
            retry_count input_burst input_rate output_burst output_rate ctimeout ctimer wtimer address_segment mc_drops
            mc_sreqs mc_rttgain mc_rttvgain code value;
        "xtpctx" xtpctx: recv_buf saved_sync recv_sync should_xkey my_key rem_key sort hseq rseq dseq bseq last_sent xseq
            lseq first_seq init_seq nspans span cbloc cstate soc paddr t_start t_end;
    }
    for (name, value) in types::NUMBERS {
        line(format!("{name} == {value}"));
    }
    text.push_str(
        "\nstatic int (*volatile init[2])(xtpctx *) = {xtp_ctx_init, xtp_init};\n\
         static void (*volatile bloc)(xtpcbloc *) = xtp_bloc_init;\n\
         static int (*volatile output)(xtpctx *, const void *, size_t, uint32_t) = xoutput;\n\
         static int (*volatile input[2])(xtpctx *) = {xf_input, xd_input};\n\
         static int (*volatile timer)(xtpctx **, struct timeval *) = xtp_timer_init;\n\
         static int (*volatile closing)(xtpctx *, int) = xtp_close;\n\n\
         int main(void) {\n    \
         puts(init[0] && init[1] && bloc && output && input[0] && input[1] && timer && closing ? \"as agreed\" : \"no\");\n    \
         return 0;\n}\n",
    );
    text
}

fn written(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtp");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn structures_and_numbers_are_the_librarys() {
    let source = written("xtp_layout.c", &layout("_Static_assert"));
    check(&source, "-std=c11", "as agreed");
    let source = written("xtp_layout_cpp.cpp", &layout("static_assert"));
    check(&source, "-std=c++11", "as agreed");
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("xtp_header.cpp"), "-std=c++11", "from C++\n");
}

#[test]
fn the_papers_test() {
    check(&examples().join("xtp.c"), "-std=c99", "messages of 16384 bytes:");
}

#[test]
fn each_of_the_six_services() {
    check_c("xtp_services.c", "six services work\n");
}

#[test]
fn the_papers_loop_of_timers_and_select() {
    check_c("xtp_loop.c", "24 contexts in the loop\n");
}

#[test]
fn the_applications_ring() {
    check_c("xtp_ring.c", "the ring is right\n");
}

#[test]
fn every_end_is_told() {
    check_c("xtp_ends.c", "every end is told\n");
}

#[test]
fn every_error_is_told() {
    check_c("xtp_errors.c", "every error was told\n");
}

#[test]
fn everything_arrives_over_a_lossy_path() {
    check_c("xtp_lossy.c", "everything arrived over a lossy path\n");
}
