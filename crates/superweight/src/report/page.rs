//! The page: one HTML file out of a skeleton, a style sheet, a script and the data.
//!
//! The data stand in a script element of their own that is no script. Inside it `<`, `>` and `&` are written as JSON
//! escapes, so that no text can end the element, open a comment or be read as HTML. A content security policy names the
//! digest of the one script that may run and forbids every request: the browser enforces what we promise.

use sha2::{Digest, Sha256};

use super::{Report, base64};

const SKELETON: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");

/// In the order they need each other; together one script.
const SCRIPTS: [&str; 16] = [
    include_str!("page/dom.js"),
    include_str!("page/palette.js"),
    include_str!("page/outputs.js"),
    include_str!("page/algorithm.js"),
    include_str!("page/state.js"),
    include_str!("page/charts.js"),
    include_str!("page/headline.js"),
    include_str!("page/curves.js"),
    include_str!("page/map.js"),
    include_str!("page/sliders.js"),
    include_str!("page/bill.js"),
    include_str!("page/composition.js"),
    include_str!("page/matrix.js"),
    include_str!("page/evaluation.js"),
    include_str!("page/compare.js"),
    include_str!("page/main.js"),
];

/// The whole file.
pub(super) fn html(report: &Report) -> String {
    let script = script();
    let digest = base64::encode(&Sha256::digest(script.as_bytes()));
    let title = match report.runs.as_slice() {
        [run] => format!("{} – SuperWeight report", run.name),
        runs => format!("{} runs – SuperWeight report", runs.len()),
    };
    let parts = [
        ("{{title}}", text(&title)),
        ("{{digest}}", digest),
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", json_in_html(&report.to_json())),
        ("{{script}}", script),
    ];
    // Each part is put where the skeleton has it, once: what stands in a part is never looked at again.
    let mut page = String::new();
    let mut rest = SKELETON;
    for (place, split) in parts {
        let (before, after) =
            rest.split_once(place).expect("the skeleton has every place, in this order");
        page.push_str(before);
        page.push_str(&split);
        rest = after;
    }
    page + rest
}

fn script() -> String {
    format!("'use strict';\n(() => {{\n{}\n}})();\n", SCRIPTS.join("\n"))
}

/// JSON that HTML cannot misread: these signs occur inside strings only.
fn json_in_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for sign in json.chars() {
        match sign {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            sign => out.push(sign),
        }
    }
    out
}

/// Text in HTML.
fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_gets_out_of_the_data() {
        let hostile = "</script><script>alert(1)</script><!-- & \u{2028} \u{202e} {{script}}";
        let json = serde_json::to_string(hostile).unwrap();
        let safe = json_in_html(&json);
        assert!(!safe.contains(['<', '>', '&', '\u{2028}']), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
        assert_eq!(text("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }

    #[test]
    fn the_script_ends_no_element_and_asks_for_nothing() {
        let script = script();
        assert!(!script.contains("</script") && !script.contains("<!--"));
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "fetch(",
            "XMLHttp",
            "eval(",
        ] {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
    }
}
