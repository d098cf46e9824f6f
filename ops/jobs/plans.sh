#!/usr/bin/env bash
# Writes the plans that long.txt and next.txt name into ops/jobs/plans (SWN=swn: the program).
set -euo pipefail
cd "$(dirname "$0")"
swn=${SWN:-swn}
mkdir -p plans
# On the even scale, nothing kept for refinement; `roles`: clusters by stage and place.
plan() { "$swn" plan --tiling grid --scale even --reserve 0 "$@" > /dev/null; }
roles() { plan --clusters roles.json "$@"; }
# The same, but layers of the last stage share nothing.
python3 -c 'import json; print(json.dumps([c for r in json.load(open("roles.json")) for c in ([[l] for l in r] if "block3" in r[0] else [r])]))' > plans/late.json
plan --members wrn-28-10 --budget 1% --block 8 --coefficients own --clusters plans/late.json --out plans/late-1-own.json
roles --members wrn-28-10 --budget 10% --block 4 --coefficients own --out plans/roles-10-own-4.json
roles --members wrn-28-10 --budget 10% --block 8 --coefficients own --out plans/roles-10-own-8.json
roles --members wrn-28-10 --budget 10% --block 16 --coefficients own --out plans/roles-10-own-16.json
roles --members wrn-28-10 --budget 1% --block 16 --coefficients own --out plans/roles-1-own-16.json
roles --members wrn-28-4 --budget 3% --block 4 --coefficients own --out plans/four-own.json
roles --members wrn-28-4 --budget 3% --block 8 --coefficients own --out plans/four-own-8.json
roles --members wrn-28-4 --budget 3% --block 4 --coefficients shared --out plans/four-hard.json
python3 plan.py plans/four-own.json --by-layer > plans/four-layers.json
# Shortcuts dense: layers that no cluster names are.
python3 -c 'import json; print(json.dumps([r for r in json.load(open("roles.json")) if "Shortcut" not in r[0]]))' > plans/branches.json
plan --members wrn-28-10 --budget 10% --block 8 --coefficients own --clusters plans/branches.json --out plans/branches-10-own.json
