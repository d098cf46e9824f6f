//! Plans: what is read is written back as it was, and every question about it has an answer.
#![cfg_attr(feature = "libfuzzer", no_main)]

use superweight::plan::SharingPlan;

superweight_fuzz::target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(plan) = SharingPlan::from_json(text) {
        let again =
            SharingPlan::from_json(&plan.to_json()).expect("what was read can be written and read");
        assert_eq!(again, plan);
        assert_eq!(plan.users().len(), plan.superweights.len());
        assert!(plan.bill.trained() <= plan.bill.total());
    }
});
