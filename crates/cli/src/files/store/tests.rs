use super::super::protocol::Kind;
use super::*;
use crate::exit::Exit;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const CHUNK: u64 = 1 << 16;

fn item(path: &[u8], bytes: u64) -> Item {
    let path = SafePath::new(path.to_vec()).unwrap();
    Item { path, kind: Kind::File { bytes }, mode: 0o640, modified: (1_000_000_000, 5) }
}

fn write(store: &Store, item: &Item) -> Result<(), Error> {
    let file = store.begin(item, CHUNK, &[])?;
    store.reserve(&file, item, 0, item.bytes() as usize)?;
    (&file).write_all(&vec![7; item.bytes() as usize]).unwrap();
    store.place(item, true)
}

#[test]
fn a_file_gets_its_name_permissions_and_time_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), false).unwrap();
    let item = item(b"a/b/\xff", 10);
    write(&store, &item).unwrap();
    let path = folder.path().join("a/b").join(OsStr::from_bytes(b"\xff"));
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.permissions().mode() & 0o7777), (10, 0o640));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_000_000_000, 5));
    assert!(matches!(store.existing(&item.path).unwrap(), Existing::File(_, 10)));
    // A second one of that name is refused, and replaces it only if that was asked for.
    assert!(write(&store, &item).unwrap_err().message.contains("--overwrite"));
    drop(store);
    write(&Store::open(folder.path(), true).unwrap(), &item).unwrap();
    assert!(!folder.path().join(PARTIAL_FOLDER).exists(), "nothing is left behind");
}

#[test]
fn folders_are_never_more_open_than_in_the_end_and_those_of_the_user_stay_as_they_are() {
    let top = tempfile::tempdir().unwrap();
    let named = top.path().join("in");
    let state = || fs::metadata(&named).map(|found| (found.permissions().mode() & 0o7777, found.mtime())).unwrap();
    let of = |mode| Item { kind: Kind::Folder, mode, ..item(b"in", 0) };
    let store = Store::open(top.path(), false).unwrap();
    let mut folders = store.folders();
    folders.make(&of(0o511)).unwrap();
    assert_eq!(state().0, 0o711);
    drop(folders);
    // The attempt ended early; the next one knows that the folder is its own.
    let mut folders = store.folders();
    folders.make(&of(0o511)).unwrap();
    folders.finish([&of(0o511)]).unwrap();
    assert_eq!(state(), (0o511, 1_000_000_000));
    // Others do not change it.
    let mut folders = store.folders();
    folders.make(&of(0o777)).unwrap();
    folders.finish([&of(0o777)]).unwrap();
    assert_eq!(state().0, 0o511);
    drop(store);
    fs::set_permissions(&named, fs::Permissions::from_mode(0o2755)).unwrap();
    let store = Store::open(top.path(), true).unwrap();
    let mut folders = store.folders();
    folders.make(&of(0o750)).unwrap();
    folders.finish([&of(0o750)]).unwrap();
    assert_eq!(state().0, 0o2750, "but where they may overwrite, and then the nine bits that travel");
}

#[test]
fn nothing_is_written_through_symbolic_links() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), folder.path().join("link")).unwrap();
    fs::write(outside.path().join("victim"), b"precious").unwrap();
    symlink(outside.path().join("victim"), folder.path().join("name")).unwrap();
    let store = Store::open(folder.path(), true).unwrap();
    assert_eq!(write(&store, &item(b"link/x", 1)).unwrap_err().exit, Exit::NotVerified);
    assert_eq!(store.existing(&item(b"link/x", 1).path).unwrap_err().exit, Exit::NotVerified);
    assert!(store.make_folder(&item(b"link/folder", 0)).is_err());
    assert!(store.make_folder(&item(b"link", 0)).is_err());
    assert!(store.finish_folder(&item(b"link", 0)).is_err());
    // A link in the place of a file is replaced, not followed.
    assert!(matches!(store.existing(&item(b"name", 1).path).unwrap(), Existing::Other));
    write(&store, &item(b"name", 1)).unwrap();
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn what_is_in_the_place_of_the_hidden_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(PARTIAL_FOLDER);
    for make in [|place: &Path| fs::write(place, b"").unwrap(), |place: &Path| symlink("/tmp", place).unwrap()] {
        make(&place);
        let error = Store::open(folder.path(), false).unwrap_err();
        assert!(error.message.contains("/.pinnace-partial, where"), "{error}");
        fs::remove_file(&place).unwrap();
    }
}

#[test]
fn what_could_not_get_its_name_can_be_written_to_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), false).unwrap();
    let item = Item { mode: 0o444, ..item(b"name", 10) };
    fs::write(folder.path().join("name"), b"theirs").unwrap();
    assert!(write(&store, &item).is_err());
    let partial = folder.path().join(PARTIAL_FOLDER).join(content_name(&item.path));
    assert_eq!(fs::metadata(partial).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(folder.path().join("name")).unwrap();
    write(&store, &item).unwrap();
    assert_eq!(fs::metadata(folder.path().join("name")).unwrap().permissions().mode() & 0o777, 0o444);
}

#[test]
fn a_folder_that_came_meanwhile_is_not_replaced() {
    for overwrite in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), overwrite).unwrap();
        fs::create_dir(folder.path().join("name")).unwrap();
        let error = write(&store, &item(b"name", 1)).unwrap_err();
        assert!(error.message.contains("name is a folder"), "{error}");
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), true).unwrap();
    fs::create_dir(folder.path().join("top")).unwrap();
    fs::write(folder.path().join("top/sub"), b"mine").unwrap();
    let (below, sub) = (item(b"top/sub/deep/x", 1), item(b"top/sub", 0));
    let refused = [
        store.existing(&below.path).unwrap_err(),
        store.make_folder(&below).unwrap_err(),
        store.make_folder(&sub).unwrap_err(),
        store.finish_folder(&sub).unwrap_err(),
        write(&store, &below).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.exit, Exit::Failed, "{error}");
        let named = format!("{}/top/sub is a file", folder.path().display());
        assert!(error.message.contains(&named) && error.message.contains("move it away"), "{error}");
    }
    assert_eq!(fs::read(folder.path().join("top/sub")).unwrap(), b"mine");
}

#[test]
fn what_was_written_down_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let item = item(b"large", 3 * CHUNK);
    let store = Store::open(folder.path(), false).unwrap();
    assert!(store.resume(&item, CHUNK).is_none());
    store.begin(&item, CHUNK, &[(2, [2; 32])]).unwrap();
    assert_eq!(store.reserved_bytes(&item), 0);
    let file = store.begin(&item, CHUNK, &[(2, [2; 32])]).unwrap();
    store.reserve(&file, &item, CHUNK, CHUNK as usize).unwrap();
    assert!(store.reserved_bytes(&item) >= CHUNK, "what is reserved is not missing");
    store.note(&item, 0, &[9; 32]).unwrap();
    store.note(&item, 0, &[1; 32]).unwrap();
    store.note(&item, 7, &[7; 32]).unwrap();
    let state = folder.path().join(PARTIAL_FOLDER).join(state_name(&item.path));
    let mut torn = fs::read(&state).unwrap();
    torn.extend([1; 20]);
    fs::write(&state, torn).unwrap();
    drop(store);
    let store = Store::open(folder.path(), false).unwrap();
    let (file, held) = store.resume(&item, CHUNK).unwrap();
    assert_eq!((file.metadata().unwrap().len(), held), (3 * CHUNK, vec![(0, [1; 32]), (2, [2; 32])]));
    // Another size, or other chunks, and it is worth nothing.
    assert!(store.resume(&item, 2 * CHUNK).is_none());
    assert!(store.resume(&Item { kind: Kind::File { bytes: 5 }, ..item.clone() }, CHUNK).is_none());
    store.forget(&item);
    assert!(store.resume(&item, CHUNK).is_none());
}

#[test]
fn a_folder_has_one_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let _store = Store::open(folder.path(), false).unwrap();
    assert!(Store::open(folder.path(), false).unwrap_err().message.contains("another"));
}

#[test]
fn one_transfer_has_a_name_until_its_claim_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), false).unwrap();
    let waits = |_: &[u8], _: Who| Err(Error::failed("it waits"));
    let first = store.claim(Who::default(), &[item(b"a", 1), item(b"b/c", 1)], waits).unwrap();
    assert_eq!(store.claim(Who::default(), &[item(b"d", 1), item(b"b/c", 1)], waits).unwrap_err().message, "it waits");
    // Who waits has claimed nothing.
    let other = store.claim(Who::default(), &[item(b"d", 1)], waits).unwrap();
    drop(first);
    store.claim(Who::default(), &[item(b"b/c", 1)], waits).unwrap();
    assert!(store.claim(Who::default(), &[item(b"d", 1)], waits).is_err());
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| store.claim(Who::default(), &[item(b"a", 1), item(b"d", 1)], |_, _| Ok(())).map(drop));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished());
        store.claimed().paths.clear();
        store.released.notify_all();
        waiting.join().unwrap().unwrap();
    });
    drop(other);
}

#[test]
fn a_file_and_a_folder_do_not_come_at_once_under_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), false).unwrap();
    let folder = |path: &[u8]| Item { kind: Kind::Folder, ..item(path, 0) };
    let waits =
        |items: &[Item]| store.claim(Who::default(), items, |_: &[u8], _: Who| Err(Error::failed("it waits"))).is_err();
    let _claim = store
        .claim(Who::default(), &[item(b"a", 1), folder(b"b"), item(b"b/c", 1), item(b"b-", 1)], |_, _| Ok(()))
        .unwrap();
    assert!(waits(&[folder(b"a")]) && waits(&[item(b"a/x", 1)]) && waits(&[folder(b"a/x/y")]));
    assert!(waits(&[item(b"b", 1)]) && waits(&[item(b"b/c/d", 1)]));
    assert!(!waits(&[folder(b"b"), item(b"b/d", 1), item(b"a-", 1), item(b"ab", 1), item(b"c", 1)]));
}

#[test]
fn disk_space_is_promised_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), false).unwrap();
    let claim = |name| store.claim(Who::default(), &[item(name, 1)], |_, _| Ok(())).unwrap();
    let (first, second) = (claim(b"first"), claim(b"second"));
    let most = store.free_bytes().unwrap() / 8 * 5;
    assert!(first.set_aside(most).unwrap() >= most);
    assert!(second.set_aside(most).unwrap() < most);
    first.has_taken(most / 2);
    assert_eq!(store.claimed().set_aside, most - most / 2);
    drop(first);
    assert!(second.set_aside(most).unwrap() >= most, "the rest is given back");
    drop(second);
    assert_eq!(store.claimed().set_aside, 0);
}

#[test]
fn another_folder_of_the_same_name_is_found() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("in");
    let stores = Stores::open(&path, false).unwrap();
    let first = stores.current().unwrap();
    assert!(Arc::ptr_eq(&first, &stores.current().unwrap()));
    fs::rename(&path, parent.path().join("done")).unwrap();
    write(&stores.current().unwrap(), &item(b"a", 3)).unwrap();
    assert_eq!(fs::read(path.join("a")).unwrap(), [7; 3]);
    write(&first, &item(b"b", 3)).unwrap();
    assert!(parent.path().join("done/b").exists());
    // The hidden folder alone.
    let second = stores.current().unwrap();
    fs::remove_dir_all(path.join(PARTIAL_FOLDER)).unwrap();
    assert!(!Arc::ptr_eq(&second, &stores.current().unwrap()));
    drop(second);
    write(&stores.current().unwrap(), &item(b"c", 3)).unwrap();
}
