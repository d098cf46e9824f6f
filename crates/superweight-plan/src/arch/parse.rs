//! Reads [`ArchName`]s, and suggests a name where a text is close to one.

use std::str::FromStr;

use super::bottleneck;
use super::name::{ArchError, ArchName};
use super::name::{EXITS, LIMIT, MAX_HEADS};

impl FromStr for ArchName {
    type Err = ArchError;

    fn from_str(text: &str) -> Result<Self, ArchError> {
        let lower = text.trim().to_ascii_lowercase();
        let invalid =
            |why: &str| ArchError::InvalidNumbers { name: text.to_owned(), why: why.to_owned() };
        let small = |depth: usize| depth >= 10 && depth % 6 == 4;
        if let Some((body, widths)) = lower.split_once('@') {
            return slim(text, body, widths);
        }
        let parts: Vec<&str> = lower.split('-').collect();
        match parts[..] {
            ["wrn", depth, width] => match (parse(depth), parse(width)) {
                (Some(depth), Some(width)) if bottleneck::stages(depth).is_some() => {
                    Ok(Self::Bottleneck { depth, width })
                }
                (Some(depth), Some(width)) if small(depth) => {
                    Ok(Self::Wrn { depth, percent: 100 * width })
                }
                (Some(depth), Some(width)) => Err(invalid(&nearest_depths(depth, width))),
                (Some(depth), None) if small(depth) => match hundredths(width) {
                    Some(percent) => Ok(Self::Wrn { depth, percent }),
                    None => Err(invalid(
                        "the width must be between 0.1 and 10000, with at most two decimals, \
                         e.g. 0.5",
                    )),
                },
                _ => Err(invalid("write wrn-DEPTH-WIDTH, e.g. wrn-28-10")),
            },
            ["resnet", depth] => match parse(depth).filter(|&d| bottleneck::stages(d).is_some()) {
                Some(depth) => Ok(Self::Bottleneck { depth, width: 1 }),
                None => Err(invalid(
                    "the depth must be 50, 101 or 152, e.g. resnet-50; smaller residual networks \
                     are wide ResNets, e.g. wrn-16-1",
                )),
            },
            ["mobilenet", "v2"] => Ok(Self::MobileNetV2 { percent: 100 }),
            ["mobilenet", "v2", width] => match width.parse::<f64>() {
                Ok(w)
                    if (0.05..=10.0).contains(&w)
                        && ((w * 100.0).round() - w * 100.0).abs() < 1e-9 =>
                {
                    Ok(Self::MobileNetV2 { percent: (w * 100.0).round() as usize })
                }
                _ => Err(invalid(
                    "the width must be between 0.05 and 10 with at most two decimals, e.g. 0.5",
                )),
            },
            ["cnn", ref widths @ ..] if !widths.is_empty() => {
                let widths: Option<Vec<usize>> = widths.iter().map(|w| parse(w)).collect();
                match widths {
                    Some(widths) if widths.len() <= 100 => Ok(Self::Cnn { widths }),
                    _ => Err(invalid(
                        "write cnn-C1-C2-... with 1 to 100 channel counts from 1 to 10000",
                    )),
                }
            }
            ["msdnet", exits, growth] => {
                match (parse(exits).filter(|n| EXITS.contains(n)), parse(growth)) {
                    (Some(exits), Some(growth)) => Ok(Self::MsdNet { exits, growth }),
                    _ => Err(invalid(&format!(
                        "write msdnet-EXITS-GROWTH with {} to {} exits and a growth from 1 to \
                         {LIMIT} channels, e.g. msdnet-16-12",
                        EXITS.start(),
                        EXITS.end()
                    ))),
                }
            }
            ["mimo", heads, ref body @ ..] if !body.is_empty() => {
                match parse(heads).filter(|heads| (2..=MAX_HEADS).contains(heads)) {
                    Some(_) if body[0] == "mimo" => {
                        Err(invalid("NETWORK in mimo-M-NETWORK must not be a mimo network"))
                    }
                    Some(heads) => {
                        let body = parsed_within(text, &body.join("-"), |body| {
                            format!("mimo-{heads}-{body}")
                        })?;
                        if body.exits() > 1 {
                            return Err(invalid(
                                "NETWORK in mimo-M-NETWORK must have no early exits",
                            ));
                        }
                        Ok(Self::Mimo { heads, body: Box::new(body) })
                    }
                    None => Err(invalid(&format!(
                        "write mimo-M-NETWORK with M from 2 to {MAX_HEADS} images at once, e.g. \
                         mimo-3-wrn-28-10"
                    ))),
                }
            }
            _ => Err(ArchError::Unknown { name: text.to_owned(), suggestion: suggest(&lower) }),
        }
    }
}

/// Reads a number from 1 to [`LIMIT`]: digits only, no leading zero.
fn parse(part: &str) -> Option<usize> {
    let plain = part.bytes().all(|b| b.is_ascii_digit()) && !part.starts_with('0');
    let number = if plain { part.parse::<usize>().ok() } else { None };
    number.filter(|n| (1..=LIMIT).contains(n))
}

/// Reads the name of a network inside another name, `text`. Errors and suggestions are about
/// `text`.
///
/// `whole` puts a corrected inner name back into the outer one.
fn parsed_within(
    text: &str,
    body: &str,
    whole: impl Fn(String) -> String,
) -> Result<ArchName, ArchError> {
    if body.contains(char::is_whitespace) {
        return Err(ArchError::Unknown { name: text.to_owned(), suggestion: None });
    }
    body.parse().map_err(|error| match error {
        ArchError::Unknown { suggestion, .. } => {
            let suggestion =
                suggestion.map(&whole).filter(|whole| whole.parse::<ArchName>().is_ok());
            ArchError::Unknown { name: text.to_owned(), suggestion }
        }
        ArchError::InvalidNumbers { why, .. } => {
            ArchError::InvalidNumbers { name: text.to_owned(), why }
        }
        error => error,
    })
}

/// Reads `body@12-20`.
///
/// The number of widths is checked when the network is built, since it can depend on the input
/// shape.
fn slim(text: &str, body: &str, typed: &str) -> Result<ArchName, ArchError> {
    let body = parsed_within(text, body, |body| format!("{body}@{typed}"))?;
    let widths: Option<Vec<usize>> = typed.split('-').map(parse).collect();
    let widths = widths.ok_or_else(|| ArchError::InvalidNumbers {
        name: text.to_owned(),
        why: format!(
            "write NETWORK@W1-W2-... with channel counts from 1 to {LIMIT}, e.g. cnn-16-32@12-20"
        ),
    })?;
    Ok(ArchName::Slim { body: Box::new(body), widths })
}

/// Reads `0.5` or `1.25` in hundredths: at least 0.1, with one or two decimals.
fn hundredths(text: &str) -> Option<usize> {
    let (whole, rest) = text.split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let plain = digits(whole) && digits(rest) && (whole == "0" || !whole.starts_with('0'));
    if !plain || whole.len() > 4 || rest.len() > 2 {
        return None;
    }
    let percent =
        100 * whole.parse::<usize>().ok()? + format!("{rest:0<2}").parse::<usize>().ok()?;
    (percent >= 10).then_some(percent)
}

/// Explains which depths exist, and names the nearest networks.
fn nearest_depths(depth: usize, width: usize) -> String {
    let below = if depth < 10 { 10 } else { (depth - 4) / 6 * 6 + 4 };
    let above = if depth < 10 { 16 } else { below + 6 };
    let mut nearest = vec![below, above];
    nearest.extend([50, 101, 152].iter().filter(|bottleneck| (below..=above).contains(bottleneck)));
    nearest.sort();
    let nearest: Vec<_> = nearest.iter().map(|depth| format!("wrn-{depth}-{width}")).collect();
    format!(
        "the depth must be 6n+4 (or 50, 101, 152 for ImageNet); nearest: {}",
        nearest.join(", ")
    )
}

/// Suggests a valid name for other common spellings: `wrn28-10`, `WideResNet-28-10`, `resnet50`.
///
/// A name with numbers that its family lacks, such as `resnet18`, gives the family's nearest
/// network.
fn suggest(text: &str) -> Option<String> {
    let plain = text.replace(['_', ' ', '.'], "-");
    let numbers =
        plain.split(|c: char| !c.is_ascii_digit()).filter(|s| !s.is_empty()).collect::<Vec<_>>();
    let (candidate, example) = match (plain.as_str(), &numbers[..]) {
        (p, [depth, width]) if p.starts_with('w') => (format!("wrn-{depth}-{width}"), "wrn-28-10"),
        (p, [depth]) if p.starts_with("resnet") => (format!("resnet-{depth}"), "resnet-50"),
        (p, [exits, growth]) if p.starts_with("ms") => {
            (format!("msdnet-{exits}-{growth}"), "msdnet-16-12")
        }
        (p, _) if p.starts_with("ms") => (String::new(), "msdnet-16-12"),
        (p, _) if p.starts_with("mimo") => (String::new(), "mimo-3-wrn-28-10"),
        (p, _) if p.starts_with("mobile") => (String::new(), "mobilenet-v2"),
        (p, _) if p.starts_with('w') => (String::new(), "wrn-28-10"),
        (p, _) if p.starts_with("resn") => (String::new(), "resnet-50"),
        _ => return None,
    };
    let exists = candidate.parse::<ArchName>().is_ok();
    Some(if exists { candidate } else { example.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::ImageShape;
    use super::*;

    #[test]
    fn names_print_as_they_parse() {
        let names = "wrn-28-10 wrn-16-2 wrn-10-1 wrn-10-0.5 wrn-16-1.25 wrn-50-2 wrn-101-2 \
                     resnet-50 mobilenet-v2 mobilenet-v2-0.5 mobilenet-v2-1.4 mobilenet-v2-0.35 \
                     cnn-4 cnn-8-16-16 mimo-3-wrn-28-10 mimo-2-cnn-8-16 \
                     mimo-16-mobilenet-v2-0.5 cnn-8-16@4-300 wrn-10-1@16-8-24-32-48-64 \
                     mimo-2-cnn-8@4 msdnet-16-12 msdnet-2-1";
        for name in names.split_whitespace() {
            assert_eq!(name.parse::<ArchName>().unwrap().to_string(), name);
        }
        assert_eq!("wrn-10-2.0".parse::<ArchName>().unwrap().to_string(), "wrn-10-2");
        assert_eq!("WRN-28-10".parse::<ArchName>().unwrap().to_string(), "wrn-28-10");
        assert_eq!("wrn-50-1".parse::<ArchName>().unwrap().to_string(), "resnet-50");
        assert_eq!("mobilenet-v2-1.0".parse::<ArchName>().unwrap().to_string(), "mobilenet-v2");
    }

    #[test]
    fn an_error_about_depth_names_the_nearest_depths() {
        let message = "wrn-29-10".parse::<ArchName>().unwrap_err().to_string();
        assert!(message.contains("wrn-28-10, wrn-34-10"), "{message}");
        let message = "wrn-4-1".parse::<ArchName>().unwrap_err().to_string();
        assert!(message.contains("wrn-10-1, wrn-16-1"), "{message}");
        let message = "wrn-51-2".parse::<ArchName>().unwrap_err().to_string();
        assert!(message.contains("wrn-46-2, wrn-50-2, wrn-52-2"), "{message}");
    }

    #[test]
    fn an_error_about_widths_names_the_layers() {
        let refused = |name: &str| {
            let name: ArchName = name.parse().unwrap();
            name.build(ImageShape::CIFAR, 10).unwrap_err().to_string()
        };
        let message = refused("cnn-8-8@4");
        assert!(
            message.contains("cnn-8-8 has 2 widths, 1 is given: write those of conv1, conv2"),
            "{message}"
        );
        let message = refused("wrn-9994-1@16-16");
        assert!(message.contains("4998 widths, 2 are given") && message.len() < 300, "{message}");
        let wide: ArchName = "cnn-8".parse::<ArchName>().unwrap().slimmed(vec![0]);
        assert!(wide.build(ImageShape::CIFAR, 10).is_err());
    }

    /// At width 0.35, 16 and 24 channels both round to 8. On small images, where that stage has
    /// stride 1, the first block then has a residual sum too, and one width less remains.
    #[test]
    fn the_number_of_widths_can_depend_on_the_input_shape() {
        let body: ArchName = "mobilenet-v2-0.35".parse().unwrap();
        for (input, count) in [(ImageShape::CIFAR, 24), (ImageShape::IMAGENET, 25)] {
            let widths: Vec<usize> =
                body.build(input, 10).unwrap().widths().iter().map(|w| w.channels).collect();
            assert_eq!(widths.len(), count);
            let slim: ArchName = body.slimmed(widths).to_string().parse().unwrap();
            assert!(slim.build(input, 10).is_ok());
            let other = if count == 24 { ImageShape::IMAGENET } else { ImageShape::CIFAR };
            assert!(matches!(slim.build(other, 10), Err(ArchError::InvalidNumbers { .. })));
        }
    }

    #[test]
    fn an_unknown_name_suggests_a_known_one() {
        for (typed, meant) in [
            ("wrn28-10", "wrn-28-10"),
            ("WideResNet-28-10", "wrn-28-10"),
            ("resnet50", "resnet-50"),
            ("resnet18", "resnet-50"),
            ("wrn29-10", "wrn-28-10"),
            ("mobilenet_v2", "mobilenet-v2"),
            ("MIMO_wrn_28_10", "mimo-3-wrn-28-10"),
            ("mimo-2-resnet50", "mimo-2-resnet-50"),
            ("MSDNet_16_12", "msdnet-16-12"),
            ("msdn", "msdnet-16-12"),
            ("wrn10-1@16-8-24-32-48-64", "wrn-10-1@16-8-24-32-48-64"),
        ] {
            let error = typed.parse::<ArchName>().unwrap_err();
            assert!(error.to_string().contains(&format!("did you mean '{meant}'")), "{error}");
        }
        assert!("vgg".parse::<ArchName>().unwrap_err().to_string().contains("known: wrn-D-K"));
    }

    #[test]
    fn invalid_numbers_are_refused() {
        for name in [
            "wrn-99999999999999999999-1",
            "wrn-28-0",
            "wrn--28",
            "cnn-",
            "cnn-0",
            "mobilenet-v2-nan",
            "mobilenet-v2-1e9",
            "wrn-28-99999",
            "",
            "-",
            "cnn-8--8",
            "wrn-+28-1",
            "wrn-028-1",
            "wrn-10-0.0",
            "wrn-10-0.05",
            "wrn-10-0.125",
            "wrn-10-.5",
            "wrn-10-1.",
            "wrn-10-1e0",
            "wrn-10-99999.5",
            "wrn-50-0.5",
            "mimo-1-wrn-28-10",
            "mimo-17-wrn-28-10",
            "mimo-3",
            "mimo-3-",
            "mimo-3-wrn-29-10",
            "mimo-2-mimo-2-wrn-28-10",
            "mimo-2-msdnet-2-4",
            "msdnet",
            "msdnet-16",
            "msdnet-1-12",
            "msdnet-65-12",
            "msdnet-16-0",
            "msdnet-16-12-4",
            "cnn-8@",
            "cnn-8 @8",
            "cnn-8@ 8",
            "cnn-8@0",
            "cnn-8@99999",
            "cnn-8@8@8",
            "mimo-2-cnn-8@8@8",
            "@8",
        ] {
            assert!(name.parse::<ArchName>().is_err(), "{name:?}");
        }
        let wrn: ArchName = "wrn-10-1".parse().unwrap();
        assert!(wrn.build(ImageShape::CIFAR, 0).is_err());
        assert!(wrn.build(ImageShape { channels: 0, ..ImageShape::CIFAR }, 10).is_err());
    }
}
