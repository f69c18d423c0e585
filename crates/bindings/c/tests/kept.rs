//! What the library keeps by numbers: the file itself, since the library has nothing for Rust.

#[allow(dead_code, unreachable_pub, reason = "the library's own")]
#[path = "../src/kept.rs"]
mod kept;

use kept::{Numbers, Table};

#[test]
fn a_number_is_given_once() {
    let numbers = Numbers::new(16);
    assert!(!numbers.has_given(16));
    assert_eq!([numbers.give(40), numbers.give(40), numbers.give(40)], [Some(16), Some(32), None]);
    assert!(numbers.has_given(16) && numbers.has_given(32));
    assert!(![0, 8, 24, 48].iter().any(|&number| numbers.has_given(number)));
    assert_eq!(numbers.give(usize::MAX), Some(48), "a refusal takes no number");
}

#[test]
fn a_thing_is_found_until_it_is_taken_out() {
    let table = Table::default();
    assert_eq!(table.insert(3, "old"), None);
    assert_eq!(table.insert(3, "new"), Some("old"));
    assert_eq!((table.find(3), table.find(4)), (Some("new"), None));
    assert_eq!((table.remove(3), table.remove(3), table.find(3)), (Some("new"), None, None));
    table.insert(5, "last");
    assert_eq!(table.take_all().into_values().collect::<Vec<_>>(), ["last"]);
    assert_eq!(table.find(5), None);
}
