#!/usr/bin/env bash
# Programs and a data set for a machine without network that takes so many MiB a call: cut here,
# joined there.
#
#   ops/pieces.sh cut TO MIB DATA [PROGRAM…]   packs the folder DATA and the stripped programs into
#                                              TO/piece.00, TO/piece.01, …
#   ops/pieces.sh join FROM TO                 checks all pieces in FROM and unpacks them into
#                                              TO/data and TO/programs
#
# TO/pieces.sha256 belongs to the pieces and goes with them. Data are not compressed: pictures are
# compressed already.
set -euo pipefail

usage() { sed -n '2,/^set -euo/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2; }
fail() { echo "error: $1" >&2; exit 2; }
case "${1:-}:$#" in
  cut:[4-9] | cut:[1-9][0-9]) to=$2 mib=$3 data=$4 programs=("${@:5}") ;;
  join:3) from=$2 to=$3 ;;
  *) usage ;;
esac

if [ "$1" = join ]; then
  [ -f "$from/pieces.sha256" ] || fail "$from has no pieces.sha256: send it with the pieces"
  (cd "$from" && sha256sum --check --quiet pieces.sha256) || fail "pieces in $from are missing or damaged: send those named above again"
  mkdir -p "$to"
  mapfile -t pieces < <(cut -c 67- "$from/pieces.sha256")
  (cd "$from" && cat -- "${pieces[@]}") | tar -x -C "$to"
  tar -xzf "$to/programs.tgz" -C "$to" && rm "$to/programs.tgz"
  echo "joined     ${#pieces[@]} pieces into $to: $(ls "$to/data" | wc -l) files of data, programs: $(ls "$to/programs" | tr '\n' ' ')"
  exit
fi

case $mib in *[!0-9]* | '' | 0*) fail "MIB is a whole number from 1, not '$mib'" ;; esac
[ -d "$data" ] || fail "no folder $data"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$to" "$stage/programs"
for program in "${programs[@]}"; do
  [ -f "$program" ] || fail "no program $program"
  # cargo's test programs have a digest behind their name
  name=$(basename "$program" | sed -E 's/-[0-9a-f]{16}$//')
  [ ! -e "$stage/programs/$name" ] || fail "two programs called $name"
  strip -o "$stage/programs/$name" "$program"
  chmod +x "$stage/programs/$name"
done
ln -s "$(realpath "$data")" "$stage/data"
rm -f "$to"/piece.[0-9]* "$to/pieces.sha256"
tar -cz --remove-files -C "$stage" -f "$stage/programs.tgz" programs
tar -c --dereference -C "$stage" programs.tgz data | split -b "${mib}M" -d - "$to/piece."
(cd "$to" && sha256sum piece.* > pieces.sha256)
ls -l "$to" | awk 'NR > 1 { printf "%s %.1f MiB\n", $NF, $5 / 1048576 }'
