#!/usr/bin/env bash
# A list of runs on a machine that is reached call by call: one call begins it, others wait for it.
#
#   ops/away.sh begin JOBS SECONDS [RUNS]   starts queue.sh in the background; it outlives the call
#   ops/away.sh wait SECONDS [RUNS]         waits until the list has ended, at most SECONDS; prints
#                                           how far it is
#   ops/away.sh stop [RUNS]                 ends it; the run saves its epoch, 'begin' goes on
#
# queue.sh copies what has ended to RUNS/home on that machine. 'wait' and 'stop' copy it to OUT each
# time, so OUT may be a folder that is emptied between two calls. 'wait' fails at once where nothing
# was begun, so that no time is spent waiting on the wrong machine.
#
# Exit code of 'wait': that of queue.sh when the list has ended, 75 while it goes on, 3 where
# nothing was begun.
set -euo pipefail

usage() { sed -n '2,/^set -euo/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2; }
here=$(dirname "$0")
case "${1:-}:$#" in
  begin:3 | begin:4) jobs=$2 seconds=$3 runs=${4:-runs} ;;
  wait:2 | wait:3) seconds=$2 runs=${3:-runs} ;;
  stop:1 | stop:2) runs=${2:-runs} ;;
  *) usage ;;
esac
case ${seconds:-0} in *[!0-9]* | '') echo "error: SECONDS is a whole number, not '$seconds'" >&2; exit 2 ;; esac
home=$runs/home screen=$runs/away.txt
code=$runs/away.code group=$runs/away.group

goes_on() { [ ! -e "$code" ] && kill -0 -- "-$(cat "$group")" 2>/dev/null; }
begun() { [ -e "$group" ] || { echo "error: nothing was begun in $runs on this machine" >&2; exit 3; }; }
bring() {
  local newest
  cat "$screen"
  newest=$(find "$runs" -maxdepth 1 -name '*-[0-9]*.txt' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
  [ -z "$newest" ] || tail -n 2 "$newest"
  [ -n "${OUT:-}" ] || return 0
  mkdir -p "$OUT"
  find "$home" -maxdepth 1 -type f ! -name '.*' -exec cp {} "$OUT" \;
}

case $1 in
  begin)
    [ -f "$jobs" ] || { echo "error: no list of jobs $jobs" >&2; exit 2; }
    if [ -e "$group" ] && goes_on; then echo "error: a list goes on in $runs: 'wait' or 'stop' it" >&2; exit 2; fi
    mkdir -p "$home"
    rm -f "$code" "$group"
    # A session of its own, so that it outlives the call and can be stopped as one.
    OUT=$home setsid bash -c 'echo $$ > "$1"; rc=0; bash "$2" "$3" "$4" "$5" || rc=$?; echo $rc > "$6"' \
      away "$group" "$here/queue.sh" "$jobs" "$seconds" "$runs" "$code" > "$screen" 2>&1 < /dev/null &
    for _ in $(seq 50); do [ ! -s "$group" ] || break; sleep 0.1; done
    echo "begun      $jobs in $runs, for $seconds s"
    ;;
  wait)
    begun
    for _ in $(seq "$seconds"); do goes_on || break; sleep 1; done
    bring
    if [ -e "$code" ]; then exit "$(cat "$code")"; fi
    goes_on && exit 75
    echo "error: the list was ended from outside; 'begin' goes on with it" >&2
    exit 1
    ;;
  stop)
    begun
    if goes_on; then kill -TERM -- "-$(cat "$group")"; fi
    # The scripts end at once, training when its epoch has ended and is saved.
    for _ in $(seq 60); do goes_on || break; sleep 0.5; done
    bring
    ;;
esac
