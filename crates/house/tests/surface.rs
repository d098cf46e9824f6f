//! The public items of the library crates are the recorded ones.

#[test]
fn public_items_are_the_recorded_ones() {
    let findings = house::find_surface(&house::tree::root());
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}
