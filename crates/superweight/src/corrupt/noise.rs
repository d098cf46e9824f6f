//! Noise that changes every value independently: gaussian, shot, impulse and speckle.

use super::dice::Dice;
use super::grid::Grid;
use super::kind::Severity;

/// Changes every value.
fn each(mut x: Grid, change: impl FnMut(&mut f64)) -> Grid {
    x.values.iter_mut().for_each(change);
    x
}

/// Adds normal noise.
pub(super) fn gaussian(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let std = severity.of([0.04, 0.06, 0.08, 0.09, 0.10]);
    each(x, |v| *v += std * dice.normal())
}

/// Poisson noise: a value v becomes a count of photons with mean v·c, divided by c.
pub(super) fn shot(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let photons = severity.of([500.0, 250.0, 100.0, 75.0, 50.0]);
    each(x, |v| *v = dice.poisson(*v * photons) / photons)
}

/// Sets a fraction of the values to 0 or 1.
pub(super) fn impulse(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let amount = severity.of([0.01, 0.02, 0.03, 0.05, 0.07]);
    each(x, |v| {
        if dice.unit() <= amount {
            *v = f64::from(dice.unit() <= 0.5);
        }
    })
}

/// Adds normal noise that is proportional to the value.
pub(super) fn speckle(x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let std = severity.of([0.06, 0.1, 0.12, 0.16, 0.2]);
    each(x, |v| *v += *v * std * dice.normal())
}
