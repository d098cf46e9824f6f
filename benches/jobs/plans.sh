#!/usr/bin/env bash
# Writes the plans that long.txt and next.txt name into benches/jobs/plans (SWN=swn: the program).
set -euo pipefail
cd "$(dirname "$0")"
swn=${SWN:-swn}
mkdir -p plans
# All by stage and place, on the even scale, nothing kept for refinement.
plan() { "$swn" plan --tiling grid --scale even --reserve 0 --clusters roles.json "$@" > /dev/null; }
plan --members wrn-28-10 --budget 10% --block 4 --coefficients own --out plans/roles-10-own-4.json
plan --members wrn-28-10 --budget 10% --block 8 --coefficients own --out plans/roles-10-own-8.json
plan --members wrn-28-10 --budget 10% --block 16 --coefficients own --out plans/roles-10-own-16.json
plan --members wrn-28-10 --budget 1% --block 16 --coefficients own --out plans/roles-1-own-16.json
plan --members wrn-28-4 --budget 3% --block 4 --coefficients own --out plans/four-own.json
plan --members wrn-28-4 --budget 3% --block 8 --coefficients own --out plans/four-own-8.json
plan --members wrn-28-4 --budget 3% --block 4 --coefficients shared --out plans/four-hard.json
python3 plan.py plans/four-own.json --by-layer > plans/four-layers.json
