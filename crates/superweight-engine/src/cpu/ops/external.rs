//! Adds a scaled external gradient.

use crate::cpu::buffer::Views;
use crate::cpu::rows::map_flat;
use crate::cpu::vector::vectorised;
use crate::device::buffer::Write;
use crate::device::call::external::Call;

pub(in crate::cpu) fn run(call: &Call, v: &Views<'_>) {
    let add = call.write == Write::Add;
    map_flat(v.read(call.x), v.write(call.dx), |x, dx| scaled(x, dx, call.weight, add));
}

vectorised! {
    fn scaled(x: &[f32], dx: &mut [f32], weight: f32, add: bool) {
        x.iter().zip(dx).for_each(|(x, dx)| *dx = if add { *dx + weight * x } else { weight * x });
    }
}
