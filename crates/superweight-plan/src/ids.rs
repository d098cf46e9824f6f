//! Typed positions of the parts of a plan: a layer id cannot be passed where a cluster id is
//! needed.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub usize);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Identifies a member network: its position in
    /// [`SharingPlan::members`](crate::SharingPlan::members).
    MemberId
);
id!(
    /// Identifies a layer: its position in [`SharingPlan::layers`](crate::SharingPlan::layers).
    ///
    /// Layers are numbered member by member, and within a member in the order in which they run.
    LayerId
);
id!(
    /// Identifies a cluster: its position in
    /// [`SharingPlan::clusters`](crate::SharingPlan::clusters).
    ClusterId
);
id!(
    /// Identifies a template set: its position in
    /// [`SharingPlan::template_sets`](crate::SharingPlan::template_sets).
    SetId
);
id!(
    /// Identifies a SuperWeight: its position in
    /// [`SharingPlan::superweights`](crate::SharingPlan::superweights).
    SuperWeightId
);
