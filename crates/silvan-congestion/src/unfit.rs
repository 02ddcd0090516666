//! Checks of parameters of components, and the error for an invalid parameter.

use silvan_engine::{Bytes, Time};

/// The maximum of any parameter that is a time: one second.
pub const LONGEST_DELAY: Time = Time(1_000_000_000_000);

/// An invalid parameter of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// The parameter, as a dotted path below its component's table.
    pub key: String,
    /// What is wrong and which values are valid, to be appended to "key = value: ".
    pub what: String,
}

/// The result of a check of parameters.
pub type Check = Result<(), Unfit>;

/// The values with which the parameters of components are compared.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A virtual lane's share of the input buffer of a switch.
    pub lane: Bytes,
    /// Bytes on the wire of a full packet.
    pub full: Bytes,
}

/// Rejects a parameter with the message `what` unless `fine` is true.
///
/// # Errors
/// Returns the parameter and what is wrong.
pub fn ensure(fine: bool, key: &str, what: impl FnOnce() -> String) -> Check {
    if fine { Ok(()) } else { Err(Unfit { key: key.to_owned(), what: what() }) }
}

/// Rejects a time of zero, or above [`LONGEST_DELAY`]. `None` is valid.
///
/// # Errors
/// Returns the parameter and what is wrong.
pub fn ensure_time(key: &str, time: Option<Time>) -> Check {
    ensure(time != Some(Time::ZERO), key, || "must be more than 0 s".to_owned())?;
    ensure(time.is_none_or(|time| time <= LONGEST_DELAY), key, || format!("must be at most {LONGEST_DELAY}"))
}

/// Rejects a window of no packets. `None` is valid.
///
/// # Errors
/// Returns the parameter and what is wrong.
pub fn ensure_window(key: &str, window: Option<u16>) -> Check {
    ensure(window.is_none_or(|packets| packets > 0), key, || {
        "must be at least 1; with 0, no packet could be sent".to_owned()
    })
}
