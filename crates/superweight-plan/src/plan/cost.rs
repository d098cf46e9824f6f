//! What template sets cost: templates, and coefficients live and reserved.

/// What one template set costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SetCost {
    /// Numbers in one template's block.
    pub block: u64,
    /// Numbers in its pattern; 0 where there are none.
    pub pattern: u64,
    /// Cells of all layers that are made from the set.
    pub uses: u64,
    /// Weights in those cells: a cell at the edge of a layer may be cut.
    pub weights: u64,
    /// Coefficient rows under the present groups.
    pub live_rows: u64,
    /// Coefficient rows if every layer had its own.
    pub own_rows: u64,
    /// Relative depth of the shallowest layer that uses the set.
    pub depth: f64,
}

/// Templates and coefficients so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    /// Template numbers.
    pub templates: u64,
    /// Coefficients under the present groups.
    pub live: u64,
    /// Coefficients if every layer had its own.
    pub own: u64,
}

impl Ledger {
    /// The sum over sets with these K.
    pub fn of(sets: &[SetCost], counts: &[usize]) -> Self {
        sets.iter().zip(counts).fold(Self::default(), |ledger, (set, &k)| ledger.changed(set, 0, k))
    }

    /// Coefficients charged: what lives, or the reserve where that is more.
    pub fn charged(&self, reserve: f64) -> u64 {
        self.live.max((reserve * self.own as f64).ceil() as u64)
    }

    /// All that is charged.
    pub fn total(&self, reserve: f64) -> u64 {
        self.templates + self.charged(reserve)
    }

    pub fn changed(self, set: &SetCost, from: usize, to: usize) -> Self {
        let coefficients = |k: usize, rows: u64| if k < 2 { 0 } else { k as u64 * rows };
        let step = |sum: u64, f: &dyn Fn(usize) -> u64| sum + f(to) - f(from);
        Self {
            templates: step(self.templates, &|k| {
                k as u64 * set.block + coefficients(k, set.pattern)
            }),
            live: step(self.live, &|k| coefficients(k, set.live_rows)),
            own: step(self.own, &|k| coefficients(k, set.own_rows)),
        }
    }
}
