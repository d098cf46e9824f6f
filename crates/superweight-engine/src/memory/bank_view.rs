//! Checks bank views and applies them to a memory.

use super::memory::Memory;
use crate::device::Device;
use crate::device::bank_view::{BankView, BankViewSet, RankOne};
use crate::device::buffer::{Element, Region, Space};
use crate::error::Error;

/// Bank views, checked and prepared for a device.
#[derive(Debug)]
pub struct BankViews<D: Device> {
    sets: Vec<BankViewSet>,
    viewer: D::Viewer,
    /// End of the last bank or tensor in the parameter storage.
    end: usize,
}

impl<D: Device> BankViews<D> {
    /// Prepares sets of views. Fails if a view is outside its bank, or if two tensors or banks
    /// overlap.
    pub fn new(device: &D, sets: Vec<BankViewSet>) -> Result<Self, Error> {
        for set in &sets {
            check_set(set)?;
        }
        let end = check_overlaps(&sets)?;
        let viewer = device.prepare_views(&sets)?;
        Ok(Self { sets, viewer, end })
    }

    /// Sets of views.
    pub fn sets(&self) -> &[BankViewSet] {
        &self.sets
    }

    /// Prepared form of the views.
    pub fn viewer(&self) -> &D::Viewer {
        &self.viewer
    }
}

impl<D: Device> Memory<D> {
    /// Computes every tensor from its slice of a bank.
    pub fn apply_views(&mut self, views: &BankViews<D>) -> Result<(), Error> {
        self.check_views(views)?;
        let device = self.device().clone();
        device.apply_views(&views.viewer, &mut self.storages);
        Ok(())
    }

    /// Computes gradients of the banks from gradients of the tensors and overwrites them. Bank
    /// elements that no view reads get zero.
    pub fn apply_views_backward(&mut self, views: &BankViews<D>) -> Result<(), Error> {
        self.check_views(views)?;
        let device = self.device().clone();
        device.apply_views_backward(&views.viewer, &mut self.storages);
        Ok(())
    }

    fn check_views(&self, views: &BankViews<D>) -> Result<(), Error> {
        let have = self.layout().parameter_len;
        match have < views.end {
            true => Err(Error::MemoryTooSmall {
                space: Space::Parameters.name(),
                need: 4 * views.end,
                have: 4 * have,
            }),
            false => Ok(()),
        }
    }
}

fn check_set(set: &BankViewSet) -> Result<(), Error> {
    let wrong = |problem: String| Err(Error::BankViews { set: set.name.clone(), problem });
    // Only f32 parameters qualify: a device may store weights in another width.
    let is_plain = |region: Region| {
        region.space == Space::Parameters && region.element == Element::Float && region.len > 0
    };
    if !is_plain(set.bank) {
        return wrong("the bank is not a region of f32 parameters".into());
    }
    for (index, view) in set.views.iter().enumerate() {
        let wrong = |problem: String| wrong(format!("view {index}: {problem}"));
        let BankView { tensor, shape, at, from: [rows, cols], factors } = *view;
        if shape.is_empty() {
            return wrong(format!("{shape:?} has no elements"));
        }
        if !is_plain(tensor) {
            return wrong("the tensor is not a region of f32 parameters".into());
        }
        if tensor.len != shape.len() {
            return wrong(format!(
                "the tensor has {} elements, which is not the size of {shape:?}",
                tensor.len
            ));
        }
        if rows == 0 || cols == 0 {
            return wrong("the slice has no rows or columns".into());
        }
        if rows > shape.rows || cols > shape.cols {
            return wrong(format!(
                "{rows}×{cols} is larger than {shape:?}: a view cannot shrink a slice"
            ));
        }
        if let Some(RankOne { rows, cols }) = factors {
            if !view.is_plain() {
                return wrong("a view with interpolation cannot have factors".into());
            }
            if !is_plain(rows) || !is_plain(cols) {
                return wrong("the factors are not regions of f32 parameters".into());
            }
            if [rows.len, cols.len] != [shape.rows, shape.cols] {
                let (rows, cols) = (rows.len, cols.len);
                return wrong(format!(
                    "{rows} row factors and {cols} column factors do not match {shape:?}"
                ));
            }
        }
        let (len, have) = (view.source_len(), set.bank.len);
        if at > have || len > have - at {
            return wrong(format!("{len} elements from {at} exceed the bank of {have}"));
        }
    }
    Ok(())
}

/// Checks that no bank or tensor overlaps another. Returns the end of the last.
fn check_overlaps(sets: &[BankViewSet]) -> Result<usize, Error> {
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
            return Err(Error::BankViews { set: set.name.clone(), problem });
        }
    }
    Ok(all.last().map_or(0, |(region, ..)| end(region)))
}
