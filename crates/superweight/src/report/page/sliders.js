// τ and β: what Algorithm 1 finds with another threshold, from the statistics of the run.

/** Range of a slider: all thresholds at which something merges, and the trained one, with a margin. */
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
  const outcomeTau = h('p', { class: 'outcome', 'aria-live': 'polite', id: 'tau-outcome' });
  const outcomeBeta = h('p', { class: 'outcome', 'aria-live': 'polite', id: 'beta-outcome' });
  const back = h('button', { type: 'button', class: 'plain', id: 'back', onclick: reset }, 'Back to what was trained');
  let tau = null, beta = null;

  if (search && search.steps.length) {
    const merges = search.steps.slice(1).map((step) => step.merge);
    tau = slider('tau', 'τ', 'layers more similar than this stay in one cluster', search.tau, merges, setTau);
    panel.append(tau, outcomeTau);
  } else if (search) panel.append(h('p', { class: 'note' }, search.note));
  if (refine && !refine.note) {
    const merges = [...new Set(refine.superweights.flatMap((choice) => choice.merges.map((m) => m[2])))];
    const every = Math.ceil(merges.length / 300);
    beta = slider('beta', 'β', 'layers more similar than this keep the same coefficients', refine.beta, merges.filter((_, i) => i % every === 0), setBeta);
    panel.append(beta, outcomeBeta);
  } else if (refine) panel.append(h('p', { class: 'note' }, refine.note));
  panel.append(back);

  function reset() {
    if (beta) { beta.set(refine.beta); setBeta(refine.beta); }
    if (tau) { tau.set(search.tau); setTau(search.tau); }
  }
  function outcome() {
    if (tau) {
      const { first, used, relaxed } = state.step;
      const clusters = state.shown.clusters;
      const single = clusters.filter((layers) => layers.length === 1).length;
      const words = `${plural(clusters.length, 'cluster')}${single ? `, ${single} of them single layers` : ''}`;
      const cost = used && `${short(used.bill.templates + used.bill.coefficients + used.bill.reserved + used.bill.batch_norm + used.bill.classifier + used.bill.dense)} parameters`
        + (used.templates ? `, ${used.templates[0] === used.templates[1] ? used.templates[0] : used.templates.join(' to ')} templates a set` : '');
      clear(outcomeTau).append(
        h('b', {}, state.replaying ? `τ = ${fixed(state.tau, 4)} would give ` : 'As trained: '), words, cost ? `; ${cost}.` : '.',
        relaxed && used ? ` Over budget at this τ (${first.why}): relaxed to ${fixed(state.step.tau, 4)}.` : '',
        !used ? ` No plan: ${first.why}; no lower τ helps.` : '');
    }
    back.disabled = !(tau && state.tau !== search.tau) && !(beta && state.beta !== refine.beta);
    if (beta) {
      beta.input.disabled = Boolean(state.betaOff);
      beta.classList.toggle('off', Boolean(state.betaOff));
      const result = state.groups || groupsAt(refine, state.beta);
      const count = result && [...result.groups.values()].reduce((sum, groups) => sum + groups.length, refine.other_groups);
      clear(outcomeBeta).append(...(state.betaOff ? [state.betaOff] : !result ? ['No groups fit.'] : [
        h('b', {}, `${plural(count, 'group')} of coefficients`), `, refinement decides about ${plural(result.groups.size, 'SuperWeight')}; ${grouped(result.coefficients)} coefficients of ${grouped(refine.allowed)} that fit.`,
        result.relaxed ? ` With β = ${fixed(state.beta, 4)} they would be ${grouped(result.first)}: relaxed to ${fixed(result.beta, 4)}.` : '']));
    }
  }
  on('tau', outcome);
  on('beta', outcome);
  outcome();
  return panel;
}
