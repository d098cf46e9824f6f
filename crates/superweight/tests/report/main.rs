//! The report's page in a real browser: it draws, makes no request, decides as the planner does,
//! and is fast.

mod browser;
mod synthetic;

use std::fs;
use std::path::PathBuf;

use browser::Browser;
use serde_json::{Value, json};
use superweight::model::Outputs;
use superweight::plan::{Assignment, LayerId, Pair, assign, refine, search};
use superweight::report::{self, Report, RunView};
use superweight::rng::Draws;
use superweight::search::{Compared, PairStatistic, coefficient_pairs};

/// The paper's heterogeneous ensemble: 118 convolutions.
const HETEROGENEOUS: &str = "members = ['wrn-34-8', 'wrn-28-12', 'wrn-28-10', 'wrn-28-8']\nbudget = '36.5M'\n[data]\nname = 'cifar-100'\n[refine]\nbeta = 0.9\n";
const SMALL: &str = "members = ['wrn-16-2', 'wrn-10-1']\nbudget = '40%'\n[plan]\ntiling = 'grid'\nblock = 8\n[data]\nname = 'cifar-10'\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("superweight-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Saves a picture in the folder that `SWN_SCREENSHOTS` names, for inspection.
fn keep(name: &str, png: &str) {
    if let Some(folder) = std::env::var_os("SWN_SCREENSHOTS") {
        fs::create_dir_all(&folder).unwrap();
        fs::write(PathBuf::from(folder).join(format!("{name}.png")), from_base64(png)).unwrap();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|sign| DIGITS.iter().position(|d| *d == sign))
        .map(|d| d as u32)
        .collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let word = four.iter().fold(0, |word, digit| word << 6 | digit) << (6 * (4 - four.len()));
        word.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

#[test]
fn the_page_works_by_mouse_and_keyboard() {
    let folder = Folder::new("use");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let made = synthetic::trained(&folder.0, "small", SMALL, 40, None);
    let page = report::write(&made.path).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    let map = "[...document.querySelectorAll('.cell')].map(c => c.dataset.cluster + c.querySelector('rect').style.fill).join()";
    let trained = browser.evaluate(map);
    keep("small-light", &browser.screenshot(true));

    // A slider moves and the map follows; β states why it is disabled.
    let slide = |to: f64| {
        format!(
            "(() => {{ const t = document.getElementById('tau'); t.value = {to}; t.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.evaluate(&slide(0.6));
    assert_ne!(browser.evaluate(map), trained);
    assert_eq!(browser.evaluate("document.getElementById('beta').disabled"), true);
    let outcome = browser.evaluate("document.getElementById('beta-outcome').textContent");
    assert!(outcome.as_str().unwrap().contains("not the clusters that were trained"), "{outcome}");
    browser.click("#back");
    assert_eq!(browser.evaluate(map), trained);
    assert_eq!(browser.evaluate("document.getElementById('beta').disabled"), false);
    // The keyboard moves the slider by one step.
    browser.evaluate("document.getElementById('tau').focus()");
    browser.press("ArrowRight", 39);
    assert_eq!(browser.evaluate("swn.state.tau"), 0.101);
    browser.click("#back");

    // A click opens a layer; so do arrow keys and Enter; Escape closes.
    browser.click(".cell[data-layer='2']");
    let open = "document.querySelector('#composition h3')?.textContent ?? ''";
    let clicked = browser.evaluate(open);
    assert!(clicked.as_str().unwrap().contains("wrn-16-2"), "{clicked}");
    assert!(
        browser.evaluate("document.querySelectorAll('.superweight').length").as_u64() > Some(0)
    );
    assert!(browser.evaluate("document.querySelectorAll('.tile-g').length").as_u64() > Some(0));
    browser.press("ArrowRight", 39);
    browser.press("Enter", 13);
    let next = browser.evaluate(open);
    assert!(next != clicked && next != "", "{next}");
    browser.evaluate("document.querySelector('.cell.open').focus()");
    browser.press("Escape", 27);
    assert_eq!(browser.evaluate(open), "");
    // The tab key reaches every control.
    let reached = browser.evaluate(
        "document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]').length",
    );
    assert!(reached.as_u64() > Some(10));

    // Dark colours by the system and by the button; text has contrast in both.
    let contrast = "(() => { const rgb = (c) => c.match(/\\d+/g).slice(0, 3).map(Number); \
        const light = (c) => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
        const of = (e) => { const s = [light(getComputedStyle(e).color), light(getComputedStyle(e.closest('section') ?? document.body).backgroundColor)].sort(); return (s[1] + 0.05) / (s[0] + 0.05); }; \
        return Math.min(...[...document.querySelectorAll('section p, section h2')].map(of)); })()";
    let page_colour = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(page_colour);
    let ratios = [browser.evaluate(contrast)];
    browser.click("#theme");
    let dark = browser.evaluate(page_colour);
    assert_ne!(light, dark);
    let ratios = [ratios[0].clone(), browser.evaluate(contrast)];
    for ratio in ratios {
        assert!(ratio.as_f64().unwrap() >= 4.5, "WCAG asks for 4.5, this is {ratio}");
    }
    browser.click("#theme");
    assert_eq!(browser.evaluate(page_colour), light);
    browser.set_window(1200, 900, true);
    browser.open(&page);
    assert_eq!(browser.evaluate(page_colour), dark);
    browser.click(".cell[data-layer='2']");
    keep("small-dark", &browser.screenshot(true));
    // The page is not wider than a phone.
    browser.set_window(390, 844, false);
    browser.open(&page);
    assert!(browser.evaluate("document.documentElement.scrollWidth").as_u64() <= Some(390));
    keep("small-phone", &browser.screenshot(true));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_decides_as_the_planner_does() {
    let folder = Folder::new("decides");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let mut relaxed = [0, 0];
    for (name, recipe) in [
        ("small", SMALL),
        ("nested", "members = ['wrn-16-2', 'wrn-10-1']\nbudget = '500K'\n"),
        (
            "tight",
            "members = ['wrn-16-2']\nbudget = '100K'\nplan.block = 16\nsearch.min_templates = 8\n",
        ),
        ("patterned", "members = ['wrn-16-2']\nbudget = '100K'\nplan.tiling = 'kronecker'\n"),
    ] {
        let made = synthetic::trained(&folder.0, name, recipe, 4, None);
        let page = report::write(&made.path).unwrap();
        browser.open(&page);
        let found = made.statistics.search.as_ref().unwrap();
        let Compared::Gradients(pairs) = &found.compared else { unreachable!() };
        let pairs: Vec<Pair> = pairs.iter().map(PairStatistic::pair).collect();
        let layers: Vec<LayerId> =
            found.plan.clusters.iter().flat_map(|c| c.layers.clone()).collect();
        let request = made.resolved.train_request().unwrap();
        let settings = made.resolved.search.as_ref().unwrap().settings;
        // 50 drawn thresholds, and some that are a similarity exactly.
        let draws = Draws::new(&[9, 50]);
        let mut taus: Vec<f64> = (0..50).map(|n| draws.signed_unit(n)).collect();
        taus.extend(pairs.iter().step_by(17).map(|pair| pair.similarity));
        let expression = format!(
            "{}.map(tau => {{ const run = swn.report.runs[0]; const all = swn.pairsOf(run.search); \
             const r = swn.clustersAt(run.search, tau); return [swn.assign(run.search.start.flat(), all, tau), r.tau, r.clusters, r.used?.bill ?? null]; }})",
            json!(taus)
        );
        let outcomes = browser.evaluate(&expression);
        for (tau, outcome) in taus.iter().zip(outcomes.as_array().unwrap()) {
            let groups = assign(&layers, &pairs, *tau, Assignment::Merge).unwrap();
            assert_eq!(outcome[0], json!(groups), "{name}, τ = {tau}");
            match search(
                &found.plan,
                &request,
                &pairs,
                superweight::plan::SearchSettings { tau: *tau, ..settings },
            ) {
                Ok(expected) => {
                    let clusters: Vec<_> =
                        expected.plan.clusters.iter().map(|c| &c.layers).collect();
                    assert_eq!(outcome[1], json!(expected.tau), "{name}, τ = {tau}");
                    assert_eq!(outcome[2], json!(clusters), "{name}, τ = {tau}");
                    assert_eq!(outcome[3], json!(expected.plan.bill), "{name}, τ = {tau}");
                    relaxed[0] += u32::from(expected.relaxed.is_some());
                }
                Err(_) => assert_eq!(outcome[3], Value::Null),
            }
        }
        let found = made.statistics.refine.as_ref().unwrap();
        let pairs = coefficient_pairs(&found.plan, &found.gradients).unwrap();
        let betas: Vec<f64> = (0..50).map(|n| draws.under(1).signed_unit(n)).collect();
        let expression = format!(
            "{}.map(beta => {{ const r = swn.groupsAt(swn.report.runs[0].refine, beta); \
             return r && [r.beta, r.coefficients, [...r.groups]]; }})",
            json!(betas)
        );
        let outcomes = browser.evaluate(&expression);
        for (beta, outcome) in betas.iter().zip(outcomes.as_array().unwrap()) {
            let expected = refine(&found.plan, &pairs, *beta, Assignment::Merge).unwrap();
            assert_eq!(outcome[0], json!(expected.beta), "{name}, β = {beta}");
            assert_eq!(outcome[1], json!(expected.plan.bill.coefficients), "{name}, β = {beta}");
            for group in outcome[2].as_array().unwrap() {
                let superweight = &expected.plan.superweights[group[0].as_u64().unwrap() as usize];
                let groups: Vec<_> = superweight.groups.iter().map(|group| &group.layers).collect();
                assert_eq!(group[1], json!(groups), "{name}, β = {beta}");
            }
            relaxed[1] += u32::from(expected.relaxed.is_some());
        }
    }
    assert!(relaxed[0] > 10, "some τ had to be relaxed: {relaxed:?}");
}

#[test]
fn a_page_of_a_hundred_layers_is_small_and_fast() {
    let folder = Folder::new("large");
    let made = synthetic::trained(&folder.0, "heterogeneous", HETEROGENEOUS, 200, None);
    let page = report::write(&made.path).unwrap();
    let bytes = fs::metadata(&page).unwrap().len();
    let report = Report::open(&[&made.path]).unwrap();
    let sharing = &report.runs[0].sharing;
    let convolutions = sharing.layers.iter().filter(|layer| layer.kind == "conv").count();
    assert_eq!((sharing.members.len(), convolutions), (4, 118));
    assert!(bytes < 3_000_000, "{bytes} bytes");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    browser.set_window(1280, 900, false);
    let times = [0; 3].map(|_| browser.open(&page));
    println!("{bytes} bytes, drawn after {times:.0?} ms");
    // The shortest: others may be using the machine.
    assert!(times.into_iter().fold(f64::INFINITY, f64::min) < 2000.0, "{times:?}");
    keep("large-light", &browser.screenshot(true));
    browser.set_window(1280, 900, true);
    browser.open(&page);
    browser.click(".cell[data-layer='40']");
    keep("large-dark", &browser.screenshot(true));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn hostile_text_stays_text() {
    let folder = Folder::new("hostile");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let attack = "</script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 2\"> \u{2028} \u{202e} 'ü' \"{{script}}\" &lt;";
    let recipe = format!("# {}\n{SMALL}", attack.replace('\u{202e}', ""));
    let name = "<img src=x onerror=hacked=3> \"quoted\" 'ü' <!-- &amp;";
    let made = synthetic::trained(&folder.0, "hostile", &recipe, 3, Some(attack));
    // The program refuses such names; a folder can still be renamed.
    let path = folder.0.join(name);
    fs::rename(&made.path, &path).unwrap();
    let page = folder.0.join("page.html");
    fs::write(&page, Report::open(&[&path]).unwrap().to_html()).unwrap();
    browser.open(&page);
    assert_eq!(browser.evaluate("window.hacked === undefined"), true);
    assert_eq!(browser.evaluate("document.images.length"), 0);
    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), name);
    assert_eq!(browser.evaluate("document.title"), format!("{name} – SuperWeight report"));
    let warning = browser.evaluate("document.querySelector('.warnings p').textContent");
    assert_eq!(warning, format!("⚠ {attack}"));
    assert!(
        browser
            .evaluate("document.querySelector('pre').textContent")
            .as_str()
            .unwrap()
            .contains("window.hacked = 2")
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The page has a section for everything that was evaluated, and no other.
#[test]
fn sections_of_an_evaluation_are_shown_if_there_is_one() {
    let folder = Folder::new("evaluated");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let made = synthetic::trained(&folder.0, "evaluated", HETEROGENEOUS, 20, None);
    let mut view = RunView::open(&made.path).unwrap();
    let page = folder.0.join("page.html");
    let sections = "[...document.querySelectorAll('section')].map(s => s.id)";
    fs::write(&page, Report::new(vec![view.clone()]).to_html()).unwrap();
    browser.open(&page);
    let before = browser.evaluate(sections);
    assert_eq!(before, json!(["headline", "sharing", "bill", "conflicts", "training", "about"]));
    view.evaluation = Some(synthetic::evaluation(&Outputs::of_networks(&view.about.members), 7));
    fs::write(&page, Report::new(vec![view]).to_html()).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    for section in ["scores", "anytime", "reliability", "corruptions", "interpolation"] {
        assert!(
            browser.evaluate(sections).as_array().unwrap().contains(&json!(section)),
            "{section}"
        );
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('#anytime .point').length"), 15);
    assert_eq!(browser.evaluate("document.querySelectorAll('#corruptions td.heat').length"), 75);
    keep("evaluated-light", &browser.screenshot(true));
    browser.set_window(1200, 900, true);
    browser.open(&page);
    keep("evaluated-dark", &browser.screenshot(true));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Page and plots speak of exits where they would speak of members and ensemble.
#[test]
fn exits_are_shown_as_exits() {
    let folder = Folder::new("exits");
    let recipe =
        "members = ['msdnet-3-4']\nbudget = '60%'\n[data]\nname = 'cifar-10'\nvalidation = 5000\n";
    let made = synthetic::trained(&folder.0, "exits", recipe, 20, None);
    let mut view = RunView::open(&made.path).unwrap();
    let mut evaluation = synthetic::evaluation(&Outputs::of_networks(&view.about.members), 7);
    evaluation.interpolations.clear();
    view.evaluation = Some(evaluation);
    let report = Report::new(vec![view]);
    report.write_plots(&folder.0.join("plots")).unwrap();
    let curves = fs::read_to_string(folder.0.join("plots/accuracy.svg")).unwrap();
    for name in ["exit 0", "exit 1", "exit 2", "all exits"] {
        assert!(curves.contains(name), "{name}");
    }
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let page = folder.0.join("page.html");
    fs::write(&page, report.to_html()).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    let texts =
        |of: &str| format!("[...document.querySelectorAll('{of}')].map(e => e.textContent)");
    assert_eq!(
        browser.evaluate(&texts("#scores tbody th")),
        json!(["exit 0", "exit 1", "exit 2", "exits 0–1", "exits 0–2"])
    );
    assert_eq!(browser.evaluate("document.querySelectorAll('#anytime .point').length"), 5);
    // Only the map of layers has a row per member.
    let text = browser.evaluate(
        "['headline', 'scores', 'anytime', 'reliability', 'corruptions', 'training'].map(s => document.getElementById(s).textContent).join(' ')",
    );
    let text = text.as_str().unwrap();
    assert!(text.contains("all exits together in percent under every corruption"), "{text}");
    assert!(!text.contains("nsemble") && !text.contains("ember"), "{text}");
    keep("exits-light", &browser.screenshot(true));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Strategies, seeds and a sweep over τ give the rows of the comparison, and a page shows them.
#[test]
fn runs_are_compared() {
    let folder = Folder::new("compared");
    let mut paths = vec![];
    let recipe = |more: &str| {
        format!("members = ['wrn-28-10']\nbudget = '10%'\n{more}\n[data]\nname = 'cifar-100'\n")
    };
    for (name, more) in [
        ("swn-0", "seed = 0"),
        ("swn-1", "seed = 1"),
        ("swn-2", "seed = 2"),
        ("tau-0", "seed = 0\nsearch.tau = 0.0"),
        ("tau-3", "seed = 0\nsearch.tau = 0.3"),
    ] {
        paths.push(synthetic::trained(&folder.0, name, &recipe(more), 8, None).path);
    }
    let mut views: Vec<RunView> = paths.iter().map(|path| RunView::open(path).unwrap()).collect();
    // No run without refinement is made here: the comparison reads the recipe only.
    let mut ablated = views[0].clone();
    ablated.name = "no-refine".to_owned();
    ablated.about.strategy = "no-refine".to_owned();
    ablated.about.resolved =
        ablated.about.resolved.replace("strategy = \"swn\"", "strategy = \"no-refine\"");
    views.push(ablated);
    for (i, view) in views.iter_mut().enumerate() {
        let mut evaluation =
            synthetic::evaluation(&Outputs::of_networks(&view.about.members), i as u64);
        evaluation.subsets[0].top1 = 79.0 + i as f64;
        view.evaluation = Some(evaluation);
    }
    // A finished run and an unfinished one are not seeds of one row.
    let mut mixed = views.clone();
    mixed[1].headline.epochs = 200;
    let mixed = Report::new(mixed).comparison.unwrap();
    let rows: Vec<_> = mixed.rows.iter().map(|row| row.runs.clone()).collect();
    assert_eq!(rows, [vec![0, 2], vec![1], vec![3], vec![4], vec![5]]);
    assert!(mixed.rows[1].label.ends_with(", swn, 200 epochs"), "{}", mixed.rows[1].label);
    assert!(mixed.sweeps.iter().all(|sweep| sweep.key == "search.tau"), "{:?}", mixed.sweeps);

    let report = Report::new(views);
    let comparison = report.comparison.as_ref().unwrap();
    // Rows with equal labels have the name of a run.
    let label = &comparison.rows[1].label;
    assert!(label.ends_with(", swn, 8 of 200 epochs (tau-0)"), "{label}");
    let rows: Vec<_> = comparison.rows.iter().map(|row| row.runs.clone()).collect();
    assert_eq!(rows, [vec![0, 1, 2], vec![3], vec![4], vec![5]]);
    // 79, 80, 81: mean 80, standard deviation 1; Table 1 of the paper has 78.94 ± 0.26.
    let top1 = comparison.rows[0].measure("top1").unwrap();
    assert_eq!((top1.mean, top1.std), (80.0, Some(1.0)));
    assert_eq!((top1.paper, top1.paper_error), (Some(78.94), Some(0.26)));
    assert!((top1.difference.unwrap() - 1.06).abs() < 1e-9);
    assert_eq!(comparison.rows[3].measure("top1").unwrap().paper, Some(78.26));
    assert_eq!(comparison.ablations.len(), 1);
    assert_eq!(comparison.ablations[0].rows, [0, 1, 2, 3]);
    let sweep: Vec<_> =
        comparison.sweeps.iter().map(|s| (s.key.as_str(), s.points.clone())).collect();
    assert_eq!(sweep, [("search.tau", vec![(0.0, 1), (0.1, 0), (0.3, 2)])]);
    let others: Vec<_> = comparison.beside.iter().map(|row| row.label.as_str()).collect();
    assert!(others.contains(&"Table 1: SSN") && others.len() == 4, "{others:?}");

    let markdown = report.to_markdown();
    assert!(markdown.contains("| top-1 % | 78.94 ± 0.26 | 80.00 ± 1.00 | +1.06 |"), "{markdown}");
    let csv = report.to_csv();
    assert!(
        csv.contains("swn-1,1,wrn-28-10,cifar-100,swn,3653688,8,top1,80,78.94,0.26\n"),
        "{csv}"
    );
    assert!(csv.lines().all(|line| line.split(',').count() == 11));
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["comparison"]["rows"][0]["measures"][0]["mean"], 80.0);
    let plots = report.write_plots(&folder.0.join("plots")).unwrap();
    for name in [
        "anytime.svg",
        "ablation-00.svg",
        "sweep-00.svg",
        "00-cluster-map.svg",
        "05-conflict-matrix.svg",
    ] {
        assert!(plots.iter().any(|path| path.ends_with(name)), "{name} of {plots:?}");
    }

    let Some(mut browser) = Browser::start(&folder.0) else { return };
    for plot in &plots {
        browser.open(plot);
        assert_eq!(
            browser.evaluate("document.documentElement.tagName"),
            "svg",
            "{}",
            plot.display()
        );
        assert_eq!(
            browser.evaluate("document.querySelector('parsererror') === null"),
            true,
            "{}",
            plot.display()
        );
    }
    let page = folder.0.join("page.html");
    fs::write(&page, report.to_html()).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    keep("compared-light", &browser.screenshot(true));
    let chosen = "document.querySelector('#picker').value = 3; document.querySelector('#picker').dispatchEvent(new Event('change')); document.querySelector('.of-run').textContent";
    assert_eq!(browser.evaluate(chosen), "tau-0");
    assert_eq!(browser.evaluate("swn.state.tau"), 0.0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A run that evaluates on validation images, with a search of 6 epochs before 40 of training.
#[test]
fn training_curves_state_their_images_and_begin_with_training() {
    let folder = Folder::new("curves");
    let recipe = SMALL.replace("'cifar-10'", "'cifar-10'\nvalidation = 5000");
    let made = synthetic::trained(&folder.0, "curves", &recipe, 40, None);
    let report = Report::open(&[&made.path]).unwrap();
    report.write_plots(&folder.0.join("plots")).unwrap();
    let plot = fs::read_to_string(folder.0.join("plots/accuracy.svg")).unwrap();
    assert!(plot.contains("validation images") && plot.contains("ensemble"), "{plot}");
    assert!(plot.contains(">40</text>") && !plot.contains(">45</text>"), "{plot}");

    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let page = folder.0.join("page.html");
    fs::write(&page, report.to_html()).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    let caption = "document.getElementById('training-caption').textContent";
    assert_eq!(
        browser.evaluate(caption),
        "Top-1 accuracy on validation images: every member, and the mean of their probabilities (ensemble)."
    );
    let names =
        "[...document.querySelectorAll('#training text.series')].map(t => t.firstChild.data)";
    assert_eq!(browser.evaluate(names), json!(["wrn-16-2", "wrn-10-1", "ensemble"]));
    let ticks = "[...document.querySelectorAll('#training .tick.middle')].map(t => t.textContent)";
    let axis = browser.evaluate(ticks);
    assert_eq!((&axis[0], axis.as_array().unwrap().last().unwrap()), (&json!("0"), &json!("40")));
    assert_eq!(browser.evaluate("document.querySelectorAll('#training .band').length"), 0);
    // The search is shown on request, before 0.
    browser.click("#training input[value='all'] + span");
    assert_eq!(browser.evaluate("document.querySelectorAll('#training .band').length"), 1);
    assert!(browser.evaluate(ticks)[0].as_str().unwrap().starts_with('−'));
    // Training measures members only; the ensemble's test accuracy is a dot.
    browser.click("#training input[value='top1 train'] + span");
    let text = browser.evaluate(caption);
    assert_eq!(
        text,
        "Top-1 accuracy on training images, while the weights change: every member. Dots: the ensemble on test images."
    );
    assert!(browser.evaluate(names).as_array().unwrap().contains(&json!("ensemble, test")));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn tick_labels_do_not_touch_the_name_of_their_axis() {
    let folder = Folder::new("ticks");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let made = synthetic::trained(&folder.0, "ticks", SMALL, 4, None);
    let page = report::write(&made.path).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    browser.click("#training input[value='lr train'] + span");
    let gaps = "[...document.querySelectorAll('svg.chart')].map(chart => { \
        const right = chart.querySelector('.axis-name[transform]')?.getBoundingClientRect().right ?? -Infinity; \
        return Math.min(...[...chart.querySelectorAll('.tick.end')].map(t => t.getBoundingClientRect().left)) - right; })";
    for gap in browser.evaluate(gaps).as_array().unwrap() {
        assert!(gap.as_f64().is_none_or(|gap| gap > 0.0), "{gap} pixels");
    }
}

/// At the width of a phone: names of networks do not break at hyphens, and a table that is wider
/// than the screen scrolls and has a shadow at its edge.
#[test]
fn names_and_tables_are_readable_on_a_phone() {
    let folder = Folder::new("phone");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let made = synthetic::trained(&folder.0, "phone", HETEROGENEOUS, 8, None);
    let mut view = RunView::open(&made.path).unwrap();
    view.evaluation = Some(synthetic::evaluation(&Outputs::of_networks(&view.about.members), 7));
    let page = folder.0.join("page.html");
    let report = Report::new(vec![view.clone(), view]);
    fs::write(&page, report.to_html()).unwrap();
    browser.set_window(390, 844, false);
    browser.open(&page);
    assert!(browser.evaluate("document.documentElement.scrollWidth").as_u64() <= Some(390));
    let broken = "[...document.querySelectorAll('.nobr')].filter(e => e.getClientRects().length > 1).map(e => e.textContent)";
    assert_eq!(browser.evaluate(broken), json!([]));
    assert!(
        browser.evaluate("document.querySelectorAll('#scores .nobr').length").as_u64() > Some(15)
    );
    // Every box whose contents are too wide has a shadow at the edge where they continue.
    let wide = "[...document.querySelectorAll('.scroll, .map, .matrix-holder')].filter(e => e.scrollWidth > e.clientWidth + 1)";
    let shadows = format!(
        "new Promise(done => setTimeout(() => done({wide}.map(e => e.parentElement.className)), 300))"
    );
    let right = browser.evaluate(&shadows);
    let right = right.as_array().unwrap();
    assert!(right.len() > 2 && right.iter().all(|it| it == "edges more-right"), "{right:?}");
    browser.evaluate(&format!("{wide}.forEach(e => {{ e.scrollLeft = 1e6; }})"));
    let left = browser.evaluate(&shadows);
    assert!(left.as_array().unwrap().iter().all(|it| it == "edges more-left"), "{left}");
    keep("phone", &browser.screenshot(true));
}

/// Definitions on the page are of terms in the glossary.
#[test]
fn terms_are_headings_of_the_glossary() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let glossary = fs::read_to_string(folder.join("../../docs/glossary.md")).unwrap();
    let script = fs::read_to_string(folder.join("src/report/page/glossary.js")).unwrap();
    let terms: Vec<&str> = script
        .lines()
        .filter_map(|line| line.strip_prefix("  '")?.split_once("': "))
        .map(|it| it.0)
        .collect();
    assert!(terms.len() > 10, "{terms:?}");
    for term in terms {
        assert!(glossary.lines().any(|line| line.strip_prefix("### ") == Some(term)), "{term}");
    }
}

#[test]
fn a_run_without_shared_layers_has_a_report() {
    let folder = Folder::new("unshared");
    let report = Report::open(&[synthetic::unshared(&folder.0)]).unwrap();
    let markdown = report.to_markdown();
    assert!(markdown.trim_end().ends_with("No layer is shared."), "{markdown}");
    assert!(report.to_html().contains("unshared"));
}

/// Names of slimmed networks are longer than the room at the end of a line.
#[test]
fn long_names_stay_inside_their_charts() {
    let folder = Folder::new("long-names");
    let Some(mut browser) = Browser::start(&folder.0) else { return };
    let slim = "wrn-16-2@16-32-24-32-24-64-40-64-128-96";
    let recipe = SMALL.replace("'wrn-16-2', ", &format!("'{slim}', "));
    let made = synthetic::trained(&folder.0, "long", &recipe, 5, None);
    let page = report::write(&made.path).unwrap();
    browser.set_window(1200, 900, false);
    browser.open(&page);
    let names = "[...document.querySelectorAll('#training text.series')]";
    let inside = format!(
        "{names}.map(t => t.getBoundingClientRect().right <= t.closest('svg').getBoundingClientRect().right)"
    );
    assert_eq!(browser.evaluate(&inside), json!([true, true, true]));
    let whole =
        browser.evaluate(&format!("{names}.map(t => t.querySelector('title').textContent)"));
    assert!(whole.as_array().unwrap().contains(&json!(slim)), "{whole}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A page of many large runs stays small and marks the runs of which something is omitted.
#[test]
fn many_runs_stay_small() {
    let folder = Folder::new("many");
    let made = synthetic::trained(&folder.0, "large", HETEROGENEOUS, 2, None);
    let view = RunView::open(&made.path).unwrap();
    let report = Report::new(vec![view; 24]);
    assert!(report.to_json().len() > report::LARGEST_DATA, "there is something to omit");
    let page = report.to_html();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(page.contains("\"shortened\":true") && page.contains("\"shortened\":false"));
    let whole = report.to_json();
    assert!(!whole.contains("\"shortened\":true"), "the JSON has everything");
}

/// Pictures for documents: `SWN_RUN=runs/mine SWN_SCREENSHOTS=docs cargo test --test report --
/// --ignored`.
#[test]
#[ignore = "takes pictures of the run that SWN_RUN names"]
fn pictures_of_a_run() {
    let run = PathBuf::from(std::env::var_os("SWN_RUN").expect("SWN_RUN names a run folder"));
    let folder = Folder::new("pictures");
    let mut browser = Browser::start(&folder.0).expect("a browser");
    let page = folder.0.join("page.html");
    fs::write(&page, Report::open(&[run]).unwrap().to_html()).unwrap();
    for (name, dark) in [("report-light", false), ("report-dark", true)] {
        browser.set_window(1160, 1040, dark);
        browser.open(&page);
        browser.evaluate(
            "document.querySelector('.cell[data-cluster]:not(.dense):not(.single)').focus()",
        );
        browser.press("ArrowRight", 39);
        browser.press("Enter", 13);
        browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
        browser.evaluate("new Promise(done => setTimeout(done, 300))");
        keep(name, &browser.screenshot(false));
        keep(&format!("{name}-whole"), &browser.screenshot(true));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
