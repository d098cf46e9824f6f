// The conflict matrix: similarity of every two layers' gradients, with layers in the order of their clusters.

function drawMatrix(run) {
  const { search, sharing } = run;
  if (!search) return null;
  const { layers, members } = sharing;
  const psi = new Map();
  for (const [a, b, value] of state.pairs.length ? state.pairs : pairsOf(search)) psi.set(a * 1e6 + b, value).set(b * 1e6 + a, value);
  /** The similarity with the full colour: the largest one, without that of a layer with itself. */
  const most = Math.min(1, Math.max(0.1, ...[...psi.values()].map(Math.abs)));
  let order = [];
  let cursor = null;
  let size = 0;
  const BAND = 12;
  const canvas = h('canvas', { class: 'matrix', tabindex: 0, role: 'img' });
  const overlay = s('svg', { class: 'matrix-overlay', 'aria-hidden': 'true' });
  const reading = h('p', { class: 'small reading', 'aria-live': 'polite' });

  function draw(width) {
    const n = search.start.flat().length;
    order = state.shown.clusters.map((ids) => ids.filter((id) => search.start.some((c) => c.includes(id)))).flat();
    size = Math.max(2, Math.floor(Math.min(width - BAND - 4, 620) / n));
    const side = n * size + BAND + 2;
    const sharp = Math.min(2, devicePixelRatio || 1);
    canvas.width = side * sharp;
    canvas.height = side * sharp;
    canvas.style.width = canvas.style.height = side + 'px';
    const ctx = canvas.getContext('2d');
    ctx.scale(sharp, sharp);
    const background = backgroundColour();
    const [single, none] = [css('--single'), css('--hatch')];
    const gap = size > 5 ? 1 : 0;
    order.forEach((a, i) => order.forEach((b, j) => {
      const value = psi.get(a * 1e6 + b);
      ctx.fillStyle = a === b ? single : value === undefined ? none : `rgb(${diverging(value / most, background).join()})`;
      ctx.fillRect(BAND + 2 + j * size, BAND + 2 + i * size, size - gap, size - gap);
    }));
    order.forEach((id, i) => {
      const colour = state.shown.colour(state.shown.of.get(id));
      ctx.fillStyle = colour === null ? single : HUES[colour % HUES.length];
      ctx.fillRect(BAND + 2 + i * size, 0, size - gap, BAND - 3);
      ctx.fillRect(0, BAND + 2 + i * size, BAND - 3, size - gap);
    });
    // Squares around the clusters that share.
    overlay.setAttribute('width', side); overlay.setAttribute('height', side);
    clear(overlay);
    let at = 0;
    for (const ids of state.shown.clusters) {
      const count = ids.filter((id) => order.includes(id)).length;
      if (count > 1) overlay.append(s('rect', { x: BAND + 1.5 + at * size, y: BAND + 1.5 + at * size, width: count * size, height: count * size }));
      at += count;
    }
    canvas.setAttribute('aria-label', `Similarity of ${n} layers with each other; arrow keys read a pair`);
  }
  const holder = drawn('matrix-holder', (width) => { draw(width); return [h('div', { class: 'matrix-stack' }, canvas, overlay)]; });
  const words = (i, j) => {
    const [a, b] = [order[i], order[j]];
    const value = a === b ? 1 : psi.get(a * 1e6 + b);
    const name = (id) => `${members.length > 1 ? members[layers[id].member] + ' ' : ''}${layerName(layers[id])}`;
    return [value === undefined ? 'not compared: their initial clusters differ' : `ψ = ${fixed(value, 3)}`, name(a), name(b),
      state.shown.of.get(a) === state.shown.of.get(b) ? `both in cluster ${state.shown.of.get(a)}` : `clusters ${state.shown.of.get(a)} and ${state.shown.of.get(b)}`];
  };
  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    const [i, j] = [event.clientY - box.top, event.clientX - box.left].map((v) => Math.floor((v - BAND - 2) / size));
    if (i >= 0 && j >= 0 && i < order.length && j < order.length) showTip(event, words(i, j)); else hideTip();
  });
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('keydown', (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const clamp = (v) => Math.max(0, Math.min(order.length - 1, v));
    cursor = cursor ? [clamp(cursor[0] + move[0]), clamp(cursor[1] + move[1])] : [1, 0];
    overlay.querySelector('.cursor')?.remove();
    overlay.append(s('rect', { class: 'cursor', x: BAND + 2 + cursor[1] * size - 1, y: BAND + 2 + cursor[0] * size - 1, width: size + 1, height: size + 1 }));
    reading.textContent = words(...cursor).join(' · ');
  });
  canvas.addEventListener('click', (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top - BAND - 2) / size);
    if (order[i] !== undefined) open(order[i]);
  });
  on('tau', holder.redraw);
  on('theme', holder.redraw);
  const similar = search.compared === 'gradients' ? 'gradients' : 'weights';
  return section('conflicts', 'Conflict matrix',
    [term('ψ', 'Gradient similarity'), `, the cosine of the ${similar} of every two layers over the corner that both have (Eq. 2), ordered by cluster. Blue: they agree. Orange: they conflict.`],
    h('div', { class: 'matrix-body' },
      h('div', {}, edged(holder), h('p', { class: 'scale', 'aria-hidden': 'true' }, `−${fixed(most, 2)} `, h('i', {}), ` ${fixed(most, 2)}`, h('span', { class: 'nobr' }, h('i', { class: 'swatch', style: { background: 'var(--hatch)' } }), 'not compared')), reading),
      h('div', {}, drawCounts(search), drawHistogram(search, [...psi].filter(([key]) => Math.floor(key / 1e6) < key % 1e6)))));
}

/** Number of clusters for every τ, and the thresholds at which the plan is over budget. */
function drawCounts(search) {
  if (!search.steps.length) return null;
  const points = [];
  search.steps.forEach((step, i) => {
    const from = i === 0 ? 1 : search.steps[i].merge;
    const to = i + 1 < search.steps.length ? search.steps[i + 1].merge : -1;
    points.push([from, step.clusters, step], [to, step.clusters, step]);
  });
  const range = thresholdRange(search.steps.slice(1).map((step) => step.merge), search.tau);
  const inside = (v) => Math.max(range[0], Math.min(range[1], v));
  const chart = drawn('side-chart', (width) => {
    const f = frame({ width, height: 220, x: range, y: [0, Math.max(...points.map((p) => p[1])) * 1.06], xName: 'τ', yName: 'clusters', label: 'Number of clusters for every τ' });
    const { svg, X, Y, margin, bottom } = f;
    for (let i = 0; i < points.length; i += 2) {
      if (!points[i][2].bill) svg.append(s('rect', { x: X(inside(points[i + 1][0])), width: Math.max(0, X(inside(points[i][0])) - X(inside(points[i + 1][0]))), y: margin.top, height: bottom - margin.top, class: 'infeasible' }));
    }
    svg.append(s('path', { d: path(points.map(([x, y]) => [inside(x), y]), X, Y), class: 'line', style: { stroke: 'var(--accent)' } }),
      s('line', { x1: X(state.tau), x2: X(state.tau), y1: margin.top, y2: bottom, class: 'now' }));
    return svg;
  });
  on('tau', chart.redraw);
  const some = search.steps.some((step) => !step.bill);
  return h('figure', {}, chart, h('figcaption', {}, 'Clusters for every τ; the line is τ now.', some ? ' Shaded: more clusters than the budget allows; τ is relaxed there.' : ''));
}

/** Histogram of similarities, inside clusters and between them. */
function drawHistogram(search, pairs) {
  const BINS = 40;
  const [low, high] = thresholdRange(pairs.map(([, psi]) => psi), search.tau);
  const chart = drawn('side-chart', (width) => {
    const bins = Array.from({ length: BINS }, () => [0, 0]);
    for (const [key, psi] of pairs) {
      const together = state.shown.of.get(Math.floor(key / 1e6)) === state.shown.of.get(key % 1e6);
      bins[Math.max(0, Math.min(BINS - 1, Math.floor((psi - low) / (high - low) * BINS)))][together ? 0 : 1]++;
    }
    const f = frame({ width, height: 200, x: [low, high], y: [0, Math.max(1, ...bins.map(([a, b]) => a + b)) * 1.05], xName: 'ψ, similarity', yName: 'pairs', label: 'Histogram of similarities' });
    const { svg, X, Y, margin, bottom } = f;
    bins.forEach(([inside, between], i) => {
      const [x, w] = [X(low + (high - low) * i / BINS), X(low + (high - low) / BINS) - X(low) - 1];
      svg.append(s('rect', { x, width: w, y: Y(inside), height: bottom - Y(inside), style: { fill: 'var(--line-0)' } }),
        s('rect', { x, width: w, y: Y(inside + between), height: Y(inside) - Y(inside + between), style: { fill: 'var(--line-1)' } }));
    });
    svg.append(s('line', { x1: X(state.tau), x2: X(state.tau), y1: margin.top, y2: bottom, class: 'now' }));
    return svg;
  });
  on('tau', chart.redraw);
  return h('figure', {}, chart, h('figcaption', { class: 'legend' },
    h('span', {}, h('i', { class: 'swatch', style: { background: 'var(--line-0)' } }), 'pairs of one cluster'),
    h('span', {}, h('i', { class: 'swatch', style: { background: 'var(--line-1)' } }), 'pairs of different clusters')));
}
