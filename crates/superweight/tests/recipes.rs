//! Every file in `recipes/` loads, resolves and has a plan within its budget, without data. The
//! README links every folder, and `keys.md` lists every key.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use superweight::plan::Clustering;
use superweight::recipe::{KEYS, Recipe, Resolved};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes")
}

/// Path below `recipes/` and the path to open.
fn files() -> Vec<(String, PathBuf)> {
    let mut files = vec![];
    let mut folders = vec![folder()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                let name = path.strip_prefix(self::folder()).unwrap().display().to_string();
                files.push((name, path));
            }
        }
    }
    files.sort();
    assert!(files.len() > 40, "the recipes are gone");
    files
}

fn resolve(path: &Path, overrides: &[&str]) -> Resolved {
    let recipe = Recipe::load(path, overrides).unwrap_or_else(|error| panic!("{error}"));
    recipe.resolve().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_recipe_has_a_plan_within_its_budget() {
    for (name, path) in files() {
        let resolved = resolve(&path, &[]);
        let request = resolved.plan_request().unwrap();
        let plan = request.plan().unwrap_or_else(|error| panic!("{name}: {error}"));
        plan.validate().unwrap();
        assert!(plan.bill.total() <= request.budget.unwrap(), "{name}");
        let plain = resolved.plan.clusters == Clustering::Dense;
        assert_eq!(
            plan.clusters.is_empty(),
            plain,
            "{name}: something is shared unless the recipe says dense"
        );
        assert!(resolved.train_request().unwrap().plan().is_ok(), "{name}");
    }
}

#[test]
fn every_recipe_is_short_says_what_it_is_and_loads_back() {
    let mut stems = vec![];
    for (name, path) in files() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# ") && text.lines().count() <= 25, "{name}");
        let resolved = resolve(&path, &[]);
        let recipe = Recipe::load(&path, &[] as &[&str]).unwrap();
        assert_eq!(recipe.unused_keys(&resolved), [""; 0], "{name}");
        let again =
            Recipe::parse(&name, &resolved.to_toml(), &[] as &[&str]).unwrap().resolve().unwrap();
        assert_eq!(again, resolved, "{name}");
        stems.push(resolved.name);
    }
    let all = stems.len();
    stems.sort();
    stems.dedup();
    assert_eq!(stems.len(), all, "two recipes would have the same run folder");
}

/// What a new user tries first.
#[test]
fn every_cifar_recipe_can_be_tried_for_an_epoch() {
    for (_, path) in files().iter().filter(|(name, _)| !name.contains("imagenet")) {
        assert_eq!(resolve(path, &["train.epochs=1"]).train.epochs, 1);
    }
}

/// One number for all widths, at its place in the widest: nothing is mixed, nothing scaled, and no
/// budget left to do so.
#[test]
fn slimmable_networks_share_corners_and_nothing_else() {
    for data in ["cifar-100", "cifar-10"] {
        let resolved = resolve(&folder().join(format!("figure-3/slimmable-{data}.toml")), &[]);
        let plan = resolved.first_plan().unwrap();
        let bill = &plan.bill;
        assert_eq!(Some(bill.total()), plan.budget);
        assert_eq!((bill.coefficients, bill.reserved), (0, 0));
        assert!(plan.template_sets.iter().all(|set| set.templates == 1));
        assert!(plan.layers.iter().all(|layer| !layer.tiles.is_empty()), "every layer takes part");
        assert!(plan.layers.iter().flat_map(|layer| &layer.tiles).all(|tile| tile.factor == 1.0));
        let widest = plan
            .layers
            .iter()
            .filter(|layer| layer.layer.member.0 == 0)
            .map(|layer| layer.layer.len());
        assert_eq!(bill.templates, widest.sum::<u64>(), "as many as the widest has");
    }
}

#[test]
fn the_readme_links_every_folder_of_recipes() {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for (name, _) in files() {
        let place = name.split_once('/').map_or(name.as_str(), |(folder, _)| folder);
        assert!(
            readme.contains(&format!("]({place})")),
            "recipes/README.md has no link to {place}"
        );
    }
}

/// `UPDATE_RECIPES=1` rewrites the table.
#[test]
fn keys_md_lists_every_key() {
    let path = folder().join("keys.md");
    let mut table =
        "# Keys of a recipe\n\nThis file is written by `UPDATE_RECIPES=1 cargo test -p \
                     superweight --test recipes`.\n\n| key | values | default |\n|---|---|---|\n"
            .to_owned();
    for key in KEYS {
        writeln!(table, "| `{}` | {} | {} |", key.path, key.kind, key.default).unwrap();
    }
    if std::env::var_os("UPDATE_RECIPES").is_some() {
        fs::write(&path, table).unwrap();
    } else {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, table, "run with UPDATE_RECIPES=1");
    }
}
