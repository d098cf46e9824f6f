//! 3×3 convolution with stride 1 by Winograd's F(4×4, 3×3): 36 products where the definition takes 144.
//!
//! ```text
//! y-tile = Aᵀ [ Σ_i (G w_oi Gᵀ) ⊙ (Bᵀ x-tile_i B) ] A
//! ```
//!
//! Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, with points chosen for accuracy
//! (`transform`). The sum over channels makes each of the 36 points a matrix product over tiles, on the same
//! register tile as the direct convolution. A task takes a block of tiles through all three steps while they are
//! in its cache. Backward to the data is the same with the kernel turned around; backward to the weight
//! (`weight`) is its adjoint.

mod product;
mod tiling;
mod transform;
mod weight;

pub(super) use product::Winograd;
pub(super) use weight::WinogradWeight;
