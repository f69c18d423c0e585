//! What errors of the one interface mean to whoever typed the command.

use crate::exit::Error;
use pinnace::{ConnectionError, Error as Cause};

/// The line and the exit code of an error. `what`: what was being done.
pub(crate) fn failure(what: &str, error: &Cause) -> Error {
    let mut text = error.to_string();
    // Some errors say themselves what was being done.
    if !text.starts_with(what) {
        text = format!("{what}: {text}");
    }
    match error.deciding() {
        Cause::Io { .. } | Cause::Listen { .. } => error.into(),
        Cause::Connection(connection) => match &**connection {
            ConnectionError::Malformed(_)
            | ConnectionError::ServiceTooLong { .. }
            | ConnectionError::MessageTooLong { .. } => Error::usage(text),
            ConnectionError::NoAnswer { .. }
            | ConnectionError::Unreached { .. }
            | ConnectionError::Unfinished { .. }
            | ConnectionError::Undelivered { is_gone: true, .. }
            | ConnectionError::BrokenOff { .. }
            | ConnectionError::Left { .. }
            | ConnectionError::Lost { .. } => Error::peer_gone(text),
            _ => Error::failed(text),
        },
        // The protocols' own ways to say that nobody answers.
        Cause::Failed(_)
        | Cause::Refused(_)
        | Cause::FrameFailed(_)
        | Cause::FrameRefused(_)
        | Cause::ContextFailed(_)
        | Cause::ContextRefused(_)
        | Cause::ConnectionFailed(_)
        | Cause::CallRefused(_)
        | Cause::NoResponse
        | Cause::Timeout => Error::peer_gone(text),
        _ => Error::failed(text),
    }
}
