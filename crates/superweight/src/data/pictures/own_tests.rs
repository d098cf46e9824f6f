//! Writing, reading, replacing and damaging packed data sets.

use super::*;
use crate::data::testing::{Folder, birds};
use crate::data::{NpyHeader, read_npy_rows};

#[test]
fn a_saved_set_is_read_bit_for_bit() {
    let folder = Folder::new("own");
    let data = birds();
    let target = OwnSet::save(&data, &folder.0, false).unwrap();
    assert_eq!(target, folder.0.join("birds"));
    assert_eq!(OwnSet::names(&folder.0), ["birds"]);
    let set = OwnSet::find("birds", &folder.0).unwrap().unwrap();
    assert_eq!(set.description, data.description());
    let read = Dataset::open("birds", &folder.0).unwrap();
    assert_eq!((&read.train, &read.test), (&data.train, &data.test));
    assert_eq!(read.description(), data.description());
    assert!(set.verify(&folder.0).iter().all(|file| matches!(file.state, State::Whole)));
    let size = |name: &str| fs::metadata(target.join(name)).unwrap().len();
    assert_eq!(set.bytes(), FILES.map(size).iter().sum::<u64>());
    assert_eq!(OwnSet::find("owls", &folder.0).unwrap(), None);
    assert_eq!(OwnSet::find("../own", &folder.0).unwrap(), None);
}

/// `numpy.save` of zeros((5, 2, 4, 3), 'u1') begins with this header.
#[test]
fn files_have_the_format_of_numpy() {
    let header = header(ImageShape { channels: 3, height: 2, width: 4 }, 5);
    let text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 4, 3), }";
    assert_eq!(header[..10], *b"\x93NUMPY\x01\x00\x76\x00");
    assert_eq!((&header[10..10 + text.len()], header.len(), header[127]), (&text[..], 128, b'\n'));
    assert_eq!(NpyHeader::parse(Path::new("f"), &header).unwrap().shape, [5, 2, 4, 3]);
    let folder = Folder::new("own-numpy");
    let target = OwnSet::save(&birds(), &folder.0, false).unwrap();
    let pixels = read_npy_rows(&target.join("test-images.npy"), &[2, 4, 3], 1, 2).unwrap();
    assert_eq!(pixels, birds().test.pixels[24..]);
}

#[test]
fn images_stay_in_their_files_if_memory_is_small() {
    let folder = Folder::new("own-mapped");
    let target = OwnSet::save(&birds(), &folder.0, false).unwrap();
    let set = OwnSet::find("birds", &folder.0).unwrap().unwrap();
    let read = |memory| set.read_within(&folder.0, memory).unwrap();
    let (here, there) = (read(set.bytes()), read(set.bytes() - 1));
    assert_eq!((here.on_disk(), there.on_disk()), (None, Some(8 * 24)));
    assert_eq!((&there.train, &there.test), (&birds().train, &birds().test));
    // Digests of images in files are not compared; those of labels are.
    let change = |name: &str| {
        let mut bytes = fs::read(target.join(name)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::remove_file(target.join(name)).unwrap();
        fs::write(target.join(name), bytes).unwrap();
    };
    change("train-images.npy");
    assert_ne!(read(0).train, birds().train);
    assert_eq!(there.train, birds().train, "the file that was opened");
    assert!(set.read_within(&folder.0, u64::MAX).is_err());
    assert!(set.verify(&folder.0).iter().any(|file| !matches!(file.state, State::Whole)));
    change("test-labels.npy");
    assert!(
        set.read_within(&folder.0, 0)
            .unwrap_err()
            .to_string()
            .contains("other bytes than were packed")
    );
}

/// Packing writes images before it knows their number.
#[test]
fn headers_of_images_have_one_length() {
    for (images, side) in [(1, 1), (9_999_999, 28), (MAX_BYTES, MAX_SIDE)] {
        let shape = ImageShape { channels: 3, height: side, width: side };
        assert_eq!(header(shape, images).len(), HEADER);
    }
}

#[test]
fn names_are_checked_and_foreign_folders_are_kept() {
    let folder = Folder::new("own-place");
    let refused = |name: &str, replace: bool| {
        OwnSet::check_place(name, &folder.0, replace).map_err(|error| error.to_string()).err()
    };
    for name in ["", ".x", "-x", "a/b", "..", "cifar-100", "cifar-100-binary", "ü"] {
        assert!(refused(name, true).unwrap().contains("cannot name a set of your own"), "{name}");
    }
    assert_eq!(refused("birds", false), None);
    OwnSet::save(&birds(), &folder.0, false).unwrap();
    assert!(refused("birds", false).unwrap().ends_with("replace a packed set with --replace"));
    assert_eq!(refused("birds", true), None);
    // A folder that is not a data set, or has other files too, is never replaced: a run has
    // set.json too.
    fs::create_dir(folder.0.join("letters")).unwrap();
    assert!(refused("letters", true).is_some());
    fs::copy(folder.0.join("birds/set.json"), folder.0.join("letters/set.json")).unwrap();
    assert_eq!(refused("letters", true), None);
    fs::write(folder.0.join("letters/log.jsonl"), "").unwrap();
    assert!(refused("letters", true).is_some());
    let fewer = Dataset { test: Images { pixels: vec![0; 24].into(), labels: vec![2] }, ..birds() };
    assert!(OwnSet::save(&fewer, &folder.0, false).is_err());
    assert_eq!(Dataset::open("birds", &folder.0).unwrap().test.len(), 3);
    OwnSet::save(&fewer, &folder.0, true).unwrap();
    assert_eq!(Dataset::open("birds", &folder.0).unwrap().test.len(), 1);
}

/// Two processes that pack under one name: the later one gets an error.
#[test]
fn a_name_is_taken_once() {
    let folder = Folder::new("own-once");
    OwnSet::check_place("birds", &folder.0, false).unwrap();
    let staging = Staging::new(&folder.0, "other").unwrap();
    write_file(&staging.path.join(SET), &[b"{}"]).unwrap();
    OwnSet::save(&birds(), &folder.0, false).unwrap();
    let late = staging.place(&folder.0.join("birds")).unwrap_err();
    assert!(matches!(late, DataError::Exists { .. }), "{late}");
    assert_eq!(Dataset::open("birds", &folder.0).unwrap().train, birds().train);
}

#[test]
fn damage_is_an_error_that_names_the_file() {
    let folder = Folder::new("own-damage");
    let target = OwnSet::save(&birds(), &folder.0, false).unwrap();
    let open = || match Dataset::open("birds", &folder.0) {
        Ok(_) => String::new(),
        Err(error) => error.to_string().replace(&target.display().to_string(), "HERE"),
    };
    let set = OwnSet::find("birds", &folder.0).unwrap().unwrap();
    let damaged =
        || set.verify(&folder.0).iter().filter(|file| !matches!(file.state, State::Whole)).count();
    for name in FILES {
        let whole = fs::read(target.join(name)).unwrap();
        fs::write(target.join(name), &whole[1..]).unwrap();
        assert!(
            open().starts_with(&format!("HERE/{name}: {} bytes where", whole.len() - 1)),
            "{}",
            open()
        );
        let mut other = whole.clone();
        other[20] ^= 1;
        fs::write(target.join(name), &other).unwrap();
        assert!(
            open().starts_with(&format!("HERE/{name}: an array of another shape")),
            "{}",
            open()
        );
        assert_eq!(damaged(), 1);
        fs::remove_file(target.join(name)).unwrap();
        assert_eq!(open(), format!("HERE/{name} could not be read"));
        fs::write(target.join(name), &whole).unwrap();
    }
    let file = target.join("train-labels.npy");
    let whole = fs::read(&file).unwrap();
    let mut labels = whole.clone();
    *labels.last_mut().unwrap() = 1;
    fs::write(&file, labels).unwrap();
    assert!(
        open().starts_with("HERE/train-labels.npy: other bytes than were packed"),
        "{}",
        open()
    );
    fs::write(&file, whole).unwrap();
    assert_eq!((open(), damaged()), (String::new(), 0));
    // Labels without a class, with valid digests.
    let wrong =
        Dataset { train: Images { labels: vec![0, 1, 2, 3, 0], ..birds().train }, ..birds() };
    OwnSet::save(&wrong, &folder.0, true).unwrap();
    assert!(
        open().contains("train-labels.npy: label 3 of image 3, and there are 3 classes"),
        "{}",
        open()
    );
    OwnSet::save(&birds(), &folder.0, true).unwrap();

    let text = fs::read_to_string(target.join(SET)).unwrap();
    for (from, to, why) in [
        ("\"version\": 1", "\"version\": 2", "version 2, where 1 is known"),
        (
            "\"name\": \"birds\"",
            "\"name\": \"owls\"",
            "it describes 'owls', and its folder is 'birds'",
        ),
        ("\"name\": \"birds\"", "\"name\": \"../x\"", "'../x' cannot name a data set"),
        ("\"channels\": 3", "\"channels\": 2", "images of 2×2×4"),
        ("\"height\": 2", "\"height\": 0", "images of 3×0×4"),
        ("\"crow\"", "\"owl\"", "a class is there twice"),
        ("\"train\": 5", "\"train\": 0", "0 training and 3 test images"),
        (
            "\"train\": 5",
            "\"train\": 18446744073709551615",
            "more images than memory has addresses",
        ),
        ("\"test\": 3", "\"test\": 400000000000000000", "more images than memory has addresses"),
        ("\"deviation\": [", "\"deviation\": [1.0,", "not a number per channel"),
        ("0.3", "0.0", "a deviation is not above 0"),
        ("\"version\"", "\"verson\"", "unknown field `verson`"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(target.join(SET), text.replace(from, to)).unwrap();
        assert!(open().starts_with("HERE/set.json: ") && open().contains(why), "{}", open());
    }
    for length in 0..text.len() - 1 {
        fs::write(target.join(SET), &text[..length]).unwrap();
        assert!(open().starts_with("HERE/set.json: "), "{length}");
    }
}
