// Who answers: the members, or the exits of the only one.

const hasExits = (run) => run.about.exits > 1;
const voiceCount = (run) => hasExits(run) ? run.about.exits : run.about.members.length;
const voiceName = (run, i) => {
  const { members } = run.about;
  if (hasExits(run)) return `exit ${i}`;
  return members.filter((other) => other === members[i]).length > 1 ? `${members[i]} #${i}` : members[i];
};
/** Exits are always all up to one of them, or one by itself. */
const subsetName = (run, voices) => hasExits(run) && voices.length > 1 ? `exits ${voices[0]}–${voices[voices.length - 1]}` : voices.map((i) => voiceName(run, i)).join(' + ');
const subsetLabel = (run, voices) => hasExits(run) && voices.length > 1 ? `≤${voices[voices.length - 1]}` : voices.join('+');
