// Algorithm 1 (paper, appendix) and the nearest threshold with a plan within the budget, as in the planner. A test compares both.

/** Groups of layers under a threshold: components of the pairs above it, each sorted, in the order of their first layer. */
function assign(layers, pairs, threshold) {
  const parent = new Map(layers.map((id) => [id, id]));
  const find = (id) => {
    while (parent.get(id) !== id) { parent.set(id, parent.get(parent.get(id))); id = parent.get(id); }
    return id;
  };
  for (const [a, b, psi] of pairs) {
    if (psi > threshold) {
      const [x, y] = [find(a), find(b)];
      parent.set(Math.max(x, y), Math.min(x, y));
    }
  }
  const groups = new Map();
  for (const id of [...layers].sort((a, b) => a - b)) {
    const root = find(id);
    if (!groups.has(root)) groups.set(root, []);
    groups.get(root).push(id);
  }
  return [...groups.values()];
}

/** Pairs [a, b, ψ] of a search, from the triangles of its initial clusters. */
function pairsOf(search) {
  const pairs = [];
  search.start.forEach((layers, c) => {
    let at = 0;
    for (let j = 1; j < layers.length; j++) {
      for (let i = 0; i < j; i++, at++) {
        const psi = search.psi[c][at];
        if (psi !== null) pairs.push([layers[i], layers[j], psi]);
      }
    }
  });
  return pairs;
}

/** The step of a threshold, and the first step from there on that has a plan. */
function stepAt(search, tau) {
  const first = search.steps.filter((step) => step.merge === null || step.merge > tau).length - 1;
  let used = first;
  while (used < search.steps.length && !search.steps[used].bill) used++;
  const feasible = used < search.steps.length;
  return {
    first: search.steps[first],
    used: feasible ? search.steps[used] : null,
    tau: used === first ? tau : feasible ? search.steps[used].relaxed : null,
    relaxed: used !== first,
  };
}

/** Clusters of a search under τ, which is relaxed if that has no plan. */
function clustersAt(search, tau, pairs = pairsOf(search)) {
  const step = stepAt(search, tau);
  return { ...step, clusters: assign(search.start.flat(), pairs, step.used ? step.tau : tau) };
}

/** Number of cells in the union of grids that all start at the first cell. */
function unionOfGrids(grids) {
  const tall = [...grids].sort((a, b) => b[0] - a[0] || b[1] - a[1]);
  let width = 0, cells = 0;
  tall.forEach(([rows, cols], i) => {
    width = Math.max(width, cols);
    cells += (rows - (i + 1 < tall.length ? tall[i + 1][0] : 0)) * width;
  });
  return cells;
}

/** Coefficient groups of every SuperWeight under β, and how many coefficients they have. */
function groupsUnder(refine, beta) {
  let coefficients = refine.others;
  const groups = new Map();
  for (const choice of refine.superweights) {
    const grids = new Map(choice.users.map(([layer, rows, cols]) => [layer, [rows, cols]]));
    const parts = assign(choice.users.map((user) => user[0]), choice.merges, beta);
    groups.set(choice.id, parts);
    for (const part of parts) coefficients += unionOfGrids(part.map((layer) => grids.get(layer))) * choice.templates;
  }
  return { groups, coefficients };
}

/** The same, with β lowered to the largest similarity at which the groups fit; null if none does. */
function groupsAt(refine, beta) {
  const first = groupsUnder(refine, beta);
  if (first.coefficients <= refine.allowed) return { ...first, beta, relaxed: false, first: first.coefficients };
  const lower = refine.superweights.flatMap((choice) => choice.merges).filter((m) => m[2] <= beta).map((m) => m[3]);
  const candidates = [...new Set(lower)].sort((a, b) => b - a);
  let low = 0, high = candidates.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (groupsUnder(refine, candidates[middle]).coefficients <= refine.allowed) high = middle; else low = middle + 1;
  }
  if (low === candidates.length) return null;
  return { ...groupsUnder(refine, candidates[low]), beta: candidates[low], relaxed: true, first: first.coefficients };
}

const samePartition = (a, b) => {
  const key = (groups) => groups.map((group) => [...group].sort((x, y) => x - y).join()).sort().join(';');
  return key(a) === key(b);
};
