//! Algorithms of MSCCL: times and bytes that were computed by hand.

use std::path::Path;

use silvan_engine::Time;
use silvan_trace::check::Contents;
use silvan_trace::execute::{Parameters, execute};
use silvan_trace::read::{Format, Options, detect, msccl, read};
use silvan_trace::{Kind, Trace};

fn with(bytes: u64) -> Options {
    Options { bytes: Some(bytes), ..Options::default() }
}

fn of(text: &str, bytes: u64) -> Trace {
    msccl::read(text.as_bytes(), "t.xml", &with(bytes)).unwrap()
}

#[test]
fn a_ring_sends_each_chunk_in_turn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces/msccl/ring-4.xml");
    assert_eq!(detect(&path).unwrap(), Format::Msccl);
    let made = read(&path, &with(4_000_000)).unwrap();
    assert_eq!((made.format, made.trace.ranks(), &made.trace.notes[..]), (Format::Msccl, 4, &[][..]));
    // Each rank sends 2 (n - 1) of n chunks.
    assert_eq!(Contents::of(&made.trace).bytes, 4 * 6 * 1_000_000);
    // Six messages of 1 MB, one after another, at 100 Gbit/s and with a latency of 2 us.
    let costs = Parameters { latency: Time(2_000_000), gap_per_byte_fs: 80_000, ..Parameters::default() };
    let done = execute(&made.trace, &costs).unwrap();
    assert!(done.complete(), "{:?}", done.stuck);
    assert_eq!(done.finished, [Time(6 * (2_000_000 + 80_000_000)); 4]);
    let error = read(&path, &Options::default()).unwrap_err().to_string();
    assert!(
        error
            .contains(":3: the total size of the operation is missing, which is divided into 4 chunks: give"),
        "{error}"
    );
}

#[test]
fn bytes_are_refused_by_other_formats() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces/exchange.goal");
    let error = read(&path, &with(8)).unwrap_err().to_string();
    assert!(error.contains("`bytes` has no effect: files of the format goal state the sizes"), "{error}");
}

#[test]
fn thread_blocks_run_at_the_same_time_and_wait_for_steps_of_others() {
    // GPU 0 sends two chunks by two thread blocks. The second one waits for the first if `depid` is 0.
    let of = |dependency: &str| {
        of(
            &format!(
                r#"<algo ngpus="2" nchannels="2" nchunksperloop="2">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="1" recv="-1" chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/></tb>
<tb id="1" send="1" recv="-1" chan="1"><step s="4" type="nop" cnt="0" {dependency}/>
<step s="5" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1"/></tb>
</gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="-1" recv="0" chan="0"><step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/></tb>
<tb id="1" send="-1" recv="0" chan="1"><step s="0" type="r" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1"/></tb>
</gpu></algo>"#
            ),
            200,
        )
    };
    let (free, bound) = (of(r#"depid="-1" deps="-1""#), of(r#"depid="0" deps="0""#));
    let kinds: Vec<(Kind, u64, u32, u8)> =
        (0..3).map(|place| free.operation(place)).map(|one| (one.kind, one.size, one.tag, one.cpu)).collect();
    assert_eq!(kinds, [(Kind::Send, 100, 0, 0), (Kind::Delay, 0, 0, 0), (Kind::Send, 100, 1, 1)]);
    // An overhead of 1 us for each message of a thread block.
    let costs = Parameters { overhead: Time(1_000_000), ..Parameters::default() };
    let finished = |trace: &Trace| execute(trace, &costs).unwrap().finished[0];
    assert_eq!((finished(&free), finished(&bound)), (Time(1_000_000), Time(2_000_000)));
}
