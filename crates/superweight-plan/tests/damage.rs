//! Damaged plan files are refused, and the error names the damaged place.

mod common;

use serde_json::{Value, json};
use superweight_plan::{PlanError, PlanRequest, SharedRoles, SharingPlan, TilingChoice};

/// A valid plan of this tiling, as JSON.
fn plan(tiling: &str) -> Value {
    let (names, budget) = match tiling {
        "nested" => ("wrn-16-4,wrn-16-2", 2_000_000),
        _ => ("wrn-16-4,wrn-16-2", 300_000),
    };
    let choice = if tiling == "grid" { TilingChoice::Grid } else { TilingChoice::Auto };
    let request = common::request(names, 10, budget, "single");
    let shared_roles = SharedRoles { classifier: Some(false), ..request.shared_roles };
    let plan = PlanRequest { tiling: choice, shared_roles, ..request }.plan().unwrap();
    assert!(plan.tiling.to_string().starts_with(tiling));
    serde_json::from_str(&plan.to_json()).unwrap()
}

/// Applies the damage to a valid plan and returns the message of the error.
fn damaged(plan: &Value, damage: impl FnOnce(&mut Value)) -> String {
    let mut plan = plan.clone();
    SharingPlan::from_json(&plan.to_string()).expect("the plan is valid before the damage");
    damage(&mut plan);
    SharingPlan::from_json(&plan.to_string()).expect_err("the damage is not detected").to_string()
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().unwrap()
}

#[test]
fn errors_name_damaged_banks_and_views() {
    let request = common::request("wrn-16-4,wrn-16-2", 10, 300_000, "single");
    let sound =
        PlanRequest { tiling: TilingChoice::Stretched, ..request }.plan().unwrap().to_json();
    let sound: Value = serde_json::from_str(&sound).unwrap();
    let stretched = |p: &Value| {
        let sets = p["template_sets"].as_array().unwrap();
        sets.iter().position(|set| set["view"]["from"].is_array()).unwrap()
    };
    let s = stretched(&sound);
    let sets = sound["template_sets"].as_array().unwrap();
    let several: Vec<usize> =
        sets.iter().map(|set| set["templates"].as_u64().unwrap() as usize).collect();
    let twice = several.iter().position(|&k| k > 1).unwrap();
    let view = format!("template_sets[{s}].view");
    for (place, damage) in [
        (
            "clusters[0].bank",
            &(|p: &mut Value| p["clusters"][0]["bank"] = json!(null)) as &dyn Fn(&mut Value),
        ),
        ("clusters[0].bank", &|p: &mut Value| p["clusters"][0]["bank"] = json!(0)),
        ("template_sets[0].view.at", &|p: &mut Value| p["clusters"][0]["bank"] = json!(1)),
        ("clusters", &|p: &mut Value| p["tiling"] = json!("nested")),
        (&view, &|p: &mut Value| {
            drop(p["template_sets"][s].as_object_mut().unwrap().remove("view"))
        }),
        (&format!("{view}.at"), &|p: &mut Value| p["template_sets"][s]["view"]["at"] = json!([])),
        (&format!("{view}.at"), &|p: &mut Value| {
            p["template_sets"][s]["view"]["at"][0] = json!(299_999)
        }),
        (&format!("{view}.at"), &|p: &mut Value| {
            p["template_sets"][s]["view"]["at"][0] = json!(u64::MAX)
        }),
        (&format!("{view}.from"), &|p: &mut Value| {
            p["template_sets"][s]["view"]["from"] = json!([0, 1])
        }),
        (&format!("{view}.from"), &|p: &mut Value| {
            p["template_sets"][s]["view"]["from"] = json!([1, 9999])
        }),
        (&format!("template_sets[{s}].std"), &|p: &mut Value| {
            p["template_sets"][s]["std"] = json!(7.0)
        }),
        (&format!("template_sets[{twice}].view.at"), &|p: &mut Value| {
            p["template_sets"][twice]["view"]["at"] = json!(vec![0; several[twice]])
        }),
        (&format!("template_sets[{s}].block"), &|p: &mut Value| {
            p["template_sets"][s]["block"][2] = json!(5)
        }),
        ("bill.templates", &|p: &mut Value| {
            let more = p["clusters"][0]["bank"].as_u64().unwrap() + 1;
            p["clusters"][0]["bank"] = json!(more);
        }),
        // Layer 1 has 3×3 templates; give it a tile of a shortcut, with 1×1 templates.
        ("layers[1].tiles[0]", &|p: &mut Value| {
            let shortcut = p["layers"]
                .as_array()
                .unwrap()
                .iter()
                .position(|l| l["layer"]["kernel"] == json!([1, 1]));
            let tiles = p["layers"][shortcut.unwrap()]["tiles"].clone();
            p["layers"][1]["tiles"] = tiles;
        }),
    ] {
        let error = damaged(&sound, damage);
        assert!(error.contains(place), "{place}: {error}");
    }
    // Rank-one tiling.
    let request = common::request("wrn-16-2,wrn-16-2", 10, 900_000, "per-position");
    let sound = PlanRequest { tiling: TilingChoice::RankOne, ..request }.plan().unwrap().to_json();
    let sound: Value = serde_json::from_str(&sound).unwrap();
    for (place, damage) in [
        (
            "template_sets[3].view",
            &(|p: &mut Value| {
                p["template_sets"][3]["templates"] = json!(2);
                p["template_sets"][3]["view"]["at"] = json!([0, 0]);
            }) as &dyn Fn(&mut Value),
        ),
        ("template_sets[3].view", &|p: &mut Value| {
            p["template_sets"][3]["view"]["from"] = json!([1, 1])
        }),
        ("template_sets[0].view", &|p: &mut Value| {
            let more = p["clusters"][0]["bank"].as_u64().unwrap() + 1;
            p["clusters"][0]["bank"] = json!(more);
        }),
        ("bill.coefficients", &|p: &mut Value| p["tiling"] = json!("stretched")),
    ] {
        let error = damaged(&sound, damage);
        assert!(error.contains(place), "{place}: {error}");
    }
    // Banks and views in a tiling without banks.
    let error = damaged(&plan("grid"), |p| p["clusters"][0]["bank"] = json!(100));
    assert!(error.contains("clusters[0].bank"), "{error}");
    let error = damaged(&plan("grid"), |p| p["template_sets"][0]["view"] = json!({ "at": [0] }));
    assert!(error.contains("template_sets[0].view"), "{error}");
}

#[test]
fn errors_name_every_kind_of_damage() {
    type Damage = fn(&mut Value);
    // Layer 2 is block1.layer.0.conv2.weight [64, 64] of member 0, with at least two tiles.
    let damages: &[(&str, Damage)] = &[
        ("layers[2].tiles[1]", |p| p["layers"][2]["tiles"][1]["at"]["cols"] = json!([0, 48])),
        ("layers[2].tiles[0]", |p| p["layers"][2]["tiles"][0]["at"]["rows"] = json!([1, 33])),
        ("layers[2].tiles", |p| drop(list(&mut p["layers"][2]["tiles"]).remove(0))),
        ("layers[2].tiles", |p| {
            let tile = p["layers"][2]["tiles"][0].clone();
            list(&mut p["layers"][2]["tiles"]).push(tile);
        }),
        ("layers[2].tiles", |p| drop(p["layers"][2].as_object_mut().unwrap().remove("tiles"))),
        ("layers[2].tiles[0]", |p| p["layers"][2]["tiles"][0]["superweight"] = json!(9999)),
        ("layers[2].tiles[0]", |p| p["layers"][2]["tiles"][0]["factor"] = json!(0.0)),
        ("layers[2].tiles[0]", |p| {
            // A SuperWeight of another cluster (the last one is 1×1).
            let foreign = p["superweights"].as_array().unwrap().len() - 1;
            p["layers"][2]["tiles"][0]["superweight"] = json!(foreign);
        }),
        ("superweights[0].groups[0].shape", |p| {
            p["superweights"][0]["groups"][0]["shape"][0] = json!(77)
        }),
        ("superweights[0].groups[0].shape", |p| {
            p["superweights"][0]["groups"][0]["shape"][1] = json!(1)
        }),
        ("superweights[0].groups[0].layers", |p| {
            list(&mut p["superweights"][0]["groups"][0]["layers"]).push(json!(0))
        }),
        ("superweights[0].groups[0].layers", |p| {
            let first = p["superweights"][0]["groups"][0]["layers"][0].clone();
            list(&mut p["superweights"][0]["groups"][0]["layers"]).push(first);
        }),
        ("superweights[0].groups", |p| {
            drop(list(&mut p["superweights"][0]["groups"][0]["layers"]).pop())
        }),
        ("superweights[0].set", |p| p["superweights"][0]["set"] = json!(4000)),
        ("superweights[0].at", |p| p["superweights"][0]["at"]["rows"] = json!([0, 4000])),
        ("superweights[0].at", |p| p["superweights"][0]["at"]["rows"] = json!([5, 2])),
        ("template_sets[0].templates", |p| p["template_sets"][0]["templates"] = json!(0)),
        ("template_sets[0].templates", |p| p["template_sets"][0]["templates"] = json!(u32::MAX)),
        ("groups[0].shape", |p| {
            let k = p["template_sets"][0]["templates"].as_u64().unwrap();
            p["template_sets"][0]["templates"] = json!(k + 1);
        }),
        ("template_sets[0].block", |p| p["template_sets"][0]["block"][0] = json!(0)),
        ("template_sets[0].block", |p| p["template_sets"][0]["block"][2] = json!(5)),
        ("template_sets[0].cluster", |p| p["template_sets"][0]["cluster"] = json!(17)),
        ("template_sets[0].std", |p| p["template_sets"][0]["std"] = json!(-1.0)),
        ("template_sets[0].row_norm", |p| p["template_sets"][0]["row_norm"] = json!(0.0)),
        ("template_sets[0].gain", |p| p["template_sets"][0]["gain"] = json!(2.0)),
        ("clusters", |p| list(&mut p["clusters"][0]["layers"]).push(json!(0))),
        ("clusters", |p| list(&mut p["clusters"][0]["layers"]).push(json!(12345))),
        ("no cluster 0", |p| p["clusters"] = json!([])),
        ("bill.templates", |p| p["bill"]["templates"] = json!(1)),
        ("bill", |p| p["budget"] = json!(1000)),
        ("reserve", |p| p["reserve"] = json!(1.5)),
        ("layers[2].tiles[1]", |p| p["layers"][2]["tiles"][1]["factor"] = json!(-1e308)),
        ("template_sets[0].std", |p| p["template_sets"][0]["std"] = json!(1e300)),
        ("superweights[0].groups[0].layers", |p| {
            list(&mut p["superweights"][0]["groups"][0]["layers"]).reverse()
        }),
        ("clusters[0].layers", |p| list(&mut p["clusters"][0]["layers"]).reverse()),
        ("tiling", |p| p["tiling"] = json!("dense")),
        ("template_sets[", |p| {
            let set = p["template_sets"][0].clone();
            list(&mut p["template_sets"]).push(set);
        }),
        ("superweights[", |p| {
            let superweight = p["superweights"][0].clone();
            list(&mut p["superweights"]).push(superweight);
        }),
        ("layers", |p| drop(list(&mut p["layers"]).pop())),
        ("layers[3].layer", |p| p["layers"][3]["layer"]["out"] = json!(65)),
        ("vectors[1]", |p| p["vectors"][1]["len"] = json!(1)),
        ("vectors", |p| drop(list(&mut p["vectors"]).pop())),
        ("members", |p| p["members"] = json!([])),
        ("layers", |p| drop(list(&mut p["members"]).pop())),
        ("wrn-17-4", |p| p["members"][0]["architecture"] = json!("wrn-17-4")),
        ("members[0]", |p| p["members"][0]["classes"] = json!(0)),
        ("version", |p| p["version"] = json!(2)),
        ("version", |p| p["version"] = json!("one")),
        ("version", |p| drop(p.as_object_mut().unwrap().remove("version"))),
        ("unknown field `colour`", |p| p["colour"] = json!("blue")),
        ("unknown field `angle`", |p| p["layers"][2]["tiles"][0]["angle"] = json!(90)),
    ];
    for tiling in ["nested", "grid"] {
        let plan = plan(tiling);
        for (i, (place, damage)) in damages.iter().enumerate() {
            let error = damaged(&plan, damage);
            assert!(error.contains(place), "{tiling}, damage {i}: expected '{place}' in: {error}");
        }
    }
}

#[test]
fn another_version_is_refused() {
    let error = SharingPlan::from_json(r#"{"version": 7, "anything": [1, 2]}"#).unwrap_err();
    assert_eq!(error, PlanError::Version { found: "7".into(), supported: 1 });
}

/// Plans written before `std` and `row_norm` had these names still load.
#[test]
fn old_field_names_are_read() {
    let plan = common::request("wrn-16-4", 10, 300_000, "single").plan().unwrap();
    let old =
        plan.to_json().replace("\"std\"", "\"deviation\"").replace("\"row_norm\"", "\"length\"");
    assert!(old.contains("\"deviation\"") && old.contains("\"length\""));
    assert_eq!(SharingPlan::from_json(&old).unwrap(), plan);
}

/// Some editors write a byte order mark at the start of a file.
#[test]
fn a_byte_order_mark_is_ignored() {
    let plan = common::request("wrn-16-4", 10, 300_000, "single").plan().unwrap();
    assert_eq!(SharingPlan::from_json(&format!("\u{feff}{}", plan.to_json())).unwrap(), plan);
}

#[test]
fn other_json_is_not_a_plan() {
    for text in
        ["", "{}", "[]", "null", "{\"version\": 1}", "{\"version\": 1, \"members\": 3}", "\u{0}"]
    {
        assert!(matches!(SharingPlan::from_json(text), Err(PlanError::Json(_))), "{text:?}");
    }
}

#[test]
fn truncated_files_are_refused() {
    let text = plan("grid").to_string();
    for end in (0..text.len()).step_by(997) {
        assert!(SharingPlan::from_json(&text[..end]).is_err());
    }
}

#[test]
fn errors_name_damage_that_only_one_tiling_can_have() {
    let nested = plan("nested");
    let error = damaged(&nested, |p| p["template_sets"][0]["block"][0] = json!(1));
    let [rows, cols] = [0, 1].map(|side| &nested["template_sets"][0]["block"][side]);
    let expected = format!("a template set whose block is [{rows}, {cols}], not [1, {cols}]");
    assert!(error.contains(&expected), "{error}");
    // Tiles of a layer may differ in their factor only if they use different sets; a grid has one
    // set.
    let grid = plan("grid");
    let error = damaged(&grid, |p| p["layers"][2]["tiles"][1]["factor"] = json!(0.123));
    assert!(error.contains("differs from that of the layer's other tiles"), "{error}");
    let error = damaged(&grid, |p| p["tiling"]["grid"]["block"] = json!(4));
    assert!(error.contains("larger than the tiling's block of 4"), "{error}");
    let error = damaged(&grid, |p| p["tiling"]["grid"]["block"] = json!(999_999));
    assert!(error.contains("expected a block of 1 to 4096 channels"), "{error}");
    let error = damaged(&grid, |p| p["tiling"]["grid"]["colour"] = json!(1));
    assert!(error.contains("unknown field `colour`"), "{error}");
    // Move a SuperWeight onto another, so that their tiles overlap.
    let error = damaged(&grid, |p| {
        p["superweights"][1]["at"] = p["superweights"][0]["at"].clone();
        for layer in list(&mut p["layers"]) {
            for tile in layer.get_mut("tiles").and_then(Value::as_array_mut).into_iter().flatten() {
                if tile["superweight"] == 1 {
                    tile["at"] = json!({"rows": [0, 32], "cols": [0, 16]});
                }
            }
        }
    });
    assert!(error.contains("covers positions that tiles[0] covers already"), "{error}");
}

#[test]
fn a_thousand_deep_members_are_refused_quickly() {
    let member = json!({"architecture": "wrn-9994-1", "input": [3, 32, 32], "classes": 10});
    let mut hostile = plan("grid");
    hostile["members"] = Value::Array(vec![member; 1000]);
    let start = std::time::Instant::now();
    let error = SharingPlan::from_json(&hostile.to_string()).unwrap_err().to_string();
    assert!(error.contains("layers"), "{error}");
    assert!(start.elapsed().as_secs() < 5, "the first member already has too many layers");
}

#[test]
fn template_counts_cannot_overflow() {
    let request = common::request("wrn-28-10", 100, 40_000_000, "per-layer");
    let plan = PlanRequest { tiling: TilingChoice::Nested, ..request }.plan().unwrap();
    let plan = serde_json::from_str(&plan.to_json()).unwrap();
    let error = damaged(&plan, |p| {
        list(&mut p["template_sets"]).iter_mut().for_each(|s| s["templates"] = json!(1 << 20))
    });
    assert!(error.contains("template_sets") && error.contains("more than"), "{error}");
}
