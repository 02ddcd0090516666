//! The simulator as a WebAssembly module: JavaScript advances a run from sample to sample.
//!
//! An instance of the module has one run at a time. Text is exchanged through two buffers in the memory of
//! the module: JavaScript writes a scenario to the input, and reads JSON from the output.
//!
//! | function | purpose |
//! | --- | --- |
//! | `input(length)` | resizes the input, and returns its address |
//! | `open_run()` | creates the run of the scenario in the input; the output describes its network |
//! | `advance(events)` | advances the run; the output has the sample that the run reached, if any |
//! | `finish()` | ends the run; the output has its results |
//! | `output()`, `output_length()` | address and length of the output in bytes |
//!
//! `open_run`, `advance` and `finish` return a [`Status`]. If it is [`Status::FAILED`], the output contains the error
//! message. A panic appears in JavaScript as a trap; the output then contains the message of the panic.
//!
//! [`session`] implements these functions. It works on every platform, so its tests run natively.
//! [`silvan_scenario::describe`] writes the JSON.

pub mod session;

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use session::{Session, Status};

thread_local! {
    static STATE: RefCell<State> = const { RefCell::new(State { input: Vec::new(), session: None }) };
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

struct State {
    input: Vec<u8>,
    session: Option<Session>,
}

/// Stores a result for JavaScript, and returns its status.
fn put(result: Result<(Status, String), String>) -> u32 {
    let (status, text) = result.unwrap_or_else(|error| (Status::FAILED, error));
    OUTPUT.set(text);
    status.0
}

fn keep_message(info: &PanicHookInfo) {
    OUTPUT.set(info.to_string());
}

/// Resizes the input, and returns its address.
#[allow(unsafe_code)] // The attribute only sets the name of the symbol.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input.clear();
        state.input.resize(length, 0);
        state.input.as_mut_ptr()
    })
}

/// Creates a run of the scenario in the input. The run replaces an earlier one.
#[allow(unsafe_code)] // See `input`.
#[unsafe(no_mangle)]
pub extern "C" fn open_run() -> u32 {
    std::panic::set_hook(Box::new(keep_message));
    put(STATE.with_borrow_mut(|state| {
        // Free the earlier run first, because it may use much memory.
        state.session = None;
        let text = std::str::from_utf8(&state.input).map_err(|error| error.to_string())?;
        let (session, network) = Session::open(text)?;
        state.session = Some(session);
        Ok((Status::NOTHING, network))
    }))
}

/// Advances the run by about `events` events, or to the next sample if that comes first.
#[allow(unsafe_code)] // See `input`.
#[unsafe(no_mangle)]
pub extern "C" fn advance(events: u32) -> u32 {
    put(STATE.with_borrow_mut(|state| match &mut state.session {
        Some(session) => session.advance(events.into()),
        None => Err("no run has been opened".to_owned()),
    }))
}

/// Ends the run.
#[allow(unsafe_code)] // See `input`.
#[unsafe(no_mangle)]
pub extern "C" fn finish() -> u32 {
    put(STATE.with_borrow_mut(|state| match state.session.take() {
        Some(session) => Ok((Status::DONE, session.finish()?)),
        None => Err("no run has been opened".to_owned()),
    }))
}

/// Returns the address of the output.
#[allow(unsafe_code)] // See `input`.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|text| text.as_ptr())
}

/// Returns the length of the output in bytes.
#[allow(unsafe_code)] // See `input`.
#[unsafe(no_mangle)]
pub extern "C" fn output_length() -> usize {
    OUTPUT.with_borrow(String::len)
}
