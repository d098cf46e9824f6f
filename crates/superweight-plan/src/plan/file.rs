//! Reads and writes plans as JSON, with one line per layer, set and SuperWeight for use with
//! `diff`.

use serde::{Deserialize, Serialize};

use super::types::{SharingPlan, VERSION};
use crate::error::PlanError;

impl SharingPlan {
    /// Reads a plan from JSON and validates it.
    ///
    /// # Errors
    ///
    /// [`PlanError::Json`] if the text is not a plan, [`PlanError::Version`] if it is of another
    /// version, and [`PlanError::Invalid`] with the place in the file if it contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let text = text.trim_start_matches('\u{feff}');
        // Read the version by itself first: other versions may have other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: serde_json::Value,
        }
        let json = |error: serde_json::Error| PlanError::Json(error.to_string());
        let Versioned { version } = serde_json::from_str(text).map_err(json)?;
        if version != VERSION {
            let found = version.to_string().chars().take(40).collect();
            return Err(PlanError::Version { found, supported: VERSION });
        }
        let plan: Self = serde_json::from_str(text).map_err(json)?;
        plan.validate()?;
        Ok(plan)
    }

    /// Writes the plan as JSON that ends in a newline. Equal plans give equal bytes.
    pub fn to_json(&self) -> String {
        let Self { version, members, budget, reserve, tiling, layers, vectors, .. } = self;
        let mut fields = vec![("version", line(version)), ("members", lines(members))];
        fields.extend(budget.iter().map(|budget| ("budget", line(budget))));
        fields.extend([
            ("reserve", line(reserve)),
            ("tiling", line(tiling)),
            ("layers", lines(layers)),
            ("vectors", lines(vectors)),
            ("clusters", lines(&self.clusters)),
            ("template_sets", lines(&self.template_sets)),
            ("superweights", lines(&self.superweights)),
            ("bill", line(&self.bill)),
        ]);
        let fields: Vec<_> =
            fields.into_iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
        format!("{{\n{}\n}}\n", fields.join(",\n"))
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a plan holds only finite numbers and string keys")
}

fn lines(values: &[impl Serialize]) -> String {
    match values {
        [] => "[]".to_owned(),
        _ => format!("[\n  {}\n]", values.iter().map(line).collect::<Vec<_>>().join(",\n  ")),
    }
}
