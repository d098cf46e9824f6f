//! What template sets cost, in parameters.
//!
//! A set with K ≥ 2 templates needs coefficients: one row of K per cell and group of layers, or
//! with Kronecker tiling one row per group, besides a pattern parameter per cell and template. The
//! budget is charged max(live, reserve × own) coefficients: *live* are those of the present groups,
//! *own* those if every layer had its own, which refinement may create later.

/// The quantities of one template set that decide what its templates cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SetCost {
    /// Parameters in the block of one template; 0 where templates are read from a bank.
    pub block: u64,
    /// Parameters in the pattern of one template; 0 without patterns.
    pub pattern: u64,
    /// Number of cells that the set makes, over all layers.
    pub uses: u64,
    /// Number of weights in those cells. A cell at the edge of a layer may be clipped.
    pub weights: u64,
    /// Rows of coefficients with the present groups.
    pub live_rows: u64,
    /// Rows of coefficients if every layer had its own.
    pub own_rows: u64,
    /// Relative depth, 0 to 1, of the shallowest layer that uses the set.
    pub depth: f64,
}

/// Parameters of several sets, given their numbers of templates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    /// Parameters of blocks and patterns.
    pub templates: u64,
    /// Coefficients of the present groups.
    pub live: u64,
    /// Coefficients if every layer had its own.
    pub own: u64,
}

impl Ledger {
    /// Sums up sets with these numbers of templates.
    pub fn of(sets: &[SetCost], counts: &[usize]) -> Self {
        sets.iter().zip(counts).fold(Self::default(), |ledger, (set, &k)| ledger.changed(set, 0, k))
    }

    /// Coefficients that the budget is charged: the live ones, or the reserve if that is more.
    pub fn charged(&self, reserve: f64) -> u64 {
        self.live.max((reserve * self.own as f64).ceil() as u64)
    }

    /// Parameters that the budget is charged.
    pub fn total(&self, reserve: f64) -> u64 {
        self.templates + self.charged(reserve)
    }

    /// The sums after one set changes from `from` to `to` templates.
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
