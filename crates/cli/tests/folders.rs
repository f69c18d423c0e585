//! Folders of many small files.

mod common;

use common::{Listening, short_of_descriptors, text};

#[test]
fn a_sender_of_many_files_makes_do_with_few_descriptors() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = from.path().join("many");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..300 {
        std::fs::write(folder.join(number.to_string()), number.to_string()).unwrap();
    }
    let receiving =
        Listening::start(&["recv", "--bind", "127.0.0.1:0", "--once", "--dir", to.path().to_str().unwrap()]);
    let args = ["send", folder.to_str().unwrap(), &receiving.address];
    let sent = short_of_descriptors(64, &args).output().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(receiving.finish().0, Some(0));
    for number in 0..300 {
        assert_eq!(
            std::fs::read_to_string(to.path().join("many").join(number.to_string())).unwrap(),
            number.to_string()
        );
    }
}
