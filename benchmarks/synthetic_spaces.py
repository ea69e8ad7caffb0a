#!/usr/bin/env python3
"""Writes made-up search spaces for `autotune simulate`, each hard in a way of its own: synthetic_spaces.py FOLDER

Nothing of a GPU is in them but the analytic GEMM's wave quantisation; they keep a strategy from being fitted to the few spaces that were
recorded. The same numbers on every machine and in every run. Times carry noise of 0.4 %.
"""
import itertools
import json
import math
import pathlib
import random
import sys

NOISE = 0.004


def squared(values, centre, scale):
    return sum(((value - middle) / scale) ** 2 for value, middle in zip(values, centre))


class Space:
    """Points of `extents`, and the `time` of a point: microseconds, the reason of a failure, or None if there is no such
    point.
    """

    def __init__(self, dice):
        """A space that is the same everywhere needs no random numbers."""


class Bowl(Space):
    """A smooth basin, its five parameters interacting in pairs."""
    extents = (8, 8, 8, 6, 4)

    def __init__(self, dice):
        self.centre = [dice.uniform(0.2, 0.8) for _ in self.extents]
        self.weight = [dice.uniform(0.5, 3) for _ in self.extents]
        self.together = {pair: dice.uniform(-1, 1) for pair in itertools.combinations(range(len(self.extents)), 2)}

    def time(self, point):
        off = [value / (extent - 1) - middle for value, extent, middle in zip(point, self.extents, self.centre)]
        alone = sum(weight * one * one for weight, one in zip(self.weight, off))
        return 100 * math.exp(alone + sum(weight * off[i] * off[j] for (i, j), weight in self.together.items()))


class Gemm(Space):
    """4096^3 in tiles: waves, occupancy, shared memory. Configs that spill fail; configs that exceed shared memory do not
    exist.
    """
    extents = (5, 5, 3, 3, 3, 4, 4, 4)  # block_m, block_n, block_k, warps_m, warps_n, stages, swizzle, vec

    def time(self, point):
        block_m, block_n = 16 << point[0], 16 << point[1]
        block_k, warps_m, warps_n = 16 << point[2], 1 << point[3], 1 << point[4]
        stages, swizzle, vec_log = 2 + point[5], point[6], point[7]
        tile_m, tile_n = block_m // warps_m, block_n // warps_n
        smem = (block_m + block_n) * block_k * 2 * stages
        if min(tile_m, tile_n) < 16 or smem > 200 * 1024:
            return None
        registers = tile_m * tile_n / 32 + 40
        if registers > 255:
            return "spill"
        warps = warps_m * warps_n
        blocks = min(228 * 1024 // (smem + 1024), int(65536 // (registers * 32 * warps)), 2048 // (32 * warps))
        if blocks == 0:
            return "launch"
        waves = math.ceil((4096 // block_m) * (4096 // block_n) / (108 * blocks))
        compute = block_m * block_n * 4096 / (1024 * min(1, 0.3 + 0.1 * blocks * warps))
        load = (block_m + block_n) * 4096 * 2 / (32 * (0.4 + 0.2 * vec_log)) * (1.0 if swizzle else 1.15)
        latency = 4096 / block_k * 600 / stages
        return waves * (blocks * (max(compute, load) + 0.15 * min(compute, load)) + latency) / 1000


class ShuffledGemm(Gemm):
    """The same with the values of each parameter in random order, so that neighbouring values are not alike."""

    def __init__(self, dice):
        super().__init__(dice)
        self.order = [dice.sample(range(extent), extent) for extent in self.extents]

    def time(self, point):
        return super().time(tuple(order[value] for order, value in zip(self.order, point)))


class Landscape(Space):
    """An NK landscape: each parameter's share depends on `neighbours` others, at random."""

    def __init__(self, dice, extents, neighbours):
        self.dice, self.extents, self.shares = dice, extents, {}
        places = range(len(extents))
        self.reads = [(i, *dice.sample([j for j in places if j != i], neighbours)) for i in places]

    def time(self, point):
        total = 0
        for i, reads in enumerate(self.reads):
            total += self.shares.setdefault((i, *(point[j] for j in reads)), self.dice.random())
        return 100 * math.exp(1.44 * total / math.sqrt(len(self.extents)))


class Rugged(Landscape):
    """NK landscape, K = 2."""

    def __init__(self, dice):
        super().__init__(dice, (4, 4, 4, 4, 4, 4, 3), 2)


class Pairwise(Landscape):
    """NK landscape, K = 1."""

    def __init__(self, dice):
        super().__init__(dice, (6, 5, 4, 4, 3, 3, 3), 1)


class Needle(Space):
    """One pair of values halves the time, and nothing near it shows this."""
    extents = (8, 8, 8, 8)

    def __init__(self, dice):
        self.bump = [dice.uniform(0, 0.5) for _ in range(64)]

    def time(self, point):
        a, b, c, d = point
        return 100 * math.exp(0.3 * abs(c - 5) / 7 + 0.2 * abs(d - 2) / 7 + self.bump[a * 8 + b]) * (0.5 if (a, b) == (6, 3) else 1)


class Cliff(Space):
    """Some four points in ten fail, and the best points are next to failing ones."""
    extents = (8, 8, 8, 8)

    def time(self, point):
        a, b, c, d = point
        if a + b > 9:
            return "fails"
        return 100 * math.exp(0.3 * (9 - a - b) / 9 + 0.5 * ((c - 3) / 7) ** 2 + 0.4 * ((d - 6) / 7) ** 2 + 0.2 * abs(a - b - 3) / 7)


class Flags(Space):
    """Eight switches that interact a little, and three sizes."""
    extents = (2,) * 8 + (5, 5, 3)

    def __init__(self, dice):
        self.alone = [dice.uniform(-0.15, 0.15) for _ in range(8)]
        self.together = {pair: dice.gauss(0, 0.08) for pair in itertools.combinations(range(8), 2)}

    def time(self, point):
        switches = sum(weight * on for weight, on in zip(self.alone, point))
        switches += sum(weight * point[i] * point[j] for (i, j), weight in self.together.items())
        return 100 * math.exp(switches + 0.5 * (point[8] / 4 - 0.7) ** 2 + 0.6 * (point[9] / 4 - 0.3) ** 2 + 0.2 * abs(point[10] - 1))


class Switch(Space):
    """With shared memory everything works and most points are alike. Without it, points are faster, but only if the block size
    is a power of two.
    """
    extents = (16, 5, 4, 4, 2, 2, 2)  # block_x, block_y, tile_x, tile_y, shared memory, two flags that hardly matter

    def time(self, point):
        block_x = point[0] + 1
        without_shared = 1 if block_x & (block_x - 1) == 0 else 3
        read = 1.25 + 0.01 * abs(block_x - 5) if point[4] else without_shared
        tile = (1 + 0.15 * abs(point[1] - 1)) * (1 + 0.05 * abs(point[2] - 1)) * (1 + 0.35 * (3 - point[3]))
        return 100 * read * tile * (1 + 0.004 * point[5] + 0.003 * point[6])


class Deceptive(Space):
    """A broad basin, and a narrow deeper one far away."""
    extents = (10, 10, 10, 5)

    def time(self, point):
        broad = 110 * math.exp(squared(point, (7, 7, 7, 2), 9))
        return min(broad, 90 * math.exp(0.35 * sum(abs(value - middle) for value, middle in zip(point, (1, 1, 2, 4)))))


class Small(Space):
    """Three hundred points."""
    extents = (6, 5, 5, 2)

    def time(self, point):
        a, b, c, d = point
        return 100 * math.exp(((a - 4) / 5) ** 2 + ((b - 1) / 4) ** 2 + 0.3 * ((c - 2) / 4) ** 2 + 0.2 * d)


SPACES = (Bowl, Gemm, ShuffledGemm, Rugged, Pairwise, Needle, Cliff, Flags, Switch, Deceptive, Small)


def space(kind):
    dice = random.Random(kind.__name__)
    made = kind(dice)
    rows = []
    for point in itertools.product(*(range(extent) for extent in made.extents)):
        time = made.time(point)
        if time is None:
            continue
        rows.append([*point, time if isinstance(time, str) else round(time * (1 + dice.gauss(0, NOISE)), 4)])
    parameters = [{"name": f"p{i}", "values": list(range(extent)), "kind": "compile"} for i, extent in enumerate(made.extents)]
    return {"format": "autotune-space-1", "name": kind.__name__, "parameters": parameters, "rows": rows}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for kind in SPACES:
        made = space(kind)
        path = folder / f"{kind.__name__.lower()}.json"
        path.write_text(json.dumps(made, separators=(",", ":")))
        times = sorted(row[-1] for row in made["rows"] if not isinstance(row[-1], str))
        near = sum(time <= 1.05 * times[0] for time in times)
        print(f"{path}: {len(made['rows'])} points, {len(made['rows']) - len(times)} fail, {near} within 5 % of the best")


if __name__ == "__main__":
    main()
