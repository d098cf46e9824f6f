#!/usr/bin/env bash
# Writes the plans that next.txt names into benches/jobs/plans (SWN=swn: the program).
set -euo pipefail
cd "$(dirname "$0")"
swn=${SWN:-swn}
mkdir -p plans
# All by stage and place, on the even scale, nothing kept for refinement.
plan() { "$swn" plan --tiling grid --scale even --reserve 0 --clusters roles.json "$@" > /dev/null; }
plan --members wrn-28-10 --budget 10% --block 16 --coefficients own --out plans/roles-10-own-16.json
plan --members wrn-28-10 --budget 1% --block 16 --coefficients own --out plans/roles-1-own-16.json
python3 plan.py roles-1-own.json --block 320=16x16 > plans/roles-1-own-mixed.json
plan --members wrn-28-4 --budget 3% --block 4 --coefficients own --out plans/four-own.json
plan --members wrn-28-4 --budget 3% --block 8 --coefficients own --out plans/four-own-8.json
plan --members wrn-28-4 --budget 3% --block 4 --coefficients shared --out plans/four-hard.json
four() { name=$1; shift; python3 plan.py plans/four-own.json "$@" > plans/four-$name.json; }
four layers --by-layer
four early --power 0.35
four late --power 0.65
four tall --block 1=8x2
four wide --block 1=2x8
four mixed --block 128=4x8 --block 256=8x8
four regions --regions 128=2x2
