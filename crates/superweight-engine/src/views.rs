//! Views of a bank: tensors that are looked at in a flat array of trainable numbers, before [`crate::Mix`] makes weights of them.
//!
//! ```text
//! M[s, t] = bank[at + s·C' + t]        W[r, j] = Σ weight(r, s)·weight(j, t)·M[s, t]        W[r, i] *= row[r]·column[i]
//! ```
//!
//! M is a matrix of output channels times C' = inputs·positions columns in PyTorch's order (OIHW: positions are innermost), so
//! that a bank holds what it would hold there. W is M stretched to the tensor's shape (`views/axis.rs`), bilinearly where it is
//! larger and number by number where it is not. It is written OHWI, like all blocks and weights. A slice may be multiplied by
//! factors of its outputs and inputs, which are trained too (BatchEnsemble).
//!
//! Views may look at the same numbers, and do: that is how layers share them. Backward gathers the gradients of all views of a
//! number, in their order.

pub(crate) mod axis;

use crate::device::{Device, Memory};
use crate::error::Error;
use crate::mix::Block;
use crate::program::{Element, Region, Space};

/// A tensor looked at in a bank of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Where it is written: as many parameters as its shape has.
    pub tensor: Region,
    /// Shape of the tensor.
    pub shape: Block,
    /// First number in the bank.
    pub at: usize,
    /// Rows and columns that it is stretched from; those of its shape for a plain slice.
    pub from: [usize; 2],
    /// What a slice is multiplied by.
    pub factors: Option<RankOne>,
}

/// Factors of a slice: their product is a matrix of rank one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankOne {
    /// One for every row of the tensor.
    pub rows: Region,
    /// One for every column, all positions alike.
    pub cols: Region,
}

impl View {
    /// Numbers of the bank that it looks at.
    pub fn source_len(&self) -> usize {
        self.from[0] * self.source_row()
    }

    /// Whether it is a slice, not stretched.
    pub fn is_plain(&self) -> bool {
        self.from == [self.shape.rows, self.shape.cols]
    }

    /// Numbers of a row of the tensor.
    pub(crate) fn row(&self) -> usize {
        self.shape.positions * self.shape.cols
    }

    /// Numbers of a row that is looked at.
    pub(crate) fn source_row(&self) -> usize {
        self.from[1] * self.shape.positions
    }
}

/// A bank and what is looked at in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewSet {
    /// For errors.
    pub name: String,
    /// Its numbers.
    pub bank: Region,
    /// Gradients are added in their order.
    pub views: Vec<View>,
}

impl ViewSet {
    /// Which views look at numbers of the bank from the first to before the second.
    pub(crate) fn touching(&self, [first, end]: [usize; 2]) -> impl Iterator<Item = usize> {
        let touches = move |view: &View| view.at < end && first < view.at + view.source_len();
        self.views.iter().enumerate().filter(move |(_, view)| touches(view)).map(|(index, _)| index)
    }
}

/// Sets checked and prepared for a device.
#[derive(Debug)]
pub struct Views<D: Device> {
    sets: Vec<ViewSet>,
    viewer: D::Viewer,
    /// Numbers of the parameters up to the end of the last bank or tensor.
    numbers: usize,
}

impl<D: Device> Views<D> {
    /// Checks that views lie in their banks and that no number is written twice.
    pub fn new(device: &D, sets: Vec<ViewSet>) -> Result<Self, Error> {
        for set in &sets {
            check_set(set)?;
        }
        let numbers = check_overlaps(&sets)?;
        let viewer = device.prepare_views(&sets)?;
        Ok(Self { sets, viewer, numbers })
    }

    /// The sets.
    pub fn sets(&self) -> &[ViewSet] {
        &self.sets
    }

    /// What the device prepared for them.
    pub fn viewer(&self) -> &D::Viewer {
        &self.viewer
    }
}

impl<D: Device> Memory<D> {
    /// Writes every tensor from what it looks at.
    pub fn view(&mut self, views: &Views<D>) -> Result<(), Error> {
        self.check_views(views)?;
        let device = self.device().clone();
        device.view(views, &mut self.storages);
        Ok(())
    }

    /// Turns the gradients of tensors into those of banks, overwriting these. Numbers that nobody looks at have none.
    pub fn view_backward(&mut self, views: &Views<D>) -> Result<(), Error> {
        self.check_views(views)?;
        let device = self.device().clone();
        device.view_backward(views, &mut self.storages);
        Ok(())
    }

    fn check_views(&self, views: &Views<D>) -> Result<(), Error> {
        let have = self.layout().parameter_numbers;
        match have < views.numbers {
            true => Err(Error::MemoryTooSmall {
                space: Space::Parameters.name(),
                need: 4 * views.numbers,
                have: 4 * have,
            }),
            false => Ok(()),
        }
    }
}

fn check_set(set: &ViewSet) -> Result<(), Error> {
    let wrong = |problem: String| Err(Error::Views { set: set.name.clone(), problem });
    // Devices may hold weights in another width.
    let is_plain = |region: Region| {
        region.space == Space::Parameters && region.element == Element::Float && region.len > 0
    };
    if !is_plain(set.bank) {
        return wrong("the bank is not of parameters in 32 bits".into());
    }
    for (index, view) in set.views.iter().enumerate() {
        let wrong = |problem: String| wrong(format!("view {index}: {problem}"));
        let View { tensor, shape, at, from: [rows, cols], factors } = *view;
        if shape.is_empty() {
            return wrong(format!("{shape:?} has no numbers"));
        }
        if !is_plain(tensor) {
            return wrong("the tensor is not of parameters in 32 bits".into());
        }
        if tensor.len != shape.len() {
            return wrong(format!("the tensor has {} numbers, not those of {shape:?}", tensor.len));
        }
        if rows == 0 || cols == 0 {
            return wrong("it is stretched from nothing".into());
        }
        if rows > shape.rows || cols > shape.cols {
            return wrong(format!(
                "{rows}×{cols} is larger than {shape:?}: only stretching is known"
            ));
        }
        if let Some(RankOne { rows, cols }) = factors {
            if !view.is_plain() {
                return wrong("only slices have factors, and it is stretched".into());
            }
            if !is_plain(rows) || !is_plain(cols) {
                return wrong("its factors are not of parameters in 32 bits".into());
            }
            if [rows.len, cols.len] != [shape.rows, shape.cols] {
                let (rows, cols) = (rows.len, cols.len);
                return wrong(format!(
                    "{rows} factors of rows and {cols} of columns are not those of {shape:?}"
                ));
            }
        }
        let (len, have) = (view.source_len(), set.bank.len);
        if at > have || len > have - at {
            return wrong(format!("{len} numbers from {at} on lie outside the bank of {have}"));
        }
    }
    Ok(())
}

/// Checks that no bank or tensor overlaps another; gives the end of the last.
fn check_overlaps(sets: &[ViewSet]) -> Result<usize, Error> {
    let mut all = vec![];
    for set in sets {
        all.push((set.bank, set, "the bank".to_owned()));
        let tensors = set.views.iter().enumerate();
        all.extend(tensors.map(|(i, view)| (view.tensor, set, format!("the tensor of view {i}"))));
        for (i, factors) in
            set.views.iter().enumerate().filter_map(|(i, view)| Some((i, view.factors?)))
        {
            let what = format!("a factor of view {i}");
            all.extend([factors.rows, factors.cols].map(|region| (region, set, what.clone())));
        }
    }
    all.sort_by_key(|(region, ..)| region.offset);
    let end = |region: &Region| region.offset + region.len;
    for pair in all.windows(2) {
        let [(before, other, whose), (region, set, what)] = pair else { continue };
        if region.offset < end(before) {
            let problem = format!("{what} overlaps {whose} of `{}`", other.name);
            return Err(Error::Views { set: set.name.clone(), problem });
        }
    }
    Ok(all.last().map_or(0, |(region, ..)| end(region)))
}
