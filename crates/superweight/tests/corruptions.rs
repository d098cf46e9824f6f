//! Corruptions compared with the published generator on the same images
//! (`fixtures/corruptions.py`).
//!
//! Deterministic types, and motion blur at known angles, agree within 2/255 per pixel. Random types
//! agree in mean and standard deviation within 2% over 200 images. Both hardly change for weak
//! corruptions, so the change of the pixels is compared too.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use superweight::corrupt::{
    Corruption, Corruptor, FrostTexture, FrostTextures, IMAGE_LEN, SIDE, Severity,
};

const KEPT: u64 = 3;
/// Draws per image. The script draws five, so that its reference has little noise.
const ROUNDS: usize = 2;
/// Allowed relative difference of the change: drops and flakes are few, so that even 400 images
/// vary by a few percent.
const CHANGE: f64 = 0.06;
const ANGLES: [f64; 4] = [-40.0, -7.0, 0.0, 31.0];

#[derive(Deserialize)]
struct Figures {
    images: u64,
    random: BTreeMap<String, BTreeMap<String, Statistics>>,
}

#[derive(Debug, Deserialize)]
struct Statistics {
    mean: f64,
    deviation: f64,
    change: f64,
    change_deviation: f64,
}

fn triangle(t: i64) -> i64 {
    let t = t.rem_euclid(512);
    if t < 256 { t } else { 511 - t }
}

/// The test image that the script calls `made_up`.
fn made_up(index: i64, height: i64, width: i64) -> Vec<u8> {
    let mut out = vec![];
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for c in 0..3 {
            let k = index * 37;
            let a = triangle((9 + index % 7) * x + (5 + index % 5) * y + 90 * c + k);
            let b = triangle((31 + index % 11) * y - (14 + index % 3) * x + 50 * c * c + 3 * k);
            let d = triangle(71 * x + (53 + index % 13) * y + 11 * k);
            let v = (4 * a + 3 * b + d) / 8;
            let inside = (y + index) % 32 / 4 % 4 == 1 && (x + 3 * index) % 32 / 4 % 5 == 2;
            out.push(if inside { 255 - v } else { v } as u8);
        }
    }
    out
}

fn image(index: u64) -> Vec<u8> {
    made_up(index as i64, SIDE as i64, SIDE as i64)
}

fn corruptor() -> Corruptor {
    let texture =
        |i: usize| FrostTexture::new(300, 400, &made_up(300 + i as i64, 300, 400)).unwrap();
    Corruptor::new(8, Some(FrostTextures(std::array::from_fn(texture))))
}

const SEVERITIES: [u64; 3] = [1, 3, 5];

#[test]
fn deterministic_types_are_within_two_levels() {
    let packed = include_bytes!("fixtures/corruptions.bin.gz");
    let mut bytes = vec![];
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let mut expected = bytes.chunks_exact(IMAGE_LEN);
    let types = [
        Corruption::DefocusBlur,
        Corruption::ZoomBlur,
        Corruption::Brightness,
        Corruption::Contrast,
        Corruption::Pixelate,
        Corruption::Jpeg,
        Corruption::GaussianBlur,
        Corruption::Saturate,
    ];
    let mut worst = BTreeMap::new();
    let mut compare = |what: String, ours: Vec<u8>| {
        let theirs = expected.next().unwrap();
        let largest = ours.iter().zip(theirs).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        let entry = worst.entry(what).or_insert(0);
        *entry = largest.max(*entry);
    };
    for (kind, severity) in types.into_iter().flat_map(|kind| SEVERITIES.map(|s| (kind, s))) {
        let severity = Severity::new(severity).unwrap();
        for i in 0..KEPT {
            compare(
                format!("{kind} {severity}"),
                corruptor().corrupt(kind, severity, i, &image(i)).unwrap(),
            );
        }
    }
    for (angle, severity) in ANGLES.into_iter().flat_map(|angle| SEVERITIES.map(|s| (angle, s))) {
        let severity = Severity::new(severity).unwrap();
        for i in 0..KEPT {
            let ours = corruptor().motion_blur_at(severity, angle, &image(i));
            compare(format!("motion_blur {severity} at {angle}"), ours);
        }
    }
    assert_eq!(expected.next(), None, "every fixture was compared");
    assert!(worst.values().all(|&levels| levels <= 2), "{worst:?}");
}

#[test]
fn random_types_have_the_published_mean_and_deviation() {
    let figures: Figures = serde_json::from_str(include_str!("fixtures/corruptions.json")).unwrap();
    let images: Vec<_> = (0..figures.images).map(image).collect();
    let corruptor = corruptor();
    let mut compared = 0;
    let mut off = vec![];
    for (name, by_severity) in &figures.random {
        let kind: Corruption = name.parse().unwrap();
        for (severity, theirs) in by_severity {
            let level = Severity::new(severity.parse().unwrap()).unwrap();
            let ours = statistics(&corruptor, kind, level, &images);
            let pairs = [
                (ours.mean, theirs.mean, 0.02),
                (ours.deviation, theirs.deviation, 0.02),
                (ours.change, theirs.change, CHANGE),
                (ours.change_deviation, theirs.change_deviation, CHANGE),
            ];
            if pairs
                .iter()
                .any(|(ours, theirs, tolerance)| (ours / theirs - 1.0).abs() > *tolerance)
            {
                off.push(format!("{name} {severity}: {ours:?}, published {theirs:?}"));
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 33);
    assert!(off.is_empty(), "{off:#?}");
}

fn statistics(
    corruptor: &Corruptor,
    kind: Corruption,
    severity: Severity,
    images: &[Vec<u8>],
) -> Statistics {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    let (mut change, mut change_sum, mut change_squares) = (0.0, 0.0, 0.0);
    for (index, image) in (0..ROUNDS).flat_map(|_| images).enumerate() {
        let out = corruptor.corrupt(kind, severity, index as u64, image).unwrap();
        for (&new, &old) in out.iter().zip(image) {
            let (new, old) = (f64::from(new), f64::from(old));
            n += 1.0;
            sum += new;
            squares += new * new;
            change += (new - old).abs();
            change_sum += new - old;
            change_squares += (new - old).powi(2);
        }
    }
    let deviation = |sum: f64, squares: f64| (squares / n - (sum / n).powi(2)).sqrt();
    Statistics {
        mean: sum / n,
        deviation: deviation(sum, squares),
        change: change / n,
        change_deviation: deviation(change_sum, change_squares),
    }
}
