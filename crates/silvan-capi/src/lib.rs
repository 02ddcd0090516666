//! `libsilvan`: the functions of `include/silvan.h`, which documents them.
//!
//! This crate converts values, and catches panics at the boundary. After a panic, a handle only returns the error.
#![expect(unsafe_code, reason = "the interface consists of pointers of the caller")]

#[cfg(test)]
mod tests;
mod text;

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use silvan_engine::Time;
use silvan_engine::memory::HugePages;
use silvan_library::matching::MatchKey;
use silvan_library::{ControlledRun, Delivery, Problem};

use text::{read, shortened, write_shortened};

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Version of the interface; see the header.
const ABI: u32 = 1 << 16;

const OK: c_int = 0;
const ARGUMENT: c_int = 1;
const SCENARIO: c_int = 2;
const DEADLOCK: c_int = 3;
const LIMIT: c_int = 4;
const INTERNAL: c_int = 5;
const BUSY: c_int = 6;

/// A function of the program.
type Function = extern "C" fn(*mut c_void);

/// A function of the program, with its value.
struct Callback {
    function: Function,
    data: *mut c_void,
}

impl Callback {
    fn of(function: Option<Function>, data: *mut c_void) -> Option<Self> {
        function.map(|function| Self { function, data })
    }
}

/// A handle of the program.
pub struct Silvan {
    /// `None` after a panic.
    run: Option<ControlledRun<Callback>>,
    error: CString,
    /// Whether `silvan_run` is active, so that the caller is a callback.
    is_running: bool,
}

fn code(problem: &Problem) -> c_int {
    match problem {
        Problem::Argument(_) => ARGUMENT,
        Problem::Scenario(_) => SCENARIO,
        Problem::Deadlock(_) => DEADLOCK,
        Problem::Limit(_) => LIMIT,
        Problem::Internal(_) => INTERNAL,
    }
}

fn argument(what: impl Into<String>) -> Problem {
    Problem::Argument(what.into())
}

/// The text of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the simulator failed: {}", text.unwrap_or_default())
}

/// Does something with the run of a handle. Stores the text of an error, and returns its code.
///
/// # Safety
/// The handle is null, or one of [`silvan_open`] that has not been closed and that no other thread uses.
unsafe fn with(
    handle: *const Silvan,
    action: impl FnOnce(&mut ControlledRun<Callback>) -> Result<c_int, Problem>,
) -> c_int {
    // SAFETY: the caller guarantees it. No reference to the content of a handle exists while a callback runs.
    let Some(handle) = (unsafe { handle.cast_mut().as_mut() }) else { return ARGUMENT };
    let Some(run) = &mut handle.run else { return INTERNAL };
    let problem = match catch_unwind(AssertUnwindSafe(|| action(run))) {
        Ok(Ok(code)) => return code,
        Ok(Err(problem)) => problem,
        Err(panic) => {
            // The run may be inconsistent, so not even its memory is freed.
            std::mem::forget(handle.run.take());
            Problem::Internal(panic_text(&*panic))
        }
    };
    handle.error = shortened(&problem.to_string());
    code(&problem)
}

/// Same as [`with`], for a function that returns a value; `otherwise` after an error.
///
/// # Safety
/// See [`with`].
unsafe fn value<T>(
    handle: *const Silvan,
    otherwise: T,
    action: impl FnOnce(&mut ControlledRun<Callback>) -> Result<T, Problem>,
) -> T {
    let mut found = otherwise;
    // SAFETY: the caller guarantees it.
    unsafe {
        with(handle, |run| {
            found = action(run)?;
            Ok(OK)
        })
    };
    found
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn silvan_abi() -> u32 {
    ABI
}

/// See the header.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_open(
    scenario: *const c_char,
    settings: *const *const c_char,
    settings_count: usize,
    error: *mut c_char,
    error_size: usize,
) -> *mut Silvan {
    let open = || {
        // SAFETY: the caller passes texts.
        let path = unsafe { read(scenario, "scenario") }?;
        let mut overrides = Vec::new();
        for at in 0..settings_count {
            if settings.is_null() {
                return Err(argument("settings is NULL, but settings_count is not 0"));
            }
            // SAFETY: the caller passes as many texts as it says.
            let setting = unsafe { read(*settings.add(at), "a setting") }?;
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                argument(format!("the setting `{setting}` has no `=`; settings have the form key=value"))
            })?;
            overrides.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        ControlledRun::open(Path::new(path), &overrides)
    };
    let problem = match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(run)) => {
            let handle = Silvan { run: Some(run), error: CString::default(), is_running: false };
            return Box::into_raw(Box::new(handle));
        }
        Ok(Err(problem)) => problem.to_string(),
        Err(panic) => panic_text(&*panic),
    };
    // SAFETY: the caller passes a buffer of this size.
    unsafe { write_shortened(&problem, error, error_size) };
    std::ptr::null_mut()
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_hosts(handle: *const Silvan) -> u32 {
    // SAFETY: see the header.
    unsafe { value(handle, 0, |run| Ok(run.hosts())) }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_now(handle: *const Silvan) -> u64 {
    // SAFETY: see the header.
    unsafe { value(handle, Time::ZERO, |run| Ok(run.now())).0 }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_bandwidth(handle: *const Silvan, host: u32) -> f64 {
    // SAFETY: see the header.
    unsafe { value(handle, 0.0, |run| run.bandwidth_gbit_s(host)) }
}

/// The message of the arguments of a function.
fn delivery(from: u32, to: u32, bytes: u64, tag: u64, sl: u32) -> Result<Delivery, Problem> {
    let sl = u8::try_from(sl).map_err(|_| argument(format!("service level {sl} does not exist")))?;
    Ok(Delivery { from, to, bytes, tag, sl })
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_send(
    handle: *mut Silvan,
    src: u32,
    dst: u32,
    bytes: u64,
    tag: u64,
    sl: u32,
    sent: Option<Function>,
    sent_data: *mut c_void,
    delivered: Option<Function>,
    delivered_data: *mut c_void,
) -> c_int {
    // SAFETY: see the header.
    unsafe {
        with(handle, |run| {
            let (sent, delivered) = (Callback::of(sent, sent_data), Callback::of(delivered, delivered_data));
            run.send(delivery(src, dst, bytes, tag, sl)?, sent, delivered)?;
            Ok(OK)
        })
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_try_send(
    handle: *mut Silvan,
    src: u32,
    dst: u32,
    bytes: u64,
    tag: u64,
    sl: u32,
    room: u64,
    sent: Option<Function>,
    sent_data: *mut c_void,
    delivered: Option<Function>,
    delivered_data: *mut c_void,
) -> c_int {
    // SAFETY: see the header.
    unsafe {
        with(handle, |run| {
            let (sent, delivered) = (Callback::of(sent, sent_data), Callback::of(delivered, delivered_data));
            let is_sent = run.try_send(delivery(src, dst, bytes, tag, sl)?, room, sent, delivered)?;
            Ok(if is_sent { OK } else { BUSY })
        })
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_recv(
    handle: *mut Silvan,
    dst: u32,
    src: u32,
    bytes: u64,
    tag: u64,
    arrived: Option<Function>,
    data: *mut c_void,
) -> c_int {
    // SAFETY: see the header.
    unsafe {
        with(handle, |run| {
            let arrived = Callback::of(arrived, data).ok_or_else(|| argument("`arrived` is NULL"))?;
            run.receive(MatchKey { from: src, to: dst, tag }, bytes, arrived)?;
            Ok(OK)
        })
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_at(
    handle: *mut Silvan,
    time: u64,
    function: Option<Function>,
    data: *mut c_void,
) -> c_int {
    // SAFETY: see the header.
    unsafe {
        with(handle, |run| {
            let alarm = Callback::of(function, data).ok_or_else(|| argument("`function` is NULL"))?;
            run.at(Time(time), alarm)?;
            Ok(OK)
        })
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_next(handle: *const Silvan) -> u64 {
    // SAFETY: see the header.
    unsafe { value(handle, None, |run| Ok(run.next_time())).unwrap_or(Time::NEVER).0 }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_run(handle: *mut Silvan, until: u64) -> c_int {
    // SAFETY: see the header. No reference to the content of the handle exists while a callback runs.
    unsafe {
        if handle.is_null() {
            return ARGUMENT;
        }
        if (*handle).is_running {
            return with(handle, |_| Err(argument("a callback must not call silvan_run")));
        }
        (*handle).is_running = true;
        let code = loop {
            let mut call = None;
            let code = with(handle, |run| {
                call = run.next_call(Time(until))?;
                Ok(OK)
            });
            match call {
                Some(Callback { function, data }) => function(data),
                None => break code,
            }
        };
        (*handle).is_running = false;
        code
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_stop(handle: *mut Silvan) {
    // SAFETY: see the header.
    unsafe {
        if !handle.is_null() && (*handle).is_running {
            with(handle, |run| {
                run.stop();
                Ok(OK)
            });
        }
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_stat(
    handle: *const Silvan,
    name: *const c_char,
    index: u32,
    value: *mut f64,
) -> c_int {
    // SAFETY: see the header.
    unsafe {
        with(handle, |run| {
            let found = run.quantity(read(name, "name")?, index)?;
            *value.as_mut().ok_or_else(|| argument("`value` is NULL"))? = found;
            Ok(OK)
        })
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_error(handle: *const Silvan) -> *const c_char {
    // SAFETY: see the header.
    match unsafe { handle.as_ref() } {
        Some(handle) => handle.error.as_ptr(),
        None => c"the handle is NULL".as_ptr(),
    }
}

/// See the header.
///
/// # Safety
/// See [`with`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silvan_close(handle: *mut Silvan, folder: *const c_char) -> c_int {
    // SAFETY: see the header.
    unsafe {
        if handle.is_null() {
            return OK;
        }
        if (*handle).is_running {
            return with(handle, |_| Err(argument("a callback must not call silvan_close")));
        }
        let mut handle = Box::from_raw(handle);
        let Some(run) = handle.run.take() else { return INTERNAL };
        let close = || {
            let folder = if folder.is_null() { None } else { Some(read(folder, "folder")?) };
            run.close(folder.map(Path::new))
        };
        match catch_unwind(AssertUnwindSafe(close)) {
            Ok(closed) => closed.map_or_else(|problem| code(&problem), |()| OK),
            Err(_) => INTERNAL,
        }
    }
}
