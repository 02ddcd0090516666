//! The functions as a program in C uses them, also with arguments that make no sense.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::rc::Rc;

use super::*;

mod random;

const STAR: &str = r#"
duration = "1 s"
[topology]
kind = "star"
hosts = 4
link_rate = "16 Gbit/s"
link_delay = "10 ns"
"#;

/// A file with a scenario, which is removed at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("silvan-capi-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn name(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn open(file: &File) -> *mut Silvan {
    let mut error = [0; 200];
    let handle = unsafe { silvan_open(file.name().as_ptr(), null(), 0, error.as_mut_ptr(), error.len()) };
    assert!(!handle.is_null(), "{:?}", unsafe { CStr::from_ptr(error.as_ptr()) });
    handle
}

fn error_of(handle: *const Silvan) -> String {
    unsafe { CStr::from_ptr(silvan_error(handle)) }.to_str().unwrap().to_owned()
}

/// What callbacks have noted: their names, with the times.
type Notes = Rc<RefCell<Vec<(&'static str, u64)>>>;

/// A callback that notes that it was called, and then does something.
struct Note {
    name: &'static str,
    notes: Notes,
    handle: *mut Silvan,
    then: Option<Box<dyn Fn(*mut Silvan)>>,
}

extern "C" fn note(data: *mut c_void) {
    let note = unsafe { Box::from_raw(data.cast::<Note>()) };
    note.notes.borrow_mut().push((note.name, unsafe { silvan_now(note.handle) }));
    if let Some(then) = &note.then {
        then(note.handle);
    }
}

/// A program with a handle, whose callbacks take notes.
struct Program {
    handle: *mut Silvan,
    notes: Notes,
}

impl Program {
    fn new(file: &File) -> Self {
        Self { handle: open(file), notes: Notes::default() }
    }

    fn note(&self, name: &'static str) -> *mut c_void {
        self.note_and(name, |_| ())
    }

    fn note_and(&self, name: &'static str, then: impl Fn(*mut Silvan) + 'static) -> *mut c_void {
        let (notes, handle) = (Rc::clone(&self.notes), self.handle);
        Box::into_raw(Box::new(Note { name, notes, handle, then: Some(Box::new(then)) })).cast()
    }

    fn send(&self, src: u32, dst: u32, bytes: u64, tag: u64) {
        let none = (None, null_mut());
        let code =
            unsafe { silvan_send(self.handle, src, dst, bytes, tag, 0, none.0, none.1, none.0, none.1) };
        assert_eq!(code, OK, "{}", error_of(self.handle));
    }

    fn recv(&self, dst: u32, src: u32, bytes: u64, tag: u64, name: &'static str) {
        let code = unsafe { silvan_recv(self.handle, dst, src, bytes, tag, Some(note), self.note(name)) };
        assert_eq!(code, OK, "{}", error_of(self.handle));
    }

    fn run(&self, until: u64) {
        assert_eq!(unsafe { silvan_run(self.handle, until) }, OK, "{}", error_of(self.handle));
    }

    /// The notes since the last call, with times in nanoseconds.
    fn notes(&self) -> Vec<(&'static str, u64)> {
        self.notes.borrow_mut().drain(..).map(|(name, time)| (name, time / 1_000)).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        assert_eq!(unsafe { silvan_close(self.handle, null()) }, OK);
    }
}

/// Picoseconds of 1 MiB at 2 bytes per nanosecond.
const MIB_PS: u64 = (1 << 20) * 500;
/// The delays of two links and the latency of the switch.
const LATENCY_NS: u64 = 120;

#[test]
fn a_message_takes_the_time_of_its_bytes_and_of_the_switch() {
    let program = Program::new(&File::new("message", STAR));
    assert_eq!(unsafe { (silvan_hosts(program.handle), silvan_now(program.handle)) }, (4, 0));
    assert_eq!(unsafe { silvan_bandwidth(program.handle, 3) }, 16.0);
    assert_eq!(unsafe { silvan_next(program.handle) }, u64::MAX);
    let (sent, delivered) = (program.note("sent"), program.note("delivered"));
    let code =
        unsafe { silvan_send(program.handle, 0, 1, 4_096, 0, 0, Some(note), sent, Some(note), delivered) };
    assert_eq!(code, OK);
    assert_eq!(unsafe { silvan_next(program.handle) }, 0);
    program.run(u64::MAX);
    assert_eq!(program.notes(), [("sent", 2_048), ("delivered", 2_168)]);
    assert_eq!(unsafe { (silvan_now(program.handle), silvan_next(program.handle)) }, (2_168_000, u64::MAX));
    let mut value = 0.0;
    let stat = |name: &CStr, index, value: &mut f64| unsafe {
        silvan_stat(program.handle, name.as_ptr(), index, value)
    };
    assert_eq!((stat(c"sent_bytes", 0, &mut value), value), (OK, 4_096.0));
    assert_eq!((stat(c"received_bytes", 1, &mut value), value), (OK, 4_096.0));
    assert_eq!((stat(c"pending_messages", 0, &mut value), value), (OK, 0.0));
    assert_eq!((stat(c"packet_hops", 0, &mut value), value), (OK, 4.0));
    assert_eq!((stat(c"colour", 0, &mut value), stat(c"sent_bytes", 4, &mut value)), (ARGUMENT, ARGUMENT));
}

#[test]
fn receives_match_bytes_in_the_order_of_posting() {
    let program = Program::new(&File::new("receives", STAR));
    program.recv(1, 0, 1 << 20, 7, "first");
    program.recv(1, 0, 1 << 20, 7, "second");
    program.send(0, 1, 2 << 20, 7);
    program.run(u64::MAX);
    let both = 2 * MIB_PS / 1_000 + LATENCY_NS;
    assert_eq!(program.notes(), [("first", both), ("second", both)]);
    program.recv(3, 2, 2 << 20, 7, "whole");
    let began = unsafe { silvan_now(program.handle) } / 1_000;
    program.send(2, 3, 1 << 20, 7);
    program.send(2, 3, 1 << 20, 7);
    program.run(u64::MAX);
    assert_eq!(program.notes(), [("whole", began + both)]);
    // Bytes that arrived before the receive; another tag does not match.
    program.send(0, 1, 512, 1);
    program.run(u64::MAX);
    program.recv(1, 0, 512, 2, "other");
    program.recv(1, 0, 512, 1, "late");
    let now = unsafe { silvan_now(program.handle) };
    program.run(u64::MAX);
    assert_eq!(program.notes(), [("late", now / 1_000)]);
}

#[test]
fn calls_at_one_time_have_the_order_of_requests() {
    let program = Program::new(&File::new("order", STAR));
    let handle = program.handle;
    let at = |time, name| assert_eq!(unsafe { silvan_at(handle, time, Some(note), program.note(name)) }, OK);
    at(2_168_000, "b");
    program.recv(1, 0, 4_096, 0, "c");
    let delivered = program.note("d");
    let code = unsafe { silvan_send(handle, 0, 1, 4_096, 0, 0, None, null_mut(), Some(note), delivered) };
    assert_eq!(code, OK);
    at(2_168_000, "e");
    at(1_000, "a");
    assert_eq!(unsafe { silvan_next(handle) }, 0);
    program.run(u64::MAX);
    assert_eq!(program.notes(), [("a", 1), ("b", 2_168), ("c", 2_168), ("d", 2_168), ("e", 2_168)]);
}

#[test]
fn a_host_sends_to_itself_without_the_network() {
    let text = format!("{STAR}\n[host]\nmessage_overhead = \"40 ns\"\n");
    let program = Program::new(&File::new("self", &text));
    let (sent, delivered) = (program.note("sent"), program.note("delivered"));
    program.recv(2, 2, 99, 5, "arrived");
    let code =
        unsafe { silvan_send(program.handle, 2, 2, 99, 5, 0, Some(note), sent, Some(note), delivered) };
    assert_eq!(code, OK);
    program.run(u64::MAX);
    assert_eq!(program.notes(), [("arrived", 40), ("sent", 40), ("delivered", 40)]);
}

#[test]
fn a_message_of_zero_bytes_is_a_control_packet() {
    let program = Program::new(&File::new("zero", STAR));
    let delivered = program.note("delivered");
    let code = unsafe { silvan_send(program.handle, 0, 1, 0, 0, 0, None, null_mut(), Some(note), delivered) };
    assert_eq!(code, OK);
    program.run(u64::MAX);
    let [("delivered", time)] = program.notes()[..] else { panic!("called once") };
    assert!((LATENCY_NS + 1..LATENCY_NS + 100).contains(&time), "{time}");
    assert_eq!(unsafe { silvan_recv(program.handle, 1, 0, 0, 0, Some(note), null_mut()) }, ARGUMENT);
    assert!(error_of(program.handle).contains("at least one byte"));
}

#[test]
fn a_run_reaches_its_time_and_callbacks_stop_it() {
    let program = Program::new(&File::new("stop", STAR));
    let handle = program.handle;
    program.run(5_000);
    assert_eq!(unsafe { silvan_now(handle) }, 5_000);
    let stop = program.note_and("stop", |handle| unsafe { silvan_stop(handle) });
    assert_eq!(unsafe { silvan_at(handle, 9_000, Some(note), stop) }, OK);
    assert_eq!(unsafe { silvan_at(handle, 9_000, Some(note), program.note("after")) }, OK);
    unsafe { silvan_stop(handle) };
    program.run(20_000);
    assert_eq!((program.notes(), unsafe { silvan_now(handle) }), (vec![("stop", 9)], 9_000));
    program.run(20_000);
    assert_eq!((program.notes(), unsafe { silvan_now(handle) }), (vec![("after", 9)], 20_000));
    assert_eq!(unsafe { silvan_at(handle, 19_999, Some(note), null_mut()) }, ARGUMENT);
    assert_eq!(unsafe { silvan_run(handle, 19_999) }, ARGUMENT);
}

#[test]
fn callbacks_send_but_do_not_run_or_close() {
    let program = Program::new(&File::new("nested", STAR));
    let handle = program.handle;
    let nested = program.note_and("nested", |handle| unsafe {
        assert_eq!(silvan_run(handle, u64::MAX), ARGUMENT);
        assert!(error_of(handle).contains("silvan_run"));
        assert_eq!(silvan_close(handle, null()), ARGUMENT);
        assert_eq!(silvan_send(handle, 1, 0, 2_048, 0, 0, None, null_mut(), None, null_mut()), OK);
    });
    assert_eq!(unsafe { silvan_at(handle, 1_000, Some(note), nested) }, OK);
    program.run(u64::MAX);
    assert_eq!(
        (program.notes(), unsafe { silvan_now(handle) }),
        (vec![("nested", 1)], (1 + 1_024 + LATENCY_NS) * 1_000)
    );
}

#[test]
fn a_host_without_room_is_busy() {
    let program = Program::new(&File::new("room", STAR));
    let send = |bytes, room| unsafe {
        silvan_try_send(program.handle, 0, 1, bytes, 0, 0, room, None, null_mut(), None, null_mut())
    };
    assert_eq!([send(10_000, 5_000), send(1_000, 11_000), send(1, 11_000)], [OK, OK, BUSY]);
    program.run(u64::MAX);
    assert_eq!(send(1, 0), OK);
}

#[test]
fn wrong_arguments_are_refused_and_change_nothing() {
    let program = Program::new(&File::new("arguments", STAR));
    let handle = program.handle;
    let send =
        |src, dst, sl| unsafe { silvan_send(handle, src, dst, 8, 0, sl, None, null_mut(), None, null_mut()) };
    for (src, dst, wrong) in [(4, 0, 4), (0, u32::MAX, u32::MAX), (9, 9, 9)] {
        assert_eq!(send(src, dst, 0), ARGUMENT);
        assert_eq!(error_of(handle), format!("host {wrong} does not exist: hosts have the numbers 0 to 3"));
    }
    assert_eq!(
        (send(0, 1, 1), error_of(handle)),
        (ARGUMENT, "service level 1 is not used: levels are 0 to 0".to_owned())
    );
    assert_eq!(
        (send(0, 1, 256), error_of(handle)),
        (ARGUMENT, "service level 256 does not exist".to_owned())
    );
    assert_eq!(unsafe { silvan_recv(handle, 0, 7, 1, 0, Some(note), null_mut()) }, ARGUMENT);
    assert_eq!(unsafe { silvan_recv(handle, 0, 1, 1, 0, None, null_mut()) }, ARGUMENT);
    assert_eq!(unsafe { silvan_at(handle, 1, None, null_mut()) }, ARGUMENT);
    assert_eq!(unsafe { silvan_bandwidth(handle, 4) }, 0.0);
    assert_eq!(unsafe { silvan_next(handle) }, u64::MAX);
    unsafe {
        assert_eq!(silvan_send(null_mut(), 0, 1, 1, 0, 0, None, null_mut(), None, null_mut()), ARGUMENT);
        assert_eq!(
            (silvan_run(null_mut(), 1), silvan_hosts(null()), silvan_next(null())),
            (ARGUMENT, 0, u64::MAX)
        );
        assert_eq!((silvan_close(null_mut(), null()), silvan_now(null())), (OK, 0));
        silvan_stop(null_mut());
        assert_eq!(CStr::from_ptr(silvan_error(null())), c"the handle is NULL");
    }
}

#[test]
fn scenarios_with_errors_are_refused_with_their_place() {
    let refused = |text: &str, settings: &[&CStr], size: usize| {
        let file = File::new("refused", text);
        let settings: Vec<_> = settings.iter().map(|setting| setting.as_ptr()).collect();
        let mut error = [1; 300];
        let handle = unsafe {
            silvan_open(file.name().as_ptr(), settings.as_ptr(), settings.len(), error.as_mut_ptr(), size)
        };
        assert!(handle.is_null());
        unsafe { CStr::from_ptr(error.as_ptr()) }.to_str().unwrap().to_owned()
    };
    assert!(refused(&STAR.replace("\"star\"", "\"ster\""), &[], 300).contains("star"));
    assert!(refused(STAR, &[c"seed"], 300).contains("key=value"));
    assert!(refused(STAR, &[c"sed=1"], 300).contains("seed"));
    let short = refused(STAR, &[c"seed"], 9);
    assert_eq!(short.len(), 8);
    assert!(unsafe { silvan_open(null(), null(), 0, null_mut(), 0) }.is_null());
    assert!(unsafe { silvan_open(c"/no/such/file.toml".as_ptr(), null(), 0, null_mut(), 9) }.is_null());
}

#[test]
fn a_scenario_with_its_own_traffic_runs_to_its_end() {
    let flow = "\n[[flow]]\nfrom = \"H1\"\nto = \"H2\"\n";
    let program = Program::new(&File::new("own", &format!("{STAR}{flow}").replace("1 s", "50 us")));
    let handle = program.handle;
    assert_eq!(unsafe { silvan_send(handle, 0, 1, 1, 0, 0, None, null_mut(), None, null_mut()) }, ARGUMENT);
    assert!(error_of(handle).contains("[external]"), "{}", error_of(handle));
    program.run(u64::MAX);
    assert_eq!(unsafe { silvan_now(handle) }, 50_000_000);
    let both = Program::new(&File::new("both", &format!("external = {{}}\n{STAR}{flow}")));
    both.recv(1, 0, 1 << 20, 0, "arrived");
    both.send(2, 3, 8, 0);
    both.send(0, 1, 1 << 20, 0);
    both.run(u64::MAX);
    let [("arrived", time)] = both.notes()[..] else { panic!("called once") };
    // The flow and the message share the link of the first host.
    assert!((2 * MIB_PS / 1_000 - 2_048..2 * MIB_PS / 1_000 + 2_048).contains(&time), "{time}");
}

#[test]
fn a_run_that_has_reached_its_end_says_so_and_can_be_closed() {
    let program = Program::new(&File::new("limit", &STAR.replace("1 s", "1 us")));
    program.send(0, 1, 1 << 20, 0);
    assert_eq!(unsafe { silvan_run(program.handle, u64::MAX) }, LIMIT);
    assert!(error_of(program.handle).contains("the run has reached its end"));
    assert_eq!(unsafe { silvan_now(program.handle) }, 1_000_000);
}

#[test]
fn a_panic_ends_a_handle_but_not_the_program() {
    let handle = open(&File::new("panic", STAR));
    let code = unsafe { with(handle, |_| panic!("a defect")) };
    assert_eq!((code, error_of(handle)), (INTERNAL, "the simulator failed: a defect".to_owned()));
    assert_eq!(unsafe { silvan_run(handle, 1) }, INTERNAL);
    assert_eq!(unsafe { silvan_send(handle, 0, 1, 1, 0, 0, None, null_mut(), None, null_mut()) }, INTERNAL);
    assert_eq!(error_of(handle), "the simulator failed: a defect");
    assert_eq!(unsafe { silvan_close(handle, null()) }, INTERNAL);
}
