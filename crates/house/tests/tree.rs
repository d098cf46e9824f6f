//! The checks on this repository.

use house::tree::root;

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn modules_depend_on_each_other_without_a_circle() {
    none(&house::find_cycles(&root()));
}

#[test]
fn words_are_those_of_the_field_and_comments_fit() {
    none(&house::find_words(&root()));
}

#[test]
fn links_lead_to_files_and_headings() {
    none(&house::find_links(&root()));
}

#[test]
fn paths_in_comments_and_documents_exist() {
    none(&house::find_paths(&root()));
}
