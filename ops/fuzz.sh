#!/usr/bin/env bash
# Fuzzes every target for a minute, or for so many seconds: ops/fuzz.sh [SECONDS [TARGET…]]
#
# Needs a nightly compiler and cargo-fuzz ('cargo install cargo-fuzz'). New inputs go to a folder of
# this call, not into fuzz/corpus. Exit code 1 where a target has failed; its input is in
# fuzz/artifacts/TARGET then.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
case $seconds in *[!0-9]* | '') echo "error: SECONDS is a whole number, not '$seconds'" >&2; exit 2 ;; esac
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
failed=()
for target in "${targets[@]}"; do
  printf '\n== %s, %s s\n' "$target" "$seconds"
  mkdir "$found/$target"
  cargo +nightly fuzz run "$target" "$found/$target" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=16384 -dict=fuzz/words.dict ||
    failed+=("$target")
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
