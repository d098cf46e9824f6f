// Elements, numbers, tooltips. Text is always set as text: nothing from a file is parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const clear = (element) => { element.replaceChildren(); return element; };
const grouped = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ',');
const fixed = (n, digits) => (Object.is(n, -0) || Math.abs(n) < 0.5 * 10 ** -digits ? 0 : n).toFixed(digits).replace('-', '−');
const percent = (n, digits = 1) => fixed(n, digits) + '%';
const times = (...sides) => sides.join('×');
const plural = (n, word, words = word + 's') => `${grouped(n)} ${n === 1 ? word : words}`;

/** A number with a unit: 3653688 → 3.65M. */
function short(n) {
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['K', 1e3]]) {
    if (n >= size) return (n / size).toFixed(n / size >= 100 ? 0 : n / size >= 10 ? 1 : 2) + unit;
  }
  return grouped(n);
}

function duration(seconds) {
  if (seconds < 60) return fixed(seconds, seconds < 10 ? 1 : 0) + ' s';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round(seconds % 3600 / 60)} min`;
}

/** The layer's name in PyTorch without ".weight". */
const layerName = (layer) => layer.name.replace(/\.weight$/, '');
const kernel = (layer) => layer.kind === 'linear' ? 'linear' : times(layer.shape[2], layer.shape[3]) + (layer.kind === 'depthwise' ? ' depthwise' : '');
const shapeOf = (layer) => `${kernel(layer)}, ${layer.shape[0]} out, ${layer.shape[1]} in`;

/** A long name's beginning and end, for places with little room. */
const brief = (name) => name.length > 20 ? name.slice(0, 10) + '…' + name.slice(-9) : name;

const tip = document.getElementById('tip');

/** Shows a tooltip. The first line is its title, the others are text or [name, value]. */
function showTip(event, lines) {
  clear(tip).append(...lines.filter((line) => line).map((line, i) =>
    Array.isArray(line) ? h('div', { class: 'pair' }, h('span', {}, line[0]), h('b', {}, line[1]))
      : h('div', { class: i === 0 ? 'title' : '' }, line)));
  tip.hidden = false;
  let x, y;
  if (event.clientX || event.clientY) [x, y] = [event.clientX, event.clientY];
  else { const box = event.target.getBoundingClientRect(); [x, y] = [box.left + box.width / 2, box.bottom]; }
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - width - 10)) + 'px';
  tip.style.top = (y + 18 + height > innerHeight ? Math.max(6, y - height - 12) : y + 18) + 'px';
}
const hideTip = () => { tip.hidden = true; };

/** Attributes that give an element a tooltip on hover and on focus. */
const withTip = (lines) => ({
  onpointermove: (event) => showTip(event, lines()),
  onpointerleave: hideTip,
  onfocus: (event) => { if (event.target.matches(':focus-visible')) showTip(event, lines()); },
  onblur: hideTip,
});

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Text whose words with a hyphen, such as names of networks, do not break across lines unless they are very long. */
const unbroken = (text) => text.replaceAll(' + ', '\u00a0+ ').split(/(\s+)/).map((word) => word.includes('-') && word.length <= 24 ? h('span', { class: 'nobr' }, word) : word);

/** An element that scrolls sideways, with a shadow over each edge where its contents continue. */
function edged(element) {
  const box = h('div', { class: 'edges' }, element);
  const update = () => {
    const rest = element.scrollWidth - element.clientWidth - element.scrollLeft;
    box.classList.toggle('more-left', element.scrollLeft > 1);
    box.classList.toggle('more-right', rest > 1);
  };
  element.addEventListener('scroll', update, { passive: true });
  const observer = new ResizeObserver(() => requestAnimationFrame(update));
  observer.observe(element);
  if (element.firstElementChild) observer.observe(element.firstElementChild);
  return box;
}
/** A box that scrolls sideways if its contents are too wide. */
const scrolling = (label, ...children) => edged(h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': label }, children));

/** A section of the page with a link in the navigation. */
const sections = [];
function section(id, title, lead, ...children) {
  const element = h('section', { id, 'aria-labelledby': id + '-title' },
    h('h2', { id: id + '-title' }, title), lead && h('p', { class: 'lead' }, lead), ...children);
  sections.push([id, title]);
  return element;
}
