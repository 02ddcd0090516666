//! The fields of formats, and what their readers do with them.

use std::collections::BTreeSet;

use crate::error::clip;

/// What a reader does with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// The field affects the result.
    Used,
    /// The field is ignored, and a note names it.
    Noted,
    /// The field, or each value of it that would have an effect, is an error.
    Refused,
    /// A name or remark, which cannot affect a result.
    Text,
}

/// A field of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name of the field in the format or, if it has no name there, its meaning.
    pub name: &'static str,
    /// What the reader does with the field.
    pub handling: Handling,
}

/// The fields of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The format.
    pub format: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

impl Fields {
    /// What the reader does with a field; `None` if the format does not define the field.
    #[must_use]
    pub fn handling(&self, name: &str) -> Option<Handling> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.handling)
    }
}

/// A field that affects the result.
#[must_use]
pub const fn used(name: &'static str) -> Field {
    Field { name, handling: Handling::Used }
}

/// A field that is ignored with a note.
#[must_use]
pub const fn noted(name: &'static str) -> Field {
    Field { name, handling: Handling::Noted }
}

/// A field that is refused.
#[must_use]
pub const fn refused(name: &'static str) -> Field {
    Field { name, handling: Handling::Refused }
}

/// A field that cannot affect a result.
#[must_use]
pub const fn text(name: &'static str) -> Field {
    Field { name, handling: Handling::Text }
}

/// Chakra execution traces. The names are those of the binary form. Other attributes of nodes are noted. Those of the
/// metadata describe how the trace was made.
pub const CHAKRA: Fields = Fields {
    format: "chakra",
    fields: &[
        used("id"),
        text("name"),
        text("Name"),
        text("workload_name"),
        text("version"),
        text("doc_string"),
        used("type"),
        noted("ctrl_deps"),
        used("data_deps"),
        noted("start_time_micros"),
        used("duration_micros"),
        noted("inputs"),
        noted("outputs"),
        used("is_cpu_op"),
        used("num_ops"),
        used("tensor_size"),
        used("comm_size"),
        used("comm_type"),
        used("comm_src"),
        used("comm_dst"),
        used("comm_tag"),
        used("comm_root"),
        used("root"),
        used("pg_name"),
        refused("involved_dim"),
        noted("comm_priority"),
        noted("tensor_loc"),
        noted("storage"),
    ],
};

/// GOAL, as text.
pub const GOAL: Fields = Fields {
    format: "goal",
    fields: &[
        used("num_ranks"),
        used("rank"),
        used("label"),
        used("calc"),
        used("send"),
        used("recv"),
        used("size"),
        used("peer"),
        used("tag"),
        used("cpu"),
        used("requires"),
        used("irequires"),
        used("nic"),
    ],
};

/// SimGrid's time-independent traces.
pub const TI: Fields = Fields {
    format: "ti",
    fields: &[
        used("rank"),
        used("action"),
        used("init"),
        used("peer"),
        used("tag"),
        used("count"),
        used("datatype"),
        used("flops"),
        refused("waitany"),
    ],
};

/// VEF traces.
pub const VEF: Fields = Fields {
    format: "vef",
    fields: &[
        used("tasks"),
        used("messages"),
        used("communicators"),
        used("collectives"),
        used("local collectives"),
        noted("onlySend"),
        used("tasks of a communicator"),
        used("message"),
        used("source"),
        used("destination"),
        used("bytes"),
        used("dependency"),
        used("time"),
        used("of"),
        used("collective"),
        used("communicator"),
        used("operation"),
        used("task"),
        used("bytes that determine the operation"),
        noted("other bytes of the operation"),
    ],
};

/// GOAL, binary.
pub const GOAL_BINARY: Fields = Fields {
    format: "goal-binary",
    fields: &[
        used("number of ranks"),
        noted("highest cpu"),
        noted("highest nic"),
        used("start of a rank"),
        used("end of a rank"),
        used("number of operations"),
        used("roots"),
        used("number of dependencies"),
        used("kind"),
        used("peer"),
        used("size"),
        used("tag"),
        used("cpu"),
        used("nic"),
        used("operations that wait"),
        used("appendix"),
    ],
};

/// Text workloads of SimAI and ASTRA-sim.
pub const WORKLOAD: Fields = Fields {
    format: "workload",
    fields: &[
        used("policy"),
        used("model_parallel_NPU_group"),
        used("ep"),
        used("pp"),
        noted("vpp"),
        noted("ga"),
        noted("pp_comm"),
        used("all_gpus"),
        used("checkpoints"),
        used("checkpoint_initiates"),
        refused("DLRM_LAST_BOTTOM_LAYER"),
        used("number of layers"),
        text("name"),
        noted("dependency"),
        used("forward compute"),
        used("forward collective"),
        used("forward bytes"),
        used("input-gradient compute"),
        used("input-gradient collective"),
        used("input-gradient bytes"),
        used("weight-gradient compute"),
        used("weight-gradient collective"),
        used("weight-gradient bytes"),
        used("update"),
        refused("policy of a layer"),
    ],
};

/// Algorithms of MSCCL. A name is that of an element with that of its attribute. Other attributes are noted.
pub const MSCCL: Fields = Fields {
    format: "msccl",
    fields: &[
        text("algo.name"),
        text("algo.coll"),
        used("algo.ngpus"),
        used("algo.nchannels"),
        used("algo.nchunksperloop"),
        noted("algo.proto"),
        noted("algo.minBytes"),
        noted("algo.maxBytes"),
        text("algo.inplace"),
        text("algo.outofplace"),
        noted("algo.redop"),
        used("gpu.id"),
        used("gpu.i_chunks"),
        used("gpu.o_chunks"),
        used("gpu.s_chunks"),
        used("tb.id"),
        used("tb.send"),
        used("tb.recv"),
        used("tb.chan"),
        used("step.s"),
        used("step.type"),
        used("step.srcbuf"),
        used("step.srcoff"),
        used("step.dstbuf"),
        used("step.dstoff"),
        used("step.cnt"),
        used("step.depid"),
        used("step.deps"),
        text("step.hasdep"),
    ],
};

/// Maximum number of names in a note.
const MOST_NAMES: usize = 20;

/// Names of fields that a reader ignored.
#[derive(Debug, Default)]
pub(super) struct Ignored(BTreeSet<String>);

impl Ignored {
    /// Adds the name of a field of a format, unless it is a text.
    pub(super) fn add(&mut self, of: &Fields, name: &str) {
        let is_new = self.0.len() <= MOST_NAMES && !self.0.contains(name);
        if is_new && of.handling(name) != Some(Handling::Text) {
            self.0.insert(clip(name).trim_matches('`').to_owned());
        }
    }

    /// Adds the names in another set.
    pub(super) fn extend(&mut self, other: Self) {
        let room = (MOST_NAMES + 1).saturating_sub(self.0.len());
        let new: Vec<String> = other.0.into_iter().filter(|name| !self.0.contains(name)).take(room).collect();
        self.0.extend(new);
    }

    /// The first name.
    pub(super) fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// A note with the names, if there are any.
    pub(super) fn note(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let names: Vec<&str> = self.0.iter().take(MOST_NAMES).map(String::as_str).collect();
        let more = if self.0.len() > MOST_NAMES { " and others" } else { "" };
        Some(format!("not used: {}{more}", names.join(", ")))
    }
}
