// Outputs of a run: its members, or the exits of the only one.

const hasExits = (run) => run.about.exits > 1;
const outputCount = (run) => hasExits(run) ? run.about.exits : run.about.members.length;
const outputName = (run, i) => {
  const { members } = run.about;
  if (hasExits(run)) return `exit ${i}`;
  return members.filter((other) => other === members[i]).length > 1 ? `${members[i]} #${i}` : members[i];
};
/** Names of a subset's outputs. A subset of exits is one exit, or all exits up to one. */
const subsetName = (run, outputs) => hasExits(run) && outputs.length > 1 ? `exits ${outputs[0]}–${outputs[outputs.length - 1]}` : outputs.map((i) => outputName(run, i)).join(' + ');
/** The same as indices. */
const subsetLabel = (run, outputs) => hasExits(run) && outputs.length > 1 ? `≤${outputs[outputs.length - 1]}` : outputs.join('+');
