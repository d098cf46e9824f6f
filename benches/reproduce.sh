#!/usr/bin/env bash
# One run of a recipe, from nothing or from where it stopped to what is committed of it.
#
#   benches/reproduce.sh RECIPE SEED [RUNS [TIME]]
#
# RUNS is the folder of all runs (default: runs); this one lies in RUNS/seed-SEED/NAME. TIME is what training may take
# now, such as 9m (default: until it ends). The same command goes on with a run that time has stopped.
#
#   SWN=swn          the program
#   DEVICE=cuda      where
#   SET="a=1 b=2"    settings over the recipe: such a run is no run of the recipe's row, and needs a name of its own;
#                    "data.validation=5000 eval.test=false" for runs that settings are chosen by
#   NAME=…           of the run and its row (default: the recipe's)
#   ROW=…            the row that it stands below, where that is another
#   CHOICES=paper    or held-out: which images the settings were chosen on
#   COMMIT=…         of the program, where this is no git checkout
#   FROM=…           name of a run of the same seed in RUNS whose beginning it has (swn train --from): RECIPE is then for its name
#   UNTIL=50         stop after so many epochs, for others to go on from: nothing is published
#   CHECKPOINT_EVERY=10  epochs: what a kill may lose; a stop by TIME loses none
#   RESULTS=results  what is published lies in RESULTS/DATA/NAME-SEED
#   OUT=…            also put there: NAME-SEED.tar.gz of what is published, or of a run that is not finished
#                    NAME-SEED.run.tar.00, .01, … of at most PART_MIB (15) MiB, where its checkpoint has at most
#                    MOST_MIB (60); 'cat NAME-SEED.run.tar.* | tar x -C RUNS' brings it back
#
# Exit code: 0 finished and published, or at UNTIL; 75 stopped by TIME, else what failed.
set -euo pipefail

usage() { sed -n '2,/^set -euo/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2; }
[ $# -ge 2 ] && [ $# -le 4 ] || usage
recipe=$1 seed=$2 runs=${3:-runs} limit=${4:-}
swn=${SWN:-swn} device=${DEVICE:-cuda} results=${RESULTS:-results}
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || true)}
[ -f "$recipe" ] || { echo "error: no recipe $recipe" >&2; exit 2; }
[ -n "$commit" ] || { echo "error: no git checkout here; name the program's commit: COMMIT=8802b29 $0 …" >&2; exit 2; }

row=${NAME:-$(basename "$recipe" .toml)}
[ -z "${SET:-}" ] || [ -n "${NAME:-}" ] || { echo "error: SET without NAME: it is no run of the row $row" >&2; exit 2; }
folder=$runs/seed-$seed
run=$folder/$row
name=$row-$seed
begin=$(date +%s)

if [ -n "${OUT:-}" ]; then mkdir -p "$OUT"; fi
last() { tail -n 1 "$run/log.jsonl" 2>/dev/null || true; }
stopped() { last | grep -q "\"event\":\"stop\",\"reason\":\"$1\""; }
is_finished() { stopped finished; }

if ! is_finished; then
  # Settings count when a run begins; one that goes on keeps its own.
  sets=(--set "seed=$seed")
  for pair in ${SET:-}; do sets+=(--set "$pair"); done
  how=(--device "$device" --checkpoint-every "${CHECKPOINT_EVERY:-10}")
  if [ -n "$limit" ]; then how+=(--time-limit "$limit"); fi
  if [ -n "${UNTIL:-}" ]; then how+=(--until "$UNTIL"); fi
  if [ -d "$run" ]; then
    "$swn" train --resume "$run" "${how[@]}"
  elif [ -n "${FROM:-}" ]; then
    "$swn" train --from "$folder/$FROM" --name "$row" "${sets[@]}" --runs "$folder" "${how[@]}"
  else
    "$swn" train "$recipe" --name "$row" "${sets[@]}" --runs "$folder" "${how[@]}"
  fi
fi

if [ -n "${UNTIL:-}" ] && stopped 'as asked'; then
  echo "kept       $run after $UNTIL epochs; FROM=$row goes on from there"
  exit 0
fi

if ! is_finished; then
  epochs=$(grep -c '"event":"epoch"' "$run/log.jsonl" || true)
  echo "stopped    $run after $epochs epochs, search included; the same command goes on"
  if [ -n "${OUT:-}" ]; then
    cp "$run/log.jsonl" "$OUT/$name.log.jsonl"
    # The newest checkpoint alone: the one before it is there for accidents.
    newest=$(tr -d '[:space:]' < "$run/checkpoints/latest")
    old=()
    for other in "$run"/checkpoints/*/; do
      other=$(basename "$other")
      if [ "$other" != "$newest" ]; then old+=(--exclude "seed-$seed/$row/checkpoints/$other"); fi
    done
    mib=$(du -sm "$run/checkpoints/$newest" | cut -f 1)
    if [ "$mib" -le "${MOST_MIB:-60}" ]; then
      tar -C "$runs" "${old[@]}" -cf - "seed-$seed/$row" \
        | split -b "${PART_MIB:-15}M" -d - "$OUT/$name.run.tar."
      echo "packed     $OUT/$name.run.tar.*, $mib MiB"
    else
      echo "not packed a checkpoint of $mib MiB (MOST_MIB=${MOST_MIB:-60}): go on on this machine"
    fi
  fi
  exit 75
fi

# What the run held out, and its data, as its complete recipe says.
of_data() { awk -v key="$1" '/^\[/ { in_data = ($0 == "[data]") } in_data && $1 == key { gsub(/"/, "", $3); print $3 }' "$run/resolved.toml"; }
held_out=()
[ "$(of_data validation)" = 0 ] || held_out=(--held-out)
"$swn" eval "$run" --device "$device" "${held_out[@]}"
members=$(grep -m 1 '^members = ' "$run/resolved.toml" | tr -cd ',' | wc -c) # commas between them
if [ "$members" -gt 0 ]; then
  "$swn" anytime "$run" --device "$device" --seconds "${ANYTIME_SECONDS:-3}" "${held_out[@]}"
fi
published=$results/$(of_data name)/$name
"$swn" report "$run" --publish "$published" --commit "$commit" --row "${ROW:-$row}" --choices "${CHOICES:-paper}"
if [ -n "${OUT:-}" ]; then
  tar -C "$results" -czf "$OUT/$name.tar.gz" "$(of_data name)/$name"
  echo "packed     $OUT/$name.tar.gz: 'tar xzf' it in $results"
fi
echo "took       $(($(date +%s) - begin)) s this time"
