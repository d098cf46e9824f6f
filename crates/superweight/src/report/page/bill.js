// Parameters by part beside the budget, as trained and for the sliders' τ.

const PARTS = [
  ['templates', 'templates', 'var(--line-0)'], ['coefficients', 'coefficients', 'var(--line-1)'],
  ['reserved', 'reserve for refinement', 'var(--line-1)'], ['batch_norm', 'batch norm', 'var(--line-2)'],
  ['classifier', 'classifier', 'var(--line-3)'], ['dense', 'dense layers', 'var(--line-4)'],
];
const billTotal = (bill) => PARTS.reduce((sum, [key]) => sum + bill[key], 0);

function drawBill(run) {
  const { bill, budget, dense_total: dense } = run.sharing;
  const rows = h('div', { class: 'bill' });
  const draw = () => {
    const bills = [['as trained', bill]];
    if (state.replaying) bills.push([`with τ = ${fixed(state.tau, 4)}`, state.step.used && state.step.used.bill]);
    const scale = Math.max(budget || 0, ...bills.map(([, b]) => b ? billTotal(b) : 0)) * 1.02;
    clear(rows).append(...bills.map(([name, b]) => h('div', { class: 'bill-row' }, h('span', { class: 'bill-name' }, name),
      b ? h('div', { class: 'bar' },
        PARTS.filter(([key]) => b[key] > 0).map(([key, words, colour]) => h('i', {
          class: key === 'reserved' ? 'reserved' : null, tabindex: 0, 'aria-label': `${words}: ${grouped(b[key])}`,
          style: { width: b[key] / scale * 100 + '%', background: colour }, ...withTip(() => [words, ['parameters', grouped(b[key])], ['of the total', percent(b[key] / billTotal(b) * 100)]]),
        })),
        budget && h('u', { style: { left: budget / scale * 100 + '%' }, title: `budget ${grouped(budget)}` })) : h('span', { class: 'none' }, 'no plan fits'),
      h('span', { class: 'bill-total' }, b ? grouped(billTotal(b)) : ''))));
    const used = PARTS.filter(([key]) => bills.some(([, b]) => b && b[key] > 0));
    rows.append(h('p', { class: 'legend' }, used.map(([key, words, colour]) => h('span', {},
      h('i', { class: 'swatch' + (key === 'reserved' ? ' reserved' : ''), style: { background: colour } }), `${words} ${short(bill[key])}`))),
    h('p', { class: 'small' }, budget ? `Budget ${grouped(budget)}, ${grouped(Math.max(0, budget - billTotal(bill)))} unused. ` : '', `Without sharing: ${grouped(dense)}.`));
  };
  on('tau', draw);
  draw();
  return section('bill', 'Parameters', ['Every trainable parameter counts against the ', term('budget', 'Budget'), ': ', term('templates', 'Template'), ', ', term('coefficients', 'Coefficient'), ', batch norm, classifiers.'], rows);
}
