// The figures at the top.

function tile(name, value, detail, bar) {
  return h('div', { class: 'tile' }, h('div', { class: 'name' }, name), h('div', { class: 'value' }, value),
    detail && h('div', { class: 'detail' }, detail),
    bar !== undefined && h('div', { class: 'meter', role: 'presentation' }, h('i', { style: { width: Math.min(100, bar * 100) + '%' } })));
}

function drawHeadline(run) {
  const { headline, about, sharing } = run;
  const { accuracy } = headline;
  const [networks, outputs] = [about.members.length, outputCount(run)];
  const tiles = [];
  if (accuracy) {
    const where = `${accuracy.split === 'test' ? 'test' : 'validation'} images` + (accuracy.images ? ` (${grouped(accuracy.images)})` : '');
    tiles.push(tile(outputs === 1 ? 'Accuracy' : hasExits(run) ? 'Accuracy of all exits' : 'Ensemble accuracy', percent(accuracy.ensemble, 2), `top-1 on ${where}`));
    if (outputs > 1 && accuracy.members.length) {
      const best = accuracy.members.indexOf(Math.max(...accuracy.members));
      tiles.push(tile(hasExits(run) ? 'Best single exit' : 'Best single member', percent(accuracy.members[best], 2), unbroken(`${hasExits(run) ? outputName(run, best) : about.members[best]}; all together ${fixed(Math.abs(accuracy.ensemble - accuracy.members[best]), 2)} points ${accuracy.ensemble < accuracy.members[best] ? 'less' : 'more'}`)));
    }
  }
  const share = headline.trained / headline.dense_total;
  tiles.push(tile('Parameters', short(headline.trained), `${percent(share * 100, share < 0.1 ? 1 : 0)} of the ${short(headline.dense_total)} that ${networks > 1 ? 'the members have' : 'the network has'} without sharing`, share));
  const shared = sharing.layers.filter((layer) => layer.cluster !== null).length;
  tiles.push(tile('Sharing', plural(headline.clusters, 'cluster'), `over ${shared} of ${sharing.layers.length} layers, ${sharing.tiling} tiling`));
  if (headline.seconds > 0) tiles.push(tile('Training time', duration(headline.seconds), `${headline.epochs} of ${about.epochs} epochs, ${headline.stopped || 'still running'}`));
  return h('section', { id: 'headline', 'aria-label': 'Headline' }, h('div', { class: 'tiles' }, tiles),
    headline.warnings.length > 0 && h('div', { class: 'warnings' }, headline.warnings.map((text) => h('p', {}, '⚠ ', text))));
}
