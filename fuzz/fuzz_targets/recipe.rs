//! Recipes: lines that begin with `--set ` are flags, the others are the file. What resolves is
//! written as `resolved.toml` and must resolve to the same.
#![cfg_attr(feature = "libfuzzer", no_main)]

use superweight::recipe::Recipe;

superweight_fuzz::target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (flags, file): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("--set "));
    let flags: Vec<_> = flags.into_iter().map(|line| &line["--set ".len()..]).collect();
    let Ok(recipe) = Recipe::parse("fuzz.toml", &file.join("\n"), &flags) else { return };
    let Ok(resolved) = recipe.resolve() else { return };
    let again = Recipe::parse("resolved.toml", &resolved.to_toml(), &[] as &[&str]);
    let again = again.and_then(|recipe| recipe.resolve()).expect("what was resolved resolves");
    assert_eq!(again, resolved);
});
