//! The types of corruptions with their published names, the severities, and the errors.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

/// Names of the texture files of frost. The published generator lists a sixth, but never draws it.
pub const FROST_FILES: [&str; 5] =
    ["frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"];

/// Why an image cannot be corrupted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CorruptError {
    /// No type has this name.
    #[error("no corruption is called '{name}': there are {}", names())]
    UnknownType {
        /// The name.
        name: String,
    },
    /// The severity is not from 1 to 5.
    #[error("severity {severity}: must be between 1 and 5")]
    Severity {
        /// The severity.
        severity: u64,
    },
    /// Frost was requested without its textures.
    #[error(
        "frost needs the textures {}: name their folder with '--frost FOLDER' or leave frost out",
        FROST_FILES.join(", ")
    )]
    NoTextures,
    /// A texture is too small for a patch of the size of an image.
    #[error(
        "frost texture of {rows}×{cols} pixels: at least {least}×{least} are needed, for a fifth of it is used"
    )]
    TextureTooSmall {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// Smallest number of rows and of columns.
        least: usize,
    },
}

/// Names of all types, for error messages.
fn names() -> String {
    Corruption::ALL.map(Corruption::name).join(", ")
}

macro_rules! corruptions {
    ($($variant:ident $name:literal $text:literal,)*) => {
        /// A type of corruption, in the published order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Corruption {
            $(#[doc = $text] $variant,)*
        }

        impl Corruption {
            /// All 19 types, the standard ones first.
            pub const ALL: [Self; 19] = [$(Self::$variant),*];

            /// Name of the published file.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}
corruptions! {
    GaussianNoise "gaussian_noise" "Normal noise.",
    ShotNoise "shot_noise" "Poisson noise.",
    ImpulseNoise "impulse_noise" "Black and white pixels (salt and pepper).",
    DefocusBlur "defocus_blur" "Blur by a disk.",
    GlassBlur "glass_blur" "Pixels replaced by their neighbors.",
    MotionBlur "motion_blur" "Blur along a line to one side.",
    ZoomBlur "zoom_blur" "Mean of magnifications.",
    Snow "snow" "Flakes with motion blur.",
    Frost "frost" "Photographs of frost, added.",
    Fog "fog" "A fractal haze.",
    Brightness "brightness" "Higher value in HSV.",
    Contrast "contrast" "Lower contrast.",
    Elastic "elastic_transform" "An affine map and local displacement.",
    Pixelate "pixelate" "Fewer pixels.",
    Jpeg "jpeg_compression" "Loss of JPEG compression.",
    SpeckleNoise "speckle_noise" "Normal noise proportional to the pixel.",
    GaussianBlur "gaussian_blur" "Blur by a Gaussian kernel.",
    Spatter "spatter" "Drops of water or mud.",
    Saturate "saturate" "Changed saturation in HSV.",
}

impl Corruption {
    /// The 15 types that averages over CIFAR-C include.
    pub fn standard() -> &'static [Self] {
        &Self::ALL[..15]
    }

    /// The 17 types that tables of CIFAR-100-C before 2022 average over: all but motion blur and
    /// snow.
    pub fn earlier() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|kind| !matches!(kind, Self::MotionBlur | Self::Snow))
            .collect()
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Corruption {
    type Err = CorruptError;

    fn from_str(name: &str) -> Result<Self, CorruptError> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| CorruptError::UnknownType { name: name.to_owned() })
    }
}

impl Serialize for Corruption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Corruption {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Strength of a corruption, from 1 to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u8")]
pub struct Severity(u8);

impl Severity {
    /// All five severities.
    pub const ALL: [Self; 5] = [Self(1), Self(2), Self(3), Self(4), Self(5)];

    /// Checks that a severity is from 1 to 5.
    pub fn new(severity: u64) -> Result<Self, CorruptError> {
        match severity {
            1..=5 => Ok(Self(severity as u8)),
            _ => Err(CorruptError::Severity { severity }),
        }
    }

    /// Severity as a number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Selects the constant of this severity.
    pub(super) fn of<T: Copy>(self, constants: [T; 5]) -> T {
        constants[usize::from(self.0) - 1]
    }
}

impl TryFrom<u64> for Severity {
    type Error = CorruptError;

    fn try_from(severity: u64) -> Result<Self, CorruptError> {
        Self::new(severity)
    }
}

impl From<Severity> for u8 {
    fn from(severity: Severity) -> Self {
        severity.get()
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_published_files() {
        for kind in Corruption::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!(Corruption::standard().last(), Some(&Corruption::Jpeg));
        assert_eq!(Corruption::earlier().len(), 17);
        let error = "frots".parse::<Corruption>().unwrap_err().to_string();
        assert!(
            error.starts_with("no corruption is called 'frots': there are gaussian_noise, "),
            "{error}"
        );
        assert!(Severity::new(0).is_err() && Severity::new(6).is_err());
    }
}
