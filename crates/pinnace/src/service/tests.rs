//! The forms read back, errors help, and the choice is what it says it is, over ten thousand random services and paths.

use super::*;
use proptest::prelude::*;

fn arbitrary_contract() -> impl Strategy<Value = Contract> {
    let ranges = proptest::collection::vec((any::<u32>(), 1..100_000_u64), 0..4);
    (1..=255_u8, proptest::option::of(1..10_000_000_u64), proptest::option::of(any::<u8>()), ranges).prop_map(
        |(rate, run, floor, ranges)| {
            let mut contract = Contract::new().loss_rate(rate);
            if let Some(run) = run {
                contract = contract.run_bytes(run);
            }
            if let Some(floor) = floor {
                contract = contract.adaptive_from_percent(f64::from(floor % rate) * 100.0 / 255.0);
            }
            ranges
                .into_iter()
                .fold(contract, |contract, (low, len)| contract.critical(u64::from(low)..u64::from(low) + len))
        },
    )
}

pub(crate) fn some<T: std::fmt::Debug + Clone + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    proptest::sample::select(values.to_vec())
}

pub(crate) fn arbitrary_service() -> impl Strategy<Value = Service> {
    let reliability = prop_oneof![
        2 => Just(Reliability::Full),
        3 => arbitrary_contract().prop_map(Reliability::Bounded),
        2 => Just(Reliability::BestEffort),
    ];
    // Sizes and times of every order of magnitude.
    let bytes = || (0..34_u32, 0..1000_u64).prop_map(|(scale, more)| (1 << scale) + more * (1 << scale) / 1000);
    let time = || (1..1000_u64, 0..8_u32).prop_map(|(count, scale)| Duration::from_nanos(count * 10_u64.pow(scale)));
    let group = any::<(u8, u8, u16)>().prop_map(|(a, b, port)| Receivers::Group(([239, 1, a, b], port).into()));
    let receivers = prop_oneof![4 => Just(Receivers::One), 1 => (2..100_u32).prop_map(Receivers::Many), 1 => group];
    let rarely = || proptest::bool::weighted(0.2);
    let numbers = (
        proptest::option::of(bytes()),
        proptest::option::of(bytes()),
        proptest::option::weighted(0.3, time()),
        proptest::option::weighted(0.1, time()),
        proptest::option::weighted(0.4, (1..1000_u64, 3..11_u32).prop_map(|(n, scale)| n * 10_u64.pow(scale))),
        proptest::option::weighted(0.4, bytes()),
        proptest::option::weighted(0.2, any::<u8>()),
    );
    let kinds = (
        some(&[Pattern::Messages, Pattern::Messages, Pattern::Stream, Pattern::Transaction]),
        some(&[Checksum::Internet, Checksum::None]),
        some(&[Preference::Latency, Preference::Throughput]),
        some(&[Direction::OneWay, Direction::Duplex]),
        some(&[None, None, Some(PathClass::Host), Some(PathClass::Cluster), Some(PathClass::Internet)]),
    );
    (reliability, numbers, receivers, kinds, rarely(), rarely()).prop_map(
        |(reliability, numbers, receivers, kinds, disorder, in_place)| {
            let (size, largest, deadline, lifespan, rate, burst, priority) = numbers;
            let (pattern, checksum, preference, direction, path) = kinds;
            let service = Service {
                size,
                // What the text refuses is no service.
                largest: largest.map(|largest| largest.max(size.unwrap_or(0))),
                deadline,
                lifespan,
                rate,
                burst: burst.filter(|_| rate.is_some()),
                priority,
                pattern,
                order: !disorder,
                in_place,
                checksum,
                preference,
                direction,
                path,
                ..Service::new()
            };
            service.reliability(reliability).receivers(receivers)
        },
    )
}

pub(crate) fn arbitrary_path() -> impl Strategy<Value = Path> {
    let class = some(&[PathClass::Host, PathClass::Cluster, PathClass::Internet]);
    let loss = prop_oneof![Just(0.0), 1e-7..0.5_f64, some(&[f64::NAN, -1.0, 2.0, f64::INFINITY])];
    let rate = proptest::option::of((1..1000_u64, 3..9_u32).prop_map(|(n, scale)| n * 10_u64.pow(scale)));
    let round_trip = (0..1000_u64, 0..7_u32).prop_map(|(n, scale)| Duration::from_nanos(n * 10_u64.pow(scale)));
    (class, loss, rate, round_trip, 0..70_000_usize, any::<(bool, bool, bool)>()).prop_map(
        |(class, loss, rate, round_trip, datagram, (shared_memory, ethernet, multicast))| Path {
            class,
            round_trip,
            loss,
            datagram,
            rate,
            shared_memory,
            ethernet,
            multicast,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_form_reads_back(service in arbitrary_service(), port in any::<u16>()) {
        let text = service.to_string();
        prop_assert_eq!(text.parse::<Service>(), Ok(service.clone()), "{}", text);
        let toml = service.to_toml();
        prop_assert_eq!(Service::from_toml(&toml), Ok(service.clone()), "{}", toml);
        for host in ["192.0.2.7", "2001:db8::7", "ship.example"] {
            let uri = Uri { host: host.to_owned(), port, service: service.clone() };
            prop_assert_eq!(uri.to_string().parse::<Uri>(), Ok(uri.clone()), "{}", uri);
        }
        let json = serde_json::to_string(&service).unwrap();
        prop_assert_eq!(serde_json::from_str::<Service>(&json).unwrap(), service, "{}", json);
    }

    #[test]
    fn no_text_is_too_strange(text in ".{0,80}", name in "[a-z-]{1,9}", value in "[0-9a-zA-Z%.,:/-]{0,12}") {
        let _ = text.parse::<Service>();
        let _ = format!("pinnace://{text}").parse::<Uri>();
        let _ = Service::from_toml(&text);
        let _ = format!("{name}={value}").parse::<Service>();
        for property in PROPERTIES {
            if let Ok(service) = format!("{}={value}", property.name).parse::<Service>() {
                prop_assert_eq!(service.to_string().parse::<Service>(), Ok(service));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_cheapest_that_fits_is_chosen_and_what_fits_is_never_refused(
        service in arbitrary_service(),
        path in arbitrary_path(),
        forced in proptest::option::weighted(0.1, some(&Method::ALL)),
        excluded in proptest::collection::vec(some(&Method::ALL), 0..2),
    ) {
        let selection = Selection { forced, excluded };
        let offers: Vec<Offer> = Method::ALL.into_iter().map(|method| method.probe(&service, &path)).collect();
        for offer in &offers {
            let cost = offer.cost.total();
            prop_assert!(cost.is_finite() && cost >= 0.0 && offer.cost.latency() >= 0.0, "{:?}", offer);
            prop_assert!(!offer.why.is_empty() && offer.why.iter().all(|why| !why.is_empty()), "{:?}", offer);
        }
        let fitting = || offers.iter().filter(|offer| offer.fits && selection.allows(offer.method));
        let choice = choose(&service, &path, &selection);
        prop_assert_eq!(&choice, &choose(&service, &path, &selection), "the same again");
        match choice {
            Ok(choice) => {
                prop_assert!(fitting().all(|offer| offer.cost.total() >= choice.offer.cost.total()));
                let first = fitting().find(|offer| offer.cost.total() == choice.offer.cost.total());
                prop_assert_eq!(first, Some(&choice.offer));
                prop_assert_eq!(choice.others.len(), Method::ALL.len() - 1);
            }
            Err(unmet) => {
                prop_assert_eq!(fitting().count(), 0);
                prop_assert_eq!(unmet.offers.len(), Method::ALL.len());
                let text = unmet.to_string();
                for method in Method::ALL.into_iter().filter(|method| selection.allows(*method)) {
                    prop_assert!(text.contains(method.name()), "{}", text);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_said_to_change_the_choice_does(service in arbitrary_service(), path in arbitrary_path()) {
        let selection = Selection::default();
        let now = choose(&service, &path, &selection).ok().map(|choice| choice.offer.method);
        let changes = what_would_change(&service, &path, &selection);
        prop_assert_eq!(&changes, &what_would_change(&service, &path, &selection));
        for change in changes {
            prop_assert_ne!(change.method, now, "{}", change);
        }
    }
}

/// What a change says, said.
fn changed(service: &Service, change: &str) -> Service {
    let words: Vec<(&str, String)> = words::pairs(service).collect();
    let change = change.trim_end_matches(" or more").trim_end_matches(" or less");
    let name = change.trim_start_matches("without ").split('=').next().unwrap();
    let names: Vec<&str> = name.split(" and ").collect();
    let kept = words.iter().filter(|(word, _)| !names.contains(word)).map(|(word, value)| format!("{word}={value}"));
    let said = change.contains('=').then(|| change.to_owned());
    kept.chain(said).collect::<Vec<_>>().join(" ").parse().unwrap()
}

#[test]
fn changes_can_be_said_and_lead_where_they_say() {
    let internet = Path::of_class(PathClass::Internet);
    let paths = [internet.clone(), Path { rate: Some(100_000_000), ..internet }, Path::of_class(PathClass::Cluster)];
    let mut seen = 0;
    for path in &paths {
        for text in [
            "loss=5% run=4KiB size=2MB rate=200mbit",
            "loss=5% run=4KiB size=2MB rate=20mbit deadline=500ms",
            "size=64KiB multicast=4",
            "pattern=stream size=16KiB",
            "size=1KiB",
            "size=1MB lifespan=1s",
            "size=1KiB rate=10mbit burst=4KiB",
        ] {
            let service: Service = text.parse().unwrap();
            for change in what_would_change(&service, path, &Selection::default()) {
                // Without a share nothing else of a contract can be said.
                if change.change.starts_with("loss") && !change.change.contains("or") {
                    continue;
                }
                let other = changed(&service, &change.change);
                let method = choose(&other, path, &Selection::default()).ok().map(|choice| choice.offer.method);
                assert_eq!(method, change.method, "{text}, {change}: {other}");
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn an_example_of_the_whole() {
    let service: Service = "loss=5% run=4KiB size=2MB rate=200mbit".parse().unwrap();
    let path = Path::of_class(PathClass::Internet);
    let changes = what_would_change(&service, &path, &Selection::default());
    let of = |change: &str| changes.iter().find(|it| it.change == change).map(|it| it.method);
    assert_eq!(of("loss=0"), Some(Some(Method::Zcrp)), "{changes:?}");
    assert_eq!(of("pattern=stream"), Some(Some(Method::Xtp)));
    assert_eq!(of("multicast=2"), Some(Some(Method::A1)));
    assert!(changes.iter().any(|change| change.change.starts_with("deadline=") && change.method.is_none()));
}

#[test]
fn errors_name_the_word_what_is_allowed_and_what_is_near() {
    for (text, word, near, says) in [
        ("los=5%", "los=5%", Some("loss=5%"), "deadline, lifespan"),
        ("foo=1", "foo=1", None, "no property"),
        ("prio=1", "prio=1", Some("priority=1"), "no property"),
        ("loss=5", "loss=5", None, "write 5%"),
        ("loss=0.1%", "loss=0.1%", None, "at least 0.2%"),
        ("loss", "loss", None, "has no value"),
        ("in_place=yes", "in_place=yes", Some("in-place=yes"), "no property"),
        ("path=clusters", "path=clusters", Some("path=cluster"), "host, cluster, internet"),
        ("pattern=steam", "pattern=steam", Some("pattern=stream"), "messages"),
        ("deadline=50", "deadline=50", None, "50ms"),
        ("size=2parsec", "size=2parsec", None, "KiB"),
        ("run=4KiB", "run=4KiB", None, "needs a share"),
        ("loss=0 critical=0..5", "critical=0..5", None, "needs a share"),
        ("loss=5% floor=10%", "floor=10%", None, "above the share"),
        ("loss=5% run=0", "run=0", None, "lets nothing be lost"),
        ("burst=1KiB", "burst=1KiB", None, "needs a rate"),
        ("size=2KiB largest=1KiB", "largest=1KiB", None, "smaller"),
        ("loss=1% loss=2%", "loss=2%", None, "said twice"),
        ("multicast=0", "multicast=0", None, "no receiver"),
        ("multicast=192.0.2.1:7", "multicast=192.0.2.1:7", None, "no multicast address"),
        ("priority=256", "priority=256", None, "0 (most urgent)"),
    ] {
        let error = text.parse::<Service>().unwrap_err();
        assert_eq!((error.word.as_str(), error.near.as_deref()), (word, near), "{error}");
        assert!(error.to_string().contains(says) && error.to_string().contains(word), "{error}");
        let toml = words_as_toml(text);
        if let Some(toml) = toml {
            assert_eq!(Service::from_toml(&toml), Err(error), "{toml}");
        }
    }
    for uri in ["pinnace:/x:1", "pinnace://x", "pinnace://:7", "pinnace://a:b:1", "pinnace://x:70000", "http://x:1"] {
        assert!(uri.parse::<Uri>().unwrap_err().to_string().contains("pinnace://HOST:PORT"), "{uri}");
    }
    assert_eq!("pinnace://x:1?lost=5%&run=1".parse::<Uri>().unwrap_err().near.as_deref(), Some("loss=5%"));
    assert!(Service::from_toml("loss = [").unwrap_err().to_string().contains("TOML"));
}

/// The same as TOML, if it can be.
fn words_as_toml(text: &str) -> Option<String> {
    let lines: Option<Vec<String>> =
        text.split(' ').map(|word| word.split_once('=').map(|(name, value)| format!("{name} = '{value}'\n"))).collect();
    let mut names: Vec<&str> = text.split(' ').map(|word| word.split('=').next().unwrap_or(word)).collect();
    names.dedup();
    lines.filter(|lines| lines.len() == names.len()).map(|lines| lines.concat())
}

#[test]
fn contracts_are_kept_in_their_simplest_form() {
    let messy = Contract::new().loss_percent(5.0).any_run().critical(5..9).critical(0..5).critical(7..7);
    let service = Service::new().contract(messy);
    assert_eq!(service.to_string(), "loss=5% critical=0..9");
    assert_eq!(Service::new().contract(Contract::new().run_bytes(4096)), Service::new());
    assert_eq!(Service::new().receivers(Receivers::Many(1)), Service::new());
    assert_eq!(Service::new().to_string(), "");
    for step in 1..=255 {
        let service = Service::new().contract(Contract::new().loss_rate(step));
        assert_eq!(service.to_string().parse(), Ok(service.clone()), "{service}");
        assert!(service.to_string().len() <= "loss=99.6%".len(), "{service}");
    }
}
