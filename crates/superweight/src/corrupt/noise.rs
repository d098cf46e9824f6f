//! Noise of every number by itself.

use super::Severity;
use super::dice::Dice;
use super::grid::Grid;

fn each(mut x: Grid, change: impl FnMut(&mut f64)) -> Grid {
    x.values.iter_mut().for_each(change);
    x
}

pub(super) fn gaussian(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let deviation = severity.of([0.04, 0.06, 0.08, 0.09, 0.10]);
    each(x, |v| *v += deviation * dice.normal())
}

/// Photons counted: v·c of them on average.
pub(super) fn shot(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let photons = severity.of([500.0, 250.0, 100.0, 75.0, 50.0]);
    each(x, |v| *v = dice.poisson(*v * photons) / photons)
}

pub(super) fn impulse(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let amount = severity.of([0.01, 0.02, 0.03, 0.05, 0.07]);
    each(x, |v| {
        if dice.unit() <= amount {
            *v = f64::from(dice.unit() <= 0.5);
        }
    })
}

pub(super) fn speckle(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let deviation = severity.of([0.06, 0.1, 0.12, 0.16, 0.2]);
    each(x, |v| *v += *v * deviation * dice.normal())
}
