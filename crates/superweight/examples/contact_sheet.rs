//! All corruptions of one image at severities 1 to 5 as one picture: a row per type, the clean
//! image first.
//!
//! ```text
//! cargo run --release -p superweight --example contact_sheet -- DATA FROST IMAGE OUT.png
//! ```
//!
//! DATA is the folder of data sets (CIFAR-100 is taken), FROST that of the frost textures, IMAGE
//! the number of a test image.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use superweight::corrupt::{
    Corruption, Corruptor, FROST_FILES, FrostTexture, FrostTextures, SIDE, Severity,
};
use superweight::data::{Dataset, Picture};

/// Pixels of the sheet per pixel of an image, and between images.
const SCALE: usize = 2;
const GAP: usize = 4;
const CELL: usize = SIDE * SCALE + GAP;
/// Types are laid out in two columns, each of a clean and five corrupted images.
const COLUMNS: usize = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, frost, image, to] = &arguments[..] else {
        return Err("four arguments: DATA FROST IMAGE FILE".into());
    };
    let texture = |name: &&str| -> Result<FrostTexture, Box<dyn Error>> {
        let picture = Picture::open(&Path::new(frost).join(name))?;
        Ok(FrostTexture::new(picture.height, picture.width, &picture.rgb)?)
    };
    let textures = FROST_FILES.iter().map(texture).collect::<Result<Vec<_>, _>>()?;
    let textures = FrostTextures(textures.try_into().expect("five files"));
    let data = Dataset::open("cifar-100", Path::new(data))?;
    let (number, corruptor) = (image.parse::<usize>()?, Corruptor::new(0, Some(textures)));
    let clean = data.test.image(number);
    let rows = Corruption::ALL.len().div_ceil(2);
    let (width, height) = (COLUMNS * CELL + GAP, rows * CELL + GAP);
    let mut sheet = vec![255u8; width * height * 3];
    let mut put = |row: usize, column: usize, image: &[u8]| {
        for (y, x) in (0..SIDE * SCALE).flat_map(|y| (0..SIDE * SCALE).map(move |x| (y, x))) {
            let from = (y / SCALE * SIDE + x / SCALE) * 3;
            let to = ((GAP + row * CELL + y) * width + GAP + column * CELL + x) * 3;
            sheet[to..to + 3].copy_from_slice(&image[from..from + 3]);
        }
    };
    for (i, kind) in Corruption::ALL.into_iter().enumerate() {
        let (row, column) = (i % rows, i / rows * COLUMNS / 2);
        put(row, column, clean);
        for severity in Severity::ALL {
            let image = corruptor.corrupt(kind, severity, number as u64, clean)?;
            put(row, column + usize::from(severity.get()), &image);
        }
        println!("row {}, {} half: {kind}", row + 1, if i < rows { "left" } else { "right" });
    }
    let mut encoder = png::Encoder::new(File::create(to)?, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(&sheet)?;
    Ok(())
}
