//! Notes about the values of a saved state: how they change if a run repeats what it did. See [`crate::repeats`].

/// How a value changes from one repetition to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It does not change.
    State,
    /// A time that has the same distance from the time of the state. A time that is [`crate::Time::NEVER`] stays so.
    Time,
    /// A count that only results contain. It grows by the same amount.
    Count,
    /// A maximum that only results contain. It does not change, because the first repetition has the same values.
    Most,
    /// A time that only results contain, or that does not matter once it is past. It has the same distance from the time of the
    /// state if the repetition sets it; otherwise, it does not change.
    Latest,
    /// A time that matters only while it is in the future.
    Past,
    /// A duration of type [`crate::Time`]. It does not change.
    Span,
    /// A number that grows by the same amount as all other numbers of this series.
    Serial(u32),
    /// A number of which only the order among others matters. It does not change.
    Order,
    /// A value without a meaning. It does not change.
    Any,
}

/// A value of a state: its bytes, and its rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub len: u32,
    pub change: Change,
    /// For [`Change::Order`]: the group of the numbers.
    pub order: u32,
    /// The type and the field that contain the value.
    pub label: &'static str,
}

/// The notes about the values of a state, in order.
#[derive(Debug)]
pub(crate) struct Notes {
    pub tokens: Vec<Token>,
    pub label: &'static str,
    /// What holds for the values that follow.
    pub change: Change,
    /// Number of series so far.
    pub series: u32,
    /// Number of groups of which only the order matters, so far.
    pub orders: u32,
    /// See [`crate::saved::Writer::number_operations`].
    pub operations: u32,
    /// See [`crate::saved::Writer::number_rows`].
    pub rows: u32,
}

impl Notes {
    pub fn new() -> Self {
        Self {
            tokens: Vec::new(),
            label: "",
            change: Change::State,
            series: 0,
            orders: 0,
            operations: 0,
            rows: 0,
        }
    }

    /// Adds a value. Neighboring values that do not change are one.
    pub fn add(&mut self, len: usize, change: Change) {
        let len = len as u32;
        if change == Change::State
            && let Some(last) = self.tokens.last_mut()
            && last.change == change
            && std::ptr::eq(last.label, self.label)
        {
            last.len += len;
            return;
        }
        self.tokens.push(Token { len, change, order: self.orders, label: self.label });
    }

    /// Adds a number of at least four bytes.
    pub fn number(&mut self, len: usize) {
        let change = match self.change {
            Change::Time | Change::Latest | Change::Past | Change::Order if len != 8 => Change::State,
            Change::Span => Change::State,
            change => change,
        };
        self.add(len, change);
    }

    /// Adds a time.
    pub fn time(&mut self) {
        let change = match self.change {
            Change::State | Change::Order => Change::Time,
            Change::Span => Change::State,
            change => change,
        };
        self.add(8, change);
    }
}
