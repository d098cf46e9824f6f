//! Typed positions in a plan, so that a layer is never mistaken for a cluster.

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
    /// Position in [`SharingPlan::members`](crate::SharingPlan::members).
    MemberId
);
id!(
    /// Position in [`SharingPlan::layers`](crate::SharingPlan::layers): members in order, layers in the order they run.
    LayerId
);

id!(
    /// Position in [`SharingPlan::clusters`].
    ClusterId
);
id!(
    /// Position in [`SharingPlan::template_sets`].
    SetId
);
id!(
    /// Position in [`SharingPlan::superweights`].
    SuperWeightId
);
