//! What people and programs write: services in each of their forms, addresses, quantities, references.

use crate::rsr::Startpoint;
use crate::service::{
    Path, PathClass, Place, Selection, Service, Uri, check_address, choose, units, what_would_change,
};

/// What is understood can be said again, and is then understood alike; what is not says why.
pub fn texts(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match kind % 6 {
        0 => match text.parse() {
            Ok(found) => service(&found),
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        },
        1 => match Service::from_toml(text) {
            Ok(found) => service(&found),
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        },
        2 => match text.parse::<Uri>() {
            Ok(found) => {
                assert_eq!(found.to_string().parse().as_ref(), Ok(&found), "{found}");
                service(&found.service);
            }
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        },
        3 => quantities(text),
        4 => {
            if let Ok(found) = text.parse::<Startpoint>() {
                assert_eq!(found.to_string().parse().ok().as_ref(), Some(&found), "{found}");
                assert_eq!(Startpoint::from_bytes(&found.to_bytes()).ok().as_ref(), Some(&found), "{found}");
            }
        }
        _ => {
            for place in [Place::Here, Place::There] {
                if let Err(wrong) = check_address(text, place) {
                    assert!(!wrong.to_string().is_empty());
                }
            }
        }
    }
}

fn service(service: &Service) {
    let text = service.to_string();
    assert_eq!(text.parse().as_ref(), Ok(service), "{text}");
    let toml = service.to_toml();
    assert_eq!(Service::from_toml(&toml).as_ref(), Ok(service), "{toml}");
    for class in [PathClass::Host, PathClass::Cluster, PathClass::Internet] {
        let (path, selection) = (Path::of_class(class), Selection::default());
        match choose(service, &path, &selection) {
            Ok(choice) => assert!(choice.offer.fits),
            Err(unmet) => assert!(!unmet.to_string().is_empty()),
        }
        for change in what_would_change(service, &path, &selection) {
            assert!(!change.change.is_empty());
        }
    }
}

fn quantities(text: &str) {
    if let Ok(bytes) = units::bytes(text) {
        assert_eq!(units::bytes(&units::of_bytes(bytes)), Ok(bytes));
    }
    if let Ok(range) = units::byte_range(text) {
        assert_eq!(units::byte_range(&units::of_byte_range(&range)), Ok(range));
    }
    if let Ok(share) = units::share(text) {
        assert!((0.0..=1.0).contains(&share));
        assert!(units::share(&units::of_share(share)).is_ok());
    }
    if let Ok(rate) = units::bit_rate(text) {
        assert_eq!(units::bit_rate(&units::of_bit_rate(rate)), Ok(rate));
    }
    if let Ok(time) = units::duration(text) {
        assert_eq!(units::duration(&units::of_duration(time)), Ok(time));
    }
}
