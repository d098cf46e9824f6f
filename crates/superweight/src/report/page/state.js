// What the page shows: a run, τ, β, a layer. Drawings listen to changes; controls make them.

const report = JSON.parse(document.getElementById('data').textContent);
const listeners = {};
const on = (what, listener) => { (listeners[what] ||= []).push(listener); };
const notify = (what) => { for (const listener of listeners[what] || []) listener(); };

const state = { run: null, tau: null, beta: null, layer: null, shown: null, groups: null, replaying: false };

/** Colours of clusters. Clusters of the trained plan keep theirs while τ moves; clusters of one layer have none. */
function coloured(clusters, trained) {
  const before = new Map();
  trained.forEach((layers, c) => layers.forEach((id) => before.set(id, c)));
  const shared = clusters.map((layers, index) => ({ layers, index })).filter((c) => c.layers.length > 1);
  const taken = new Set();
  const colours = new Map();
  for (const { layers, index } of [...shared].sort((a, b) => b.layers.length - a.layers.length)) {
    const votes = new Map();
    layers.forEach((id) => votes.set(before.get(id), (votes.get(before.get(id)) || 0) + 1));
    const best = [...votes].sort((a, b) => b[1] - a[1]).find(([c]) => c !== undefined && !taken.has(colourOfTrained(trained, c)));
    if (best) { colours.set(index, colourOfTrained(trained, best[0])); taken.add(colours.get(index)); }
  }
  let next = 0;
  for (const { index } of shared) {
    if (colours.has(index)) continue;
    while (taken.has(next)) next++;
    taken.add(next);
    colours.set(index, next);
  }
  return colours;
}
/** Colour of a trained cluster: its place among those of several layers. */
const colourOfTrained = (trained, c) => trained.slice(0, c).filter((layers) => layers.length > 1).length;

/** Clusters as the map shows them, with colours and the cluster of each layer. */
function show(clusters, trained) {
  const colours = coloured(clusters, trained);
  const of = new Map();
  clusters.forEach((layers, index) => layers.forEach((id) => of.set(id, index)));
  return { clusters, of, colour: (index) => colours.has(index) ? colours.get(index) : null };
}

function select(run) {
  const { sharing, search, refine } = run;
  Object.assign(state, { run, layer: null, replaying: false });
  state.pairs = search && search.steps.length ? pairsOf(search) : [];
  state.tau = search ? search.tau : null;
  state.beta = refine ? refine.beta : null;
  state.step = search && search.steps.length ? stepAt(search, search.tau) : null;
  state.groups = null;
  state.shown = show(sharing.clusters, sharing.clusters);
  state.betaOff = null;
  notify('run');
}

function setTau(tau) {
  const { search, sharing, refine } = state.run;
  const result = clustersAt(search, tau, state.pairs);
  state.tau = tau;
  state.step = result;
  state.shown = show(result.clusters, sharing.clusters);
  state.replaying = !samePartition(result.clusters, sharing.clusters);
  state.betaOff = refine && !samePartition(result.clusters, refine.clusters)
    ? 'These are not the clusters that were trained. Gradients of coefficients were measured on the trained SuperWeights, so β has no meaning for other clusters.' : null;
  notify('tau');
}

function setBeta(beta) {
  state.beta = beta;
  state.groups = groupsAt(state.run.refine, beta);
  notify('beta');
}

function open(layer) {
  state.layer = layer;
  notify('layer');
}
