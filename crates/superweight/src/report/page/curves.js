// How training went.

const METRICS = { top1: 'top-1 accuracy (%)', loss: 'loss', rate: 'learning rate' };
const PART_NAMES = { validation: 'held-out images', test: 'test images', train: 'training images' };

function drawCurves(run) {
  const { curves, about } = run;
  if (!curves) return null;
  const has = (metric, split) => curves.series.some((line) => line.metric === metric && line.split === split);
  const metrics = Object.keys(METRICS).filter((metric) => curves.series.some((line) => line.metric === metric));
  if (metrics.length === 0) return null;
  const splits = ['validation', 'test', 'train'].filter((split) => has('top1', split) || has('loss', split));
  let [metric, split] = [metrics[0], splits[0]];
  const many = outputCount(run) > 1;
  const name = (member) => member === null ? (metric === 'lr' ? 'lr' : !many ? about.members[0] : hasExits(run) ? 'all exits' : 'ensemble') : outputName(run, member);
  const chart = drawn('wide-chart', (width) => {
    let lines = curves.series.filter((line) => line.metric === metric && (metric === 'lr' || line.split === split));
    if (!many && lines.some((line) => line.member === null)) lines = lines.filter((line) => line.member === null);
    if (lines.length === 0) return h('p', { class: 'none' }, 'Nothing was measured here.');
    const series = lines.map((line) => ({
      name: name(line.member), points: line.points, strong: line.member === null,
      colour: line.member === null ? 'var(--ink)' : memberColour(line.member), dash: line.member === null ? null : memberDash(line.member),
    }));
    const last = curves.phases[curves.phases.length - 1];
    const marks = curves.marks.filter((mark) => mark.at > 0 && mark.at < last.to);
    const phase = (at) => [...curves.phases].reverse().find((p) => at > p.from) || curves.phases[0];
    return lineChart({
      width, series, marks, whole: true, breaks: curves.phases.slice(1).map((phase) => phase.from), xName: 'epochs', yName: METRICS[metric], x: [0, last.to],
      label: `${METRICS[metric]} over ${last.to} epochs, ${series.map((line) => line.name).join(', ')}`,
      yFormat: metric === 'lr' ? (v, d) => fixed(v, Math.max(d, 3)) : fixed,
      reading: (at) => `epoch ${at - phase(at).from} of ${phase(at).phase}`,
    });
  });
  return section('training', 'Training', !many ? null : hasExits(run) ? 'Every exit, and the mean of their probabilities.' : 'Every member, and the mean of their probabilities as the ensemble.',
    h('div', { class: 'controls' },
      metrics.length > 1 && choices('Show', metrics.map((m) => [m, METRICS[m].replace(/ \(.*/, '')]), (m) => { metric = m; chart.redraw(); }),
      splits.length > 1 && choices('On', splits.map((p) => [p, PART_NAMES[p]]), (p) => { split = p; chart.redraw(); })),
    chart);
}
