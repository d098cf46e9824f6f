//! 3×3 convolution with stride 1 by Winograd's F(4×4, 3×3): 36 products instead of 144.
//!
//! ```text
//! y-tile = Aᵀ [ Σ_i (G w_oi Gᵀ) ⊙ (Bᵀ x-tile_i B) ] A
//! ```
//!
//! See Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*; the points are chosen
//! for accuracy (`transform`). The sum over channels makes each of the 36 points a matrix product
//! over tiles, on the same register tile as the direct convolution. A task takes a block of tiles
//! through all three steps while they are in its cache. Backward to the data is the same with a
//! rotated kernel. Backward to the weight (`weight`) is the adjoint.
//!
//! The table shows the speed relative to the direct convolution, and the relative L2 error of both
//! against f64. Both algorithms ran alternately in one process: CPU time of one thread, AVX-512,
//! weight transform included, on a machine with other load, so accurate to about 15%. The bench
//! `conv` has the same shapes.
//!
//! | channels, image, batch | y | dx | dw | error of y, dw | direct |
//! |---|---|---|---|---|---|
//! | 16, 32×32, 128 | 1.9× | 1.9× | 1.9× | | |
//! | 32, 32×32, 32 | 1.9× | 1.9× | 1.9× | 6.4e-7, 1.8e-7 | 3.0e-7, 1.1e-7 |
//! | 64, 16×16, 32 | 2.2× | 2.3× | 2.6× | 8.3e-7, 2.4e-7 | 4.2e-7, 1.2e-7 |
//! | 128, 8×8, 32 | 1.8× | 2.0× | 2.8× | 1.1e-6, 6.8e-7 | 5.7e-7, 1.7e-7 |
//! | 256, 8×8, 32 | 2.1× | 2.2× | 3.8× | 1.4e-6, 8.2e-7 | 7.9e-7, 2.1e-7 |
//!
//! Not used: F(2×2, 3×3), which needs 1.8 times the multiplications for a third of the error
//! (simulated, not built).

mod product;
mod tiling;
mod transform;
mod weight;

pub(super) use product::Winograd;
pub(super) use weight::WinogradWeight;
