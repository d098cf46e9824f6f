// τ and β: what Algorithm 1 would have found with another threshold, from the statistics that the run saved.

function slider(id, symbol, name, value, trained, ticks, move) {
  const number = h('output', { for: id }, fixed(value, 3));
  const input = h('input', { type: 'range', id, min: -1, max: 1, step: 0.001, value,
    oninput: () => { number.textContent = fixed(Number(input.value), 3); move(Number(input.value)); } });
  const marks = s('svg', { class: 'ticks', viewBox: '0 0 200 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    ticks.map((t) => s('line', { x1: (t + 1) * 100, x2: (t + 1) * 100, y1: 2, y2: 10 })),
    s('line', { x1: (trained + 1) * 100, x2: (trained + 1) * 100, y1: 0, y2: 10, class: 'trained' }));
  const element = h('div', { class: 'slider' },
    h('label', { for: id }, h('b', {}, symbol), ' ', name), number, h('div', { class: 'track' }, input, marks));
  element.set = (v) => { input.value = v; number.textContent = fixed(v, 3); };
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
    tau = slider('tau', 'τ', 'layers more alike than this stay in one cluster', search.tau, search.tau, merges, setTau);
    panel.append(tau, say);
  } else if (search) panel.append(h('p', { class: 'note' }, search.note));
  if (refine && !refine.note) {
    const merges = [...new Set(refine.superweights.flatMap((choice) => choice.merges.map((m) => m[2])))];
    const every = Math.ceil(merges.length / 300);
    beta = slider('beta', 'β', 'layers more alike than this keep the same coefficients', refine.beta, refine.beta, merges.filter((_, i) => i % every === 0), setBeta);
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
        h('b', {}, state.replaying ? `τ = ${fixed(state.tau, 3)} would give ` : 'As trained: '), words, cost ? `; ${cost}.` : '.',
        relaxed && used ? ` Not affordable at this τ (${asked.why}): relaxed to ${fixed(state.step.tau, 3)}.` : '',
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
        result.relaxed ? ` With the β asked for they would be ${grouped(result.asked)}: relaxed to ${fixed(result.beta, 3)}.` : '']));
    }
  }
  on('tau', outcome);
  on('beta', outcome);
  outcome();
  return panel;
}
