// Terms with a short definition as a tooltip. Every key is a heading of docs/glossary.md; a test compares them.

const GLOSSARY = {
  'Cluster': 'The layers that may use the same templates.',
  'Template': 'A block of trainable parameters from which weights are mixed.',
  'SuperWeight': 'A rectangular piece of a layer’s weight, mixed from one template set: θ = Σ αₖTₖ.',
  'Coefficient': 'α: the trainable factors that mix the templates of a set.',
  'Coefficient group': 'The layers that use the same α of one SuperWeight.',
  'Corner matrix': 'The largest weight of a cluster. Each layer is its top left corner.',
  'Tiling': 'How a SuperWeight is made of templates.',
  'Budget': 'The largest number of trainable parameters a plan may have.',
  'Reserve': 'The part of the budget kept for coefficients that refinement may add.',
  'Gradient similarity': 'ψ: the cosine of two layers’ gradients, summed over an epoch.',
  'Tau': 'τ: layers more similar than this stay in one cluster.',
  'Beta': 'β: layers more similar than this keep one α in refinement.',
  'Ensemble': 'The mean of the probabilities of several members.',
  'Exit': 'A classifier inside a network, before its end.',
  'NLL': 'Negative log-likelihood of the true class, averaged over images; lower is better.',
  'ECE': 'Expected calibration error: the mean distance of accuracy and confidence over 15 bins of confidence.',
};

/** A word with its definition as a tooltip, on hover and on focus. */
const term = (word, key = word) => h('dfn', { class: 'term', tabindex: 0, 'aria-label': `${word}: ${GLOSSARY[key]}`, ...withTip(() => [key, GLOSSARY[key]]) }, word);
