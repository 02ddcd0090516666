//! The buffers of a receiver with pause frames: which lanes of its inputs are to be paused.
//!
//! Each input has separate memory with fixed thresholds, or all inputs of a switch share memory. The rules for shared
//! memory follow the switch model of HPCC (SIGCOMM 2019); see `flow_control.shared` of scenarios. Two details differ from
//! it. Decisions are made at the end of an instant, so that the order in which events of one instant are handled has no
//! effect. With a threshold above the free memory, a packet uses headroom if it does not fit into the free memory.

use silvan_engine::saved::Saved;

use crate::link::control::Lack;

/// The memory of one virtual lane of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Memory that a single lane uses. All values are in bytes.
    Fixed {
        /// The lane is paused above this fill.
        xoff: u32,
        /// The lane resumes at or below this fill.
        xon: u32,
        /// Space above `xoff`.
        headroom: u32,
    },
    /// A share of the memory of its switch.
    Shared {
        /// Index of the switch.
        switch: u32,
        /// The threshold is the free memory divided by this power of two.
        shift: i8,
        /// Space for packets beyond the threshold.
        headroom: u32,
        /// Space that only this lane uses.
        reserve: u32,
    },
}

/// The memory that the inputs of a switch share, in bytes.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct SwitchMemory {
    /// The part for packets up to the thresholds.
    pub size: u64,
    pub used: u64,
    /// The headroom of all lanes together.
    pub headroom: u64,
    pub headroom_used: u64,
    /// How far below the threshold a lane resumes.
    pub resume_offset: u64,
}

impl SwitchMemory {
    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used)
    }

    fn threshold(&self, shift: i8) -> u64 {
        let by = u32::from(shift.unsigned_abs());
        if shift >= 0 { self.free() >> by } else { self.free() << by }
    }
}

/// The packets of one virtual lane of an input.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct Gate {
    /// Bytes of packets, excluding those in the headroom of shared memory.
    fill: u32,
    /// Bytes in the headroom of shared memory.
    over: u32,
}

impl Gate {
    fn shared_bytes(&self, reserve: u32) -> u64 {
        self.fill.saturating_sub(reserve).into()
    }

    /// Bytes of all packets.
    pub fn stored(&self) -> u64 {
        u64::from(self.fill) + u64::from(self.over)
    }

    /// Stores a packet of a lane that has [`Self::room`] for it.
    #[inline]
    pub fn add(&mut self, rule: &Rule, memories: &mut [SwitchMemory], space: u32) {
        let fill = self.fill + space;
        if let Rule::Shared { switch, reserve, .. } = *rule {
            memories[switch as usize].used += u64::from(fill.saturating_sub(reserve).min(space));
        }
        self.fill = fill;
    }

    /// Whether a packet of a lossy lane fits: into a lane's own memory of this capacity, or below the threshold of shared memory.
    pub fn fits(&self, (rule, capacity): (&Rule, u32), memories: &[SwitchMemory], space: u32) -> bool {
        let new = self.fill.saturating_add(space);
        match *rule {
            Rule::Fixed { .. } => new <= capacity,
            Rule::Shared { switch, shift, reserve, .. } => {
                let memory = &memories[switch as usize];
                let beyond = u64::from(new.saturating_sub(reserve));
                beyond == 0 || beyond <= memory.threshold(shift) && beyond.min(space.into()) <= memory.free()
            }
        }
    }

    /// Stores a packet. If it does not fit, returns which memory is exhausted.
    pub fn store(&mut self, rule: &Rule, memories: &mut [SwitchMemory], space: u32) -> Option<Lack> {
        let new = self.fill.saturating_add(space);
        let lacks = |used: u64, headroom: u64, is_pool| {
            (used > headroom).then(|| Lack { missing: used - headroom, headroom, is_pool })
        };
        match *rule {
            Rule::Fixed { xoff, headroom, .. } => {
                self.fill = new;
                lacks(new.saturating_sub(xoff).into(), headroom.into(), false)
            }
            Rule::Shared { switch, shift, headroom, reserve } => {
                let memory = &mut memories[switch as usize];
                let beyond = u64::from(new.saturating_sub(reserve));
                let added = beyond.min(space.into());
                if beyond == 0 || beyond <= memory.threshold(shift) && added <= memory.free() {
                    self.fill = new;
                    memory.used += added;
                    return None;
                }
                self.over = self.over.saturating_add(space);
                memory.headroom_used += u64::from(space);
                lacks(self.over.into(), headroom.into(), false)
                    .or_else(|| lacks(memory.headroom_used, memory.headroom, true))
            }
        }
    }

    /// Removes a packet.
    pub fn remove(&mut self, rule: &Rule, memories: &mut [SwitchMemory], space: u32) {
        match *rule {
            Rule::Fixed { .. } => self.fill -= space,
            Rule::Shared { switch, reserve, .. } => {
                let memory = &mut memories[switch as usize];
                let of_headroom = self.over.min(space);
                let rest = space - of_headroom;
                memory.used -= self.shared_bytes(reserve).min(rest.into());
                memory.headroom_used -= u64::from(of_headroom);
                self.over -= of_headroom;
                self.fill -= rest;
            }
        }
    }

    /// Bytes that may arrive at all lanes of the memory together, while none leaves, before this lane can be full or lack
    /// memory. `None` if it may be full with the next byte.
    pub fn room(&self, rule: &Rule, memories: &[SwitchMemory]) -> Option<u64> {
        match *rule {
            Rule::Fixed { xoff, .. } => xoff.checked_sub(self.fill).map(u64::from),
            Rule::Shared { switch, shift, reserve, .. } => {
                let free = memories[switch as usize].free();
                // After x more bytes, the lane has at most `own - 1 + x` in shared memory. It is not full if its threshold,
                // which is a multiple of `free - x`, is at least `own + x`.
                let own = self.shared_bytes(reserve) + 1;
                let by = u32::from(shift.unsigned_abs()).min(32);
                let (threshold, needed) = if shift >= 0 { (free, own << by) } else { (free << by, own) };
                let room = threshold.checked_sub(needed)? / ((1u64 << by) + 1);
                (self.over == 0).then_some(room.min(free))
            }
        }
    }

    /// Whether to pause the lane after an arrival.
    pub fn is_full(&self, rule: &Rule, memories: &[SwitchMemory]) -> bool {
        match *rule {
            Rule::Fixed { xoff, .. } => self.fill > xoff,
            Rule::Shared { switch, shift, reserve, .. } => {
                self.over > 0 || self.shared_bytes(reserve) >= memories[switch as usize].threshold(shift)
            }
        }
    }

    /// Whether to resume the lane after a departure.
    pub fn is_low(&self, rule: &Rule, memories: &[SwitchMemory]) -> bool {
        match *rule {
            Rule::Fixed { xon, .. } => self.fill <= xon,
            Rule::Shared { switch, shift, reserve, .. } => {
                let (memory, used) = (&memories[switch as usize], self.shared_bytes(reserve));
                self.over == 0 && (used == 0 || used + memory.resume_offset <= memory.threshold(shift))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(shift: i8) -> Rule {
        Rule::Shared { switch: 0, shift, headroom: 300, reserve: 100 }
    }

    fn memory(size: u64) -> [SwitchMemory; 1] {
        [SwitchMemory { size, headroom: 400, resume_offset: 50, ..SwitchMemory::default() }]
    }

    #[test]
    fn a_lane_of_its_own_memory_has_fixed_thresholds() {
        let rule = Rule::Fixed { xoff: 300, xon: 100, headroom: 150 };
        let (mut gate, mut none) = (Gate::default(), []);
        assert_eq!(gate.store(&rule, &mut none, 300), None);
        assert!(!gate.is_full(&rule, &none), "the threshold itself is permitted");
        assert_eq!(gate.store(&rule, &mut none, 150), None);
        assert!(gate.is_full(&rule, &none));
        let lack = Lack { missing: 1, headroom: 150, is_pool: false };
        assert_eq!(gate.store(&rule, &mut none, 1), Some(lack));
        gate.remove(&rule, &mut none, 350);
        assert!(!gate.is_low(&rule, &none));
        gate.remove(&rule, &mut none, 1);
        assert!(gate.is_low(&rule, &none));
    }

    /// Lanes are not full while fewer bytes arrive, in any distribution, than each of them permits.
    #[test]
    fn no_lane_is_full_within_the_room() {
        for shift in [-3, -1, 0, 1, 3] {
            let (rule, mut memories) = (shared(shift), memory(10_000));
            let mut gates = [Gate::default(); 3];
            for (gate, fill) in gates.iter_mut().zip([0, 150, 700]) {
                assert_eq!(gate.store(&rule, &mut memories, fill), None);
            }
            let room = gates.iter().filter_map(|gate| gate.room(&rule, &memories)).min().unwrap();
            assert!(room > 100, "{shift}: {room}");
            for target in 0..3 {
                let (mut gates, mut memories) = (gates, memories);
                for _ in 0..room {
                    gates[target].add(&rule, &mut memories, 1);
                    assert!(gates.iter().all(|gate| !gate.is_full(&rule, &memories) && gate.over == 0));
                }
            }
            let (mut own, mut other, mut same) = (gates[1], gates[1], memories);
            own.add(&rule, &mut memories, 75);
            assert_eq!(other.store(&rule, &mut same, 75), None);
            assert_eq!((own.fill, own.over, memories[0].used), (other.fill, other.over, same[0].used));
        }
        let (rule, none) = (Rule::Fixed { xoff: 300, xon: 100, headroom: 150 }, []);
        let gate = |fill| Gate { fill, over: 0 };
        assert_eq!([0, 300, 301].map(|fill| gate(fill).room(&rule, &none)), [Some(300), Some(0), None]);
        assert_eq!(Gate { fill: 200, over: 1 }.room(&shared(0), &memory(10_000)), None);
    }

    /// With k lanes of incast, each lane uses a = 2^-shift of the free memory, so T = a B / (1 + k a).
    #[test]
    fn incast_uses_the_memory_to_the_steady_threshold() {
        for (shift, lanes) in [(0, 1), (0, 4), (1, 3), (3, 5), (-2, 3)] {
            let (rule, mut memories) = (shared(shift), memory(1_000_000));
            let mut gates = vec![Gate::default(); lanes];
            while gates.iter().any(|gate| !gate.is_full(&rule, &memories)) {
                for gate in &mut gates {
                    if !gate.is_full(&rule, &memories) {
                        assert_eq!(gate.store(&rule, &mut memories, 1), None);
                    }
                }
            }
            let a = 2f64.powi(-i32::from(shift));
            let law = a * 1e6 / (1.0 + lanes as f64 * a);
            for gate in &gates {
                let used = gate.shared_bytes(100) as f64;
                assert!((used - law).abs() <= 2.0 + lanes as f64 * a, "{shift} {lanes}: {used}, not {law}");
            }
        }
    }

    #[test]
    fn headroom_is_used_beyond_the_threshold_and_freed_first() {
        let (rule, mut memories) = (shared(1), memory(400));
        let mut gate = Gate::default();
        assert_eq!(gate.store(&rule, &mut memories, 200), None);
        assert_eq!((gate.fill, memories[0].used), (200, 100), "the reserve does not count");
        assert!(!gate.is_full(&rule, &memories), "100 of 150 bytes");
        // 150 bytes would exceed the threshold of 150 bytes together with the 100 in use.
        assert_eq!(gate.store(&rule, &mut memories, 150), None);
        assert_eq!((gate.fill, gate.over, memories[0].headroom_used), (200, 150, 150));
        assert!(gate.is_full(&rule, &memories));
        gate.remove(&rule, &mut memories, 200);
        assert_eq!((gate.fill, gate.over, memories[0].used), (150, 0, 50));
        assert!(gate.is_low(&rule, &memories), "50 + 50 of 175 bytes");
        memories[0].resume_offset = 126;
        assert!(!gate.is_low(&rule, &memories));
        gate.remove(&rule, &mut memories, 50);
        assert!(gate.is_low(&rule, &memories), "it uses no shared memory");
    }

    #[test]
    fn the_headroom_of_a_lane_and_of_the_switch_are_limits() {
        let (rule, mut memories) = (shared(10), memory(1_000));
        let mut gates = [Gate::default(); 2];
        assert_eq!(gates[0].store(&rule, &mut memories, 300), None);
        assert_eq!(gates[0].store(&rule, &mut memories, 100), None, "the reserve is free");
        let lack = gates[1].store(&rule, &mut memories, 101);
        assert_eq!(lack, Some(Lack { missing: 1, headroom: 400, is_pool: true }));
        let lack = gates[0].store(&rule, &mut memories, 1);
        assert_eq!(lack, Some(Lack { missing: 1, headroom: 300, is_pool: false }));
    }

    #[test]
    fn a_large_threshold_does_not_exceed_the_memory() {
        let (rule, mut memories) = (shared(-3), memory(200));
        let mut gate = Gate::default();
        assert_eq!(gate.store(&rule, &mut memories, 250), None);
        assert_eq!((memories[0].used, gate.over), (150, 0));
        assert_eq!(gate.store(&rule, &mut memories, 51), None);
        assert_eq!((memories[0].used, gate.over), (150, 51), "only 50 bytes were free");
    }
}
