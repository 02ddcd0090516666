//! Switches, which consist of an input organization, a crossbar and its arbitration. Each architecture has its own
//! file and implements [`architecture::Architecture`].

mod architecture;
mod chooser;
mod cioq;
mod detour;
mod director;
mod hasher;
mod islip;
mod ordered;
mod ports;
mod queued;
mod round_robin;
mod rounds;
mod steering;
mod voq;

use silvan_engine::saved::Saved;
use silvan_network::port::{ManyLanes, OneLane};
use silvan_network::port_set::{Ports64, Ports256};

use crate::voq::MOST_LANES;

pub(crate) use architecture::Architecture;
pub(crate) use chooser::PortChooser;
pub(crate) use cioq::CioqSwitch;
pub(crate) use detour::{Detourer, Neighbours};
pub(crate) use director::{AnnouncedRoutes, Director, weight_ps};
pub(crate) use islip::Islip;
pub(crate) use ports::{NumberedTable, PortLayout, Ports, Steering};
pub(crate) use queued::QueuedSwitch;
pub(crate) use round_robin::RoundRobin;
pub(crate) use steering::accept;
pub(crate) use voq::{VoqSwitch, fits_one_lane};

/// The switches of a partition. All of them have the same architecture, so one `match` suffices for many
/// events.
#[derive(Debug, Saved)]
pub(crate) enum Switches {
    /// The first variant is for one virtual lane and up to 64 ports.
    Voq(Vec<VoqSwitch<1, false>>),
    LargeVoq(Vec<VoqSwitch<MOST_LANES, false>>),
    /// Switches with one queue per output and lane. The first variant is for one virtual lane.
    Fifo(Vec<VoqSwitch<1, true>>),
    LanedFifo(Vec<VoqSwitch<MOST_LANES, true>>),
    /// Input-queued switches with a read port per queue, or with one per input. The first variant of each is for one
    /// virtual lane and up to 64 ports, the second for up to 64 ports.
    RoundRobin(Vec<QueuedSwitch<Ports64, OneLane, RoundRobin<Ports64>>>),
    LanedRoundRobin(Vec<QueuedSwitch<Ports64, ManyLanes, RoundRobin<Ports64>>>),
    LargeRoundRobin(Vec<QueuedSwitch<Ports256, ManyLanes, RoundRobin<Ports256>>>),
    Islip(Vec<QueuedSwitch<Ports64, OneLane, Islip<Ports64>>>),
    LanedIslip(Vec<QueuedSwitch<Ports64, ManyLanes, Islip<Ports64>>>),
    LargeIslip(Vec<QueuedSwitch<Ports256, ManyLanes, Islip<Ports256>>>),
    /// Switches with buffers at inputs and outputs, with the same three variants.
    Cioq(Vec<CioqSwitch<Ports64, OneLane>>),
    LanedCioq(Vec<CioqSwitch<Ports64, ManyLanes>>),
    LargeCioq(Vec<CioqSwitch<Ports256, ManyLanes>>),
}

/// Evaluates an expression for switches of any architecture.
macro_rules! with_switches {
    ($switches:expr, $name:ident => $then:expr) => {
        match $switches {
            $crate::switch::Switches::Voq($name) => $then,
            $crate::switch::Switches::LargeVoq($name) => $then,
            $crate::switch::Switches::Fifo($name) => $then,
            $crate::switch::Switches::LanedFifo($name) => $then,
            $crate::switch::Switches::RoundRobin($name) => $then,
            $crate::switch::Switches::LanedRoundRobin($name) => $then,
            $crate::switch::Switches::LargeRoundRobin($name) => $then,
            $crate::switch::Switches::Islip($name) => $then,
            $crate::switch::Switches::LanedIslip($name) => $then,
            $crate::switch::Switches::LargeIslip($name) => $then,
            $crate::switch::Switches::Cioq($name) => $then,
            $crate::switch::Switches::LanedCioq($name) => $then,
            $crate::switch::Switches::LargeCioq($name) => $then,
        }
    };
}
pub(crate) use with_switches;

impl Switches {
    /// The switch at a place. Panics if there is no such switch.
    pub fn at(&self, place: usize) -> &dyn Architecture {
        with_switches!(self, all => &all[place])
    }

    /// Same as [`Self::at`]; `None` if there is no such switch.
    pub fn get(&self, place: usize) -> Option<&dyn Architecture> {
        with_switches!(self, all => all.get(place).map(|switch| switch as &dyn Architecture))
    }
}
