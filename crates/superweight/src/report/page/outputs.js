// Who answers: the members, or the exits of the only one.

const hasExits = (run) => run.about.exits > 1;
const outputCount = (run) => hasExits(run) ? run.about.exits : run.about.members.length;
const outputName = (run, i) => {
  const { members } = run.about;
  if (hasExits(run)) return `exit ${i}`;
  return members.filter((other) => other === members[i]).length > 1 ? `${members[i]} #${i}` : members[i];
};
/** Exits are always all up to one of them, or one by itself. */
const subsetName = (run, outputs) => hasExits(run) && outputs.length > 1 ? `exits ${outputs[0]}–${outputs[outputs.length - 1]}` : outputs.map((i) => outputName(run, i)).join(' + ');
const subsetLabel = (run, outputs) => hasExits(run) && outputs.length > 1 ? `≤${outputs[outputs.length - 1]}` : outputs.join('+');
