//! Converts a scenario's congestion control to options of OpenSM's configuration file, so that settings
//! tested in the simulator can be applied to a fabric.

use std::fmt::Write as _;

use silvan_congestion::isolation::Isolation;
use silvan_congestion::marking::{Fecn, Marking, VictimMask};
use silvan_congestion::reaction::{Cct, CctTable, ControlLevel, Reaction, TimerStart};
use silvan_congestion::{Feedback, Notification};
use silvan_engine::{Bytes, Rate};
use silvan_fabric::config::Config;
use silvan_fabric::lane_tables::VlArbitration;
use silvan_network::topology::{NodeRef, Topology};

use crate::{Scenario, ScenarioError};

/// Returns the options, one per line. Comments point out where OpenSM cannot represent the scenario
/// exactly.
///
/// # Errors
/// Same as [`Scenario::build`]. It is also an error if the scenario has other congestion control than that of
/// InfiniBand.
pub fn options(scenario: &Scenario) -> Result<String, ScenarioError> {
    let (topology, _, config) = scenario.build_plain()?;
    let parts = config.components();
    let is_usual = parts.notification != Notification::Backward && parts.feedback == Feedback::Binary;
    let (true, Marking::Fecn(fecn), Reaction::Cct(cct), Isolation::None) =
        (is_usual, parts.marking, parts.reaction, parts.isolation)
    else {
        let what =
            "OpenSM can set InfiniBand congestion control only: congestion.mechanism must be \"ib-cc\"";
        return Err(ScenarioError::of_file(scenario.origin(), what));
    };
    let mut text = String::from("# Congestion control, from a Silvan scenario\ncongestion_control TRUE\n");
    switches(&mut text, &fecn, &topology, &config);
    adapters(&mut text, &cct, &config);
    let rates = topology.links.iter().filter(|link| matches!(link.a.node, NodeRef::Host(_)));
    let rate = rates.map(|link| link.rate).min().unwrap_or(Rate::from_gbit(1));
    line(&mut text, format_args!("cc_cct {}", table(&cct, rate, &config)));
    if let Some(tables) = &config.lanes.arbitration {
        arbitration(&mut text, tables, config.lanes.count);
    }
    Ok(text)
}

fn line(text: &mut String, content: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

/// The VL arbitration of all ports.
fn arbitration(text: &mut String, tables: &VlArbitration, lanes: u8) {
    let entries = |table: &[(u8, u8)]| {
        let entry = |(vl, weight): &(u8, u8)| format!("{vl}:{weight}");
        // OpenSM takes an empty table for its default.
        if table.is_empty() {
            "0:0".to_owned()
        } else {
            table.iter().map(entry).collect::<Vec<_>>().join(",")
        }
    };
    line(text, format_args!("qos TRUE\nqos_max_vls {lanes}\nqos_high_limit {}", tables.limit.0));
    line(
        text,
        format_args!("qos_vlarb_high {}\nqos_vlarb_low {}", entries(&tables.high), entries(&tables.low)),
    );
}

fn switches(text: &mut String, fecn: &Fecn, topology: &Topology, config: &Config) {
    // Victim mask, threshold with packet size, marking rate.
    line(text, format_args!("cc_sw_cong_setting_control_map 0x15"));
    let (mask, mixed) = victim_mask(fecn.victim_mask, topology);
    if mixed {
        line(
            text,
            format_args!(
                "# All switches have the same mask: on other switches, some of its ports lead to switches."
            ),
        );
    }
    line(text, format_args!("cc_sw_cong_setting_victim_mask 0x{mask}"));
    if !fecn.ports.is_empty() {
        line(text, format_args!("# All ports have the same setting: congestion.marking.ports is left out."));
    }
    let lane = config.switch.buffer.0 / u64::from(config.lanes.count.max(1));
    if fecn.upper.is_some() || fecn.lower.is_some() {
        line(text, format_args!("# The nearest weight: OpenSM does not support thresholds in bytes."));
    }
    line(text, format_args!("cc_sw_cong_setting_threshold 0x{:02x}", weight(fecn, Bytes(lane))));
    line(text, format_args!("cc_sw_cong_setting_packet_size {}", fecn.packet_size));
    line(text, format_args!("cc_sw_cong_setting_marking_rate {}", fecn.marking_rate));
}

/// The threshold weight: `threshold`, or, if `upper` is given, the weight from 1 to 15 with the smallest fill
/// that is not below `upper`. If there is none, 1.
fn weight(fecn: &Fecn, lane: Bytes) -> u64 {
    match fecn.upper {
        None => u64::from(fecn.threshold),
        Some(upper) => 16 - (upper.0 * 16).div_ceil(lane.0.max(1)).clamp(1, 15),
    }
}

/// The 256-bit mask in hexadecimal, and whether any masked port leads to another switch.
fn victim_mask(mask: VictimMask, topology: &Topology) -> (String, bool) {
    let mut facing_hosts = [0u8; 32];
    let mut facing_switches = [0u8; 32];
    let set = |bits: &mut [u8; 32], port: u16| {
        if let Some(byte) = bits.get_mut(usize::from(port / 8)) {
            *byte |= 1 << (port % 8);
        }
    };
    for link in &topology.links {
        for (here, there) in link.channels() {
            match (here.node, there.node) {
                (NodeRef::Switch(_), NodeRef::Host(_)) => set(&mut facing_hosts, here.port),
                (NodeRef::Switch(_), NodeRef::Switch(_)) => set(&mut facing_switches, here.port),
                _ => {}
            }
        }
    }
    let bits: [u8; 32] = match mask {
        VictimMask::None => [0; 32],
        VictimMask::Hosts => facing_hosts,
        VictimMask::All => std::array::from_fn(|at| facing_hosts[at] | facing_switches[at]),
    };
    let mixed = mask == VictimMask::Hosts
        && bits.iter().zip(facing_switches).any(|(masked, facing)| masked & facing != 0);
    (bits.iter().rev().map(|byte| format!("{byte:02x}")).collect(), mixed)
}

fn adapters(text: &mut String, cct: &Cct, config: &Config) {
    let sls = config.flows.iter().map(|flow| flow.sl).chain(config.traffic.iter().map(|traffic| traffic.sl));
    let used: u16 = sls.fold(0, |map, sl| map | 1 << sl);
    if !config.congestion.hosts.is_empty() {
        line(text, format_args!("# All hosts have the same setting: congestion.hosts is left out."));
    }
    line(
        text,
        format_args!("cc_ca_cong_setting_port_control 0x{:04x}", u8::from(cct.level == ControlLevel::Sl)),
    );
    line(text, format_args!("cc_ca_cong_setting_control_map 0x{used:04x}"));
    if cct.timer == TimerStart::Notification {
        line(
            text,
            format_args!("# In a fabric the timers run freely; in the scenario each BECN restarts them."),
        );
    }
    for sl in (0..16u8).filter(|sl| used >> sl & 1 == 1) {
        let own = cct.per_sl.iter().find(|own| own.sl == sl);
        let timer = own.and_then(|own| own.ccti_timer).unwrap_or(cct.ccti_timer);
        let increase = own.and_then(|own| own.ccti_increase).unwrap_or(cct.ccti_increase);
        let min = own.and_then(|own| own.ccti_min).unwrap_or(cct.ccti_min);
        let trigger = own.and_then(|own| own.trigger_threshold).unwrap_or(cct.trigger_threshold);
        line(text, format_args!("cc_ca_cong_setting_ccti_timer {sl} {timer}"));
        line(text, format_args!("cc_ca_cong_setting_ccti_increase {sl} {increase}"));
        line(text, format_args!("cc_ca_cong_setting_trigger_threshold {sl} {trigger}"));
        line(text, format_args!("cc_ca_cong_setting_ccti_min {sl} {min}"));
    }
}

/// The table up to CCTI_Limit as "shift:multiplier" pairs, which mean that the delay is the packet's time
/// on the link times multiplier / 2^shift. The largest possible shift is used.
fn table(cct: &Cct, rate: Rate, config: &Config) -> String {
    let size = u32::try_from(config.packet.mtu.0 + config.packet.header.0).unwrap_or(u32::MAX);
    let span = rate.pace().time(size);
    let entry = |delay: u64| -> (u64, u64) {
        let scaled = |shift: u64| {
            let wanted = (u128::from(delay) << shift) + u128::from(span.0) / 2;
            (wanted / u128::from(span.0.max(1))) as u64
        };
        let shift = (0..=3).rev().find(|&shift| scaled(shift) <= 0x3fff).unwrap_or(0);
        (shift, scaled(shift).min(0x3fff))
    };
    let pairs: Vec<(u64, u64)> = match &cct.table {
        CctTable::Iba { entries } => {
            entries.iter().map(|entry| (u64::from(entry >> 14), u64::from(entry & 0x3fff))).collect()
        }
        other => other.delays_ps(span).into_iter().map(entry).collect(),
    };
    let kept = pairs.iter().take(usize::from(cct.ccti_limit) + 1);
    kept.map(|(shift, multiplier)| format!("{shift}:{multiplier}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn of(text: &str) -> Result<String, String> {
        let scenario = Scenario::from_toml(text, "s.toml", Path::new("."), &[]).map_err(|e| e.to_string())?;
        options(&scenario).map_err(|e| e.to_string())
    }

    const TESTBED: &str = r#"
        duration = "1 ms"
        topology = { kind = "dumbbell" }
        flow = [{ from = "H1", to = "H5", sl = 2 }]
    "#;

    #[test]
    fn the_testbed_in_opensm_terms() {
        let text = of(&format!("{TESTBED}\ncongestion = {{ mechanism = \"ib-cc\" }}")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..4],
            [
                "congestion_control TRUE",
                "cc_sw_cong_setting_control_map 0x15",
                "# All switches have the same mask: on other switches, some of its ports lead to switches.",
            ]
        );
        assert_eq!(lines[4], format!("cc_sw_cong_setting_victim_mask 0x{:0>64}", "1e"));
        assert_eq!(
            lines[5..14],
            [
                "cc_sw_cong_setting_threshold 0x0f",
                "cc_sw_cong_setting_packet_size 8",
                "cc_sw_cong_setting_marking_rate 1",
                "cc_ca_cong_setting_port_control 0x0000",
                "cc_ca_cong_setting_control_map 0x0004",
                "cc_ca_cong_setting_ccti_timer 2 150",
                "cc_ca_cong_setting_ccti_increase 2 1",
                "cc_ca_cong_setting_trigger_threshold 2 0",
                "cc_ca_cong_setting_ccti_min 2 0",
            ]
        );
        let cct = lines[14].strip_prefix("cc_cct ").unwrap();
        assert_eq!(cct.split(',').count(), 128);
        // 7 us at index 106 is 6.836 times the 1.024 us of a full packet: 55 eighths.
        assert_eq!(cct.split(',').nth(106), Some("3:55"));
    }

    #[test]
    fn a_table_in_iba_encoding_is_written_unchanged() {
        let entries: Vec<String> = (0..128u32).map(|i| (((i % 4) << 14) | i).to_string()).collect();
        let table = entries.join(", ");
        let text = of(&format!(
            "{TESTBED}\n[congestion]\nmechanism = \"ib-cc\"\n[congestion.reaction]\ntable = {{ kind = \"iba\", entries = [{table}] }}"
        ))
        .unwrap();
        assert!(text.contains("cc_cct 0:0,1:1,2:2,3:3,0:4,"), "{text}");
    }

    #[test]
    fn differences_between_timers_are_noted() {
        let note = "# In a fabric the timers run freely; in the scenario each BECN restarts them.";
        let reaction = |timer| {
            format!("{TESTBED}\n[congestion]\nmechanism = \"ib-cc\"\nreaction = {{ timer = \"{timer}\" }}")
        };
        assert!(of(&reaction("notification")).unwrap().contains(note));
        assert!(!of(&reaction("cyclic")).unwrap().contains(note));
    }

    #[test]
    fn settings_of_single_ports_are_noted() {
        let ports = "ports = [{ at = [\"S1:1\"], threshold = 4 }]";
        let congestion = format!("congestion = {{ mechanism = \"ib-cc\", marking = {{ {ports} }} }}");
        let text = of(&format!("{TESTBED}\n{congestion}")).unwrap();
        assert!(text.contains("# All ports have the same setting: congestion.marking.ports is left out."));
        assert!(text.contains("cc_sw_cong_setting_threshold 0x0f"));
    }

    #[test]
    fn settings_of_single_hosts_are_noted() {
        let hosts = "hosts = [{ at = [\"H1\"], reaction = { ccti_timer = 9 } }]";
        let congestion = format!("congestion = {{ mechanism = \"ib-cc\", {hosts} }}");
        let text = of(&format!("{TESTBED}\n{congestion}")).unwrap();
        assert!(text.contains("# All hosts have the same setting: congestion.hosts is left out."));
    }

    #[test]
    fn scenarios_without_ib_congestion_control_are_rejected() {
        let error = of(TESTBED).unwrap_err();
        let wanted = "s.toml: OpenSM can set InfiniBand congestion control only: congestion.mechanism must be \"ib-cc\"";
        assert_eq!(error, wanted);
    }
}
