//! Sizes the banks of clusters, and places the templates of their layers in them.
//!
//! *Stretched* tiling (Shapeshifter Networks): a layer of n weights whose cluster has a bank of P
//! parameters has K = ⌊P/n⌋ templates, from 1 to [`MAX_TEMPLATES`], and its own α. Templates are
//! adjacent slices of the bank, handed out in turn from layer to layer; layers of the most common
//! shape come first. A layer larger than the bank has one template: a smaller matrix with the
//! layer's proportions, at most [`MAX_SIDE`] of its sides, which is interpolated. The templates of
//! every second layer are aligned with the end of the bank, so that what one layer cannot read is
//! read by others.
//!
//! A layer that is alone in its cluster has as many parameters as weights, as in the authors' code,
//! while the other clusters keep half of the budget. The other clusters share the rest in
//! proportion to the weights they make.
//!
//! *Rank-one* tiling (BatchEnsemble): the layers of a cluster have one shape, the bank is one such
//! matrix, and all layers read it whole. They differ in a factor per output and per input.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::ids::LayerId;
use crate::layer::Layer;
use crate::partition::Partition;
use crate::plan::View;

/// Largest number of templates of a layer.
const MAX_TEMPLATES: u64 = 8;

/// Largest side of the template of a layer that is larger than its bank, as a fraction of the side
/// of the layer. The template is interpolated to the size of the layer.
const MAX_SIDE: f64 = 0.95;

/// The bank of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bank {
    /// Number of parameters.
    pub parameters: u64,
    /// Places of the templates of each layer.
    pub views: Vec<View>,
}

/// Smallest cost of a bank with the coefficients of its layers: one parameter per kernel position
/// and template.
pub(crate) fn min_cost(layers: &[&Layer], templates: Option<usize>) -> u64 {
    positions(layers) * templates.map_or(1, |k| k as u64) + coefficients(layers, 0, templates)
}

/// Number of positions in the largest kernel.
fn positions(layers: &[&Layer]) -> u64 {
    layers.iter().map(|layer| layer.kernel_area() as u64).max().unwrap_or(0)
}

/// Splits clusters until each has layers of one shape.
pub(crate) fn by_shape(layers: &[Layer], partition: Partition) -> Partition {
    let mut clusters = vec![];
    for ids in partition {
        let mut of_shape = BTreeMap::<_, Vec<LayerId>>::new();
        for id in ids {
            of_shape.entry(shape(&layers[id.0])).or_default().push(id);
        }
        clusters.extend(of_shape.into_values());
    }
    clusters.sort();
    clusters
}

/// Cost of a rank-one cluster: one matrix, and the factors of every layer.
pub(crate) fn matrix_and_factors(layers: &[&Layer]) -> u64 {
    let factors: usize = layers.iter().map(|layer| layer.out + layer.inp).sum();
    matrix(layers) + factors as u64
}

/// Banks of one matrix per cluster; `None` if `available` parameters do not pay for them and the
/// factors.
pub(crate) fn matrices(clusters: &[Vec<&Layer>], available: u64) -> Option<Vec<Bank>> {
    let needed: u64 = clusters.iter().map(|layers| matrix_and_factors(layers)).sum();
    let bank = |layers: &Vec<&Layer>| {
        let views = vec![View { at: vec![0], from: None }; layers.len()];
        Bank { parameters: matrix(layers), views }
    };
    (needed <= available).then(|| clusters.iter().map(bank).collect())
}

/// Number of parameters in the matrix of a rank-one cluster.
fn matrix(layers: &[&Layer]) -> u64 {
    layers.iter().map(|layer| layer.len()).max().unwrap_or(0)
}

/// Banks that cost at most `available` parameters with their coefficients; `None` if that is too
/// few.
///
/// With `templates`, every layer gets that many, one from each of as many equal parts of the bank.
pub(crate) fn banks(
    clusters: &[Vec<&Layer>],
    available: u64,
    templates: Option<usize>,
) -> Option<Vec<Bank>> {
    let needed = |layers: &Vec<&Layer>| min_cost(layers, templates);
    available.checked_sub(clusters.iter().map(needed).sum())?;
    let whole = whole(clusters, available, templates);
    let (own, shared): (Vec<_>, Vec<_>) =
        clusters.iter().zip(&whole).partition(|(_, whole)| **whole);
    let own: u64 = own.into_iter().map(|(layers, _)| weights(layers)).sum();
    let (least_of_all, all): (u64, u64) = shared
        .into_iter()
        .map(|(layers, _)| (needed(layers), weights(layers)))
        .fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    let spare = available - own - least_of_all;
    let bank = |(layers, whole): (&Vec<&Layer>, &bool)| {
        if *whole {
            return Bank {
                parameters: weights(layers),
                views: vec![View { at: vec![0], from: None }],
            };
        }
        let share = u128::from(spare) * u128::from(weights(layers)) / u128::from(all.max(1));
        let room = min_cost(layers, templates) + share as u64;
        // No more parameters than weights, but at least room for every template.
        let most = weights(layers).max(positions(layers) * templates.map_or(1, |k| k as u64));
        let parameters = largest(most, |p| p + coefficients(layers, p, templates) <= room);
        Bank { parameters, views: views(layers, parameters, templates) }
    };
    Some(clusters.iter().zip(&whole).map(bank).collect())
}

/// Tells which clusters have one layer with as many parameters as weights.
///
/// Small layers come first. The others keep half of the available parameters, and what they need.
fn whole(clusters: &[Vec<&Layer>], available: u64, templates: Option<usize>) -> Vec<bool> {
    let mut whole = vec![false; clusters.len()];
    if templates.is_some() {
        return whole;
    }
    let mut alone: Vec<usize> = (0..clusters.len()).filter(|&i| clusters[i].len() == 1).collect();
    alone.sort_by_key(|&i| (weights(&clusters[i]), i));
    let mut needed: u64 = clusters.iter().map(|layers| min_cost(layers, None)).sum();
    let mut left = available;
    for i in alone {
        let (own, others) = (weights(&clusters[i]), needed - min_cost(&clusters[i], None));
        if left.checked_sub(own).is_none_or(|rest| rest < others || rest < available / 2) {
            break;
        }
        (left, needed, whole[i]) = (left - own, others, true);
    }
    whole
}

/// Outputs, inputs and kernel of a layer.
fn shape(layer: &Layer) -> (usize, usize, [usize; 2]) {
    (layer.out, layer.inp, layer.kernel)
}

/// Number of weights of these layers.
fn weights(layers: &[&Layer]) -> u64 {
    layers.iter().map(|layer| layer.len()).sum()
}

/// Number of templates of a layer with a bank of this size.
fn count(layer: &Layer, bank: u64, templates: Option<usize>) -> u64 {
    templates.map_or((bank / layer.len()).clamp(1, MAX_TEMPLATES), |k| k as u64)
}

/// Number of coefficients of these layers with a bank of this size.
fn coefficients(layers: &[&Layer], bank: u64, templates: Option<usize>) -> u64 {
    layers.iter().map(|layer| count(layer, bank, templates)).filter(|&k| k > 1).sum()
}

/// The largest number up to `most` for which `holds`, given that it holds for all smaller ones.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut good, mut bad) = (0, most + 1);
    while good + 1 < bad {
        let middle = good + (bad - good) / 2;
        *(if holds(middle) { &mut good } else { &mut bad }) = middle;
    }
    good
}

/// Places the templates of the layers in a bank of this size.
fn views(layers: &[&Layer], bank: u64, templates: Option<usize>) -> Vec<View> {
    let mut of_shape = BTreeMap::<_, usize>::new();
    layers.iter().for_each(|layer| *of_shape.entry(shape(layer)).or_default() += 1);
    let mut order: Vec<usize> = (0..layers.len()).collect();
    order.sort_by_key(|&i| {
        Reverse((of_shape[&shape(layers[i])], layers[i].len(), shape(layers[i]), Reverse(i)))
    });
    let mut views = vec![View { at: vec![], from: None }; layers.len()];
    let mut next = 0u64;
    for (turn, i) in order.into_iter().enumerate() {
        let (layer, k) = (layers[i], count(layers[i], bank, templates));
        let room = templates.map_or(bank, |k| bank / k as u64);
        let from = (layer.len() > room).then(|| source(layer, room));
        let len =
            from.map_or(layer.len(), |[rows, cols]| (rows * cols * layer.kernel_area()) as u64);
        // Offset that aligns this many slices with the end; 0 for every second layer.
        let rest = |slices: u64, each: u64| if turn % 2 == 0 { 0 } else { each - slices * len };
        let at = match templates {
            Some(_) => (0..k).map(|part| part * room + rest(1, room)).collect(),
            None if from.is_some() => vec![rest(1, bank)],
            None => {
                let slots = bank / len;
                let first = next.div_ceil(len);
                next = (first + k) % slots * len;
                let slot = |slot: u64| slot % slots * len + rest(slots, bank);
                let mut at: Vec<_> = (first..first + k).map(slot).collect();
                at.sort_unstable();
                at
            }
        };
        views[i] = View { at, from };
    }
    views
}

/// Rows and columns of the largest matrix with a layer's proportions in `room` parameters.
fn source(layer: &Layer, room: u64) -> [usize; 2] {
    let sides =
        |p: f64| [layer.out, layer.inp].map(|side| ((p * side as f64).round() as usize).max(1));
    let fits = |p: f64| {
        let [rows, cols] = sides(p);
        (rows * cols * layer.kernel_area()) as u64 <= room
    };
    // A search in millionths is fine enough: a layer has fewer rows than that.
    let most = (MAX_SIDE * 1e6) as u64;
    sides(largest(most, |millionths| fits(millionths as f64 / 1e6)) as f64 / 1e6)
}

/// Factor by which interpolation reduces the standard deviation of independent values.
pub(crate) fn narrowing(layer: &Layer, [rows, cols]: [usize; 2]) -> f64 {
    let area = layer.kernel_area();
    (variance_kept(rows, layer.out) * variance_kept(cols * area, layer.inp * area)).sqrt()
}

/// Factor by which linear interpolation of `from` values to `to` values (corners not aligned)
/// reduces their mean variance.
fn variance_kept(from: usize, to: usize) -> f64 {
    let square = |i: usize| {
        let place =
            ((i as f64 + 0.5) * from as f64 / to as f64 - 0.5).clamp(0.0, (from - 1) as f64);
        let upper = place.fract();
        upper * upper + (1.0 - upper) * (1.0 - upper)
    };
    (0..to).map(square).sum::<f64>() / to as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Tensors;
    use crate::testing::members;

    fn layers(names: &str) -> Vec<Layer> {
        Tensors::of(&members(names, 100)).unwrap().layers
    }

    fn of(layers: &[Layer]) -> Vec<&Layer> {
        layers.iter().collect()
    }

    #[test]
    fn a_bank_and_its_coefficients_use_up_the_budget() {
        let layers = layers("wrn-28-10");
        let all = vec![of(&layers)];
        for available in [9, 1_000, 347_000, 3_635_000, 20_000_000] {
            let bank = &banks(&all, available, None).unwrap()[0];
            let alpha: usize = bank.views.iter().map(|view| view.at.len()).filter(|&k| k > 1).sum();
            assert_eq!(bank.parameters + alpha as u64, available);
        }
        // A bank has no more parameters than weights.
        let bank = &banks(&all, 1 << 40, None).unwrap()[0];
        assert_eq!(bank.parameters, weights(&all[0]));
        assert_eq!(banks(&all, 8, None), None);
    }

    #[test]
    fn small_layers_read_slices_and_large_ones_are_stretched() {
        let layers = layers("wrn-28-10");
        let bank = &banks(&[of(&layers)], 347_000, None).unwrap()[0];
        for (layer, view) in layers.iter().zip(&bank.views) {
            let [rows, cols] = view.source([layer.out, layer.inp, 0, 0]);
            let len = (rows * cols * layer.kernel_area()) as u64;
            assert!(view.at.iter().all(|at| at + len <= bank.parameters), "{}", layer.name);
            assert!(
                view.at.is_sorted_by(|a, b| a + len <= *b),
                "{}: templates are apart",
                layer.name
            );
            assert_eq!(view.from.is_some(), layer.len() > bank.parameters);
            assert_eq!(view.at.len() as u64, (bank.parameters / layer.len()).clamp(1, 8));
        }
        // 640·640·9 weights from about a tenth as many parameters: 0.3 times each side.
        let last =
            layers.iter().position(|layer| layer.name == "block3.layer.3.conv2.weight").unwrap();
        assert_eq!(bank.views[last].from, Some([196, 196]));
    }

    #[test]
    fn slices_are_handed_out_in_turn() {
        let layers = layers("wrn-28-10");
        let bank = &banks(&[of(&layers)], 3_635_000, None).unwrap()[0];
        let at = |name: &str| {
            let i = layers.iter().position(|layer| layer.name == name).unwrap();
            bank.views[i].at.iter().map(|at| at / layers[i].len()).collect::<Vec<_>>()
        };
        // The bank has fifteen slices of 160·160·9; seven layers take eight each.
        assert_eq!(at("block1.layer.0.conv2.weight"), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(at("block1.layer.1.conv1.weight"), [0, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(at("block1.layer.1.conv2.weight"), [1, 2, 3, 4, 5, 6, 7, 8]);
        // The last slice of the second layer ends where the bank ends.
        let second =
            layers.iter().position(|layer| layer.name == "block1.layer.1.conv1.weight").unwrap();
        assert_eq!(bank.views[second].at[7] + layers[second].len(), bank.parameters);
    }

    #[test]
    fn banks_are_in_proportion_to_weights_and_templates_can_be_fixed() {
        let layers = layers("wrn-16-2");
        let all = of(&layers);
        let (front, back) = all.split_at(9);
        let both = banks(&[front.to_vec(), back.to_vec()], 50_000, None).unwrap();
        let ratio = both[1].parameters as f64 / both[0].parameters as f64;
        let expected = weights(back) as f64 / weights(front) as f64;
        assert!((ratio / expected - 1.0).abs() < 0.05, "{ratio} {expected}");
        let four = &banks(std::slice::from_ref(&all), 50_000, Some(4)).unwrap()[0];
        let part = four.parameters / 4;
        for (layer, view) in all.iter().zip(&four.views) {
            let [rows, cols] = view.source([layer.out, layer.inp, 0, 0]);
            let rest = part - (rows * cols * layer.kernel_area()) as u64;
            assert!(view.at[0] == 0 || view.at[0] == rest);
            assert!(view.at.windows(2).all(|at| at[1] - at[0] == part));
        }
        assert_eq!(four.parameters + 4 * all.len() as u64, 50_000);
    }

    #[test]
    fn a_single_layer_is_not_compressed_while_others_keep_half() {
        let layers = layers("wrn-16-2");
        let (last, others) = layers.split_last().unwrap();
        let (wide, others) = others.split_last().unwrap();
        let clusters = [of(others), vec![last], vec![wide]];
        let [_, classifier, conv] = [0, last.len(), wide.len()];
        assert!(classifier < conv);
        let banks = |available| banks(&clusters, available, None).unwrap();
        // Three budgets: enough for neither layer, for the smaller one, for both.
        let sizes =
            |available| banks(available).iter().map(|bank| bank.parameters).collect::<Vec<_>>();
        assert!(sizes(classifier + 1_000)[1] < classifier);
        let one = sizes(conv);
        assert!(one[1] == classifier && one[2] < conv);
        let both = sizes(2 * (conv + classifier));
        assert_eq!(both[1..], [classifier, conv]);
        assert_eq!(banks(2 * (conv + classifier))[2].views, [View { at: vec![0], from: None }]);
        let alpha: usize = banks(2 * (conv + classifier))[0]
            .views
            .iter()
            .map(|v| v.at.len())
            .filter(|&k| k > 1)
            .sum();
        assert_eq!(both.iter().sum::<u64>() + alpha as u64, 2 * (conv + classifier));
    }

    #[test]
    fn a_bank_has_room_for_every_template_of_tiny_layers() {
        let layers = layers("cnn-1-1");
        let needed = min_cost(&of(&layers), Some(4));
        assert_eq!(needed, 36 + 4 * layers.len() as u64);
        for available in needed..needed + 20 {
            let bank = &banks(&[of(&layers)], available, Some(4)).unwrap()[0];
            for (layer, view) in layers.iter().zip(&bank.views) {
                let [rows, cols] = view.source([layer.out, layer.inp, 0, 0]);
                let len = (rows * cols * layer.kernel_area()) as u64;
                assert!(view.at.len() == 4 && view.at.iter().all(|at| at + len <= bank.parameters));
            }
        }
        assert_eq!(banks(&[of(&layers)], needed - 1, Some(4)), None);
    }

    #[test]
    fn layers_of_one_shape_share_one_matrix() {
        let layers = layers("wrn-16-2,wrn-16-2");
        let ids = (0..layers.len()).map(LayerId).collect();
        let clusters = by_shape(&layers, vec![ids]);
        assert_eq!(clusters.iter().map(Vec::len).sum::<usize>(), layers.len());
        for cluster in &clusters {
            assert!(cluster.iter().all(|id| shape(&layers[id.0]) == shape(&layers[cluster[0].0])));
        }
        let shapes: std::collections::BTreeSet<_> = layers.iter().map(shape).collect();
        assert_eq!(clusters.len(), shapes.len());
        let clusters: Vec<Vec<&Layer>> =
            clusters.iter().map(|ids| ids.iter().map(|id| &layers[id.0]).collect()).collect();
        let needed = clusters.iter().map(|layers| matrix_and_factors(layers)).sum();
        let banks = matrices(&clusters, needed).unwrap();
        assert_eq!(matrices(&clusters, needed - 1), None);
        for (bank, layers) in banks.iter().zip(&clusters) {
            assert_eq!((bank.parameters, bank.views.len()), (layers[0].len(), layers.len()));
            assert!(bank.views.iter().all(|view| (&view.at[..], view.from) == (&[0][..], None)));
        }
    }

    #[test]
    fn interpolation_reduces_variance() {
        assert_eq!(variance_kept(7, 7), 1.0);
        // Weights are a quarter and three quarters everywhere but at both ends.
        let expected = (6.0 * (0.25f64.powi(2) + 0.75f64.powi(2)) + 2.0) / 8.0;
        assert!((variance_kept(4, 8) - expected).abs() < 1e-12);
        assert_eq!(variance_kept(1, 5), 1.0);
    }
}
