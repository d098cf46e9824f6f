// Composition of a layer: its tiles to scale in the corner matrix of its cluster, their SuperWeights and template sets, the other
// layers that use them, and the coefficients.

function drawComposition(run, map) {
  const { layers, sets, superweights, members } = run.sharing;
  const patterned = run.sharing.tiling.startsWith('Kronecker');
  const panel = h('div', { class: 'composition', id: 'composition', tabindex: -1, 'aria-live': 'polite' });
  const users = superweights.map(() => []);
  layers.forEach((layer, id) => layer.tiles.forEach((tile) => users[tile[0]].push(id)));

  const chip = (id) => {
    const layer = layers[id];
    const colour = state.shown.colour(state.shown.of.get(id));
    return h('button', { type: 'button', class: 'chip' + (id === state.layer ? ' here' : ''), onclick: () => open(id) },
      h('i', { style: { background: colour === null ? 'var(--single)' : HUES[colour % HUES.length] } }),
      members.length > 1 ? `${members[layer.member]} ` : '', layerName(layer));
  };
  const chips = (ids) => {
    const list = h('div', { class: 'chips' }, ids.slice(0, 12).map(chip));
    if (ids.length > 12) {
      list.append(h('button', { type: 'button', class: 'plain', onclick: () => clear(list).append(...ids.map(chip)) }, `and ${ids.length - 12} more`));
    }
    return list;
  };

  /** Coefficient groups of a SuperWeight: those of the plan, or those of the slider's β. */
  const groupsOf = (id) => {
    const replayed = state.groups && state.groups.groups.get(id);
    const trained = superweights[id].groups;
    return replayed ? { groups: replayed, replayed: !samePartition(replayed, trained.map((g) => g.layers)) } : { groups: trained.map((g) => g.layers), replayed: false };
  };

  function picture(id) {
    const layer = layers[id];
    const cluster = layer.cluster;
    const all = superweights.map((superweight, n) => ({ ...superweight, n })).filter((superweight) => sets[superweight.set].cluster === cluster);
    const rows = Math.max(...all.map((superweight) => superweight.at[1]));
    const cols = Math.max(...all.map((superweight) => superweight.at[3]));
    const side = 300;
    const scale = side / Math.max(rows, cols, 1);
    const [w, t] = [Math.max(34, cols * scale), Math.max(34, rows * scale)];
    const [sx, sy] = [w / cols, t / rows];
    const box = ([r0, r1, c0, c1]) => ({ x: c0 * sx, y: r0 * sy, width: Math.max(0.5, (c1 - c0) * sx), height: Math.max(0.5, (r1 - r0) * sy) });
    const colour = state.shown.colour(state.shown.of.get(id)) ?? 0;
    const tiles = layer.tiles.map(([n, at]) => {
      const set = sets[superweights[n].set];
      const b = box(at);
      const cells = [];
      const lines = (from, to, step, sized) => { if ((to - from) / step <= 60 && step * sized > 3) for (let v = from + step; v < to; v += step) cells.push(v); };
      const grid = s('g', { class: 'cells' });
      lines(at[0], at[1], set.block[0], sy);
      cells.splice(0).forEach((r) => grid.append(s('line', { x1: b.x, x2: b.x + b.width, y1: r * sy, y2: r * sy })));
      lines(at[2], at[3], set.block[1], sx);
      cells.splice(0).forEach((c) => grid.append(s('line', { y1: b.y, y2: b.y + b.height, x1: c * sx, x2: c * sx })));
      return s('g', { class: 'tile-g', tabindex: 0, role: 'button', 'aria-label': `SuperWeight ${n}`, onclick: () => pick(n), onkeydown: (event) => { if (event.key === 'Enter') pick(n); },
        ...withTip(() => [`SuperWeight ${n}`, ['rows × columns', times(at[1] - at[0], at[3] - at[2])], ['templates', `${set.templates} of ${times(...set.block)}`], ['used by', plural(users[n].length, 'layer')]]) },
      s('rect', { ...b, fill: paint(colour), 'fill-opacity': 0.45 + 0.5 * (superweights.length > 1 ? ((n * 7) % 5) / 4 : 1) }), grid,
      b.width > 22 && b.height > 15 && s('text', { x: b.x + b.width / 2, y: b.y + b.height / 2 + 4, class: 'middle number', style: { fill: inkOf(colour) } }, n));
    });
    const b = box([0, layer.shape[0], 0, layer.shape[1]]);
    return s('svg', { width: w + 46, height: t + 40, viewBox: `-34 -22 ${w + 46} ${t + 40}`, class: 'corner', role: 'group', 'aria-label': `Corner matrix of cluster ${cluster}, ${rows} by ${cols}, with the tiles of this layer` },
      all.map((superweight) => s('rect', { ...box(superweight.at), class: 'other' })), tiles,
      s('rect', { ...b, class: 'outline' }),
      s('text', { x: b.width / 2, y: -8, class: 'tick middle' }, `${layer.shape[1]} in`),
      s('text', { class: 'tick middle', transform: `translate(-10 ${b.height / 2}) rotate(-90)` }, `${layer.shape[0]} out`));
  }

  function alphaPicture(superweight, group, layer) {
    const alpha = superweights[superweight].groups.find((g) => g.layers.includes(layer))?.alpha;
    if (!alpha || alpha.shown[0] === 0) return null;
    const [rows, cols] = alpha.shown;
    const bytes = Uint8Array.from(atob(alpha.bytes), (sign) => sign.charCodeAt(0));
    const value = (r, c) => (bytes[r * cols + c] << 24 >> 24) / 127;
    const size = Math.max(3, Math.min(12, Math.floor(260 / cols)));
    const canvas = h('canvas', { width: cols, height: rows, class: 'alpha', role: 'img', 'aria-label': patterned ? `coefficients of ${cols} templates` : `coefficients, ${rows} cells by ${cols} templates`, style: { width: cols * size + 'px', height: Math.min(220, Math.max(12, rows * size)) + 'px' } });
    const image = new ImageData(cols, rows);
    const background = backgroundColour();
    for (let i = 0; i < rows * cols; i++) image.data.set([...diverging(value(Math.floor(i / cols), i % cols), background), 255], i * 4);
    canvas.getContext('2d').putImageData(image, 0, 0);
    canvas.addEventListener('pointermove', (event) => {
      const at = canvas.getBoundingClientRect();
      const [r, c] = [Math.floor((event.clientY - at.top) / at.height * rows), Math.floor((event.clientX - at.left) / at.width * cols)];
      if (r >= 0 && c >= 0 && r < rows && c < cols) showTip(event, ['α', ...(patterned ? [] : [['cell', r]]), ['template', c], ['coefficient', fixed(value(r, c) * alpha.most, 3)]]);
    });
    canvas.addEventListener('pointerleave', hideTip);
    const whole = superweights[superweight].groups.find((g) => g.layers.includes(layer)).shape;
    const part = whole[0] > rows || whole[1] > cols ? ` (the first ${times(rows, cols)} of ${times(...whole)})` : '';
    const what = patterned ? 'α: one coefficient per template' : 'α: cells down, templates across';
    return h('figure', {}, canvas, h('figcaption', {}, `${what}${part}; ±${fixed(alpha.most, 2)}`));
  }

  let picked = null;
  function pick(n) {
    picked = n;
    panel.querySelectorAll('.superweight').forEach((element) => {
      const here = Number(element.dataset.superweight) === n;
      element.classList.toggle('picked', here);
      if (here) element.scrollIntoView({ block: 'nearest' });
    });
  }

  function superweightCard([n, at, factor], id) {
    const set = sets[superweights[n].set];
    const { groups, replayed } = groupsOf(n);
    const mine = groups.find((layersOf) => layersOf.includes(id));
    const banked = set.bank ? `, read from a bank of ${grouped(set.bank)} parameters that the cluster shares` + (set.from ? ` and stretched from ${times(...set.from)}` : '') + (set.factors ? ', times a factor per output and input' : '') : '';
    const cellsAt = times(Math.ceil((at[1] - at[0]) / set.block[0]), Math.ceil((at[3] - at[2]) / set.block[1]));
    return h('article', { class: 'superweight' + (n === picked ? ' picked' : ''), 'data-superweight': n },
      h('h4', {}, `SuperWeight ${n}`),
      h('p', {}, `${times(at[1] - at[0], at[3] - at[2])} channels, ${plural(set.templates, 'template')} of ${times(...set.block)}`
        + (cellsAt === '1×1' ? '' : patterned ? `, each times a pattern of ${cellsAt}` : `, ${cellsAt} cells`) + banked + `, times ${factor.toPrecision(3)}.`),
      mine ? [
        h('h5', {}, mine.length > 1 ? `One α for ${mine.length} layers${replayed ? ' (with this β)' : ''}` : `An α of its own${replayed ? ' (with this β)' : ''}`),
        mine.length > 1 && chips(mine),
        users[n].length > mine.length && [h('h5', {}, `Same templates, other coefficients: ${plural(users[n].length - mine.length, 'layer')}`), chips(users[n].filter((other) => !mine.includes(other)))],
        !replayed && alphaPicture(n, mine, id),
      ] : [h('h5', {}, users[n].length > 1 ? `The same parameters in ${users[n].length} layers` : set.factors ? 'Its factors are its own' : set.bank ? 'No coefficients: one template' : 'Used by this layer alone'), users[n].length > 1 && chips(users[n])]);
  }

  function draw() {
    const id = state.layer;
    clear(panel);
    if (state.replaying) return void panel.append(h('p', { class: 'none' }, 'These clusters were not trained, so there are no tiles to show. Move τ back to look inside a layer.'));
    if (id === null) return void panel.append(h('p', { class: 'none' }, 'Choose a layer in the map above (click, or arrow keys and Enter) to see its composition.'));
    const layer = layers[id];
    const close = h('button', { type: 'button', class: 'plain close', onclick: () => { open(null); map.focusLayer(id); } }, 'Close');
    const title = h('h3', {}, members.length > 1 && h('span', { class: 'of' }, members[layer.member]), layerName(layer));
    const count = layer.shape.reduce((a, b) => a * b, 1);
    panel.append(h('div', { class: 'composition-head' }, title, close));
    if (layer.cluster === null) return void panel.append(h('p', {}, `${shapeOf(layer)}: ${grouped(count)} parameters of its own. Dense layers share nothing; stems and classifiers usually are dense.`));
    const cluster = run.sharing.clusters[layer.cluster];
    const banked = sets.some((set) => set.cluster === layer.cluster && set.bank);
    panel.append(h('p', {}, `${shapeOf(layer)}: ${grouped(count)} weights, composed from ${plural(layer.tiles.length, 'SuperWeight')}. Cluster ${layer.cluster} has ${plural(cluster.length, 'layer')}; the outline is this layer, grey ${banked ? 'the size of others' : 'the part of larger layers'}.`),
      h('div', { class: 'composition-body' }, h('div', { class: 'corner-holder' }, picture(id)), h('div', { class: 'superweights' }, layer.tiles.map((tile) => superweightCard(tile, id)))));
  }
  on('layer', () => { picked = null; draw(); });
  on('tau', draw);
  on('beta', draw);
  on('theme', draw);
  draw();
  return panel;
}
