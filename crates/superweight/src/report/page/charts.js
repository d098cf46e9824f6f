// Axes, lines, points. Charts are drawn again when their width changes, so that text has the same size on every screen.

/** An element that calls render(width) when it is in the page and whenever its width changes. */
function drawn(className, render) {
  const holder = h('div', { class: className });
  let last = 0;
  holder.redraw = () => { if (last > 0) clear(holder).append(...[render(last)].flat()); };
  holder.fit = () => {
    const width = Math.round(holder.clientWidth);
    if (width > 0 && Math.abs(width - last) > 1) { last = width; holder.redraw(); }
  };
  // Changes inside the observer's callback would be reported as a loop.
  new ResizeObserver(() => requestAnimationFrame(holder.fit)).observe(holder);
  toFit.push(holder);
  return holder;
}
const toFit = [];

function niceTicks(low, high, count) {
  const span = high - low || 1;
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) ticks.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return { ticks, digits: Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0))) };
}

/** Ticks at whole numbers only. */
function wholeTicks([low, high], count) {
  const { ticks } = niceTicks(low, high, Math.min(count, high - low));
  return { ticks: ticks.filter((t) => Number.isInteger(t)), digits: 0 };
}

function extent(values, padding = 0.05) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); }
  if (!isFinite(low)) return [0, 1];
  const pad = (high - low || Math.abs(high) || 1) * padding;
  return [low - pad, high + pad];
}

/** A frame with axes; X and Y map values to pixels. The left margin fits the longest tick label beside the axis name. */
function frame({ width, height, x, y, xName, yName, right = 16, top = 14, label, xTicks, yTicks, yFormat, xFormat }) {
  const ys = yTicks || niceTicks(y[0], y[1], (height - top - 42) / 44);
  const yLabels = ys.ticks.map((t) => (yFormat || fixed)(t, ys.digits));
  const left = Math.ceil((yName ? 24 : 4) + 7.2 * Math.max(0, ...yLabels.map((text) => text.length)) + 8);
  const margin = { top, right, bottom: 42, left };
  const inner = { width: Math.max(60, width - margin.left - margin.right), height: height - margin.top - margin.bottom };
  const X = (v) => margin.left + (v - x[0]) / (x[1] - x[0] || 1) * inner.width;
  const Y = (v) => margin.top + (1 - (v - y[0]) / (y[1] - y[0] || 1)) * inner.height;
  const xs = xTicks || niceTicks(x[0], x[1], inner.width / 80);
  const bottom = margin.top + inner.height;
  const svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'chart', role: 'img', 'aria-label': label },
    ys.ticks.map((t, i) => [
      s('line', { x1: margin.left, x2: margin.left + inner.width, y1: Y(t), y2: Y(t), class: 'grid' }),
      s('text', { x: margin.left - 8, y: Y(t) + 4, class: 'tick end' }, yLabels[i]),
    ]),
    xs.ticks.map((t) => [
      s('line', { x1: X(t), x2: X(t), y1: bottom, y2: bottom + 4, class: 'axis' }),
      s('text', { x: X(t), y: bottom + 17, class: 'tick middle' }, (xFormat || fixed)(t, xs.digits)),
    ]),
    s('line', { x1: margin.left, x2: margin.left + inner.width, y1: bottom, y2: bottom, class: 'axis' }),
    s('text', { x: margin.left + inner.width / 2, y: height - 6, class: 'axis-name middle' }, xName),
    s('text', { x: 0, y: 0, class: 'axis-name middle', transform: `translate(13 ${margin.top + inner.height / 2}) rotate(-90)` }, yName));
  return { svg, X, Y, margin, inner, bottom };
}

/** The path of a line; breaks are values of x that it does not cross. */
const path = (points, X, Y, breaks = []) => points.map(([x, y], i) =>
  `${i && !breaks.some((at) => points[i - 1][0] <= at && at < x) ? 'L' : 'M'}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join('');

/** Heights of labels without overlap, between low and high. */
function spread(wanted, low, high, gap = 15) {
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
  for (let i = 1; i < order.length; i++) order[i][0] = Math.max(order[i][0], order[i - 1][0] + gap);
  const over = order.length ? order[order.length - 1][0] - high : 0;
  if (over > 0) {
    order[order.length - 1][0] -= over;
    for (let i = order.length - 2; i >= 0; i--) order[i][0] = Math.min(order[i][0], order[i + 1][0] - gap);
  }
  const heights = [];
  order.forEach(([y, i]) => { heights[i] = Math.max(low, y); });
  return heights;
}

/**
 * Lines with names at their ends, or in a legend if there is little room, and a reading line that follows pointer and arrow keys.
 * series: { name, points, colour, dash, strong, dots }; bands: shaded ranges { from, to, name }.
 */
function lineChart({ width, height = 320, series, xName, yName, label, marks = [], bands = [], breaks = [], whole = false, yFormat, xFormat, y, x, reading }) {
  const points = series.flatMap((line) => line.points);
  const longest = Math.max(...series.map((line) => brief(line.name).length));
  const labelled = series.length <= 10 && width > 420;
  const f = frame({
    width, height, xName, yName, label, yFormat, xFormat,
    xTicks: whole ? wholeTicks(x, width / 90) : null, x: x || extent(points.map((p) => p[0]), 0), y: y || extent(points.map((p) => p[1])),
    top: 14 + (marks.length + (bands.length > 0)) * 14, right: labelled ? 18 + longest * 7.6 : 16,
  });
  const { svg, X, Y, margin, inner, bottom } = f;
  bands.forEach((band) => {
    const [x0, x1] = [X(band.from), X(band.to)];
    svg.prepend(s('rect', { x: x0, width: x1 - x0, y: margin.top, height: bottom - margin.top, class: 'band' }));
    svg.append(s('text', { x: (x0 + x1) / 2, y: margin.top - 4, class: 'mark-name middle' }, band.name));
  });
  marks.forEach((mark, i) => {
    const y = 10 + i * 14;
    const left = X(mark.at) < margin.left + inner.width * 0.6;
    svg.append(s('line', { x1: X(mark.at), x2: X(mark.at), y1: y - 8, y2: bottom, class: 'mark' }),
      s('text', { x: X(mark.at) + (left ? 5 : -5), y, class: 'mark-name' + (left ? '' : ' end') }, mark.what));
  });
  const ends = series.map((line) => line.points[line.points.length - 1]);
  const heights = spread(ends.map((end) => Y(end[1]) + 4), margin.top + 4, bottom);
  series.forEach((line, i) => {
    svg.append(s('path', { d: path(line.points, X, Y, breaks), class: 'line' + (line.strong ? ' strong' : '') + (line.faint ? ' faint' : ''), style: { stroke: line.colour }, 'stroke-dasharray': line.dash }));
    const cut = (a, b) => !a || !b || breaks.some((at) => a[0] <= at && at < b[0]);
    line.points.forEach((p, n) => {
      const alone = cut(line.points[n - 1], p) && cut(p, line.points[n + 1]);
      if (line.dots || alone) svg.append(s('circle', { cx: X(p[0]), cy: Y(p[1]), r: 3.5, style: { fill: line.colour } }));
    });
    if (labelled) {
      svg.append(s('line', { x1: X(ends[i][0]) + 3, y1: Y(ends[i][1]), x2: margin.left + inner.width + 10, y2: heights[i] - 4, class: 'leader', style: { stroke: line.colour } }),
        s('text', { x: margin.left + inner.width + 14, y: heights[i], class: 'series' + (line.strong ? ' strong' : ''), style: { fill: line.strong ? 'var(--ink)' : 'var(--ink-2)' } }, brief(line.name), s('title', {}, line.name)));
    }
  });
  const guide = s('line', { y1: margin.top, y2: bottom, class: 'guide', visibility: 'hidden' });
  svg.append(guide);
  const stops = [...new Set(points.map((p) => p[0]))].sort((a, b) => a - b);
  const read = (event, at) => {
    guide.setAttribute('x1', X(at)); guide.setAttribute('x2', X(at)); guide.setAttribute('visibility', 'visible');
    const lines = series.map((line) => [line, line.points.find((p) => p[0] === at)]).filter(([, p]) => p);
    lines.sort((a, b) => b[1][1] - a[1][1]);
    showTip(event, [reading ? reading(at) : `${xName} ${(xFormat || fixed)(at, 0)}`, ...lines.slice(0, 14).map(([line, p]) => [line.name, (yFormat || fixed)(p[1], 2)])]);
  };
  const nearest = (x) => stops.reduce((best, stop) => Math.abs(X(stop) - x) < Math.abs(X(best) - x) ? stop : best, stops[0]);
  let at = stops.length - 1;
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('pointermove', (event) => read(event, nearest(event.clientX - svg.getBoundingClientRect().left)));
  svg.addEventListener('keydown', (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    at = Math.max(0, Math.min(stops.length - 1, at + move));
    const box = svg.getBoundingClientRect();
    read({ clientX: box.left + X(stops[at]), clientY: box.top + margin.top }, stops[at]);
  });
  const leave = () => { hideTip(); guide.setAttribute('visibility', 'hidden'); };
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('blur', leave);
  if (labelled || series.length < 2) return svg;
  return [svg, h('p', { class: 'legend' }, series.map((line) => h('span', { class: 'nobr' }, h('i', { class: 'swatch', style: { background: line.colour } }), brief(line.name))))];
}

/** A row of choices. */
function choices(label, options, choose, chosen = options[0][0]) {
  const name = 'choice-' + Math.random().toString(36).slice(2);
  return h('fieldset', { class: 'choices' }, h('legend', {}, label), options.map(([value, text]) =>
    h('label', {}, h('input', { type: 'radio', name, value, checked: value === chosen, onchange: () => choose(value) }), h('span', {}, text))));
}
