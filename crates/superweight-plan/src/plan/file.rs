//! Plans as files: JSON, one line per layer, set and SuperWeight, so that two plans can be compared with `diff`.

use serde::{Deserialize, Serialize};

use super::types::{SharingPlan, VERSION};
use crate::error::PlanError;

impl SharingPlan {
    /// Reads and checks a plan. Errors name the place in the file.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let text = text.trim_start_matches('\u{feff}');
        // The version decides how the rest is to be read, so it is looked at alone first.
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

    /// The plan as JSON, ending in a newline. The same plan always gives the same bytes.
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
