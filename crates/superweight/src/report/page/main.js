// The page: header, navigation, and the sections of the chosen run.

function drawHeader() {
  const dark = () => document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const theme = h('button', { type: 'button', class: 'plain', id: 'theme' });
  const label = () => { theme.textContent = dark() ? '☀ Light' : '☾ Dark'; };
  theme.addEventListener('click', () => { document.documentElement.dataset.theme = dark() ? 'light' : 'dark'; label(); notify('theme'); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { label(); notify('theme'); });
  label();
  const { name, about } = state.run;
  const count = new Map();
  about.members.forEach((member) => count.set(member, (count.get(member) || 0) + 1));
  const members = [...count].map(([member, n]) => n > 1 ? `${n} × ${member}` : member).join(' + ') + (hasExits(state.run) ? `, ${plural(about.exits, 'exit')},` : '');
  const picker = report.runs.length > 1 && h('label', { class: 'picker' }, 'Run ', h('select', { id: 'picker', onchange: (event) => choose(Number(event.target.value)) },
    report.runs.map((run, i) => h('option', { value: i, selected: run === state.run }, run.name))));
  clear(document.getElementById('top')).append(
    h('div', { class: 'head' }, h('div', {}, h('h1', {}, report.runs.length > 1 ? plural(report.runs.length, 'run') : name),
      h('p', { class: 'sub' }, unbroken(`${members} on ${about.data} (${about.classes} classes) · strategy ${about.strategy} · seed ${about.seed}`))),
    h('div', { class: 'head-right' }, picker, theme)));
}

function drawAbout(run) {
  const block = (title, text) => text && h('details', {}, h('summary', {}, title), h('pre', { tabindex: 0 }, text));
  const typed = run.about.commands.map(({ command, device }) => `${command}\n    # ${device}`).join('\n');
  return section('about', 'How it was run', null, block('Commands and devices', typed), block('Recipe, as written', run.about.recipe), block('Recipe with every default', run.about.resolved),
    h('p', { class: 'small' }, `Written by ${report.program}. The page contains everything and makes no request; its data are in the element #data as JSON.`));
}

function drawSharing(run) {
  const map = drawMap(run);
  const sliders = drawSliders(run);
  const many = run.about.members.length > 1;
  return section('sharing', 'Shared layers',
    [`Layers of ${many ? 'every member' : 'the network'} from first to last. Layers of one `, term('cluster', 'Cluster'), ' are composed from the same ', term('templates', 'Template'), '.'],
    map, sliders, drawComposition(run, map));
}

/** Sections beside each other, two where there is room. */
const halves = (...parts) => h('div', { class: 'halves' }, parts);

function drawRun(run) {
  sections.length = 0;
  for (const what of Object.keys(listeners)) delete listeners[what];
  select(run);
  const compared = drawComparison();
  const parts = [...compared, compared.length > 0 && h('h2', { class: 'of-run', id: 'run' }, run.name),
    run.shortened && h('p', { class: 'small' }, 'Similarities and coefficients of this run were omitted to keep the page small; its own report has them.'), drawHeadline(run), drawSharing(run), drawBill(run), drawMatrix(run), drawCurves(run),
    drawScores(run), drawAnytime(run), halves(drawReliability(run), drawCorruptions(run), drawInterpolation(run)), drawAbout(run)];
  clear(document.getElementById('content')).append(patternDefs(), ...parts.filter((part) => part));
  toFit.splice(0).forEach((holder) => holder.fit());
  clear(document.getElementById('nav')).append(...sections.map(([id, title]) => h('a', { href: '#' + id }, title)));
  drawHeader();
}
function choose(index, move = true) {
  drawRun(report.runs[index]);
  if (move) { document.getElementById('picker')?.focus({ preventScroll: true }); document.getElementById('run')?.scrollIntoView(); }
}

choose(0, false);
// For tests, and for the browser's console.
window.swn = { report, state, assign, pairsOf, stepAt, clustersAt, groupsAt, setTau, setBeta, open };
