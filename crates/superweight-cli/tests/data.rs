//! The screens of `swn data`, pinned.

#[macro_use]
mod common;

use std::fs;

use common::Folder;

pinned! {
    data_help: "data", "data fetch --help", "data verify -h", "data list -h", "data pack --help";
    data_list: "data list", "data list --in elsewhere";
    data_nothing_there: "data verify", "data verify cifar-100", "data verify fashion-mnist-10k --in elsewhere";
    data_bad_fetch:
        "data fetch cifar100",
        "data fetch cifar-100 --from nowhere",
        "data fetch cifar-100 --from .",
        "data fetch fashion-mnist-10k";
    data_bad_pack:
        "data pack birds",
        "data pack cifar-10 --from .",
        "data pack birds --from nowhere",
        "data pack birds --from .",
        "data pack birds --from . --size 32x",
        "data pack birds --from . --size 4096",
        "data pack birds --from . --test 100%",
        "data pack birds --from . --test 0.2";
}

fn write(folder: &Folder, name: &str, bytes: &[u8]) {
    let path = folder.0.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_files_are_reported_and_not_changed() {
    let folder = Folder::new("data-damaged");
    write(&folder, "data/cifar-100-binary/train.bin", &[0; 3074]);
    fs::File::create(folder.0.join("data/cifar-100-binary/test.bin"))
        .unwrap()
        .set_len(30_740_000)
        .unwrap();
    write(&folder, "data/mnist/t10k-labels-idx1-ubyte", &[0; 10_008]);
    write(&folder, "page.tar.gz", b"<html>");
    let screens = [
        "data list",
        "data verify",
        "data fetch cifar-100 --from data",
        "data fetch cifar-100 --from page.tar.gz",
        "data fetch mnist --from data/mnist/t10k-labels-idx1-ubyte",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("data_damaged", screens.join("\n"));
    assert_eq!(fs::read(folder.0.join("data/cifar-100-binary/train.bin")).unwrap(), [0; 3074]);
    assert_eq!(fs::read_dir(folder.0.join("data")).unwrap().count(), 2);
}

#[test]
fn a_failed_download_names_the_address_and_the_alternative() {
    let folder = Folder::new("data-offline");
    let screen = folder.screen("data fetch cifar-10");
    assert!(screen.contains("[exit 1]\ndownloading file://"), "{screen}");
    assert!(
        screen.contains("/mirror/cifar-10-binary.tar.gz could not be downloaded: "),
        "{screen}"
    );
    assert!(screen.ends_with("; files already there are taken with '--from PATH'\n"), "{screen}");
    assert_eq!(fs::read_dir(folder.0.join("data")).unwrap().count(), 0);
}

#[test]
fn json_everywhere() {
    let folder = Folder::new("data-json");
    let list = folder.json("data list --json");
    assert_eq!(list["folder"], "data");
    assert_eq!(list["sets"][0]["state"], "embedded");
    assert_eq!(list["sets"][4]["name"], "cifar-100");
    assert_eq!(list["sets"][4]["state"], "absent");
    assert_eq!(list["sets"][4]["classes"].as_array().unwrap().len(), 100);
    assert_eq!(folder.json("data fetch fashion-mnist-10k --json")["fetched"], false);
    write(&folder, "data/cifar-100-binary/train.bin", &[0; 3074]);
    let answer = folder.json("data verify --json");
    assert_eq!(answer["whole"], false);
    let files = &answer["sets"][1]["files"];
    assert_eq!((&files[0]["state"], &files[1]["state"]), (&"damaged".into(), &"missing".into()));
    assert!(
        files[0]["error"]
            .as_str()
            .unwrap()
            .contains("3074 bytes where 153700000 bytes are expected")
    );
}

/// Two classes that a network can separate: dark and bright pictures of 6×8 pixels.
fn write_pictures(folder: &Folder, split: &str, each: u8) {
    for (class, shade) in [("dark", 20), ("bright", 200)] {
        for i in 0..each {
            let mut bytes = vec![];
            let mut encoder = png::Encoder::new(&mut bytes, 8, 6);
            encoder.set_color(png::ColorType::Grayscale);
            let pixels: Vec<u8> = (0..48).map(|p| shade + i + p % 3).collect();
            encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
            write(folder, &format!("pictures/{split}{class}/{i}.png"), &bytes);
        }
    }
}

const RECIPE: &str = "\
members = ['wrn-10-1']
budget = '60%'
strategy = 'no-search'
data = { name = 'shades' }
train = { epochs = 3, batch_size = 10, bn_batch_size = 10, schedule = 'one-cycle', lr = 0.05 }
";

/// Pictures are packed, listed, trained on and used without the original folder; another set of the
/// same name is refused.
#[test]
fn own_pictures_are_packed_and_trained_on() {
    let folder = Folder::with_recipe("data-own", RECIPE);
    write_pictures(&folder, "", 25);
    write(&folder, "pictures/dark/notes.txt", b"");
    let screens = [
        "data pack shades --from pictures --size 8x12",
        "data pack shades --from pictures --size 8x12",
        "data list",
        "data verify shades",
        "data verify",
    ]
    .map(|args| folder.screen(args));
    insta::assert_snapshot!("data_own", screens.join("\n"));
    assert!(folder.run("train tiny.toml --name half --until 1 --device cpu").status.success());
    let train = folder.screen("train tiny.toml --device cpu");
    assert!(
        train.contains(
            "images     40 for training, 0 for validation, 10 for testing; 4 steps per epoch"
        ),
        "{train}"
    );
    let answer = folder.json("eval runs/tiny --device cpu --classes --json");
    let top1 = answer["subsets"][0]["top1"].as_f64().unwrap();
    let classes = answer["by_class"].as_array().unwrap();
    let sum = |key: &str| classes.iter().map(|class| class[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("images"), sum("correct")), (10, (top1 / 10.0).round() as u64));
    let screen = folder.screen("eval runs/tiny --device cpu --classes");
    assert!(screen.contains("\n  class   images   top-1  taken for\n"), "{screen}");
    assert!(top1 >= 90.0, "{top1}");
    let set = |run: &str| fs::read_to_string(folder.0.join(run)).unwrap();
    assert_eq!(set("runs/tiny/set.json"), set("data/shades/set.json"));

    fs::rename(folder.0.join("data"), folder.0.join("away")).unwrap();
    let predicted =
        folder.screen("predict runs/tiny pictures/dark/3.png pictures/bright/3.png --device cpu");
    assert!(
        predicted.contains("dark/3.png: dark ") && predicted.contains("bright/3.png: bright "),
        "{predicted}"
    );
    let missing = folder.screen("eval runs/tiny --device cpu");
    assert!(missing.contains("error: shades is not in data: copy its folder there"), "{missing}");
    let unknown = folder.screen("train tiny.toml --name other");
    assert!(unknown.contains("unknown data set 'shades': there are "), "{unknown}");

    write_pictures(&folder, "test/", 2);
    write_pictures(&folder, "train/", 8);
    let answer = folder.json("data pack shades --from pictures --size 8x12 --json");
    assert_eq!(
        (&answer["train"], &answer["test"], &answer["test_drawn"]),
        (&16.into(), &4.into(), &false.into())
    );
    assert_eq!(
        (&answer["test_seen_in_training"], &answer["classes"][0]),
        (&4.into(), &"bright".into())
    );
    let other = folder.screen("eval runs/tiny --device cpu");
    assert!(
        other.contains("error: shades in data is not the set that the run was begun with"),
        "{other}"
    );
    let resumed = folder.screen("train --resume runs/half --device cpu");
    assert!(resumed.contains("is not the set that the run was begun with"), "{resumed}");

    // A run's folder is not a data set that may be replaced.
    let run = folder.screen("data pack tiny --from pictures --out runs --replace");
    assert!(run.contains("[exit 1]") && run.contains("runs/tiny is there already"), "{run}");
    // A run that has no description of its set refuses the set.
    fs::remove_file(folder.0.join("runs/tiny/set.json")).unwrap();
    for command in
        ["eval runs/tiny", "predict runs/tiny pictures/dark/3.png", "train --resume runs/tiny"]
    {
        let screen = folder.screen(command);
        assert!(
            screen.contains("[exit 1]")
                && screen.contains("is not the set that the run was begun with"),
            "{screen}"
        );
    }
    // The same pictures, packed again, give the same set.
    fs::remove_dir_all(folder.0.join("pictures/train")).unwrap();
    fs::remove_dir_all(folder.0.join("pictures/test")).unwrap();
    let again = folder.screen("data pack shades --replace --from pictures --size 8x12");
    assert!(again.contains("[exit 0]"), "{again}");
    assert!(folder.screen("eval runs/tiny --device cpu").contains("[exit 0]"));
}

/// Images read from the disk give the same parameters and predictions as images in memory.
#[test]
fn sets_larger_than_memory() {
    let folder = Folder::with_recipe("data-large", RECIPE);
    write_pictures(&folder, "", 25);
    assert!(folder.screen("data pack shades --from pictures --size 8x12").contains("[exit 0]"));
    let none = [("SWN_IMAGES_MIB", "0")];
    let here =
        folder.screen("train tiny.toml --device cpu --name here --set data.crop=random-resized");
    let there = folder.screen_with(
        "train tiny.toml --device cpu --name there --set data.crop=random-resized",
        &none,
    );
    let on_disk = "           0.0 MB, read from the disk during training; 'swn data verify shades' verifies them\n";
    assert!(there.contains(on_disk) && !here.contains("the disk"), "{there}{here}");
    let bank = |run: &str| {
        let checkpoints = folder.0.join("runs").join(run).join("checkpoints");
        let latest = fs::read_to_string(checkpoints.join("latest")).unwrap();
        fs::read(checkpoints.join(latest.trim()).join("bank.safetensors")).unwrap()
    };
    assert_eq!(bank("here"), bank("there"));
    let [here, there] = [("here", &[][..]), ("there", &none)].map(|(run, variables)| {
        let screen = folder.screen_with(&format!("eval runs/{run} --device cpu"), variables);
        screen.replace(run, "RUN")
    });
    let note = "note: images are read from the disk without verification; 'swn data verify shades' verifies them\n";
    assert_eq!(here, there.replace(note, ""));
    assert!(there.contains(note), "{there}");

    let wrong =
        folder.screen_with("train tiny.toml --device cpu --name x", &[("SWN_IMAGES_MIB", "3G")]);
    assert!(wrong.contains("error: SWN_IMAGES_MIB=3G: a number of MiB is expected"), "{wrong}");
    // A truncated set is refused.
    let file = folder.0.join("data/shades/train-images.npy");
    fs::write(&file, &fs::read(&file).unwrap()[1..]).unwrap();
    let cut = folder.screen_with("train tiny.toml --device cpu --name x", &none);
    assert!(cut.contains("train-images.npy: 11647 bytes where 11648 are expected"), "{cut}");
}

/// Recipes of ImageNet train once its pictures are packed under that name.
#[test]
fn imagenet_recipes_use_the_packed_set() {
    let folder = Folder::with_recipe("data-imagenet", &RECIPE.replace("'shades'", "'imagenet'"));
    let missing = folder.screen("train tiny.toml --device cpu");
    assert!(
        missing.contains(
            "error: imagenet is not in data: 'swn data pack imagenet --from FOLDER --size 224'"
        ),
        "{missing}"
    );
    write_pictures(&folder, "train/", 20);
    write_pictures(&folder, "val/", 5);
    for command in ["data fetch imagenet", "data verify imagenet"] {
        assert!(
            folder.screen(command).contains("error: imagenet is not in data: 'swn data pack"),
            "{command}"
        );
    }
    let spelled = folder.screen("data pack ImageNet --from pictures");
    assert!(
        spelled.contains("cannot name a set of your own: recipes know it as 'imagenet'"),
        "{spelled}"
    );
    let packed = folder.screen("data pack imagenet --from pictures --size 16");
    assert!(
        packed.contains("next       swn train recipes/table-1/imagenet-10-swn.toml\n"),
        "{packed}"
    );
    let trained = folder.screen("train tiny.toml --device cpu");
    assert!(
        trained.contains("images     40 for training, 0 for validation, 10 for testing"),
        "{trained}"
    );
    let resolved = fs::read_to_string(folder.0.join("runs/tiny/resolved.toml")).unwrap();
    assert!(
        resolved.contains("crop = \"random-resized\"") && resolved.contains("digest = "),
        "{resolved}"
    );
    assert!(folder.screen("eval runs/tiny --device cpu").contains("[exit 0]"));
    assert!(folder.screen("train --resume runs/tiny --device cpu").contains("[exit 0]"));
}

/// The set appears only after all pictures are read; until then the old one stays.
#[test]
fn unreadable_pictures_are_named_and_change_nothing() {
    let folder = Folder::new("data-unreadable");
    write_pictures(&folder, "", 5);
    write(&folder, "pictures/dark/7.jpg", b"\xff\xd8\xff");
    write(&folder, "pictures/dark/8.png", b"");
    let refused = folder.screen("data pack shades --from pictures");
    assert!(
        refused.contains("[exit 1]") && refused.contains("2 of 12 pictures cannot be read:\n"),
        "{refused}"
    );
    assert!(refused.contains(
        "pictures/dark/8.png, byte 0: expected a PNG, JPEG, WebP or GIF picture, found an empty file"
    ));
    assert_eq!(fs::read_dir(folder.0.join("data")).unwrap().count(), 0);
    let left = folder.screen("data pack shades --from pictures --skip-unreadable --grey");
    assert!(left.contains("warning: left out: pictures/dark/7.jpg"), "{left}");
    assert!(left.contains("1×32×32 images of 2 classes"), "{left}");
    let again = folder.screen("data pack shades --from pictures --replace");
    assert!(again.contains("cannot be read"), "{again}");
    assert!(folder.screen("data verify shades").contains("[exit 0]"));
    fs::write(folder.0.join("data/shades/test-labels.npy"), b"x").unwrap();
    let damaged = folder.screen("data verify shades");
    assert!(
        damaged.contains("[exit 1]")
            && damaged.contains("'swn data pack shades --replace --from …'"),
        "{damaged}"
    );
}

#[test]
fn a_path_appears_once_in_an_error() {
    let folder = Folder::new("data-path-once");
    fs::create_dir(folder.0.join("empty")).unwrap();
    for args in [
        "data pack birds --from nowhere",
        "data pack birds --from empty",
        "data fetch cifar-100 --from nowhere",
        "data fetch cifar-100 --from empty",
    ] {
        let screen = folder.screen(args);
        let error = screen.split("error: ").nth(1).unwrap();
        let count = error.matches("nowhere").count() + error.matches("empty").count();
        assert_eq!(count, 1, "{screen}");
        assert!(error.starts_with("--from: "), "{screen}");
    }
}

/// A picture in a format that is not read is named with its format, and packing fails.
#[test]
fn pictures_in_other_formats_are_named() {
    let folder = Folder::new("data-formats");
    write_pictures(&folder, "", 3);
    write(&folder, "pictures/dark/photo.heic", b"\0\0\0\x1cftypheic\0\0\0\0");
    write(&folder, "pictures/dark/Thumbs.db", b"");
    let screen = folder.screen("data pack shades --from pictures --size 8x12");
    assert!(screen.contains("1 of 7 pictures cannot be read"), "{screen}");
    assert!(screen.contains("photo.heic") && screen.contains("in HEIC"), "{screen}");
    let screen = folder.screen("data pack shades --from pictures --size 8x12 --skip-unreadable");
    assert!(screen.contains("[exit 0]"), "{screen}");
    assert!(screen.contains("left out: pictures/dark/photo.heic"), "{screen}");
    assert!(screen.contains("not read: pictures/dark/Thumbs.db"), "{screen}");
}
