//! Checks the settings of traffic that determine sizes and times of messages, and their combinations.

use silvan_congestion::Components;
use silvan_engine::{Bytes, Time};
use silvan_network::traffic::{Arrivals, Bursts, Incast, LARGEST_MESSAGE, Pattern, Traffic};

use super::{Check, LONGEST_DELAY, delay, ensure};
use crate::spec::Spec;

/// Checks one pattern of traffic.
pub(super) fn check(traffic: &Traffic, spec: &Spec, at: &str) -> Check {
    let key = |key: &str| format!("{at}.{key}");
    let has_rate = traffic.rate.is_some() || traffic.load_percent.is_some();
    let (is_incast, is_forest) =
        (matches!(traffic.pattern, Pattern::Incast(_)), matches!(traffic.pattern, Pattern::Forest(_)));
    ensure(traffic.load_percent.is_none() || traffic.rate.is_none(), &key("load_percent"), || {
        "cannot be combined with rate, which also determines the load; leave out one of them".to_owned()
    })?;
    for (name, given) in [
        ("sizes", traffic.sizes.is_some()),
        ("load_percent", traffic.load_percent.is_some()),
        ("bursts", traffic.bursts.is_some()),
        ("outstanding", traffic.outstanding.is_some()),
    ] {
        ensure(!given || !is_forest, &key(name), || {
            "cannot be combined with a forest; leave it out, or use another pattern".to_owned()
        })?;
    }
    if traffic.sizes.is_some() {
        let single = traffic.message.is_none() && traffic.message_max.is_none();
        ensure(single, &key("sizes"), || {
            "cannot be combined with message and message_max, which also determine sizes; leave them out"
                .to_owned()
        })?;
        ensure(has_rate || is_incast || traffic.outstanding.is_some(), &key("sizes"), || {
            "needs load_percent, rate or outstanding, which determine when messages are generated".to_owned()
        })?;
    }
    if let Some(bursts) = &traffic.bursts {
        check_bursts(bursts, &key("bursts"))?;
        ensure(has_rate && !is_incast, &key("bursts"), || {
            "needs load_percent or rate, and a pattern other than `incast` and `listed`".to_owned()
        })?;
    }
    closed_loop(traffic, spec, at)?;
    match &traffic.pattern {
        Pattern::Incast(incast) => check_incast(incast, traffic, at),
        Pattern::Listed(_) => check_listed(traffic, at),
        _ => Ok(()),
    }
}

fn check_bursts(bursts: &Bursts, at: &str) -> Check {
    for (key, time) in [("on", bursts.on), ("off", bursts.off)] {
        let path = format!("{at}.{key}");
        ensure(time >= Time::from_ns(1), &path, || "must be at least 1 ns".to_owned())?;
        delay(&path, time, LONGEST_DELAY)?;
    }
    Ok(())
}

fn closed_loop(traffic: &Traffic, spec: &Spec, at: &str) -> Check {
    let key = |key: &str| format!("{at}.{key}");
    ensure(traffic.think.is_none() || traffic.outstanding.is_some(), &key("think"), || {
        "has no effect without outstanding, the number of messages under way".to_owned()
    })?;
    let Some(_) = traffic.outstanding else { return Ok(()) };
    delay(&key("think"), traffic.think.unwrap_or_default(), LONGEST_DELAY)?;
    let others = [
        ("rate", traffic.rate.is_some()),
        ("load_percent", traffic.load_percent.is_some()),
        ("arrivals", traffic.arrivals != Arrivals::Periodic),
        ("start_after_packets", traffic.start_after_packets.is_some()),
    ];
    for (name, given) in others {
        ensure(!given, &key(name), || {
            "cannot be combined with outstanding: the end of a message determines the time of the next one"
                .to_owned()
        })?;
    }
    let Components { notification, .. } = spec.congestion.components(&spec.packet);
    ensure(notification.answers_unmarked(), &key("outstanding"), || {
        "needs acknowledgements, which tell the source that a message has ended; set congestion.notification to \"ack\", \
         \"ack-message\" or \"ack-each\""
            .to_owned()
    })
}

/// Rejects keys that have no effect with a pattern that determines its transfers in advance.
fn without(traffic: &Traffic, at: &str, pattern: &str) -> Check {
    let others = [
        ("rate", traffic.rate.is_some()),
        ("outstanding", traffic.outstanding.is_some()),
        ("packets_per_host", traffic.packets_per_host.is_some()),
        ("start_after_packets", traffic.start_after_packets.is_some()),
    ];
    for (name, given) in others {
        ensure(!given, &format!("{at}.{name}"), || {
            format!("cannot be combined with the pattern `{pattern}`")
        })?;
    }
    Ok(())
}

fn check_incast(incast: &Incast, traffic: &Traffic, at: &str) -> Check {
    let key = |key: &str| format!("{at}.pattern.{key}");
    without(traffic, at, "incast")?;
    ensure(incast.every.is_some() != traffic.load_percent.is_some(), &key("every"), || {
        "an incast needs either pattern.every, the time from one to the next, or load_percent".to_owned()
    })?;
    if let Some(every) = incast.every {
        ensure(every >= Time::from_ns(1), &key("every"), || "must be at least 1 ns".to_owned())?;
        delay(&key("every"), every, super::LONGEST)?;
    }
    delay(&key("jitter"), incast.jitter.unwrap_or_default(), LONGEST_DELAY)?;
    let most = traffic.message_max.or(traffic.message).unwrap_or(Bytes(0));
    ensure(most <= LARGEST_MESSAGE, &format!("{at}.message"), || format!("must be at most {LARGEST_MESSAGE}"))
}

fn check_listed(traffic: &Traffic, at: &str) -> Check {
    without(traffic, at, "listed")?;
    let others = [
        ("hosts", traffic.hosts.is_some()),
        ("message", traffic.message.is_some()),
        ("message_max", traffic.message_max.is_some()),
        ("sizes", traffic.sizes.is_some()),
        ("load_percent", traffic.load_percent.is_some()),
        ("arrivals", traffic.arrivals != Arrivals::Periodic),
        ("start", traffic.start != Time::ZERO),
        ("sl", traffic.sl != 0),
    ];
    for (name, given) in others {
        ensure(!given, &format!("{at}.{name}"), || {
            "has no effect: the file determines it; leave it out".to_owned()
        })?;
    }
    Ok(())
}
