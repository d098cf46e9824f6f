// Colours. Clusters: Paul Tol's "muted", nine hues that are distinct for every kind of colour blindness, then again with stripes,
// then with dots; the number in the cell repeats the cluster. Similarities: from blue to orange through the background.

const HUES = ['#4c3fb0', '#cc6677', '#44aa99', '#ddcc77', '#88ccee', '#882255', '#117733', '#999933', '#aa4499'];
const PATTERNS = ['plain', 'stripes', 'dots'];

const lookOf = (index) => ({ hue: HUES[index % HUES.length], pattern: PATTERNS[Math.floor(index / HUES.length) % PATTERNS.length], id: index % (HUES.length * PATTERNS.length) });

function luminance(hex) {
  const part = (i) => { const c = parseInt(hex.slice(i, i + 2), 16) / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}
const inkOn = (hex) => luminance(hex) > 0.18 ? '#111' : '#fff'; // the one with the larger contrast

/** Definitions of the patterns; a page needs them once. */
function patternDefs() {
  const defs = s('defs', {});
  for (let i = HUES.length; i < HUES.length * PATTERNS.length; i++) {
    const { hue, pattern } = lookOf(i);
    const mark = luminance(hue) > 0.3 ? 'rgba(0,0,0,.38)' : 'rgba(255,255,255,.5)';
    defs.append(s('pattern', { id: 'look-' + i, width: 7, height: 7, patternUnits: 'userSpaceOnUse', patternTransform: pattern === 'stripes' ? 'rotate(45)' : null },
      s('rect', { width: 7, height: 7, fill: hue }),
      pattern === 'stripes' ? s('rect', { width: 2.4, height: 7, fill: mark }) : s('circle', { cx: 3.5, cy: 3.5, r: 1.5, fill: mark })));
  }
  return s('svg', { width: 0, height: 0, 'aria-hidden': 'true', style: { position: 'absolute' } }, defs);
}
const paint = (index) => index === null ? 'var(--single)' : lookOf(index).pattern === 'plain' ? lookOf(index).hue : `url(#look-${lookOf(index).id})`;
const inkOf = (index) => index === null ? 'var(--ink)' : inkOn(lookOf(index).hue);

/** ψ in [−1, 1] as [r, g, b]: orange for conflict, blue for agreement, the background's colour for 0. */
function diverging(psi, background) {
  const dark = background[0] < 128;
  const end = psi < 0 ? (dark ? [255, 138, 51] : [213, 94, 0]) : (dark ? [84, 164, 255] : [0, 98, 178]);
  const t = Math.min(1, Math.abs(psi)) ** 0.75;
  return end.map((c, i) => Math.round(background[i] + (c - background[i]) * t));
}
function backgroundColour() {
  const hex = css('--panel');
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/** Lines of members; the ensemble is drawn in ink. */
const memberColour = (i) => `var(--line-${i % 6})`;
const DASHES = [null, '6 3', '2 3', '8 3 2 3'];
const memberDash = (i) => DASHES[Math.floor(i / 6) % DASHES.length];
