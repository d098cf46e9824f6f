// Training curves.

const METRICS = { top1: 'top-1 accuracy (%)', nll: 'NLL', loss: 'training loss', lr: 'learning rate' };
const SPLITS = { validation: 'validation images', test: 'test images', train: 'training images' };
/** Metric and images of each chart, in the order of the choices. */
const CHARTS = [['top1', 'validation'], ['top1', 'test'], ['top1', 'train'], ['nll', 'validation'], ['nll', 'test'], ['loss', 'train'], ['lr', 'train']];
const chartName = ([metric, split]) => metric === 'loss' || metric === 'lr' ? METRICS[metric] : `${METRICS[metric].replace(' accuracy (%)', '')} on ${SPLITS[split]}`;

function drawCurves(run) {
  const { curves, about } = run;
  if (!curves) return null;
  const [first, last] = [curves.phases[0], curves.phases[curves.phases.length - 1]];
  const searched = first.phase === 'search' && last.phase === 'train';
  const many = outputCount(run) > 1;
  const [words, together] = hasExits(run) ? ['exit', 'all exits'] : ['member', 'ensemble'];
  let from = last.from;

  const inside = (points) => points.filter(([at]) => at > from);
  /** Lines of a chart; a single network's own line and that of its ensemble are the same. */
  const linesOf = ([metric, split]) => {
    const lines = curves.series.filter((line) => line.metric === metric && line.split === split && inside(line.points).length > 0);
    return !many && lines.some((line) => line.member === null) ? lines.filter((line) => line.member === null) : lines;
  };
  const charts = CHARTS.filter((chart) => linesOf(chart).length > 0);
  if (charts.length === 0) return null;
  let shown = charts.find((chart) => linesOf(chart).some((line) => inside(line.points).length > 1)) || charts[0];

  const nameOf = (line) => line.metric === 'lr' ? 'lr' : line.member !== null ? outputName(run, line.member) : many ? together : about.members[0];
  const strong = (name, points) => ({ name, points, strong: true, colour: 'var(--ink)', dash: null });
  const seriesOf = (chart) => {
    const series = linesOf(chart).map((line) => line.member === null ? strong(nameOf(line), inside(line.points))
      : { name: nameOf(line), points: inside(line.points), strong: false, colour: memberColour(line.member), dash: memberDash(line.member) });
    // Training measures members only; the ensemble's test accuracy is known at some epochs, often at the last one.
    const test = chart[0] === 'top1' && chart[1] === 'train' && linesOf(['top1', 'test']).find((line) => line.member === null);
    return test ? [...series, { ...strong(`${nameOf(test)}, test`, inside(test.points)), dots: true }] : series;
  };

  const caption = h('p', { class: 'lead', id: 'training-caption' });
  const describe = (chart) => {
    const [metric, split] = chart;
    if (metric === 'lr') return 'Learning rate of the last step of every epoch.';
    const what = metric === 'loss' ? 'Training loss on training images, while the weights change' : `${metric === 'nll' ? 'NLL' : 'Top-1 accuracy'} on ${SPLITS[split]}${split === 'train' ? ', while the weights change' : ''}`;
    if (!many) return `${what}.`;
    const whole = linesOf(chart).some((line) => line.member === null);
    const tested = seriesOf(chart).some((line) => line.dots);
    return `${what}: every ${words}` + (whole ? `, and the mean of their probabilities (${together}).` : tested ? `. Dots: ${together === 'ensemble' ? 'the ensemble' : together} on test images.` : '.');
  };

  const chart = drawn('wide-chart', (width) => {
    const [metric] = shown;
    const series = seriesOf(shown);
    caption.textContent = describe(shown);
    const bands = searched && from < last.from ? [{ from, to: last.from, name: 'search' }] : [];
    const phase = (at) => [...curves.phases].reverse().find((p) => at > p.from) || first;
    return lineChart({
      width, series, bands, marks: curves.marks.filter((mark) => mark.at > from && mark.at < last.to), whole: true,
      breaks: curves.phases.slice(1).map((p) => p.from), x: [from, last.to],
      xName: last.phase === 'search' ? 'epoch of the search' : bands.length ? 'epoch of training; the search is before 0' : 'epoch of training', yName: METRICS[metric],
      label: `${chartName(shown)} over ${last.to} epochs, ${series.map((line) => line.name).join(', ')}`,
      yFormat: metric === 'lr' ? (v, d) => fixed(v, Math.max(d, 3)) : fixed,
      reading: (at) => `epoch ${at - phase(at).from} of ${phase(at).phase === 'train' ? 'training' : 'the search'}`,
    });
  });
  return section('training', 'Training', null, caption,
    h('div', { class: 'controls' },
      charts.length > 1 && choices('Show', charts.map((c) => [c.join(' '), chartName(c)]), (value) => { shown = charts.find((c) => c.join(' ') === value); chart.redraw(); }, shown.join(' ')),
      searched && choices('Epochs', [['train', 'of training'], ['all', 'with the search']], (value) => { from = value === 'all' ? first.from : last.from; chart.redraw(); })),
    chart);
}
