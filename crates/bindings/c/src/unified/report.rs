//! Why it is this method, in words.

use crate::errors::{Errno, Failure};
use pinnace::service::{Choice, Offer, Path, Selection, Service, Uri, choose, what_would_change};
use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};

fn write_offer(text: &mut String, offer: &Offer) {
    let Offer { method, mode, fits, cost, why } = offer;
    let (mode, cost, why) = (mode.name(), cost.total(), why.join("; "));
    let fits = if *fits { "" } else { "does not fit: " };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{method:<14}{mode:<24}{cost:>12.1} us  {fits}{why}");
}

/// The offers of a choice: the one that is taken first.
pub(super) fn of_choice(choice: &Choice) -> String {
    let mut text = format!("{} is taken\n", choice.offer.method);
    write_offer(&mut text, &choice.offer);
    for other in &choice.others {
        write_offer(&mut text, other);
    }
    text
}

/// What `pinnace explain` says: the offers, and what would change the choice.
pub(super) fn explain(service: &Service, peer: Option<&str>, selection: &Selection) -> Result<String, Failure> {
    let address = peer.map(resolve).transpose()?;
    let path = Path::of_service(service, address).map_err(|error| {
        Failure::new(Errno::from(&error).0, format!("the way to {}: {error}", peer.unwrap_or_default()))
    })?;
    let mut text = match choose(service, &path, selection) {
        Ok(choice) => of_choice(&choice),
        Err(unmet) => {
            let mut text = "no method can carry this service\n".to_owned();
            for offer in &unmet.offers {
                write_offer(&mut text, offer);
            }
            text
        }
    };
    for change in what_would_change(service, &path, selection) {
        let _ = writeln!(text, "with {change}");
    }
    Ok(text)
}

/// An address of a host, with or without a port.
fn resolve(peer: &str) -> Result<SocketAddr, Failure> {
    let bare = peer.trim_start_matches('[').trim_end_matches(']');
    let found = peer.to_socket_addrs().or_else(|_| (bare, 0).to_socket_addrs()).ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        Failure::new(libc::EADDRNOTAVAIL, format!("`{peer}` is no host: there is no address of that name"))
    })
}

/// A service as C says it: its words, or a URI, of which the host comes with it; NULL is the default.
pub(super) fn service_of(text: Option<&str>) -> Result<(Service, Option<String>), Failure> {
    let malformed = |error: pinnace::service::Malformed| Failure::new(libc::EINVAL, error.to_string());
    match text {
        None => Ok((Service::new(), None)),
        Some(text) if Uri::is_meant(text) => {
            let uri: Uri = text.parse().map_err(malformed)?;
            Ok((uri.service.clone(), Some(uri.authority())))
        }
        Some(text) => Ok((text.parse().map_err(malformed)?, None)),
    }
}
