//! Waiting for a peer, and knowing when it is gone.

use super::settings::LinkName;
use crate::bare;
use crate::exit::Error;
use crate::interrupt;
use pinnace::xtp::{Endpoint, Failure, Refused, Service};
use std::time::{Duration, Instant};

/// After so many reports of the network that nobody is there, it is believed.
const UNREACHABLE: u64 = 3;

/// Whether the peer at `to` still says anything.
pub(super) struct Watch<'a> {
    endpoint: &'a Endpoint,
    to: &'a str,
    link: LinkName,
    /// The service of a stream to a group.
    group: Option<Service>,
    timeout: Duration,
    heard: u64,
    since: Instant,
    /// When something has come last, whatever was expected.
    answered: Instant,
}

impl<'a> Watch<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, to: &'a str, link: LinkName, timeout: Duration) -> Self {
        let now = Instant::now();
        Self { endpoint, to, link, group: None, timeout, heard: 0, since: now, answered: now }
    }

    /// The same of all who receive what goes to a group.
    pub(super) fn of_group(self, service: Service) -> Self {
        Self { group: Some(service), ..self }
    }

    /// Looks; to be called every [`interrupt::LOOK`] while waiting. Fails if the peer is gone, or on Ctrl-C.
    pub(super) fn look(&mut self) -> Result<(), Error> {
        interrupt::check()?;
        if self.group == Some(Service::UnackMulticast) {
            // Nobody answers.
            return Ok(());
        }
        let counters = self.endpoint.counters();
        let heard = counters.data_packets_received + counters.statuses_received + counters.diags_received;
        if heard != self.heard {
            let now = Instant::now();
            (self.heard, self.since, self.answered) = (heard, now, now);
        }
        if heard == 0 && counters.unreachable_reports >= UNREACHABLE {
            return Err(self.nobody());
        }
        if self.since.elapsed() > self.timeout {
            return Err(self.gone());
        }
        Ok(())
    }

    /// Time in which nothing was expected does not count.
    pub(super) fn begin(&mut self) {
        self.since = Instant::now();
    }

    fn nobody(&self) -> Error {
        let what = if self.link == LinkName::Udp { "UDP port" } else { "IP protocol" };
        bare::nobody(self.to, what, "xtp listen")
    }

    fn has_heard(&self) -> bool {
        self.endpoint.counters().statuses_received > 0
    }

    fn gone(&self) -> Error {
        // XTP may give up before: it asks --retry-count times.
        let (to, seconds) = (self.to, bare::tenths(self.answered.elapsed().min(self.timeout)));
        if self.group.is_some() {
            return Error::peer_gone(match self.heard {
                0 => format!(
                    "nobody in the group {to} has answered within {seconds} s: is `pinnace xtp listen {to}` running, and does \
                     multicast reach it? --interface says through which network"
                ),
                _ => format!(
                    "nobody in the group {to} has answered for {seconds} s: they were ended, or are out of reach"
                ),
            });
        }
        if self.heard > 0 {
            return Error::peer_gone(format!(
                "{to} has not answered for {seconds} s: it was ended, or the network between is down; run the command again \
                 when it is back"
            ));
        }
        let carrier = if self.link == LinkName::Udp { "UDP" } else { "IP protocol 36" };
        Error::peer_gone(format!(
            "no answer from {to} within {seconds} s: is `pinnace xtp listen` running there with the same --codec and --link, \
             and does {carrier} reach it?"
        ))
    }

    /// An error of the transport, in the user's words.
    pub(super) fn error(&self, error: pinnace::Error) -> Error {
        let to = self.to;
        match error {
            pinnace::Error::ContextFailed(Failure::Refused { code: 1, value: 1 }) => Error::peer_gone(format!(
                "nobody listens at {to}: an XTP host is there, but none at this port and address; start `pinnace xtp listen`"
            )),
            pinnace::Error::ContextFailed(Failure::Refused { code: 1, value: 8 }) => Error::failed(format!(
                "{to} does not offer this service: use another --service, or start the listener with it"
            )),
            pinnace::Error::ContextFailed(Failure::Abandoned)
                if self.group.is_some() && self.since.elapsed() < self.timeout && self.has_heard() =>
            {
                Error::peer_gone(format!(
                    "not everybody in the group {to} has shown to have everything: a receiver was too slow, or ended in the \
                     middle"
                ))
            }
            pinnace::Error::ContextFailed(Failure::Unanswered | Failure::Abandoned) => self.gone(),
            pinnace::Error::ContextFailed(Failure::Swallowed) => Error::peer_gone(format!(
                "{to} answers, but no data reach it any more: the path may lose all packets of their size, and --maxdata makes \
                 them smaller"
            )),
            pinnace::Error::ContextFailed(Failure::Unknown) => Error::peer_gone(format!(
                "{to} does not know the association any more, so nobody can say whether it has everything; look there before \
                 you run the command again"
            )),
            // Nothing is aborted here before it has failed.
            pinnace::Error::ContextFailed(
                Failure::Aborted
                | Failure::GivenUpByPeer { .. }
                | Failure::Forced
                | Failure::StoppedReading,
            )
            // It has said that it reads no more, and how the association ends is not known yet.
            | pinnace::Error::ContextRefused(Refused::Closed | Refused::NoContext) => {
                Error::peer_gone(format!("{to} ended the association in the middle; run the command again"))
            }
            pinnace::Error::ContextRefused(Refused::TooLarge { most }) => Error::failed(format!(
                "a datagram is one packet, which carries at most {most} bytes here; use --service connection for longer ones"
            )),
            pinnace::Error::ContextRefused(Refused::Sort) => {
                Error::usage("--sort: with xtp40 a sort value is at most 65535")
            }
            error => Error::from(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace::xtp::Options;

    /// A peer that reads no more says so before it is known how the association ends; who writes in between is told no less.
    #[test]
    fn whoever_no_longer_reads_has_ended_the_association_however_far_its_end_has_come() {
        let endpoint = Endpoint::client(&Options::default()).unwrap();
        let watch = Watch::new(&endpoint, "host:7", LinkName::Udp, Duration::ZERO);
        for error in [
            pinnace::Error::ContextFailed(Failure::StoppedReading),
            pinnace::Error::ContextRefused(Refused::Closed),
            pinnace::Error::ContextRefused(Refused::NoContext),
        ] {
            let error = watch.error(error);
            assert_eq!(error.message, "host:7 ended the association in the middle; run the command again");
            assert_eq!(error.exit, crate::exit::Exit::PeerGone);
        }
    }
}
