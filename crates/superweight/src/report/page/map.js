// The cluster map: every layer of every member along depth, in the colour and with the number of its cluster.

function drawMap(run) {
  const { layers, members } = run.sharing;
  const rows = members.map((_, m) => layers.map((layer, id) => ({ layer, id })).filter(({ layer }) => layer.member === m));
  const longest = Math.max(...rows.map((row) => row.length));
  const cells = new Map();
  const stageOf = (layer) => layer.name.split('.')[0];
  const staged = rows.some((row) => row.some(({ layer }, n) => n > 0 && stageOf(layer) === stageOf(row[n - 1].layer)));
  const holder = drawn('map', (width) => {
    cells.clear();
    const wanted = 16 + 7.9 * Math.max(...members.map((name) => name.length));
    const head = width > 640 && wanted < width / 3 ? Math.max(90, wanted) : 0;
    const room = width - head - 4;
    const cell = Math.max(15, Math.min(46, room / longest));
    const height = Math.max(30, Math.min(44, cell * 1.3));
    const lane = height + (staged ? 30 : 12) + (head ? 0 : 18);
    const total = head + cell * longest + 4;
    const svg = s('svg', { width: total, height: rows.length * lane + 2, viewBox: `0 0 ${total} ${rows.length * lane + 2}`, class: 'map-svg', role: 'group', 'aria-label': 'Layers of every member along depth; arrow keys move, Enter opens a layer' });
    rows.forEach((row, m) => {
      const top = m * lane + (head ? 0 : 18) + 1;
      svg.append(s('text', { x: 0, y: head ? top + height / 2 + 4 : top - 4, class: 'member' }, members[m]));
      let stage = null;
      row.forEach(({ layer, id }, n) => {
        const small = layer.kind === 'conv' && layer.shape[2] * layer.shape[3] === 1;
        const h0 = small ? height * 0.62 : height;
        const x = head + n * cell;
        const rect = s('rect', { x: x + 1, y: top + height - h0, width: cell - 2, height: h0, rx: 3 });
        const text = s('text', { x: x + cell / 2, y: top + height - h0 / 2 + 4, class: 'number middle', style: { 'font-size': (cell < 19 ? 9 : 11) + 'px' } });
        const group = s('g', { class: 'cell', role: 'button', tabindex: -1, 'data-layer': id,
          onclick: () => { focusOn(id); open(id); }, onpointerenter: () => highlight(id), ...withTip(() => describe(id)),
        }, rect, text);
        group.addEventListener('pointerleave', () => highlight(null));
        cells.set(id, { group, rect, text, m, n });
        svg.append(group);
        const name = stageOf(layer);
        if (name !== stage) {
          stage = name;
          const run = row.slice(n).findIndex(({ layer: other }) => stageOf(other) !== name);
          const count = run < 0 ? row.length - n : run;
          if (count > 1) {
            const y = top + height + 5;
            svg.append(s('path', { d: `M${x + 2} ${y}v4h${count * cell - 4}v-4`, class: 'bracket' }),
              s('text', { x: x + count * cell / 2, y: y + 16, class: 'stage middle' }, name));
          }
        }
      });
    });
    svg.addEventListener('keydown', (event) => keys(event, rows));
    recolour();
    focusOn(state.layer ?? rows[0][0].id, false);
    return svg;
  });

  function describe(id) {
    const layer = layers[id];
    const cluster = state.shown.of.get(id);
    return [layerName(layer), members[layer.member], shapeOf(layer),
      cluster === undefined ? 'dense: not shared'
        : `cluster ${cluster}, ${plural(state.shown.clusters[cluster].length, 'layer')}`,
      state.replaying ? null : 'Enter or click: its composition'];
  }
  function recolour() {
    const using = neighbours();
    for (const [id, { group, rect, text }] of cells) {
      const cluster = state.shown.of.get(id);
      const dense = cluster === undefined;
      const colour = dense ? null : state.shown.colour(cluster);
      group.classList.toggle('dense', dense);
      group.classList.toggle('single', !dense && colour === null);
      group.classList.toggle('open', id === state.layer);
      group.classList.toggle('neighbour', using.has(id));
      rect.style.fill = dense ? 'none' : paint(colour);
      text.style.fill = dense ? 'var(--ink-3)' : inkOf(colour);
      text.textContent = dense ? '·' : cluster;
      group.setAttribute('aria-label', describe(id).filter((line) => line).join(', '));
      group.setAttribute('data-cluster', dense ? '' : cluster);
    }
  }
  /** Layers on the SuperWeights of the open one. */
  function neighbours() {
    if (state.layer === null || state.replaying) return new Set();
    const used = new Set(layers[state.layer].tiles.map((tile) => tile[0]));
    return new Set(layers.map((_, id) => id).filter((id) => id !== state.layer && layers[id].tiles.some((tile) => used.has(tile[0]))));
  }
  function highlight(id) {
    const cluster = id === null ? undefined : state.shown.of.get(id);
    for (const [other, { group }] of cells) {
      group.classList.toggle('faded', id !== null && (cluster === undefined ? other !== id : state.shown.of.get(other) !== cluster));
    }
  }
  function focusOn(id, really = true) {
    for (const { group } of cells.values()) group.setAttribute('tabindex', -1);
    const cell = cells.get(id);
    if (!cell) return;
    cell.group.setAttribute('tabindex', 0);
    if (really) cell.group.focus();
  }
  function keys(event) {
    const id = Number(event.target.closest('.cell')?.dataset.layer);
    const at = cells.get(id);
    if (!at) return;
    const go = (m, n) => {
      const row = rows[Math.max(0, Math.min(rows.length - 1, m))];
      focusOn(row[Math.max(0, Math.min(row.length - 1, n))].id);
    };
    const moves = {
      ArrowLeft: () => go(at.m, at.n - 1), ArrowRight: () => go(at.m, at.n + 1),
      ArrowUp: () => go(at.m - 1, at.n), ArrowDown: () => go(at.m + 1, at.n),
      Home: () => go(at.m, 0), End: () => go(at.m, Infinity),
      Enter: () => open(id), ' ': () => open(id), Escape: () => open(null),
    };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  }
  on('tau', recolour);
  on('layer', recolour);

  const legend = h('p', { class: 'legend' },
    h('span', {}, h('i', { class: 'swatch', style: { background: HUES[0] } }), 'one colour and number: one cluster'),
    h('span', {}, h('i', { class: 'swatch', style: { background: 'var(--single)' } }), 'the only layer of its cluster'),
    h('span', {}, h('i', { class: 'swatch dense' }), 'dense, not shared'),
    h('span', {}, h('i', { class: 'swatch low' }), 'low cells: 1×1 convolutions'));
  const element = h('div', {}, edged(holder), legend);
  element.focusLayer = focusOn;
  return element;
}
