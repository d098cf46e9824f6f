//! Helpers shared by the unit tests.

use crate::layer::Member;

/// Members from comma-separated names (`wrn-28-10,wrn-16-4`), each with its default input shape.
pub fn members(names: &str, classes: usize) -> Vec<Member> {
    let member = |name: &str| {
        let architecture: crate::arch::ArchName = name.parse().unwrap();
        Member { input: architecture.default_input(), architecture, classes }
    };
    names.split(',').map(member).collect()
}
