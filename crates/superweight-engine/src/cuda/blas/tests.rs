//! Compares products with f64, in every orientation and precision.

use super::*;
use crate::cuda::on_device::{Buffer, context, error, random, rounded};

fn definition(shape: &ProductShape, a: &[f32], b: &[f32]) -> Vec<f32> {
    let ProductShape { m, n, k, transposed: [ta, tb], .. } = *shape;
    let at =
        |row: usize, column: usize, rows: usize, columns: usize, transposed: bool| match transposed
        {
            true => column * rows + row,
            false => row * columns + column,
        };
    let mut out = Vec::with_capacity(m * n);
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let sum: f64 = (0..k)
            .map(|l| f64::from(a[at(i, l, m, k, ta)]) * f64::from(b[at(l, j, k, n, tb)]))
            .sum();
        out.push(sum as f32);
    }
    out
}

#[test]
fn products_match_the_definition_and_repeat_exactly() {
    let Some(ctx) = context() else { return };
    // A classifier's three products (batch 128, 640 → 100 and → 10), a grid set of 96 cells with K
    // = 14 and 16·16·9 elements and its two gradients, and sizes that are not multiples of
    // anything. Long sums are where split-K would be chosen.
    let sizes = [
        (128, 100, 640),
        (100, 640, 128),
        (128, 10, 64),
        (96, 2304, 14),
        (14, 2304, 96),
        (96, 14, 2304),
        (7, 5, 3),
        (1, 1, 1),
        (33, 31, 4097),
    ];
    let kinds = [
        (Arithmetic::Bf16, Precision::Bf16, 1e-2),
        (Arithmetic::Bf16, Precision::F32, 1e-5),
        (Arithmetic::F32, Precision::F32, 1e-5),
        (Arithmetic::Tf32, Precision::F32, 1e-3),
    ];
    for (m, n, k) in sizes {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            let [a, b, start] =
                [(1, m * k), (2, k * n), (3, m * n)].map(|(seed, len)| rounded(&random(seed, len)));
            let shape = ProductShape {
                m,
                n,
                k,
                transposed,
                arithmetic: Arithmetic::F32,
                output: Precision::F32,
                write: Write::Set,
            };
            let product = definition(&shape, &a, &b);
            for ((arithmetic, output, tolerance), write) in kinds
                .into_iter()
                .flat_map(|kind| [Write::Set, Write::Add].map(|write| (kind, write)))
            {
                let shape = ProductShape { arithmetic, output, write, ..shape };
                let (plan, bytes) = Product::new(&ctx.blas, shape).unwrap();
                let operand = arithmetic.operands();
                let (a, b) = (Buffer::new(&ctx, operand, &a), Buffer::new(&ctx, operand, &b));
                let workspace = Buffer::bytes(&ctx, bytes);
                let run = || {
                    let old =
                        if write == Write::Add { start.clone() } else { vec![f32::NAN; m * n] };
                    let c = Buffer::new(&ctx, output, &old);
                    // SAFETY: buffers have the shape's sizes and live until `read` has waited.
                    unsafe {
                        plan.run(
                            &ctx.blas,
                            ctx.raw_stream(),
                            [a.at(), b.at(), c.at()],
                            workspace.at(),
                        )
                    }
                    .unwrap();
                    c.read()
                };
                let (got, again) = (run(), run());
                let wanted: Vec<f32> = match write {
                    Write::Set => product.clone(),
                    Write::Add => product.iter().zip(&start).map(|(p, s)| p + s).collect(),
                };
                let off = error(&got, &wanted);
                assert!(off < tolerance, "{shape} {write:?}: {off:.2e} from the definition");
                assert!(
                    got.iter().zip(&again).all(|(x, y)| x.to_bits() == y.to_bits()),
                    "{shape}: two runs differ"
                );
            }
        }
    }
}

#[test]
fn a_product_that_cublas_lacks_is_an_error_with_its_shape() {
    let Some(ctx) = context() else { return };
    let shape = ProductShape {
        m: 8,
        n: 8,
        k: 8,
        transposed: [false; 2],
        arithmetic: Arithmetic::F32,
        output: Precision::Bf16,
        write: Write::Set,
    };
    let message = Product::new(&ctx.blas, shape).unwrap_err().to_string();
    assert!(message.contains("8×8"), "{message}");
}

/// Prints a table of products. Run with `--ignored --nocapture` on an idle GPU. The shapes are the
/// grid of WRN-28-10 at 10%: 3,960 cells of K = 247 templates of 32×32×9, forward and the two
/// gradients, then with K padded to a multiple of 8.
#[test]
#[ignore = "a measurement on a GPU"]
fn grid_mixing_in_three_arithmetics() {
    let Some(ctx) = context() else { return };
    let (cells, len) = (3960, 9216);
    let products = |count| {
        [
            ("cells = α·T", (cells, len, count), [false, false]),
            ("dα = dcells·Tᵀ", (cells, count, len), [false, true]),
            ("dT = αᵀ·dcells", (count, len, cells), [true, false]),
        ]
    };
    for (name, (m, n, k), transposed) in products(247).into_iter().chain(products(248)) {
        for (arithmetic, output) in [
            (Arithmetic::Bf16, Precision::Bf16),
            (Arithmetic::Bf16, Precision::F32),
            (Arithmetic::Tf32, Precision::F32),
            (Arithmetic::F32, Precision::F32),
        ] {
            let shape = ProductShape { m, n, k, transposed, arithmetic, output, write: Write::Set };
            let (plan, bytes) = Product::new(&ctx.blas, shape).unwrap();
            let of = |seed, len| Buffer::new(&ctx, arithmetic.operands(), &random(seed, len));
            let (a, b, workspace) = (of(1, m * k), of(2, k * n), Buffer::bytes(&ctx, bytes));
            let c = Buffer::bytes(&ctx, m * n * output.bytes());
            let run = || {
                // SAFETY: the buffers have the shape's sizes and live until the loop below has
                // waited.
                unsafe {
                    plan.run(&ctx.blas, ctx.raw_stream(), [a.at(), b.at(), c.at()], workspace.at())
                }
                .unwrap()
            };
            let mut times: Vec<f64> = (0..9)
                .map(|_| {
                    ctx.synchronize().unwrap();
                    let clock = std::time::Instant::now();
                    (0..10).for_each(|_| run());
                    ctx.synchronize().unwrap();
                    1e5 * clock.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let rate = 2e-6 * (m * n * k) as f64 / times[4];
            println!("{name} {shape}: {:.1} µs ({rate:.0} TFLOP/s), workspace {bytes}", times[4]);
            assert!(rate > 1.0, "{shape} ran at {rate:.2} TFLOP/s");
        }
    }
}
