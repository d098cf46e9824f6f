//! What people see of `swn data`, pinned.

#[macro_use]
mod common;

use std::fs;

use common::Folder;

pinned! {
    data_help: "data", "data fetch --help", "data verify -h", "data list -h";
    data_list: "data list", "data list --in elsewhere";
    data_nothing_there: "data verify", "data verify cifar-100", "data verify fashion-mnist-10k --in elsewhere";
    data_bad_fetch:
        "data fetch cifar100",
        "data fetch cifar-100 --from nowhere",
        "data fetch cifar-100 --from .",
        "data fetch fashion-mnist-10k";
}

fn write(folder: &Folder, name: &str, bytes: &[u8]) {
    let path = folder.0.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_files_are_told_and_left_alone() {
    let folder = Folder::new("data-damaged");
    write(&folder, "data/cifar-100-binary/train.bin", &[0; 3074]);
    fs::File::create(folder.0.join("data/cifar-100-binary/test.bin")).unwrap().set_len(30_740_000).unwrap();
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
fn a_failed_download_says_where_and_what_else() {
    let folder = Folder::new("data-offline");
    let screen = folder.screen("data fetch cifar-10");
    assert!(screen.contains("[exit 1]\ndownloading file://"), "{screen}");
    assert!(screen.contains("/mirror/cifar-10-binary.tar.gz could not be downloaded: "), "{screen}");
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
    assert!(files[0]["error"].as_str().unwrap().contains("3074 bytes where 153700000 bytes are expected"));
}
