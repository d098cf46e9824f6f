// Evaluation: every subset, time, calibration, corruptions, the line between two members.

/** Accuracy over time, with a line through the subsets that no other beats. groups: { name, colour, points: [{ x, y, front, lines, label }] }. */
function scatter({ width, height = 360, groups, xName, yName, label }) {
  const all = groups.flatMap((group) => group.points);
  const f = frame({ width, height, xName, yName, label, x: [0, Math.max(...all.map((p) => p.x)) * 1.06], y: extent(all.map((p) => p.y), 0.08), right: 24 });
  const { svg, X, Y } = f;
  for (const group of groups) {
    const front = group.points.filter((p) => p.front).sort((a, b) => a.x - b.x);
    let d = '';
    front.forEach((p, i) => { d += i ? `H${X(p.x).toFixed(1)}V${Y(p.y).toFixed(1)}` : `M${X(p.x).toFixed(1)} ${Y(p.y).toFixed(1)}`; });
    svg.append(s('path', { d, class: 'line', style: { stroke: group.colour } }));
    for (const p of group.points) {
      svg.append(s('circle', { cx: X(p.x), cy: Y(p.y), r: p.front ? 6 : 4.5, class: 'point' + (p.front ? ' front' : ''), tabindex: 0, role: 'img', 'aria-label': p.lines.flat().join(' '),
        style: { fill: p.front ? group.colour : 'var(--panel)', stroke: group.colour }, ...withTip(() => p.lines) }));
      if (p.label && p.front) svg.append(X(p.x) > width * 0.75 ? s('text', { x: X(p.x) - 9, y: Y(p.y) + 16, class: 'small-label end' }, p.label) : s('text', { x: X(p.x) + 9, y: Y(p.y) + 16, class: 'small-label' }, p.label));
    }
  }
  return svg;
}

function latencyGroup(run, colour, name) {
  const { latency } = run.evaluation;
  return { name, colour, points: latency.subsets.map((subset) => ({
    x: subset.ms, y: subset.top1, front: subset.front, label: subsetLabel(run, subset.members),
    lines: [subsetName(run, subset.members), ['top-1', percent(subset.top1, 2)], ['median', fixed(subset.ms, 2) + ' ms'],
      subset.p99 !== null && ['p99', fixed(subset.p99, 2) + ' ms'], subset.front ? null : 'another subset is as fast and more accurate'].filter((line) => line),
  })) };
}

function drawAnytime(run) {
  const { evaluation } = run;
  if (!evaluation || !evaluation.latency || !evaluation.latency.subsets.length) return null;
  const { latency } = evaluation;
  return section('anytime', 'Accuracy against time',
    `${hasExits(run) ? 'Every exit, and the mean of all up to it' : 'Every subset of the members'}, timed on ${latency.device}, ${plural(latency.batch_size, 'image')} at once. Filled points and the line: no other subset is as fast and as accurate. Labels are ${hasExits(run) ? 'exits, ≤ all up to one' : 'members'}.`,
    drawn('wide-chart', (width) => scatter({ width, groups: [latencyGroup(run, 'var(--line-0)')], xName: 'latency (ms)', yName: 'top-1 accuracy (%)', label: 'Accuracy against latency of every subset' })));
}

function drawScores(run) {
  const { evaluation } = run;
  if (!evaluation || !evaluation.subsets.length) return null;
  const columns = [['top1', 'top-1', (v) => percent(v, 2)], ['top5', 'top-5', (v) => percent(v, 2)], ['nll', term('NLL'), (v) => fixed(v, 3)], ['ece', term('ECE'), (v) => percent(v, 2)]]
    .filter(([key]) => evaluation.subsets.some((subset) => subset[key] !== null));
  const best = new Map(columns.map(([key]) => [key, (key === 'nll' || key === 'ece' ? Math.min : Math.max)(...evaluation.subsets.map((subset) => subset[key]).filter((v) => v !== null))]));
  const rows = [...evaluation.subsets].sort((a, b) => a.members.length - b.members.length);
  const table = h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, hasExits(run) ? 'exits' : 'members'), columns.map(([, name]) => h('th', { scope: 'col', class: 'number-cell' }, name)))),
    h('tbody', {}, rows.map((subset) => h('tr', { class: subset.members.length === outputCount(run) ? 'all' : null },
      h('th', { scope: 'row' }, unbroken(subsetName(run, subset.members))),
      columns.map(([key, , format]) => h('td', { class: 'number-cell' + (subset[key] === best.get(key) && evaluation.subsets.some((other) => other[key] !== subset[key]) ? ' best' : '') }, subset[key] === null ? '–' : format(subset[key])))))));
  return section('scores', hasExits(run) ? 'Exits' : 'Members and ensembles', `On ${evaluation.on}, ${plural(evaluation.images, 'image')}.`
    + (evaluation.diversity !== null ? ` Diversity ${fixed(evaluation.diversity, 3)}: share of images on which two ${hasExits(run) ? 'exits' : 'members'} disagree, over the error of one.` : ''), scrolling('Scores of every subset', table));
}

function drawReliability(run) {
  const { evaluation } = run;
  const with_bins = evaluation ? evaluation.subsets.filter((subset) => subset.bins && subset.bins.length) : [];
  if (!with_bins.length) return null;
  let chosen = with_bins.reduce((a, b) => b.members.length > a.members.length ? b : a);
  const chart = drawn('square-chart', (width) => {
    const side = Math.min(width, 460);
    const f = frame({ width: side, height: side * 0.86, x: [0, 100], y: [0, 100], xName: 'confidence (%)', yName: 'accuracy (%)', label: 'Reliability diagram' });
    const { svg, X, Y, bottom } = f;
    const total = chosen.bins.reduce((sum, bin) => sum + bin.images, 0);
    chosen.bins.forEach((bin, i) => {
      if (!bin.images) return;
      const [x0, x1] = [X(i * 100 / chosen.bins.length), X((i + 1) * 100 / chosen.bins.length)];
      const gap = Math.abs(Y(bin.accuracy) - Y(bin.confidence));
      svg.append(s('g', { tabindex: 0, role: 'img', 'aria-label': `confidence ${fixed(bin.confidence, 1)}, accuracy ${fixed(bin.accuracy, 1)}`, ...withTip(() => [`${plural(bin.images, 'image')} (${percent(bin.images / total * 100)})`, ['confidence', percent(bin.confidence)], ['accuracy', percent(bin.accuracy)]]) },
        s('rect', { x: x0 + 1, width: x1 - x0 - 2, y: Y(bin.accuracy), height: bottom - Y(bin.accuracy), style: { fill: 'var(--line-0)' }, 'fill-opacity': 0.35 + 0.65 * Math.min(1, bin.images / total * 4) }),
        s('rect', { x: x0 + 1, width: x1 - x0 - 2, y: Math.min(Y(bin.accuracy), Y(bin.confidence)), height: gap, class: 'gap' })));
    });
    svg.append(s('line', { x1: X(0), y1: Y(0), x2: X(100), y2: Y(100), class: 'mark' }));
    return svg;
  });
  const picker = with_bins.length > 1 && h('label', { class: 'picker' }, 'Of ', h('select', { onchange: (event) => { chosen = with_bins[event.target.value]; chart.redraw(); } },
    with_bins.map((subset, i) => h('option', { value: i, selected: subset === chosen }, subsetName(run, subset.members)))));
  return section('reliability', 'Reliability', 'Accuracy of predictions by their confidence. On the dashed line both are equal; outlined: the difference. Pale bars have few images.', picker, chart);
}

function drawCorruptions(run) {
  const corruptions = run.evaluation && run.evaluation.corruptions;
  if (!corruptions || !corruptions.kinds.length) return null;
  const most = Math.max(...corruptions.kinds.map((kind) => kind.top1.length));
  const values = corruptions.kinds.flatMap((kind) => kind.top1).filter((v) => v !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const cell = (value) => {
    if (value === null || value === undefined) return h('td', { class: 'heat none' }, '–');
    const t = (value - low) / (high - low || 1);
    return h('td', { class: 'heat', style: { background: `color-mix(in oklab, var(--heat-high) ${Math.round(t * 100)}%, var(--heat-low))`, color: t > 0.5 ? 'var(--heat-ink-high)' : 'var(--heat-ink-low)' } }, fixed(value, 1));
  };
  const means = [corruptions.mean_top1 !== null && `top-1 ${percent(corruptions.mean_top1, 2)}`, corruptions.mean_nll !== null && `NLL ${fixed(corruptions.mean_nll, 3)}`, corruptions.mean_ece !== null && `ECE ${percent(corruptions.mean_ece, 2)}`].filter((v) => v);
  return section('corruptions', 'Corrupted images', `Top-1 of ${hasExits(run) ? 'all exits together' : 'the ensemble'} in percent under every corruption and severity (${corruptions.source}).` + (means.length ? ` Mean: ${means.join(', ')}.` : ''),
    scrolling('Accuracy under corruptions', h('table', { class: 'heat-table' }, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'severity'), Array.from({ length: most }, (_, i) => h('th', { scope: 'col' }, i + 1)), h('th', { scope: 'col' }, 'mean'))),
      h('tbody', {}, corruptions.kinds.map((kind) => {
        const known = kind.top1.filter((v) => v !== null);
        return h('tr', {}, h('th', { scope: 'row' }, kind.name), Array.from({ length: most }, (_, i) => cell(kind.top1[i])), h('td', { class: 'number-cell' }, known.length ? fixed(known.reduce((a, b) => a + b, 0) / known.length, 1) : '–'));
      })))));
}

function drawInterpolation(run) {
  const lines = run.evaluation ? run.evaluation.interpolations : [];
  if (!lines.length) return null;
  return section('interpolation', 'Between two members', 'Accuracy on the straight line between the weights of two members. A valley means that they are different solutions.',
    drawn('wide-chart', (width) => lineChart({
      width, height: 280, xName: 'share of the second member', yName: 'top-1 accuracy (%)', label: 'Accuracy between members', xFormat: (v) => fixed(v, 2),
      series: lines.map((line, i) => ({ name: `${outputName(run, line.from)} → ${outputName(run, line.to)}`, points: line.points, colour: memberColour(i), dash: memberDash(i) })),
    })));
}
