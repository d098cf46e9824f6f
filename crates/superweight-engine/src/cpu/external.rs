//! A gradient from outside, scaled.

use super::buffer::Views;
use super::rows::map_flat;
use super::vector::vectorised;
use crate::ops::Write;
use crate::ops::external::Call;

pub(super) fn run(call: &Call, v: &Views<'_>) {
    let add = call.write == Write::Add;
    map_flat(v.read(call.x), v.write(call.dx), |x, dx| scaled(x, dx, call.weight, add));
}

vectorised! {
    fn scaled(x: &[f32], dx: &mut [f32], weight: f32, add: bool) {
        x.iter().zip(dx).for_each(|(x, dx)| *dx = if add { *dx + weight * x } else { weight * x });
    }
}
