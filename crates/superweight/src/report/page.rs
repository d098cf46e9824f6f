//! The page: one HTML file from a skeleton, a style sheet, a script and the data.
//!
//! The data are in a script element of type JSON, which does not run. In it, `<`, `>` and `&` are
//! JSON escapes, so that no text can end the element, open a comment or be read as HTML. A content
//! security policy names the digest of the one script that may run and forbids every request, so
//! that the browser enforces both.

use sha2::{Digest, Sha256};

use super::base64;
use super::document::Report;

const SKELETON: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");

/// Parts of the script, in the order of their dependencies.
const SCRIPTS: [&str; 17] = [
    include_str!("page/dom.js"),
    include_str!("page/palette.js"),
    include_str!("page/outputs.js"),
    include_str!("page/glossary.js"),
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

/// The complete HTML file of a report.
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
    // Each placeholder of the skeleton is replaced once, in order; inserted text is not searched
    // again.
    let mut page = String::new();
    let mut rest = SKELETON;
    for (place, content) in parts {
        let (before, after) =
            rest.split_once(place).expect("the skeleton has every place, in this order");
        page.push_str(before);
        page.push_str(&content);
        rest = after;
    }
    page + rest
}

/// All parts as one script in strict mode.
fn script() -> String {
    format!("'use strict';\n(() => {{\n{}\n}})();\n", SCRIPTS.join("\n"))
}

/// JSON that is safe in HTML. The escaped characters occur only inside strings.
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

/// Text with HTML's special characters escaped.
fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_the_data_element() {
        let hostile = "</script><script>alert(1)</script><!-- & \u{2028} \u{202e} {{script}}";
        let json = serde_json::to_string(hostile).unwrap();
        let safe = json_in_html(&json);
        assert!(!safe.contains(['<', '>', '&', '\u{2028}']), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
        assert_eq!(text("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }

    #[test]
    fn the_script_ends_no_element_and_makes_no_request() {
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
