#!/usr/bin/env python3
"""Writes a plan that `swn plan` cannot: blocks that are not square or that differ between clusters,
and regions of a layer with templates of their own. Coefficients are own, the scale is even, and
parameters follow the root of the weights they make.

    ops/jobs/plan.py PLAN.json [--block N=ROWSxCOLS]… [--regions N=ROWSxCOLS]… [--power P] \\
        [--by-layer] > NEW.json

PLAN.json is a grid of `swn plan --coefficients own --reserve 0 --out`; clusters, budget and the rest
are taken from it. N: layers of at least N output channels (the largest such N counts); blocks and
regions of 1×1 kernels and classifiers stay as they are. Without options NEW is PLAN. --power:
parameters follow another power of the weights than 0.5. --by-layer: the error of a layer counts as its
weights over the parameters that make *it*, so layers of a large cluster get as many templates as those
that share with no other layer.
"""
import argparse, heapq, json, math, sys

arguments = argparse.ArgumentParser(usage=__doc__)
arguments.add_argument("plan")
for name in ("--block", "--regions"):
    arguments.add_argument(name, action="append", default=[])
arguments.add_argument("--power", type=float, default=0.5)
arguments.add_argument("--by-layer", action="store_true")
arguments = arguments.parse_args()
plan = json.load(open(arguments.plan))
rules = {}
for name in ("block", "regions"):
    pairs = (rule.split("=") for rule in getattr(arguments, name))
    rules[name] = sorted((int(n), [int(x) for x in size.split("x")]) for n, size in pairs)


def ruled(name, out, usual):
    return next((size for n, size in reversed(rules[name]) if out >= n), usual)


def pieces(length, count):
    assert length % count == 0, f"{length} channels are not {count} equal regions"
    return [[i * length // count, (i + 1) * length // count] for i in range(count)]


layers = [planned["layer"] for planned in plan["layers"]]
for planned in plan["layers"]:
    if "tiles" in planned:
        planned["tiles"] = []
old_sets, sets, superweights, costs, details = plan["template_sets"], [], [], [], []
for c, cluster in enumerate(plan["clusters"]):
    own = [layers[i] for i in cluster["layers"]]
    out, inp = max(l["out"] for l in own), max(l["in"] for l in own)
    kernel = own[0]["kernel"]
    assert all([l["out"], l["in"]] == [out, inp] for l in own), f"cluster {c}: layers of several shapes"
    usual = next(s["block"][:2] for s in old_sets if s["cluster"] == c)
    square = kernel == [3, 3]
    rows, cols = ruled("block", out, usual) if square else usual
    rows, cols = min(rows, out), min(cols, inp)
    down, across = ruled("regions", out, [1, 1]) if square else [1, 1]
    he = math.sqrt(2 / (inp * kernel[0] * kernel[1]))
    own_sets = []
    for y in pieces(out, down):
        for x in pieces(inp, across):
            at = {"rows": y, "cols": x}
            cells = -(-(y[1] - y[0]) // rows) * -(-(x[1] - x[0]) // cols)
            own_sets.append(dict(cost=len(costs), cells=cells, uses=cells * len(own)))
            sets.append(dict(cluster=c, block=[rows, cols, *kernel]))
            superweights.append(dict(set=len(sets) - 1, at=at, layers=cluster["layers"]))
            for i in cluster["layers"]:
                plan["layers"][i]["tiles"].append(dict(superweight=len(superweights) - 1, at=at))
    block = rows * cols * kernel[0] * kernel[1]
    details += own_sets
    costs.append(dict(block=block, uses=sum(s["uses"] for s in own_sets), regions=len(own_sets), he=he))
    weights = made = sum(l["out"] * l["in"] for l in own) * kernel[0] * kernel[1]
    shared = len(own_sets) * block
    if arguments.by_layer:
        weights *= (shared + costs[-1]["uses"]) / (shared + costs[-1]["uses"] / len(own))
    costs[-1]["weights"] = weights ** (2 * arguments.power)
    # Blocks are dependent beyond; no more numbers than weights.
    costs[-1]["most"] = max(2, min(block, costs[-1]["uses"] // len(own_sets), int(made / (shared + costs[-1]["uses"]))))

# The template that lowers Σ weights/parameters the most for its price is bought next; of dear ones
# one more is tried.
budget = plan["budget"] - sum(plan["bill"][part] for part in ("batch_norm", "classifier", "dense"))
each = [cost["regions"] * cost["block"] + cost["uses"] for cost in costs]


def spent(counts):
    worth = lambda s: -costs[s]["weights"] / (counts[s] * (counts[s] + 1) * each[s] ** 2)
    left = budget - sum(k * e for k, e in zip(counts, each))
    heap = [(worth(s), s) for s in range(len(costs))]
    heapq.heapify(heap)
    while heap and left >= 0:
        _, s = heapq.heappop(heap)
        if each[s] <= left and counts[s] < costs[s]["most"]:
            counts[s] += 1
            left -= each[s]
            heapq.heappush(heap, (worth(s), s))
    wrong = sum(cost["weights"] / (k * e) for cost, k, e in zip(costs, counts, each))
    return (wrong, counts, left) if left >= 0 else (math.inf, counts, left)


least = [2] * len(costs)
first = spent(list(least))
assert first[0] < math.inf, f"two templates for every set are {-first[2]} numbers too many"
dear = [s for s in range(len(costs)) if each[s] > plan["budget"] / 100]
more = [spent([first[1][s] + 1 if s == d else k for s, k in enumerate(least)]) for d in dear]
_, counts, left = min([first, *more], key=lambda tried: tried[0])

for new, detail in zip(sets, details):
    cost, k = costs[detail["cost"]], counts[detail["cost"]]
    new["templates"] = k
    new["std"] = cost["he"] * (detail["uses"] / k) ** 0.25
    new["row_norm"] = cost["he"] * (k * cost["block"]) ** 0.25
for superweight in superweights:
    detail = details[superweight["set"]]
    shape = [detail["cells"], counts[detail["cost"]]]
    superweight["groups"] = [dict(layers=[i], shape=shape) for i in superweight.pop("layers")]
for planned in plan["layers"]:
    for tile in planned.get("tiles", []):
        s = superweights[tile["superweight"]]["set"]
        tile["factor"] = costs[details[s]["cost"]]["he"] / (sets[s]["std"] * sets[s]["row_norm"])
plan["template_sets"], plan["superweights"] = sets, superweights
plan["tiling"] = {"grid": {"block": max(max(s["block"][:2]) for s in sets)}}
plan["bill"]["templates"] = sum(k * cost["regions"] * cost["block"] for k, cost in zip(counts, costs))
plan["bill"]["coefficients"] = sum(k * cost["uses"] for k, cost in zip(counts, costs))
plan["bill"]["reserved"] = 0
json.dump(plan, sys.stdout)
print(f"{left} left over; K of each cluster: " + ", ".join(map(str, counts)), file=sys.stderr)
