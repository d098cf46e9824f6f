// Several runs: the table beside the paper, anytime curves over each other, ablations, sweeps.

const FIGURES = {
  top1: ['top-1 %', 2], top5: ['top-5 %', 2], nll: ['NLL', 3], ece: ['ECE %', 2], corrupted_top1: ['corrupted top-1 %', 2], corrupted_nll: ['corrupted NLL', 3],
  corrupted_ece: ['corrupted ECE %', 2], diversity: ['diversity', 3], parameters: ['parameters', 0], seconds: ['training, s', 0], 'validation top1': ['validation top-1 %', 2],
};
const figureName = (name) => FIGURES[name] ? FIGURES[name][0] : name.replace('top1 of', 'top-1 % of');
const figureText = (name, value) => name === 'parameters' ? grouped(value) : fixed(value, FIGURES[name] ? FIGURES[name][1] : 2);
const withError = (name, value, error) => figureText(name, value) + (error === null || error === undefined ? '' : ` ± ${figureText(name, error)}`);
const SMALLER = ['nll', 'ece', 'corrupted_nll', 'corrupted_ece', 'seconds', 'parameters'];

function drawComparison() {
  const { comparison } = report;
  if (!comparison) return [];
  const body = comparison.rows.flatMap((row) => row.measures.map((measure, i) => {
    const better = measure.difference === null ? null : (SMALLER.includes(measure.name) ? measure.difference < 0 : measure.difference > 0);
    return h('tr', { class: i === 0 ? 'first' : null },
      i === 0 && h('th', { scope: 'rowgroup', rowspan: row.measures.length }, unbroken(row.label), row.paper && h('div', { class: 'small' }, row.paper),
        h('div', { class: 'small' }, row.seeds.length > 1 ? `seeds ${row.seeds.join(', ')}` : `seed ${row.seeds[0]}`)),
      h('td', {}, unbroken(figureName(measure.name))),
      h('td', { class: 'number-cell' }, measure.paper === null ? '–' : withError(measure.name, measure.paper, measure.paper_error)),
      h('td', { class: 'number-cell strong', tabindex: measure.values.length > 1 ? 0 : null, ...withTip(() => ['each run', ...measure.values.map((v, n) => [`seed ${row.seeds[n]}`, figureText(measure.name, v)])]) }, withError(measure.name, measure.mean, measure.std)),
      h('td', { class: 'number-cell ' + (better === null ? '' : better ? 'up' : 'down') }, measure.difference === null ? '–' : (measure.difference >= 0 ? '+' : '') + figureText(measure.name, measure.difference)));
  }));
  const beside = comparison.beside.length > 0 && h('details', {}, h('summary', {}, 'Other methods of the paper in these settings'),
    scrolling('Other methods of the paper', h('table', {}, h('tbody', {}, comparison.beside.map((row) => h('tr', {}, h('th', { scope: 'row' }, unbroken(row.label)), h('td', {}, unbroken(row.setting)), h('td', {}, row.values.map(([name, value, error]) => `${figureName(name)} ${withError(name, value, error)}`).join(', '))))))));
  const parts = [section('comparison', 'Comparison of the runs, and with the paper', 'Mean and standard deviation over seeds. Runs that differ only in their seed are one row; a second run of the same seed is another row.',
    scrolling('Comparison of the runs', h('table', { class: 'comparison' },
      h('thead', {}, h('tr', {}, ['runs', 'figure', 'paper', 'ours', 'difference'].map((name, i) => h('th', { scope: 'col', class: i > 1 ? 'number-cell' : null }, name)))), h('tbody', {}, body))), beside)];

  const timed = report.runs.filter((run) => run.evaluation && run.evaluation.latency);
  if (timed.length > 1) {
    const groups = timed.map((run, i) => latencyGroup(run, memberColour(i), run.name));
    parts.push(section('anytime-all', 'Anytime curves', null, drawn('wide-chart', (width) => scatter({ width, groups, xName: 'latency (ms)', yName: 'top-1 accuracy (%)', label: 'Accuracy against latency of all runs' })),
      h('p', { class: 'legend' }, groups.map((group) => h('span', {}, h('i', { class: 'swatch', style: { background: group.colour } }), group.name)))));
  }
  const bars = comparison.ablations.filter((ablation) => ablation.rows.some((row) => figureOf(row, 'top1')));
  if (bars.length) parts.push(section('ablations', 'Ablations', 'The same networks, images and budget under different strategies. Whiskers: standard deviation over seeds. Diamonds: the paper.', bars.map(drawAblation)));
  if (comparison.sweeps.length) parts.push(section('sweeps', 'Sweeps', null, h('div', { class: 'sweeps' }, comparison.sweeps.map(drawSweep))));
  return parts;
}

const figureOf = (row, name) => report.comparison.rows[row].measures.find((measure) => measure.name === name);

function drawAblation(ablation) {
  const names = [...new Set(ablation.rows.flatMap((row) => report.comparison.rows[row].measures.map((measure) => measure.name)))].filter((name) => name.startsWith('top1'));
  const rows = ablation.rows.filter((row) => figureOf(row, 'top1'));
  const nameOf = (row) => ablation.names[ablation.rows.indexOf(row)];
  const figure = drawn('wide-chart', (width) => {
    const values = rows.flatMap((row) => names.map((name) => figureOf(row, name)).filter((m) => m).flatMap((m) => [m.mean - (m.std || 0), m.mean + (m.std || 0), m.paper ?? m.mean]));
    const [low, high] = extent(values, 0.12);
    const f = frame({ width, height: 300, x: [0, names.length], y: [low, high], xName: '', yName: 'top-1 accuracy (%)', label: 'Ablation: ' + ablation.title, xTicks: { ticks: [], digits: 0 } });
    const { svg, X, Y, bottom } = f;
    names.forEach((name, n) => {
      svg.append(s('text', { x: X(n + 0.5), y: bottom + 18, class: 'tick middle' }, name === 'top1' ? 'all together' : name.slice(8)));
      rows.forEach((row, i) => {
        const m = figureOf(row, name);
        if (!m) return;
        const w = 0.8 / rows.length;
        const x = X(n + 0.1 + i * w);
        const wide = X(w) - X(0);
        const middle = x + wide / 2;
        svg.append(s('g', { tabindex: 0, role: 'img', 'aria-label': `${nameOf(row)}: ${withError(name, m.mean, m.std)}`, ...withTip(() => [report.comparison.rows[row].label, ['ours', withError(name, m.mean, m.std)], m.paper !== null && ['paper', withError(name, m.paper, m.paper_error)]]) },
          s('rect', { x: x + 1, width: Math.max(2, wide - 2), y: Y(m.mean), height: bottom - Y(m.mean), style: { fill: memberColour(i) } }),
          m.std !== null && s('line', { x1: middle, x2: middle, y1: Y(m.mean - m.std), y2: Y(m.mean + m.std), class: 'whisker' }),
          m.paper !== null && s('path', { d: `M${middle} ${Y(m.paper) - 6}l6 6l-6 6l-6-6z`, class: 'diamond' })));
      });
    });
    return svg;
  });
  return h('figure', {}, h('figcaption', {}, ablation.title), figure, h('p', { class: 'legend' }, rows.map((row, i) => h('span', {}, h('i', { class: 'swatch', style: { background: memberColour(i) } }), nameOf(row)))));
}

function drawSweep(sweep) {
  const key = { 'search.tau': 'τ', 'refine.beta': 'β' }[sweep.key] || sweep.key;
  const names = [...new Set(sweep.points.flatMap(([, row]) => report.comparison.rows[row].measures.map((m) => m.name)))].filter((name) => name.startsWith('top1'));
  const series = names.map((name, i) => ({
    name: name === 'top1' ? 'all together' : name.slice(8), strong: name === 'top1', dots: true, colour: name === 'top1' ? 'var(--ink)' : memberColour(i), dash: null,
    points: sweep.points.map(([at, row]) => [at, figureOf(row, name)?.mean]).filter(([, v]) => v !== undefined),
  })).filter((line) => line.points.length > 1);
  if (!series.length) return null;
  return h('figure', {}, h('figcaption', {}, `${key}: ${sweep.title}`), drawn('side-chart', (width) => lineChart({ width, height: 260, series, xName: key, yName: 'top-1 accuracy (%)', label: `Accuracy over ${key}`, xFormat: (v, d) => fixed(v, Math.max(d, 2)), reading: (at) => `${key} = ${at}` })));
}
