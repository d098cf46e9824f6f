#!/usr/bin/env bash
# Several runs one after another on a machine that is rented for a while: as many as SECONDS allow.
#
#   ops/queue.sh JOBS SECONDS [RUNS]
#
# The same command goes on where it stopped. JOBS has a run per line; empty lines and text after a #
# do not count:
#
#   NAME  RECIPE  SEED  [VARIABLE=… | setting=…]…
#
# NAME - is the recipe's own row. Words in capitals go to reproduce.sh (SWN, COMMIT, CHOSEN_ON, …),
# the rest is its SET. A line 'set VARIABLE=… setting=…' holds for all lines below it, until the
# next such line.
#
#   OUT=…     gets the published folders of all runs that have ended (published.tar.gz) and the
#             output of all runs (screens.tar.gz) as soon as a run has ended, and at the end the run
#             that time has stopped, in parts
#   AFTER=12  seconds kept for what follows training: evaluation, predictions, packing
#   LEAST=10  seconds of training for which a run is begun
#
# Exit code: 0 all have ended; 1 some failed, the others have run; 2 the list is wrong, nothing has
# run; 75 time was up.
set -euo pipefail

usage() { sed -n '2,/^set -euo/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2; }
[ $# -ge 2 ] && [ $# -le 3 ] || usage
jobs=$1 seconds=$2 runs=${3:-runs}
[ -f "$jobs" ] || { echo "error: no list of jobs $jobs" >&2; exit 2; }
case $seconds in *[!0-9]* | '') echo "error: SECONDS is a whole number, not '$seconds'" >&2; exit 2 ;; esac
results=${RESULTS:-results} out=${OUT:-}
begin=$SECONDS
left() { echo $((seconds - (SECONDS - begin))); }
after=${AFTER:-12}
list=$(sed 's/#.*//' "$jobs")
# Wrong lines are reported before the first run begins.
while read -r name recipe seed _; do
  if [ -z "$name" ] || [ "$name" = set ]; then continue; fi
  [ -n "$seed" ] || { echo "error: $jobs: '$name $recipe' is not NAME RECIPE SEED …" >&2; exit 2; }
  [ -f "$recipe" ] || { echo "error: $jobs: $name: no recipe $recipe" >&2; exit 2; }
done <<< "$list"
done_folder=$runs/ended
mkdir -p "$done_folder" "$runs/parcels" ${out:+"$out"}
rm -f "$runs"/parcels/*.run.tar.* "$runs"/parcels/*.log.jsonl

# Copies what has ended; a file gets its final name when it is whole, since the machine may be gone
# before the list has ended.
take_home() {
  [ -n "$out" ] || return 0
  local ended=() file folder screens=("$runs"/*.txt)
  for file in "$done_folder"/*; do
    for folder in "$results"/*/"$(basename "$file")"; do [ ! -d "$folder" ] || ended+=("${folder#"$results"/}"); done
  done
  if [ ${#ended[@]} -gt 0 ]; then pack published "$results" "${ended[@]}"; fi
  if [ -e "${screens[0]}" ]; then pack screens "$runs" "${screens[@]##*/}"; fi
}
home() { take_home || echo "warning: what has ended is not in $out" >&2; }
pack() {
  tar -C "$2" -czf "$runs/$1.tar.gz" "${@:3}" && cp "$runs/$1.tar.gz" "$out/.$1" &&
    mv "$out/.$1" "$out/$1.tar.gz"
}

common=() failed=0 code=0
while read -r -a words <&3; do
  [ ${#words[@]} -gt 0 ] || continue
  if [ "${words[0]}" = set ]; then common=("${words[@]:1}"); continue; fi
  name=${words[0]} recipe=${words[1]} seed=${words[2]}
  variables=() settings=()
  for word in "${common[@]}" "${words[@]:3}"; do
    case $word in [A-Z]*=*) variables+=("$word") ;; *) settings+=("$word") ;; esac
  done
  if [ "$name" = - ]; then name=$(basename "$recipe" .toml); else variables+=("NAME=$name"); fi
  key=$name-$seed
  [ ! -e "$done_folder/$key" ] || continue
  rest=$(($(left) - after))
  if [ $rest -lt "${LEAST:-10}" ]; then code=75; break; fi
  echo "== $key: ${rest} s"
  rc=0
  env SET="${settings[*]}" "${variables[@]}" RESULTS="$results" ${out:+OUT="$runs/parcels"} \
    bash "$(dirname "$0")/reproduce.sh" "$recipe" "$seed" "$runs" "${rest}s" > "$runs/$key.txt" 2>&1 || rc=$?
  case $rc in
    0) touch "$done_folder/$key"; home; grep -h 'top-1\|top1' "$runs/$key.txt" | tail -n 2 || true ;;
    75) tail -n 3 "$runs/$key.txt"; code=75; break ;;
    *) echo "failed     $key ($rc)"; tail -n 5 "$runs/$key.txt"; failed=1; touch "$done_folder/$key.failed"; home ;;
  esac
done 3<<< "$list"

if [ -n "$out" ]; then
  parcels=("$runs"/parcels/*.run.tar.*)
  if [ -e "${parcels[0]}" ]; then cp "${parcels[@]}" "$out" || echo "warning: the stopped run is not in $out" >&2; fi
  home
fi
echo "took       $((SECONDS - begin)) s"
[ $failed = 0 ] || exit 1
exit $code
