//! What the answering side decides: whether a service is within what it accepts, and by which method it comes.
//!
//! Always true: the client's order counts. Of what the client named, the first that this side has and allows is taken; so
//! both ends come to what [`choose`](crate::service::choose) says where the methods of neither end are missing at the other.

use super::method;
use super::wire::Status;
use crate::service::{Method, Service};

/// Why there is no connection.
pub(crate) type Refusal = (Status, String);

/// The method, for a client that has `methods` (numbers, the best first).
pub(crate) fn decide(
    service: &Service,
    methods: &[u8],
    limits: &Service,
    longest: u64,
    has: impl Fn(Method) -> bool,
) -> Result<Method, Refusal> {
    within(service, limits, longest)?;
    let known = || methods.iter().filter_map(|&known| method(known));
    known().find(|&method| has(method)).ok_or_else(|| {
        let theirs: Vec<_> = known().map(Method::name).collect();
        let ours: Vec<_> = Method::ALL.into_iter().filter(|&method| has(method)).map(Method::name).collect();
        (Status::NoMethod, format!("you would take {}; this end has {}", list(&theirs), list(&ours)))
    })
}

/// Words in a row.
fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Whether a service is within what a listener accepts at most; `longest`: the bytes of a message that it collects.
pub(crate) fn within(service: &Service, limits: &Service, longest: u64) -> Result<(), Refusal> {
    let beyond = |why: String| Err((Status::BeyondLimits, why));
    // Who says nothing of sizes learns of a limit with the first message beyond it.
    if service.says_sizes() {
        let most = if limits.says_sizes() { limits.largest_bytes().min(longest) } else { longest };
        let asked = service.largest_bytes();
        if asked > most {
            return beyond(format!("messages of {asked} bytes; at most {most} are taken"));
        }
    }
    if let (Some(asked), Some(most)) = (service.rate, limits.rate)
        && asked > most
    {
        return beyond(format!("{asked} bits a second; at most {most} are taken"));
    }
    if let (Some(asked), Some(most)) = (service.burst, limits.burst)
        && asked > most
    {
        return beyond(format!("bursts of {asked} bytes; at most {most} are taken"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::client::{Told, wanted};
    use super::super::number;
    use super::super::wire::{Hello, VERSIONS, whole};
    use super::*;
    use crate::service::tests::{arbitrary_path, arbitrary_service, some};
    use crate::service::{Offer, Receivers, Reliability, Selection, choose};
    use proptest::prelude::*;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

    /// The seed, which a failure prints: `PINNACE_SEED`, or a new one.
    fn seed() -> u64 {
        let said = std::env::var("PINNACE_SEED").ok().and_then(|seed| seed.parse().ok());
        said.unwrap_or_else(|| getrandom::u64().unwrap_or(1))
    }

    fn methods() -> impl Strategy<Value = Vec<Method>> {
        proptest::collection::vec(some(&Method::ALL), 0..4)
    }

    fn selection() -> impl Strategy<Value = Selection> {
        (proptest::option::weighted(0.1, some(&Method::ALL)), methods())
            .prop_map(|(forced, excluded)| Selection { forced, excluded })
    }

    /// Of all methods that both ends allow and the listener has, the cheapest that fits; nothing else is known of `choose`
    /// here.
    fn expected(offers: &[Offer], may: impl Fn(Method) -> bool) -> Option<Method> {
        let fitting = offers.iter().filter(|offer| offer.fits && may(offer.method));
        fitting.min_by(|a, b| a.cost.total().total_cmp(&b.cost.total())).map(|offer| offer.method)
    }

    #[test]
    fn both_ends_come_to_what_explain_says_and_what_some_method_meets_is_not_refused() {
        let seed = seed();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(ProptestConfig::with_cases(10_000), rng);
        let most = proptest::option::weighted(0.2, 1..1_000_000_000_u64);
        // Now and then more critical ranges than HELLO has room for.
        let critical = proptest::collection::vec((any::<u32>(), 1..9000_u64), 0..140);
        let critical = proptest::option::weighted(0.1, critical);
        let cases = (arbitrary_service(), arbitrary_path(), selection(), selection(), methods(), most, critical);
        let several = std::cell::Cell::new(0);
        let outcome = runner.run(&cases, |(mut service, path, client, server, missing, most, critical)| {
            several.set(several.get() + u32::from(service.receivers != Receivers::One));
            if let (Reliability::Bounded(contract), Some(ranges)) = (service.reliability.clone(), critical) {
                let ranges = ranges.into_iter().map(|(low, len)| u64::from(low)..u64::from(low) + len);
                service = service.contract(ranges.fold(contract, crate::vrp::Contract::critical));
            }
            let offers: Vec<Offer> = Method::ALL.into_iter().map(|method| method.probe(&service, &path)).collect();
            let has = |method| server.allows(method) && !missing.contains(&method);
            let wanted = wanted(&service, &path, &client);
            let expected_there = expected(&offers, |method| client.allows(method));
            prop_assert_eq!(wanted.as_ref().ok().map(|methods| methods[0]), expected_there);
            // `explain` says the same.
            let explained = choose(&service, &path, &client).ok().map(|choice| choice.offer.method);
            prop_assert_eq!(explained, expected_there);
            let Ok(wanted) = wanted else { return Ok(()) };

            // Through the bytes that are sent.
            let told = Told::of(&service);
            let hello = Hello {
                versions: VERSIONS,
                class: 3,
                nonce: 1,
                cookie: 0,
                host: 0,
                methods: wanted.iter().map(|method| number(*method)).collect(),
                service: told.hello.clone(),
            };
            let heard = Hello::parse(&hello.encode().unwrap()).unwrap();
            let heard_service: Service = heard.service.parse().unwrap();
            let opened = whole(&told.open, &heard_service);
            prop_assert_eq!(opened.as_ref(), Some(&service));
            let limits = most.map_or(Service::new(), |most| Service::new().largest(most));
            let decided = decide(&heard_service, &heard.methods, &limits, 1 << 40, has);
            let says_sizes = service.largest.is_some() || service.size.is_some();
            if most.is_some_and(|most| says_sizes && service.largest_bytes() > most) {
                prop_assert_eq!(decided.unwrap_err().0, Status::BeyondLimits);
                return Ok(());
            }
            let expected_here = expected(&offers, |method| client.allows(method) && has(method));
            prop_assert_eq!(decided.as_ref().ok().copied(), expected_here);
            if let Err((status, _)) = decided {
                prop_assert_eq!(status, Status::NoMethod);
            }
            // What both ends exclude is what `explain` would have to be told to say the same.
            let excluded = Method::ALL.into_iter().filter(|&method| !client.allows(method) || !has(method)).collect();
            let both = Selection { forced: None, excluded };
            let explained = choose(&service, &path, &both).ok().map(|choice| choice.offer.method);
            prop_assert_eq!(explained, expected_here);
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("PINNACE_SEED={seed}: {error}");
        }
        assert!(several.get() > 1000, "{} services to several receivers", several.get());
    }
}
