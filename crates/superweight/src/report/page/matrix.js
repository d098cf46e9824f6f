// The conflict matrix: how alike the gradients of every two layers are, layers in the order of their clusters.

function drawMatrix(run) {
  const { search, sharing } = run;
  if (!search) return null;
  const { layers, members } = sharing;
  const psi = new Map();
  for (const [a, b, value] of state.pairs.length ? state.pairs : pairsOf(search)) psi.set(a * 1e6 + b, value).set(b * 1e6 + a, value);
  let order = [];
  let cursor = null;
  let size = 0;
  const BAND = 12;
  const canvas = h('canvas', { class: 'matrix', tabindex: 0, role: 'img' });
  const overlay = s('svg', { class: 'matrix-overlay', 'aria-hidden': 'true' });
  const said = h('p', { class: 'small reading', 'aria-live': 'polite' });

  function draw(width) {
    const n = search.start.flat().length;
    order = state.shown.clusters.map((ids) => ids.filter((id) => search.start.some((c) => c.includes(id)))).flat();
    size = Math.max(2, Math.floor(Math.min(width - BAND - 4, 640) / n));
    const side = n * size + BAND + 2;
    const sharp = Math.min(2, devicePixelRatio || 1);
    canvas.width = side * sharp;
    canvas.height = side * sharp;
    canvas.style.width = canvas.style.height = side + 'px';
    const ctx = canvas.getContext('2d');
    ctx.scale(sharp, sharp);
    const paper = paperColour();
    const gap = size > 5 ? 1 : 0;
    const none = css('--hatch');
    order.forEach((a, i) => order.forEach((b, j) => {
      const value = a === b ? 1 : psi.get(a * 1e6 + b);
      ctx.fillStyle = value === undefined ? none : `rgb(${diverging(value, paper).join()})`;
      ctx.fillRect(BAND + 2 + j * size, BAND + 2 + i * size, size - gap, size - gap);
    }));
    order.forEach((id, i) => {
      const colour = state.shown.colour(state.shown.of.get(id));
      ctx.fillStyle = colour === null ? css('--single') : HUES[colour % HUES.length];
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
    return [value === undefined ? 'not compared: they started in different clusters' : `ψ = ${fixed(value, 3)}`, name(a), name(b),
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
    said.textContent = words(...cursor).join(' · ');
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
    `Cosine of the ${similar} of every two layers over the corner both have (Eq. 2), ordered by cluster. Blue: they pull the same way. Orange: they conflict.`,
    holder, h('p', { class: 'scale', 'aria-hidden': 'true' }, '−1 ', h('i', {}), ' 1'), said);
}
