//! Reactions of single hosts, which replace the common reaction.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Components;
use super::reaction::Reaction;
use super::unfit::{Check, Limits, Unfit, ensure};

/// The reaction of some hosts. In InfiniBand, each channel adapter has its own CACongestionSetting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSetting {
    /// Names of the hosts: a list, or a text with a range such as `H[1-64]` (also within a list).
    pub at: Vec<String>,
    /// How these hosts react to returned marks. Without a `kind`, the parameters replace those of the other hosts'
    /// reaction. With a `kind`, all parameters that are not given have their defaults.
    pub reaction: Reaction,
}

impl HostSetting {
    /// Checks the setting with this index against the other components and the hosts of the previous settings.
    fn check<'a>(
        &'a self,
        index: usize,
        parts: &Components,
        limits: &Limits,
        known: &mut FxHashMap<&'a str, usize>,
    ) -> Check {
        let at = format!("hosts.{index}.at");
        ensure(!self.at.is_empty(), &at, || "must name a host, such as \"H1\"".to_owned())?;
        for (place, name) in self.at.iter().enumerate() {
            let before = known.insert(name, index);
            ensure(before.is_none(), &format!("{at}.{place}"), || {
                let first = before.unwrap_or_default();
                format!("is already given by congestion.hosts.{first}")
            })?;
        }
        let kind = format!("hosts.{index}.reaction.kind");
        let reaction = &self.reaction;
        let properties = reaction.properties();
        let is_shared = properties.concerns_all_hosts || parts.reaction.properties().concerns_all_hosts;
        let is_same = std::mem::discriminant(reaction) == std::mem::discriminant(&parts.reaction);
        ensure(!is_shared || is_same, &kind, || {
            "explicit-rate and rccc must be the reaction of all hosts or of none, because the sources depend on each \
             other: links divide their rate among all flows, and receivers grant credit; use the kind of \
             congestion.reaction"
                .to_owned()
        })?;
        ensure(!properties.needs_acknowledgements || parts.notification.acknowledges_each(), &kind, || {
            "needs congestion.notification = \"ack-each\", because it counts the acknowledgements of single packets"
                    .to_owned()
        })?;
        ensure(!properties.needs_telemetry || parts.marking.stamps(), &kind, || {
            "needs congestion.marking.kind = \"telemetry\", because it reads the telemetry of switches"
                .to_owned()
        })?;
        reaction
            .check(limits)
            .map_err(|unfit| Unfit { key: format!("hosts.{index}.reaction.{}", unfit.key), what: unfit.what })
    }
}

impl Components {
    /// The reaction of the hosts without a setting, then those of single hosts.
    pub fn reactions(&self) -> impl Iterator<Item = &Reaction> {
        std::iter::once(&self.reaction).chain(self.hosts.iter().map(|setting| &setting.reaction))
    }

    /// Checks the settings of single hosts.
    ///
    /// # Errors
    /// Returns the first invalid setting, as a path below `congestion`.
    pub fn check_hosts(&self, limits: &Limits) -> Check {
        let mut known = FxHashMap::default();
        let mut settings = self.hosts.iter().enumerate();
        settings.try_for_each(|(index, setting)| setting.check(index, self, limits, &mut known))
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::{Bytes, Time};

    use super::HostSetting;
    use crate::reaction::{Cct, Dctcp, ExplicitRate, Hpcc, Reaction};
    use crate::unfit::Limits;
    use crate::{Components, Mechanism};
    use silvan_network::packet_format::Packet;

    fn check(mechanism: Mechanism, hosts: Vec<HostSetting>) -> Result<(), String> {
        let components = mechanism.components(&Packet::default());
        let limits = Limits { lane: Bytes(65_536), full: Bytes(2_048) };
        let components = Components { hosts, ..components };
        components.check_hosts(&limits).map_err(|unfit| unfit.key)
    }

    fn setting(at: &[&str], reaction: Reaction) -> HostSetting {
        HostSetting { at: at.iter().map(|&name| name.to_owned()).collect(), reaction }
    }

    #[test]
    fn single_hosts_may_react_differently_or_not_at_all() {
        let slow = Reaction::Cct(Cct { ccti_timer: 1_000, ..Cct::default() });
        let hosts = vec![setting(&["H1"], Reaction::None), setting(&["H2", "H3"], slow)];
        assert_eq!(check(Mechanism::IbCc, hosts), Ok(()));
    }

    #[test]
    fn settings_are_checked_with_their_place() {
        let errors = |hosts| check(Mechanism::IbCc, hosts).unwrap_err();
        assert_eq!(errors(vec![setting(&[], Reaction::None)]), "hosts.0.at");
        let twice = vec![setting(&["H1"], Reaction::None), setting(&["H2", "H1"], Reaction::None)];
        assert_eq!(errors(twice), "hosts.1.at.1");
        let wrong = Cct { ccti_min: 100, ccti_limit: 99, ..Cct::default() };
        assert_eq!(errors(vec![setting(&["H1"], Reaction::Cct(wrong))]), "hosts.0.reaction.ccti_min");
    }

    #[test]
    fn reactions_that_do_not_fit_the_other_components_are_rejected() {
        let errors = |reaction| check(Mechanism::IbCc, vec![setting(&["H1"], reaction)]).unwrap_err();
        for reaction in [
            Reaction::Dctcp(Dctcp::default()),
            Reaction::Hpcc(Hpcc::default()),
            Reaction::ExplicitRate(ExplicitRate::default()),
        ] {
            assert_eq!(errors(reaction), "hosts.0.reaction.kind");
        }
        let without = vec![setting(&["H1"], Reaction::None)];
        assert_eq!(check(Mechanism::Saa, without).unwrap_err(), "hosts.0.reaction.kind");
        let seldom = ExplicitRate { probe: Time::from_us(99), ..ExplicitRate::default() };
        assert_eq!(check(Mechanism::Saa, vec![setting(&["H1"], Reaction::ExplicitRate(seldom))]), Ok(()));
    }
}
