// τ and β: what Algorithm 1 would have found with another threshold, from the statistics that the run saved.

/** Thresholds worth looking at: where something merges, and what was trained, with a little room. */
function thresholdRange(ticks, trained) {
  const [low, high] = [Math.min(trained, ...ticks), Math.max(trained, ...ticks)];
  const room = Math.max(0.02, (high - low) * 0.08);
  return [Math.max(-1, Math.floor((low - room) * 100) / 100), Math.min(1, Math.ceil((high + room) * 100) / 100)];
}
const stepOf = ([low, high]) => high - low > 0.5 ? 3 : 4;

function slider(id, symbol, name, trained, ticks, move) {
  const range = thresholdRange(ticks, trained);
  const digits = stepOf(range);
  const number = h('output', { for: id }, fixed(trained, digits));
  const input = h('input', { type: 'range', id, min: range[0], max: range[1], step: 10 ** -digits, value: trained,
    oninput: () => { number.textContent = fixed(Number(input.value), digits); move(Number(input.value)); } });
  const at = (t) => (t - range[0]) / (range[1] - range[0]) * 200;
  const marks = s('svg', { class: 'ticks', viewBox: '0 0 200 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    ticks.map((t) => s('line', { x1: at(t), x2: at(t), y1: 2, y2: 10 })),
    s('line', { x1: at(trained), x2: at(trained), y1: 0, y2: 10, class: 'trained' }));
  const element = h('div', { class: 'slider' },
    h('label', { for: id }, h('b', {}, symbol), ' ', name), number, h('div', { class: 'track' }, input, marks));
  element.set = (v) => { input.value = v; number.textContent = fixed(v, digits); };
  element.input = input;
  return element;
}

function drawSliders(run) {
  const { search, refine } = run;
  if (!search && !refine) return null;
  const panel = h('div', { class: 'sliders', role: 'group', 'aria-label': 'Thresholds' });
  const say = h('p', { class: 'outcome', 'aria-live': 'polite', id: 'tau-outcome' });
  const sayBeta = h('p', { class: 'outcome', 'aria-live': 'polite', id: 'beta-outcome' });
  const back = h('button', { type: 'button', class: 'plain', id: 'back', onclick: reset }, 'Back to what was trained');
  let tau = null, beta = null;

  if (search && search.steps.length) {
    const merges = search.steps.slice(1).map((step) => step.merge);
    tau = slider('tau', 'τ', 'layers more alike than this stay in one cluster', search.tau, merges, setTau);
    panel.append(tau, say);
  } else if (search) panel.append(h('p', { class: 'note' }, search.note));
  if (refine && !refine.note) {
    const merges = [...new Set(refine.superweights.flatMap((choice) => choice.merges.map((m) => m[2])))];
    const every = Math.ceil(merges.length / 300);
    beta = slider('beta', 'β', 'layers more alike than this keep the same coefficients', refine.beta, merges.filter((_, i) => i % every === 0), setBeta);
    panel.append(beta, sayBeta);
  } else if (refine) panel.append(h('p', { class: 'note' }, refine.note));
  panel.append(back);

  function reset() {
    if (beta) { beta.set(refine.beta); setBeta(refine.beta); }
    if (tau) { tau.set(search.tau); setTau(search.tau); }
  }
  function outcome() {
    if (tau) {
      const { asked, used, relaxed } = state.step;
      const clusters = state.shown.clusters;
      const alone = clusters.filter((layers) => layers.length === 1).length;
      const words = `${plural(clusters.length, 'cluster')}${alone ? `, ${alone} of them single layers` : ''}`;
      const cost = used && `${short(used.bill.templates + used.bill.coefficients + used.bill.reserved + used.bill.batch_norm + used.bill.classifier + used.bill.dense)} numbers`
        + (used.templates ? `, ${used.templates[0] === used.templates[1] ? used.templates[0] : used.templates.join(' to ')} templates a set` : '');
      clear(say).append(
        h('b', {}, state.replaying ? `τ = ${fixed(state.tau, 4)} would give ` : 'As trained: '), words, cost ? `; ${cost}.` : '.',
        relaxed && used ? ` Not affordable at this τ (${asked.why}): relaxed to ${fixed(state.step.tau, 4)}.` : '',
        !used ? ` No plan: ${asked.why}; no lower τ helps.` : '');
    }
    back.disabled = !(tau && state.tau !== search.tau) && !(beta && state.beta !== refine.beta);
    if (beta) {
      beta.input.disabled = Boolean(state.betaOff);
      beta.classList.toggle('off', Boolean(state.betaOff));
      const result = state.groups || groupsAt(refine, state.beta);
      const count = result && [...result.groups.values()].reduce((sum, groups) => sum + groups.length, 0);
      clear(sayBeta).append(...(state.betaOff ? [state.betaOff] : !result ? ['No groups fit.'] : [
        h('b', {}, `${plural(count, 'group')} of coefficients`), ` on ${plural(result.groups.size, 'SuperWeight')}; ${grouped(result.coefficients)} coefficients of ${grouped(refine.allowed)} there is room for.`,
        result.relaxed ? ` With the β asked for they would be ${grouped(result.asked)}: relaxed to ${fixed(result.beta, 4)}.` : '']));
    }
  }
  on('tau', outcome);
  on('beta', outcome);
  outcome();
  return panel;
}
