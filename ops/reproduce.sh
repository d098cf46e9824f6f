#!/usr/bin/env bash
# One run of a recipe: trains or goes on, evaluates, and publishes what is committed of it.
#
#   ops/reproduce.sh RECIPE SEED [RUNS [TIME]]
#
# RUNS is the folder of all runs (default: runs); this run is RUNS/seed-SEED/NAME. TIME limits
# training in this call, such as 9m (default: no limit). The same command goes on with a run that
# TIME has stopped.
#
#   SWN=swn          program
#   DEVICE=cuda      device
#   SET="a=1 b=2"    settings over the recipe: such a run is no run of the recipe's row and needs
#                    NAME; "data.validation=5000 eval.test=false" where settings are being chosen
#   NAME=…           name of the run and its row (default: the recipe's)
#   ROW=…            row that the run belongs to, if that is another
#   CHOSEN_ON=paper  or validation: images on which the settings were chosen
#   COMMIT=…         commit of the program, where this is no git checkout
#   FROM=…           name of a run of the same seed in RUNS to begin with (swn train --from); RECIPE
#                    then gives only the name
#   UNTIL=50         stops after 50 epochs, for other runs to go on from; publishes nothing
#   CHECKPOINT_EVERY=10  epochs that a kill may lose; a stop by TIME loses none
#   RESULTS=results  publishes into RESULTS/DATA/NAME-SEED
#   OUT=…            also gets NAME-SEED.tar.gz of what is published, or of an unfinished run
#                    NAME-SEED.run.tar.00, .01, … of at most PART_MIB (15) MiB each, if its
#                    checkpoint has at most MOST_MIB (60); unpack it with
#                    'cat NAME-SEED.run.tar.* | tar x -C RUNS'
#
# Exit code: 0 finished and published, or at UNTIL; 75 stopped by TIME; else that of what failed.
set -euo pipefail

usage() { sed -n '2,/^set -euo/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2; }
[ $# -ge 2 ] && [ $# -le 4 ] || usage
recipe=$1 seed=$2 runs=${3:-runs} limit=${4:-}
swn=${SWN:-swn} device=${DEVICE:-cuda} results=${RESULTS:-results}
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || true)}
[ -f "$recipe" ] || { echo "error: no recipe $recipe" >&2; exit 2; }
[ -n "$commit" ] || {
  echo "error: no git checkout here; give the program's commit: COMMIT=8802b29 $0 …" >&2
  exit 2
}
[ -z "${CHOICES:-}" ] || { echo "error: CHOICES is called CHOSEN_ON=paper|validation now" >&2; exit 2; }

row=${NAME:-$(basename "$recipe" .toml)}
[ -z "${SET:-}" ] || [ -n "${NAME:-}" ] || {
  echo "error: SET without NAME: it is no run of the row $row" >&2
  exit 2
}
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

if [ -n "${UNTIL:-}" ] && stopped until; then
  echo "kept       $run after $UNTIL epochs; FROM=$row goes on from there"
  exit 0
fi

if ! is_finished; then
  epochs=$(grep -c '"event":"epoch"' "$run/log.jsonl" || true)
  echo "stopped    $run after $epochs epochs, search included; the same command goes on"
  if [ -n "${OUT:-}" ]; then
    cp "$run/log.jsonl" "$OUT/$name.log.jsonl"
    # Only the newest checkpoint: the one before it is for accidents.
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

# A key of [data] in the complete recipe of the run.
of_data() {
  awk -v key="$1" \
    '/^\[/ { in_data = ($0 == "[data]") } in_data && $1 == key { gsub(/"/, "", $3); print $3 }' \
    "$run/resolved.toml"
}
split=()
[ "$(of_data validation)" = 0 ] || split=(--validation)
"$swn" eval "$run" --device "$device" "${split[@]}"
members=$(grep -m 1 '^members = ' "$run/resolved.toml" | tr -cd ',' | wc -c) # commas between them
if [ "$members" -gt 0 ]; then
  "$swn" anytime "$run" --device "$device" --seconds "${ANYTIME_SECONDS:-3}" "${split[@]}"
fi
published=$results/$(of_data name)/$name
"$swn" results publish "$run" --out "$published" --commit "$commit" --row "${ROW:-$row}" \
  --chosen-on "${CHOSEN_ON:-paper}"
if [ -n "${OUT:-}" ]; then
  tar -C "$results" -czf "$OUT/$name.tar.gz" "$(of_data name)/$name"
  echo "packed     $OUT/$name.tar.gz: 'tar xzf' it in $results"
fi
echo "took       $(($(date +%s) - begin)) s this time"
