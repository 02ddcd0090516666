//! Random sequences of calls, also with wrong arguments and in callbacks.

use super::*;

/// A program that calls functions at random, also in callbacks.
struct Monkey {
    handle: *mut Silvan,
    state: u64,
    /// Callbacks that were requested and called.
    requested: u64,
    called: u64,
    now: u64,
}

impl Monkey {
    /// A number below a limit.
    fn draw(&mut self, limit: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % limit
    }

    /// One of the hosts, or rarely a host that does not exist.
    fn host(&mut self) -> u32 {
        if self.draw(50) == 0 { u32::MAX - self.draw(9) as u32 } else { self.draw(4) as u32 }
    }

    fn callback(&mut self) -> Option<Function> {
        (self.draw(3) > 0).then_some(answer)
    }

    /// Calls a function with random arguments. Returns its code.
    fn call(monkey: *mut Self) -> c_int {
        // SAFETY: the program has one thread, and no reference lives while a function calls back.
        let one = unsafe { &mut *monkey };
        let (data, handle) = (monkey.cast::<c_void>(), one.handle);
        let (src, dst, tag, sl) = (one.host(), one.host(), one.draw(3), one.draw(60) as u32 / 29);
        let bytes = [0, 1, 64, 2_048, 10_000][one.draw(5) as usize];
        let (first, second) = (one.callback(), one.callback());
        let (kind, time) =
            (one.draw(12), one.now.saturating_add(one.draw(3_000_000)).saturating_sub(one.draw(99)));
        let requests = |code, callbacks: [Option<Function>; 2]| {
            if code == OK {
                // SAFETY: as above.
                unsafe { &mut *monkey }.requested += callbacks.into_iter().flatten().count() as u64;
            }
            code
        };
        unsafe {
            match kind {
                0..=2 => requests(
                    silvan_send(handle, src, dst, bytes, tag, sl, first, data, second, data),
                    [first, second],
                ),
                3 => {
                    let code =
                        silvan_try_send(handle, src, dst, bytes, tag, sl, 20_000, first, data, second, data);
                    requests(code, [first, second])
                }
                // Receives may wait forever, so they are not counted.
                4 | 5 => silvan_recv(handle, dst, src, bytes, tag, first.map(|_| ignore as Function), data),
                6 => requests(silvan_at(handle, time, first, data), [first, None]),
                7 => {
                    silvan_stop(handle);
                    OK
                }
                8 => {
                    let mut value = -1.0;
                    let code = silvan_stat(handle, c"unsent_bytes".as_ptr(), src, &mut value);
                    assert!(code != OK || value >= 0.0);
                    code
                }
                9 => {
                    assert!(silvan_next(handle) >= silvan_now(handle));
                    OK
                }
                10 => {
                    assert!(silvan_bandwidth(handle, dst) >= 0.0);
                    OK
                }
                _ => silvan_run(handle, time),
            }
        }
    }
}

extern "C" fn ignore(_: *mut c_void) {}

extern "C" fn answer(data: *mut c_void) {
    let monkey: *mut Monkey = data.cast();
    // SAFETY: as in `Monkey::call`.
    let more = unsafe {
        let one = &mut *monkey;
        one.called += 1;
        let now = silvan_now(one.handle);
        assert!(now >= one.now, "time goes back");
        one.now = now;
        one.draw(10)
    };
    // On average less than one call, so that chains of calls end.
    if more < 7 {
        assert!((OK..=BUSY).contains(&Monkey::call(monkey)));
    }
}

/// Calls functions at random on several handles, one after the other.
fn call_at_random(count: u64, seed: u64) {
    let file = File::new(&format!("random-{count}-{seed}"), &STAR.replace("1 s", "3600 s"));
    let mut left = count;
    for number in 0.. {
        let mut monkey =
            Box::new(Monkey { handle: open(&file), state: seed + number, requested: 0, called: 0, now: 0 });
        let monkey: *mut Monkey = &mut *monkey;
        for _ in 0..2_000.min(left) {
            let code = Monkey::call(monkey);
            assert!([OK, ARGUMENT, BUSY].contains(&code), "{code}");
            unsafe { (*monkey).now = silvan_now((*monkey).handle) };
        }
        left -= 2_000.min(left);
        // SAFETY: as in `Monkey::call`.
        unsafe {
            // A callback may stop the run.
            while silvan_next((*monkey).handle) < u64::MAX {
                assert_eq!(silvan_run((*monkey).handle, u64::MAX), OK, "{}", error_of((*monkey).handle));
            }
            assert_eq!((*monkey).called, (*monkey).requested, "each callback is called once");
            assert_eq!(silvan_close((*monkey).handle, null()), OK);
        }
        if left == 0 {
            break;
        }
    }
}

#[test]
fn random_calls_do_no_harm() {
    call_at_random(100_000, 1);
}

#[test]
#[ignore = "takes minutes; part of `make nightly`"]
fn a_million_random_calls_do_no_harm() {
    call_at_random(1_000_000, 2);
}
