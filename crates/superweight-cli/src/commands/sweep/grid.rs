//! The grid of `--set key=a,b --set key=c,d`: every combination, the last key changing fastest.

use anyhow::{Result, bail};
use sha2::{Digest, Sha256};
use superweight::recipe::{KEYS, Kind};

/// Longest name of a run in characters.
const LONGEST: usize = 100;

/// One key and its values.
#[derive(Debug, PartialEq)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

impl Axis {
    /// Parses `key=values`. Commas separate the values; semicolons separate those of a key that
    /// holds a list, whose own separator is the comma.
    pub fn parse(typed: &str) -> Result<Self> {
        let Some((key, values)) = typed.split_once('=') else {
            bail!("--set '{typed}': write key=values, for example --set search.tau=0,0.1,0.3");
        };
        let key = key.trim();
        let list =
            KEYS.iter().any(|known| known.path == key && matches!(known.kind, Kind::List(_)));
        let values: Vec<String> = values
            .split(if list { ';' } else { ',' })
            .map(|value| value.trim().to_owned())
            .collect();
        if let Some(twice) =
            values.iter().enumerate().find(|(n, value)| values[..*n].contains(value))
        {
            bail!("--set '{typed}': the value '{}' is given twice", twice.1);
        }
        Ok(Self { key: key.to_owned(), values })
    }
}

/// A combination: one value of each axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Point(pub Vec<(String, String)>);

impl Point {
    /// The combination as overrides of the recipe.
    pub fn overrides(&self) -> Vec<String> {
        self.0.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// The combination as a label: the keys that have several values.
    pub fn label(&self, axes: &[Axis]) -> String {
        let varies = |key: &str| axes.iter().any(|axis| axis.key == key && axis.values.len() > 1);
        let parts: Vec<_> = self.0.iter().filter(|(key, _)| varies(key)).collect();
        let parts = if parts.is_empty() { self.0.iter().collect() } else { parts };
        parts.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Name of the combination's run: its label in characters that a name may have. A long one is
    /// cut and gets a digest.
    pub fn name(&self, axes: &[Axis]) -> String {
        let plain = |c: char| match c {
            '=' => '-',
            c if c.is_ascii_alphanumeric() || ".-".contains(c) => c,
            _ => '_',
        };
        let label = self.label(axes);
        let name: String = label.chars().map(plain).collect();
        if name.len() <= LONGEST {
            return name;
        }
        let digest = Sha256::digest(&label);
        let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{short}", &name[..LONGEST - 1 - short.len()])
    }
}

/// Every combination of the values.
pub fn points(axes: &[Axis]) -> Result<Vec<Point>> {
    let mut points = vec![Point(vec![])];
    for (n, axis) in axes.iter().enumerate() {
        if axes[..n].iter().any(|other| other.key == axis.key) {
            bail!("--set {}: give all values of the key in one --set", axis.key);
        }
        let with = |point: Point| {
            axis.values.iter().map(move |value| {
                let mut point = point.clone();
                point.0.push((axis.key.clone(), value.clone()));
                point
            })
        };
        points = points.into_iter().flat_map(with).collect();
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(typed: &[&str]) -> Vec<Axis> {
        typed.iter().map(|typed| Axis::parse(typed).unwrap()).collect()
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let axes = axes(&["search.tau=0,0.1", "train.epochs=3", "seed=1,2"]);
        let points = points(&axes).unwrap();
        let names: Vec<_> = points.iter().map(|point| point.name(&axes)).collect();
        assert_eq!(
            names,
            [
                "search.tau-0_seed-1",
                "search.tau-0_seed-2",
                "search.tau-0.1_seed-1",
                "search.tau-0.1_seed-2"
            ]
        );
        assert_eq!(points[3].overrides(), ["search.tau=0.1", "train.epochs=3", "seed=2"]);
    }

    #[test]
    fn lists_keep_their_commas_and_names_are_names() {
        let axes = axes(&["members=wrn-10-2;wrn-10-1,wrn-16-1", "plan.clusters=single,depth:4"]);
        assert_eq!(axes[0].values, ["wrn-10-2", "wrn-10-1,wrn-16-1"]);
        let points = points(&axes).unwrap();
        assert_eq!(points[3].label(&axes), "members=wrn-10-1,wrn-16-1 plan.clusters=depth:4");
        assert_eq!(points[3].name(&axes), "members-wrn-10-1_wrn-16-1_plan.clusters-depth_4");
        let long = |last: u32| {
            Point(vec![("members".to_owned(), format!("{}{last}", "cnn-8@4,".repeat(20)))])
        };
        let names = [1, 2].map(|last| long(last).name(&[]));
        assert!(
            names[0] != names[1] && names.iter().all(|name| name.len() == LONGEST),
            "{names:?}"
        );
    }

    #[test]
    fn repeated_keys_and_values_are_refused() {
        assert!(Axis::parse("search.tau").unwrap_err().to_string().contains("write key=values"));
        assert!(
            Axis::parse("seed=1,2,1")
                .unwrap_err()
                .to_string()
                .contains("the value '1' is given twice")
        );
        let error = points(&axes(&["seed=1", "seed=2"])).unwrap_err().to_string();
        assert!(error.contains("all values of the key in one --set"), "{error}");
    }
}
