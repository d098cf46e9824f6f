//! Completes the data settings: data set, validation split, augmentation.

use std::path::Path;
use std::sync::Arc;

use superweight_plan::arch::ImageShape;

use crate::data;
use crate::data::DataError;
use crate::data::{Augment, Description, OwnSet, SET};
use crate::recipe::error::Place;
use crate::recipe::resolved::DataSettings;
use crate::recipe::{Crop, Recipe, RecipeError};

/// Facts about a data set that a recipe needs.
pub(super) struct Set {
    shape: ImageShape,
    classes: usize,
    pub(super) train: usize,
    /// Description of a packed data set; `None` for known ones.
    own: Option<Arc<OwnSet>>,
}

/// Smallest area of a random-resized crop, as in the usual ImageNet recipes.
const LEAST_AREA: f64 = 0.08;

/// Facts about ImageNet, so that its recipes can be planned on machines without the images.
const IMAGENET: Set =
    Set { shape: ImageShape::IMAGENET, classes: 1000, train: 1_281_167, own: None };

impl From<Description> for Set {
    fn from(set: Description) -> Self {
        Self { shape: set.shape, classes: set.classes.len(), train: set.images.0, own: None }
    }
}

impl Recipe {
    pub(super) fn set(&self) -> Result<(String, Set), RecipeError> {
        let name = self.data.name.clone().unwrap_or_else(|| "cifar-100".into());
        let set = match data::find(&name) {
            Ok(_) if self.data.digest.is_some() => {
                return Err(self
                    .wrong("data.digest", format!("{name} is no set of your own: leave it out")));
            }
            Ok(entry) => entry.describe().into(),
            Err(_) if name.contains('/') && Path::new(&name).is_dir() => {
                let problem = format!(
                    "'{name}' is a folder: 'swn data pack NAME --from {name}' makes a data set of its pictures"
                );
                return Err(self.wrong("data.name", problem));
            }
            Err(unknown) => match self.own_set(&name, unknown) {
                Ok(own) => Set { own: Some(Arc::new(own.clone())), ..own.description.into() },
                Err(DataError::NoImageNet { .. }) => IMAGENET,
                Err(DataError::NoFolder) if name == "imagenet" && self.data.digest.is_none() => {
                    IMAGENET
                }
                Err(DataError::Unknown { name, known }) => {
                    let known = known + ", imagenet";
                    return Err(self.wrong("data.name", DataError::Unknown { name, known }));
                }
                Err(error) => return Err(self.wrong("data.name", error.with_cause())),
            },
        };
        Ok((name, set))
    }

    /// A packed data set in the data folder. With `data.digest` it must be exactly that set; then a
    /// run may keep its description beside its recipe, and the images may be on another machine.
    fn own_set(&self, name: &str, unknown: DataError) -> Result<OwnSet, DataError> {
        let folder = data::standard_folder()?;
        let Some(digest) = &self.data.digest else { return OwnSet::known(name, &folder, unknown) };
        let beside = self.source.beside(SET);
        let kept = beside.is_file().then(|| OwnSet::load(&beside));
        let is_wanted = |set: &OwnSet| set.description.name == name && set.digest() == *digest;
        match kept {
            Some(Ok(kept)) if is_wanted(&kept) => return Ok(kept),
            _ => {}
        }
        let name = name.to_owned();
        match (OwnSet::find(&name, &folder)?, kept) {
            (Some(found), _) if is_wanted(&found) => Ok(found),
            (_, Some(Err(damaged))) => Err(damaged),
            (Some(_), _) => Err(DataError::OtherSet { name, folder }),
            (None, _) => Err(DataError::NotPacked { name, folder }),
        }
    }

    pub(super) fn data(&self, equal_members: bool) -> Result<DataSettings, RecipeError> {
        let (name, Set { shape, classes, train, own }) = self.set()?;
        let table = &self.data;
        let validation = self.validation_images(train)?;
        if validation >= train as u64 {
            let problem =
                format!("{name} has {train} training images, and some must remain for training");
            return Err(self.wrong("data.validation", problem));
        }
        let usual = if name == "imagenet" { Crop::RandomResized } else { Crop::Pad };
        let crop = table.crop.unwrap_or(usual);
        let usual =
            if own.is_some() { (shape.height.min(shape.width) as u64 / 8).min(64) } else { 4 };
        let usual = if crop == Crop::Pad { usual } else { 0 };
        // A crop set by a flag makes the padding in the file ineffective, as a schedule does with
        // milestones.
        let place = |path| self.source.place(path, None);
        let is_left = crop == Crop::RandomResized
            && matches!(place("data.crop"), Place::Flag(_))
            && matches!(place("data.padding"), Place::File { .. });
        let pad = table.padding.filter(|_| !is_left).unwrap_or(usual) as usize;
        if crop == Crop::RandomResized && pad > 0 {
            return Err(self.wrong(
                "data.padding",
                "crop = \"random-resized\" uses no padding: leave the key out, or set it to 0",
            ));
        }
        let stretch =
            (crop == Crop::RandomResized).then(|| table.min_crop_scale.unwrap_or(LEAST_AREA));
        let flip = table.flip.unwrap_or(name != "mnist");
        let has_cutout = own.is_none() && name.starts_with("cifar-") && !equal_members;
        let cutout = table.cutout.unwrap_or(if has_cutout { 16 } else { 0 }) as usize;
        let augment = Augment { stretch, pad, flip, cutout };
        let (validation, split_seed) = (validation as usize, table.split_seed.unwrap_or(0));
        Ok(DataSettings { name, own, shape, classes, validation, split_seed, crop, augment })
    }

    /// Number of validation images among `train` training images.
    pub(super) fn validation_images(&self, train: usize) -> Result<u64, RecipeError> {
        self.count_or_share(
            "data.validation",
            self.data.validation.as_ref(),
            train as u64,
            "images",
        )
    }
}
