//! The requirements of congestion management components, the components of each mechanism, and the warnings
//! about incompatible components.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_congestion::isolation::{Isolation, IsolationThresholds};
use silvan_congestion::marking::{Fecn, FillMapping, Marking};
use silvan_congestion::reaction::{Cct, ControlLevel, Reaction, StaticWindow};
use silvan_congestion::{Congestion, Feedback, Mechanism, Notification};
use silvan_engine::Bytes;
use silvan_fabric::config::Packet;
use silvan_fabric::simulation::Simulation;
use silvan_network::traffic::{Flow, Pattern};

fn of_kind<T: serde::de::DeserializeOwned>(kind: &str) -> T {
    serde_json::from_value(serde_json::json!({ "kind": kind })).unwrap()
}

#[test]
fn reactions_state_what_they_need() {
    for (kind, expected) in [
        // The columns are: needs acknowledgements, acts without marks, reads marks, needs the round trip.
        ("cct", [false, false, true, false]),
        ("static-window", [true, true, false, false]),
        ("aimd", [true, true, true, false]),
        ("fimd", [true, true, true, false]),
        ("lipd", [true, true, true, true]),
        ("mvcm", [true, true, true, true]),
        ("explicit-rate", [false, true, false, false]),
        ("qcn", [false, false, true, false]),
    ] {
        let reaction: Reaction = of_kind(kind);
        let needs = [
            reaction.properties().needs_acknowledgements,
            reaction.properties().acts_without_marks,
            reaction.properties().reads_marks,
            reaction.properties().needs_round_trip,
        ];
        assert_eq!(needs, expected, "{kind}");
        assert!(!reaction.properties().sends_requests && !reaction.properties().needs_grants, "{kind}");
    }
    let none = Reaction::None;
    assert!(
        !(none.properties().needs_acknowledgements
            || none.properties().acts_without_marks
            || none.properties().reads_marks)
    );
}

#[test]
fn marking_rules_state_what_they_need() {
    let needs = |marking: &Marking| {
        [marking.needs_output_buffers(), marking.needs_input_queues(), marking.validates()]
    };
    for (kind, expected) in [
        // The columns are: needs output buffers, needs queues of single inputs, sets a second bit.
        ("fecn", [false; 3]),
        ("ipm", [true, false, false]),
        ("opm", [true, false, false]),
        ("mvpm", [true, false, true]),
        ("sampled", [false; 3]),
    ] {
        assert_eq!(needs(&of_kind(kind)), expected, "{kind}");
    }
    for (fill, single) in
        [(FillMapping::Each, true), (FillMapping::Sum, false), (FillMapping::SumPerInput, true)]
    {
        let marking = Marking::Fecn(Fecn { fill, ..Fecn::default() });
        assert_eq!(needs(&marking), [false, single, false], "{fill:?}");
    }
}

#[test]
fn receivers_state_what_they_send() {
    let of = |notification: Notification| {
        (notification.notifies(), notification.acknowledges_each(), notification.answers_unmarked())
    };
    assert_eq!(of(Notification::Cnp), (true, false, false));
    assert_eq!(of(Notification::AckEach), (false, true, true));
    assert_eq!(of(Notification::Backward), (false, false, false));
}

#[test]
fn mechanisms_are_compositions() {
    let packet = Packet { mtu: Bytes(2_000), header: Bytes(48), ..Packet::default() };
    use Mechanism::{Ccfit, Ecocc, Fbicm, Hfdi, IbCc, Mvcm, Pfister, Qcn, Renato, Saa};
    let kind = |value: serde_json::Value| value["kind"].as_str().unwrap().to_owned();
    for (mechanism, expected) in [
        (Mechanism::None, ["none", "none", "none"]),
        (IbCc, ["fecn", "none", "cct"]),
        (Fbicm, ["none", "special-queues", "none"]),
        (Ccfit, ["fecn", "special-queues", "cct"]),
        (Hfdi, ["none", "special-queues", "none"]),
        (Ecocc, ["fecn", "special-queues", "cct"]),
        (Renato, ["ipm", "none", "lipd"]),
        (Pfister, ["opm", "none", "cct"]),
        (Mvcm, ["mvpm", "none", "mvcm"]),
        (Saa, ["none", "none", "explicit-rate"]),
        (Qcn, ["sampled", "none", "qcn"]),
    ] {
        let parts = mechanism.components(&packet);
        let kinds = [
            kind(serde_json::to_value(&parts.marking).unwrap()),
            kind(serde_json::to_value(&parts.isolation).unwrap()),
            kind(serde_json::to_value(&parts.reaction).unwrap()),
        ];
        assert_eq!(kinds, expected, "{mechanism:?}");
        let notification = match mechanism {
            Qcn => Notification::Backward,
            Renato | Pfister | Mvcm => Notification::AckEach,
            _ => Notification::Cnp,
        };
        assert_eq!(parts.notification, notification, "{mechanism:?}");
        assert_eq!(parts.feedback == Feedback::Quantized, mechanism == Qcn, "{mechanism:?}");
    }
    // Thresholds count full packets of 2048 bytes.
    let full = |count: u64| Some(Bytes(2_048 * count));
    let Marking::Fecn(fecn) = Ccfit.components(&packet).marking else { panic!() };
    assert_eq!(
        (fecn.upper, fecn.lower, fecn.percent, fecn.fill),
        (full(4), full(2), Some(85), FillMapping::Each)
    );
    let Marking::Fecn(fecn) = Ecocc.components(&packet).marking else { panic!() };
    assert_eq!(
        (fecn.upper, fecn.lower, fecn.percent, fecn.fill),
        (full(6), full(4), None, FillMapping::Each)
    );
    for (mechanism, thresholds, at_root) in [
        (Fbicm, [4, 10, 4], true),
        (Ccfit, [4, 10, 4], true),
        (Hfdi, [6, 6, 4], true),
        (Ecocc, [6, 6, 4], false),
    ] {
        let Isolation::SpecialQueues(special) = mechanism.components(&packet).isolation else { panic!() };
        let [detection, stop, go] = thresholds.map(|count| Bytes(2_048 * count));
        let expected = IsolationThresholds { detection, stop, go };
        assert_eq!(special.thresholds(2_048), expected, "{mechanism:?}");
        assert_eq!(special.at_root, at_root, "{mechanism:?}");
    }
}

/// A mechanism is written as its name and its given components. A missing name is not written as `none`,
/// because `none` turns all components off when it is read.
#[test]
fn components_are_written_as_they_were_given() {
    let written = |congestion: &Congestion| serde_json::to_value(congestion).unwrap();
    let nothing = written(&Congestion::default());
    assert_eq!(nothing["mechanism"], "none");
    assert!(nothing.get("feedback").is_none() && nothing.get("coalescing").is_none());
    let marking = Some(Marking::Fecn(Fecn::default()));
    let alone =
        written(&Congestion { marking, feedback: Some(Feedback::Quantized), ..Congestion::default() });
    assert!(alone.get("mechanism").is_none());
    assert_eq!((&alone["marking"]["kind"], &alone["feedback"]), (&"fecn".into(), &"quantized".into()));
    let named = written(&ib_cc());
    assert_eq!((&named["mechanism"], &named["marking"]), (&"ib-cc".into(), &serde_json::Value::Null));
}

fn warnings(change: impl Fn(&mut silvan_fabric::config::Config)) -> Vec<String> {
    let mut config = config(us(100));
    config.flows = vec![flow("H1", "H3"), flow("H2", "H3")];
    change(&mut config);
    run(&topology(r#"{"kind": "star", "hosts": 3, "link_rate": "16 Gbit/s"}"#), &config).warnings
}

#[test]
fn components_without_effect_are_warned_about() {
    assert!(warnings(|_| {}).is_empty());
    assert!(warnings(|config| config.congestion = ib_cc()).is_empty());
    let no_marks = warnings(|config| config.congestion.reaction = Some(Reaction::Cct(Cct::default())));
    assert_eq!(
        no_marks,
        ["The reaction had no effect: congestion.marking is none, so no source is notified."]
    );
    let window = Reaction::StaticWindow(StaticWindow { packets: 2, level: ControlLevel::Qp });
    let window = |marks: bool| {
        warnings(|config| {
            config.congestion.reaction = Some(window.clone());
            config.congestion.notification = Some(Notification::AckEach);
            config.congestion.marking = marks.then(|| Marking::Fecn(Fecn::default()));
        })
    };
    assert!(window(false).is_empty(), "a window needs no marks");
    let unread = "Marks had no effect: congestion.reaction does not use them.";
    assert_eq!(window(true).first().map(String::as_str), Some(unread));
    let isolation = warnings(|config| {
        config.congestion.mechanism = Mechanism::Hfdi;
        config.flows.pop();
    });
    assert_eq!(isolation, ["Isolation had no effect: no queue was ever above its thresholds."]);
}

#[test]
fn traffic_that_does_not_arrive_is_warned_about() {
    // A packet takes more than 1 us to its destination, and the last flow starts 1 us before the end.
    let late = warnings(|config| config.flows.push(Flow { start: us(99), ..flow("H3", "H1") }));
    assert_eq!(late, ["Nothing of `H3->H1` arrived before the end of the run."]);
    let random = warnings(|config| {
        config.flows.clear();
        config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
        config.measure.interval = us(10);
    });
    assert_eq!(random, ["warmup is 0 s: the averages include the empty network's start."]);
    let warm = warnings(|config| {
        config.flows.clear();
        config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
        (config.measure.interval, config.warmup) = (us(10), us(10));
    });
    assert!(warm.is_empty(), "{warm:?}");
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let network = topology(r#"{"kind": "star", "hosts": 3}"#);
    let mut config = config(us(1_000));
    config.flows = vec![flow("H1", "H3"), flow("H2", "H3")];
    let mut simulation = Simulation::new(&network, &tables(&network), &config).unwrap();
    let progress = simulation.advance(200).unwrap();
    assert!(!progress.done && progress.now < progress.end && progress.end == us(1_000));
    let outcome = simulation.finish().unwrap();
    let stopped = outcome.warnings[0].strip_prefix("The run was stopped at ").unwrap();
    assert!(stopped.ends_with(" of 1 ms: averages cover the completed part."), "{stopped}");
    assert!(outcome.summary.simulated_ns < 1_000_000);
    let inside = outcome.summary.packets_injected - outcome.summary.packets_delivered;
    assert_eq!(outcome.summary.packets_inside, inside);
}
