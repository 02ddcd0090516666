//! Tests of CAM lines and special queues at one node, from their allocation to their release.

use super::*;

fn outputs() -> [PortVl; 2] {
    [0, 1].map(PortVl::new)
}

/// Three inputs with two special queues each, two outputs, one lane; thresholds of 6000, 6000 and 4000 bytes.
fn cams(at_root: bool, destinations: u16) -> Cams {
    cams_of(&SpecialQueues { at_root, destinations, ..SpecialQueues::default() })
}

fn cams_of(special: &SpecialQueues) -> Cams {
    let rates = [16, 40].map(Rate::from_gbit).into();
    Cams::new(Arc::new(SpecialQueueRule::new(special, 1_000)), 3, rates, 1, true)
}

fn at(input: usize) -> InputLane {
    InputLane { input: PortVl::new(input), vl: Vl::FIRST }
}

fn grew(cams: &mut Cams, input: usize, bytes: u32, waiting: &[u32]) -> Option<LineMessage> {
    let notice = cams.normal_grew(growth(input, bytes, 0), |_| waiting.iter().copied(), Time::ZERO);
    notice.map(|notice| notice.message)
}

/// The growth of an input's normal queue for output 0; `last` is the last packet of the queue.
fn growth(input: usize, bytes: u32, last: PacketId) -> Growth {
    Growth { at: at(input), queue: input as u32, last, output: outputs()[0], port: Port::FIRST, bytes }
}

/// The queue grows by one packet at a time. The number of a packet is also its destination.
#[test]
fn a_line_of_a_root_is_extended_by_new_packets_only() {
    let mut cams = cams(true, 4);
    let read = std::cell::RefCell::new(Vec::new());
    let grow = |cams: &mut Cams, last: u32, bytes| {
        let waiting = |before: Option<PacketId>| {
            read.borrow_mut().push(before);
            before.map_or(0, |before| before + 1)..last + 1
        };
        cams.normal_grew(growth(0, bytes, last), waiting, Time::ZERO)
    };
    // The list is read again in debug builds, to check the result.
    let reads = |grow: &mut dyn FnMut()| {
        grow();
        read.borrow_mut().drain(..).next().flatten()
    };
    assert_eq!(reads(&mut || drop(grow(&mut cams, 0, 7_000))), None, "a new line");
    assert_eq!(reads(&mut || drop(grow(&mut cams, 1, 8_000))), None);
    assert_eq!(reads(&mut || drop(grow(&mut cams, 2, 9_000))), Some(1));
    cams.normal_lost(PortVl::new(0), 1);
    assert_eq!(reads(&mut || drop(grow(&mut cams, 2, 9_000))), Some(2), "packet 1 is not the last one read");
    cams.normal_lost(PortVl::new(0), 2);
    assert_eq!(reads(&mut || drop(grow(&mut cams, 3, 9_000))), None);
    assert_eq!(cams.inputs[0].special.iter().flatten().count(), 1);
}

/// Handles a notification about a CAM line of the node behind output 1.
fn hears(cams: &mut Cams, line: u16, message: LineMessage) -> Vec<(usize, usize)> {
    let notice = Notice { vl: Vl::FIRST, line, rate: None, message };
    let found = cams.received(outputs()[1], notice);
    found.into_iter().map(|(input, at)| (input.index(), at)).collect()
}

fn allocate(destinations: &[u32]) -> LineMessage {
    LineMessage::Allocate(destinations.into())
}

fn stored(cams: &mut Cams, at_queue: usize, dst: u32, bytes: u32) -> Option<(u16, LineMessage)> {
    let notice = cams.special_grew(at(0), at_queue, dst, bytes);
    notice.map(|notice| (notice.line, notice.message))
}

#[test]
fn the_normal_queue_of_a_root_is_announced_stopped_resumed_and_released() {
    let mut cams = cams(false, 8);
    assert_eq!(grew(&mut cams, 1, 6_000, &[7]), None, "not above the threshold");
    let notice = cams.normal_grew(growth(1, 6_001, 0), |_| [7, 8, 7].into_iter(), Time::ZERO).unwrap();
    // The CAM lines of the two special queues are the first ones.
    assert_eq!((notice.line, notice.message), (2, allocate(&[7, 8])));
    assert_eq!(outputs().map(|output| cams.has_own_line(PortVl::new(1), output.port(1))), [true, false]);
    assert!(!cams.has_own_line(PortVl::new(0), Port::FIRST));
    assert_eq!(cams.usage(PortVl::new(1)), (1, 0), "a line without a special queue");
    assert!(cams.is_root(Port::FIRST) && !cams.is_root(Port::new(1)));
    assert_eq!(grew(&mut cams, 1, 6_000, &[7]), None, "not above the threshold for stops");
    assert_eq!(grew(&mut cams, 1, 6_001, &[7]), Some(LineMessage::Stop), "the next packet above it");
    assert_eq!(grew(&mut cams, 1, 7_000, &[7]), None, "it is stopped");
    let mut shrank = |bytes| {
        let notice = cams.normal_shrank(at(1), Port::FIRST, bytes);
        notice.map(|notice| notice.message)
    };
    assert_eq!([4_001, 4_000, 3_000].map(&mut shrank), [None, Some(LineMessage::Go), None]);
    assert_eq!(shrank(0), Some(LineMessage::Release));
    assert_eq!(shrank(0), None);
    assert_eq!(cams.usage(PortVl::new(1)), (0, 0));
    assert!(!cams.is_root(Port::FIRST));
    assert_eq!((cams.tally.messages, cams.tally.allocations), ([1, 1, 1, 1], 0));
    assert_eq!(grew(&mut cams, 1, 6_001, &[9]), Some(allocate(&[9])), "a new tree");
}

#[test]
fn a_line_is_announced_and_stopped_at_different_fills() {
    let (detection, stop) = (Some(Bytes(5_000)), Some(Bytes(8_000)));
    let mut cams = cams_of(&SpecialQueues { at_root: false, detection, stop, ..SpecialQueues::default() });
    assert_eq!(grew(&mut cams, 1, 5_001, &[7]), Some(allocate(&[7])));
    assert_eq!(grew(&mut cams, 1, 8_000, &[7]), None, "not above the threshold for stops");
    assert_eq!(grew(&mut cams, 1, 8_001, &[7]), Some(LineMessage::Stop));
}

#[test]
fn a_special_queue_is_taken_for_a_line_and_released_when_it_is_empty() {
    let (mut cams, input) = (cams(false, 8), PortVl::new(0));
    assert!(!cams.has_lines(input) && cams.is_quiet(input, outputs()[1], 9));
    assert_eq!(cams.special_for(input, outputs()[1], 9, Time::ZERO), None);
    assert!(hears(&mut cams, 5, allocate(&[9])).is_empty());
    assert_eq!((cams.has_lines(input), cams.output_lines()), (true, 1));
    assert!(cams.lists(Vl::FIRST, 9) && !cams.lists(Vl::FIRST, 8));
    for (output, dst, expected) in [(0, 9, None), (1, 8, None), (1, 9, Some(0)), (1, 9, Some(0))] {
        assert_eq!(cams.special_for(input, outputs()[output], dst, Time(100)), expected, "{output}, {dst}");
    }
    assert_eq!((cams.tally.allocations, cams.usage(input)), (1, (1, 1)));
    assert!(!cams.stops(outputs()[1], 9));
    assert_eq!(hears(&mut cams, 5, LineMessage::Stop), [(0, 0)]);
    assert_eq!([9, 8].map(|dst| cams.stops(outputs()[1], dst)), [true, false]);
    assert!(!cams.stops(outputs()[0], 9));
    // Packets are stored above the threshold, so first the line and then Stop is sent upstream.
    assert_eq!(stored(&mut cams, 0, 9, 6_000), None);
    assert_eq!(stored(&mut cams, 0, 9, 6_001), Some((0, allocate(&[9]))));
    assert_eq!(stored(&mut cams, 0, 9, 6_001), Some((0, LineMessage::Stop)));
    assert_eq!(stored(&mut cams, 0, 9, 7_000), None);
    let mut left = |bytes| cams.special_shrank(at(0), 0, 9, bytes).map(|notice| notice.message);
    assert_eq!([4_001, 4_000, 3_000].map(&mut left), [None, Some(LineMessage::Go), None]);
    assert_eq!(left(0), None);
    assert_eq!(cams.release(at(0), 0, Time(500)), (false, None), "it is stopped");
    assert_eq!(hears(&mut cams, 5, LineMessage::Go), [(0, 0)]);
    let (released, notice) = cams.release(at(0), 0, Time(600));
    assert_eq!((released, notice.map(|notice| notice.message)), (true, Some(LineMessage::Release)));
    assert_eq!((cams.tally.releases, cams.tally.life_ps, cams.usage(input)), (1, 500, (0, 0)));
    assert!(hears(&mut cams, 5, LineMessage::Release).is_empty());
    assert_eq!((cams.has_lines(input), cams.output_lines()), (false, 0));
    assert!(cams.is_quiet(input, outputs()[1], 9) && !cams.stops(outputs()[1], 9));
    assert!(hears(&mut cams, 5, LineMessage::Stop).is_empty(), "a line that is not known");
}

#[test]
fn packets_follow_those_before_them_and_a_lack_of_queues_is_counted() {
    let (mut cams, input) = (cams(false, 8), PortVl::new(0));
    for (line, dst) in [(5, 9), (6, 10), (7, 11)] {
        hears(&mut cams, line, allocate(&[dst]));
    }
    let mut taken = |dst| cams.special_for(input, outputs()[1], dst, Time::ZERO);
    assert_eq!([9, 10, 11].map(&mut taken), [Some(0), Some(1), None]);
    assert_eq!((cams.tally.exhausted, cams.tally.allocations), (1, 2));
    assert!(cams.take_wanting(input) && !cams.take_wanting(input), "once");
    assert!(!cams.take_wanting(PortVl::new(1)));
    stored(&mut cams, 0, 9, 1_000);
    // The next node releases the CAM line. The queue keeps its packets, and accepts only packets that must follow them.
    assert_eq!(hears(&mut cams, 5, LineMessage::Release), [(0, 0)]);
    assert_eq!(cams.special_for(input, outputs()[1], 9, Time::ZERO), Some(0));
    assert_eq!(stored(&mut cams, 0, 9, 9_000), None, "there is no line to send upstream");
    // A new line with that destination takes the queue over.
    hears(&mut cams, 8, allocate(&[12, 9]));
    assert_eq!(hears(&mut cams, 8, LineMessage::Stop), [(0, 0)]);
    assert_eq!(cams.special_for(input, outputs()[1], 12, Time::ZERO), Some(0));
    // A list is replaced.
    hears(&mut cams, 6, allocate(&[13]));
    let mut taken = |dst| cams.special_for(input, outputs()[1], dst, Time::ZERO);
    assert_eq!([10, 13].map(&mut taken), [None, Some(1)]);
}

#[test]
fn a_root_has_special_queues_in_its_own_switch_if_wanted() {
    let (mut cams, input) = (cams(true, 3), PortVl::new(0));
    assert_eq!(grew(&mut cams, 0, 6_000, &[7]), None);
    assert_eq!(cams.root_queue(input, outputs()[0]), None);
    assert_eq!(grew(&mut cams, 0, 6_001, &[7]), None, "the line is sent upstream later");
    assert_eq!(outputs().map(|output| cams.root_queue(input, output)), [Some(0), None]);
    assert!(cams.is_root(Port::FIRST) && !cams.is_root(Port::new(1)));
    assert!(cams.lists(Vl::FIRST, 7));
    assert_eq!(cams.special_for(input, outputs()[0], 7, Time::ZERO), Some(0));
    assert_eq!(cams.special_for(input, outputs()[0], 8, Time::ZERO), None);
    assert_eq!(cams.special_for(PortVl::new(1), outputs()[0], 7, Time::ZERO), None, "of another input");
    // Further destinations are added. If the line has been sent, they are also reported.
    assert_eq!(grew(&mut cams, 0, 6_001, &[8]), None);
    assert_eq!(stored(&mut cams, 0, 7, 6_001), Some((0, allocate(&[7, 8]))));
    assert_eq!(grew(&mut cams, 0, 6_001, &[10, 11]), Some(allocate(&[7, 8, 10])));
    assert_eq!(cams.tally.allocations, 1);
    // The line is full, so the next destination gets another one.
    assert_eq!(grew(&mut cams, 0, 6_001, &[11]), None);
    assert_eq!(cams.special_for(input, outputs()[0], 11, Time::ZERO), Some(1));
    assert_eq!((cams.tally.allocations, cams.usage(input)), (2, (2, 2)));
}

#[test]
fn notifications_grow_by_two_bytes_per_destination() {
    let cams = cams(false, 8);
    let sizes = [allocate(&[]), allocate(&[1, 2, 3]), LineMessage::Stop].map(|one| cams.wire_size(&one));
    assert_eq!(sizes, [16, 22, 16]);
}

#[test]
fn tallies_add_up() {
    let one =
        IsolationCounters { allocations: 1, exhausted: 2, releases: 3, life_ps: 4, messages: [5, 6, 7, 8] };
    let mut sum = one;
    sum.add(&one);
    assert_eq!((sum.allocations, sum.exhausted, sum.releases, sum.life_ps), (2, 4, 6, 8));
    assert_eq!(sum.messages, [10, 12, 14, 16]);
}
