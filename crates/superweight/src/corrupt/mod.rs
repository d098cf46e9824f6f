//! Generates the corruptions of CIFAR-10-C and CIFAR-100-C: 15 standard types and 4 extra ones,
//! severities 1 to 5.
//!
//! Types, constants and their order are those of the published generator for CIFAR (Hendrycks and
//! Dietterich 2019, `make_cifar_c.py`), including its peculiarities, since its output is the
//! benchmark. Deterministic types agree with it to 2/255 per pixel; random types agree in mean and
//! standard deviation (`tests/corruptions.rs`). Their noise is a function of (seed, type, severity,
//! image), so a data set is the same on every machine. Tables call such a data set *regenerated*:
//! it is near the published files, not equal.
//!
//! | file | types |
//! |---|---|
//! | `noise` | gaussian, shot, impulse, speckle |
//! | `blur` | defocus, glass, motion, zoom, gaussian |
//! | `weather` | snow, frost, fog |
//! | `digital` | brightness, contrast, saturate, pixelate, elastic |
//! | `jpeg`, `spatter` | one type each |
//! | `kind` | names of types, severities, errors |
//! | `grid`, `dice` | images of floating-point values with filters; random numbers |

mod blur;
mod dice;
mod digital;
mod grid;
mod jpeg;
mod kind;
mod noise;
mod spatter;
mod weather;

use crate::rng::Draws;
use dice::Dice;
use grid::Grid;
pub use grid::{IMAGE_LEN, SIDE};
pub use kind::{CorruptError, Corruption, FROST_FILES, Severity};
pub use weather::{FrostTexture, FrostTextures};

/// Corrupts images of 32×32 pixels.
#[derive(Clone, Debug)]
pub struct Corruptor {
    seed: u64,
    frost: Option<FrostTextures>,
}

impl Corruptor {
    /// Takes the seed of all noise, and the textures of frost, without which frost is an error.
    pub fn new(seed: u64, frost: Option<FrostTextures>) -> Self {
        Self { seed, frost }
    }

    /// Whether a type can be generated.
    pub fn can(&self, kind: Corruption) -> bool {
        kind != Corruption::Frost || self.frost.is_some()
    }

    /// Corrupts image number `index` of a data set.
    ///
    /// # Panics
    /// Panics unless the image has [`IMAGE_LEN`] bytes.
    pub fn corrupt(
        &self,
        kind: Corruption,
        severity: Severity,
        index: u64,
        image: &[u8],
    ) -> Result<Vec<u8>, CorruptError> {
        assert_eq!(image.len(), IMAGE_LEN, "corruptions are defined for {SIDE}×{SIDE} RGB images");
        let key = [self.seed, kind as u64, severity.get().into(), index];
        let dice = &mut Dice::new(Draws::new(&key));
        let x = || Grid::of_bytes(image);
        let out = match kind {
            Corruption::GaussianNoise => noise::gaussian(x(), severity, dice),
            Corruption::ShotNoise => noise::shot(x(), severity, dice),
            Corruption::ImpulseNoise => noise::impulse(x(), severity, dice),
            Corruption::SpeckleNoise => noise::speckle(x(), severity, dice),
            Corruption::DefocusBlur => blur::defocus(&x(), severity),
            Corruption::GlassBlur => blur::glass(&x(), severity, dice),
            Corruption::MotionBlur => {
                return Ok(blur::motion(image, severity, dice.uniform(-45.0, 45.0)));
            }
            Corruption::ZoomBlur => blur::zoom(&x(), severity),
            Corruption::GaussianBlur => blur::gaussian(&x(), severity),
            Corruption::Snow => weather::snow(x(), severity, dice),
            Corruption::Frost => {
                let textures = self.frost.as_ref().ok_or(CorruptError::NoTextures)?;
                weather::frost(x(), severity, textures, dice)
            }
            Corruption::Fog => weather::fog(x(), severity, dice),
            Corruption::Spatter => spatter::spatter(x(), severity, dice),
            Corruption::Brightness => digital::brightness(x(), severity),
            Corruption::Contrast => digital::contrast(x(), severity),
            Corruption::Saturate => digital::saturate(x(), severity),
            Corruption::Elastic => digital::elastic(&x(), severity, dice),
            Corruption::Pixelate => return Ok(digital::pixelate(image, severity)),
            Corruption::Jpeg => return Ok(jpeg::compress(image, severity)),
        };
        Ok(out.to_bytes())
    }

    /// Motion blur at an angle in degrees, which [`corrupt`](Self::corrupt) draws at random.
    pub fn motion_blur_at(&self, severity: Severity, angle: f64, image: &[u8]) -> Vec<u8> {
        blur::motion(image, severity, angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_a_function_of_seed_type_severity_and_index() {
        let image: Vec<u8> = (0..IMAGE_LEN).map(|i| (i * 7 % 251) as u8).collect();
        let make = |seed, index, kind| {
            Corruptor::new(seed, None).corrupt(kind, Severity::ALL[2], index, &image).unwrap()
        };
        for kind in Corruption::ALL.into_iter().filter(|&kind| kind != Corruption::Frost) {
            assert_eq!(make(1, 3, kind), make(1, 3, kind), "{kind}");
        }
        for kind in [
            Corruption::GaussianNoise,
            Corruption::Fog,
            Corruption::Spatter,
            Corruption::MotionBlur,
        ] {
            assert_ne!(make(1, 3, kind), make(1, 4, kind), "{kind}");
            assert_ne!(make(1, 3, kind), make(2, 3, kind), "{kind}");
        }
        let frost = Corruptor::new(1, None).corrupt(Corruption::Frost, Severity::ALL[0], 0, &image);
        assert_eq!(frost, Err(CorruptError::NoTextures));
    }
}
