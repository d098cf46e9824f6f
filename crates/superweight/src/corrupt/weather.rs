//! Snow, frost and fog.

use super::blur::{Line, line};
use super::dice::Dice;
use super::grid::{Grid, SIDE};
use super::kind::{CorruptError, Severity};

/// One of so many rows and columns of a texture is used, the middle one.
const TEXTURE_STEP: usize = 5;

/// A photograph of frost, reduced to the size from which patches are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrostTexture {
    rows: usize,
    cols: usize,
    pixels: Vec<u8>,
}

impl FrostTexture {
    /// Reduces the pixels of a texture file, `[row][column][channel]`.
    ///
    /// # Panics
    /// Panics unless there are three bytes per pixel.
    pub fn new(rows: usize, cols: usize, rgb: &[u8]) -> Result<Self, CorruptError> {
        assert_eq!(rgb.len(), rows * cols * 3, "a texture has three bytes per pixel");
        let least = TEXTURE_STEP * (SIDE + 1);
        if rows < least || cols < least {
            return Err(CorruptError::TextureTooSmall { rows, cols, least });
        }
        let (small_rows, small_cols) = (rows / TEXTURE_STEP, cols / TEXTURE_STEP);
        let middle = |i: usize| i * TEXTURE_STEP + TEXTURE_STEP / 2;
        let mut pixels = Vec::with_capacity(small_rows * small_cols * 3);
        for (row, col) in (0..small_rows).flat_map(|row| (0..small_cols).map(move |col| (row, col)))
        {
            pixels.extend_from_slice(&rgb[(middle(row) * cols + middle(col)) * 3..][..3]);
        }
        Ok(Self { rows: small_rows, cols: small_cols, pixels })
    }
}

/// All five textures, in the order of [`FROST_FILES`](super::FROST_FILES).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrostTextures(pub [FrostTexture; 5]);

/// Adds a random patch of a random texture.
pub(super) fn frost(
    mut x: Grid,
    severity: Severity,
    textures: &FrostTextures,
    dice: &mut Dice,
) -> Grid {
    let (of_image, of_frost) =
        severity.of([(1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)]);
    let texture = &textures.0[dice.below(textures.0.len())];
    let (top, left) = (dice.below(texture.rows - SIDE), dice.below(texture.cols - SIDE));
    for row in 0..SIDE {
        let cut = &texture.pixels[((top + row) * texture.cols + left) * 3..][..SIDE * 3];
        let values = x.values[row * SIDE * 3..][..SIDE * 3].iter_mut();
        values
            .zip(cut)
            .for_each(|(v, &frost)| *v = of_image * *v + of_frost * f64::from(frost) / 255.0);
    }
    x
}

/// Adds flakes, which are the peaks of magnified noise with motion blur, and brightens the image.
pub(super) fn snow(mut x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let [mean, std, zoom, threshold, radius, blur, kept] = severity.of([
        [0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.95],
        [0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.9],
        [0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.9],
        [0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.85],
        [0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.8],
    ]);
    let mut flakes = Grid::layer(|| mean + std * dice.normal()).zoom(zoom);
    flakes.values.iter_mut().filter(|v| **v < threshold).for_each(|v| *v = 0.0);
    let angle = dice.uniform(-135.0, -45.0);
    let flakes = line(&flakes.to_bytes(), 1, Line { radius, std: blur, angle });
    let last = flakes.len() - 1;
    for (i, pixel) in x.values.chunks_exact_mut(3).enumerate() {
        let gray = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
        let snow = (f64::from(flakes[i]) + f64::from(flakes[last - i])) / 255.0;
        pixel
            .iter_mut()
            .for_each(|v| *v = kept * *v + (1.0 - kept) * v.max(gray * 1.5 + 0.5) + snow);
    }
    x
}

/// Adds a fractal haze.
pub(super) fn fog(mut x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let (amount, decay) =
        severity.of([(0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)]);
    let largest = x.values.iter().copied().fold(0.0, f64::max);
    let haze = plasma(decay, dice);
    for (pixel, haze) in x.values.chunks_exact_mut(3).zip(haze) {
        pixel.iter_mut().for_each(|v| *v = (*v + amount * haze) * largest / (largest + amount));
    }
    x
}

/// Height map from 0 to 1 by the diamond-square algorithm on a torus.
fn plasma(decay: f64, dice: &mut Dice) -> Vec<f64> {
    let mut map = vec![0.0; SIDE * SIDE];
    let (mut step, mut wibble) = (SIDE, 100.0);
    while step >= 2 {
        let half = step / 2;
        let at = |map: &[f64], row: usize, col: usize| map[row % SIDE * SIDE + col % SIDE];
        let mut set = |map: &mut Vec<f64>, row: usize, col: usize, sum: f64| {
            map[row * SIDE + col] = sum / 4.0 + wibble * dice.uniform(-wibble, wibble);
        };
        let corners =
            || (0..SIDE).step_by(step).flat_map(|r| (0..SIDE).step_by(step).map(move |c| (r, c)));
        for (r, c) in corners() {
            let sum = at(&map, r, c)
                + at(&map, r + step, c)
                + at(&map, r, c + step)
                + at(&map, r + step, c + step);
            set(&mut map, r + half, c + half, sum);
        }
        for (r, c) in corners() {
            let centers = at(&map, r + half, c + half) + at(&map, r + SIDE - half, c + half);
            let sum = centers + at(&map, r, c) + at(&map, r, c + step);
            set(&mut map, r, c + half, sum);
        }
        for (r, c) in corners() {
            let centers = at(&map, r + half, c + half) + at(&map, r + half, c + SIDE - half);
            let sum = centers + at(&map, r, c) + at(&map, r + step, c);
            set(&mut map, r + half, c, sum);
        }
        step /= 2;
        wibble /= decay;
    }
    let lowest = map.iter().copied().fold(f64::INFINITY, f64::min);
    map.iter_mut().for_each(|v| *v -= lowest);
    let highest = map.iter().copied().fold(0.0, f64::max);
    map.iter_mut().for_each(|v| *v /= highest);
    map
}
