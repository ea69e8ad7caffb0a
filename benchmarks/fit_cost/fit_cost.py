#!/usr/bin/env python3
"""Fits the constants of gemm's cost models to trials: see benchmarks/README.md.

Every number with a decimal point in a model's source is one that can be fitted. A copy of the source in which those numbers are read
from an array is compiled with models.cpp; so a changed formula needs no other change than its own.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = {
    "gemm/wgmma": "kernel_templates/gemm/wgmma/geometry.cpp",
    "gemm/wgmma_nonpersistent": "kernel_templates/gemm/wgmma_nonpersistent/cost.cpp",
    "gemm/gemv": "kernel_templates/gemm/gemv/cost.cpp",
    "gemm/mma": "kernel_templates/gemm/mma/cost.cpp",
    "gemm/wmma": "kernel_templates/gemm/wmma/cost.cpp",
    "gemm/dot": "kernel_templates/gemm/dot/cost.cpp",
    "gemm/dot_windows": "kernel_templates/gemm/dot_windows/cost.cpp",
}
FAMILIES = list(MODELS)
# Numbers that are units, exponents, facts of the hardware or rules for ties, wherever they are in the source.
FACTS = {0.006, 1.002, 1.003, 1.01, 1.02, 0.0, 0.125, 0.25, 1 / 6, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0, 128.0, 255.0, 256.0, 1024.0, 2048.0, 4096.0,
         1e3, 1e6}
NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])")
NAMED = re.compile(r"^( *)constexpr double (k\w+) = ([^;]*);", re.M)
# Constants that were measured by themselves: on products too large to be drawn here, or one launch at a time.
KEPT = re.compile(r"^double power_us\(.*?^}|^ *\.launch_\w+ = [^\n]*", re.M | re.S)
# The only part that may change, because fp8 shares the rest of gemm/wgmma's model.
OWN = {"gemm/wgmma": re.compile(r"^constexpr Constants kOfHalf = \{.*?\};", re.M | re.S)}
TABLE = re.compile(r"^constexpr (\w+) (k\w+) = (\{.*?\});", re.M | re.S)


class Source:
    """A model's text and the numbers in it."""

    def __init__(self, family):
        self.path = ROOT / MODELS[family]
        self.index = FAMILIES.index(family)
        self.text = self.path.read_text()
        blank = re.sub(r"//[^\n]*", lambda found: " " * len(found.group()), self.text)
        spans = {found.span() for found in NUMBER.finditer(blank)}
        for named in NAMED.finditer(blank):  # `constexpr double kName = 2305;` has no decimal point
            for found in re.finditer(r"(?<![\w.])\d+(?![\w.])", named.group(3)):
                spans.add((named.start(3) + found.start(), named.start(3) + found.end()))
        ordered = sorted(spans)
        self.spans = [span for i, span in enumerate(ordered) if i == 0 or span[0] >= ordered[i - 1][1]]
        self.values = np.array([float(self.text[a:b]) for a, b in self.spans])
        kept = [found.span() for found in KEPT.finditer(self.text)]
        own = [found.span() for found in OWN[family].finditer(self.text)] if family in OWN else [(0, len(self.text))]
        lies_in = lambda at, places: any(a <= at < b for a, b in places)
        self.may_change = np.array([value not in FACTS and lies_in(at, own) and not lies_in(at, kept)
                                    for value, (at, _) in zip(self.values, self.spans)])

    def with_numbers(self, write):
        parts, at = [], 0
        for i, (a, b) in enumerate(self.spans):
            parts += [self.text[at:a], write(i)]
            at = b
        return "".join(parts) + self.text[at:]

    def instrumented(self):
        """Replaces constants by functions, because their values differ from one set of numbers to the next."""
        text = self.with_numbers(lambda i: f"fit_cost_numbers[{self.index}][{i}]")
        names = []

        def named(found):
            each = re.findall(r"(k\w+) = (.*?)(?:, (?=k\w+ = )|$)", f"{found.group(2)} = {found.group(3)}", re.S)
            names.extend(name for name, _ in each)
            return "".join(f"{found.group(1)}static double {name}() {{ return {value}; }}" for name, value in each)

        def table(found):
            names.append(found.group(2))
            made = f"{found.group(1)}{found.group(3)}"
            return (f"static const {found.group(1)}& {found.group(2)}() {{ static {found.group(1)} kept; static long of = -1;\n"
                    f"if (of != fit_cost_turn) {{ kept = {made}; of = fit_cost_turn; }} return kept; }}")

        text = NAMED.sub(named, text)
        text = TABLE.sub(lambda found: table(found) if "fit_cost_numbers" in found.group(3) else found.group(), text)
        for name in names:
            text = re.sub(rf"\b{name}\b(?!\(\) \{{)", name + "()", text)
        return f"extern double fit_cost_numbers[{len(FAMILIES)}][1024];\nextern long fit_cost_turn;\n" + text

    def rewritten(self, values):
        def write(i):
            a, b = self.spans[i]
            return self.text[a:b] if values[i] == self.values[i] else spelled(values[i], self.text[a:b])

        return self.with_numbers(write)

    def line_of(self, i):
        return self.text.count("\n", 0, self.spans[i][0]) + 1

    def context(self, i):
        a, b = self.spans[i]
        return " ".join(self.text[max(0, a - 32):b + 20].split())


def spelled(value, before):
    """Writes the number with three digits, in the form that it had."""
    if "e" in before:
        return f"{value:.3e}".replace("e+0", "e").replace("e-0", "e-")
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 1
    text = f"{round(value, digits):.{digits}f}"
    if "." in text:
        text = text.rstrip("0")
        text += "0" if text.endswith(".") else ""
    elif "." in before:
        text += ".0"
    return text


# Properties of cards of sm_90a, by the width of their memory bus in bits. Trials made before files named the device are of an
# H200.
DEVICES = {6016: {"l2_mib": 60, "memory_gb_per_s": 4800.0}, 5120: {"l2_mib": 50, "memory_gb_per_s": 3352.0}}


def read_trials(paths, least=2):
    """Returns rows ((problem, width of its device's bus), candidate, us, vendor's us, file) from random_gemms --json and from
    shipped winners.
    """
    rows = []
    for number, path in enumerate(paths):
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            bus_bits = row.get("device", {}).get("bus_bits", 6016)
            if "contestants" in row:
                for each in row["contestants"]:
                    if each["us"] is not None:
                        rows.append(((row["problem"], bus_bits), each["candidate"], each["us"], row["cublas_us"], number))
            elif row.get("op") == "gemm":
                extents = row["problem"]["extents"]
                if extents.get("batch", 1) != 1 or not row["provenance"]["method"].startswith("stream"):
                    continue
                key = f'{row["problem"]["class"]} {extents["m"]}x{extents["n"]}x{extents["k"]}'
                for each in row["evidence"]["finalists"]:
                    if "family" in each and each.get("timing"):
                        words = " ".join(f"{name}={value}" for name, value in each["config"].items())
                        rows.append(((key, bus_bits), f'{each["family"]} {words}', each["timing"]["median_us"], None, number))
    # A candidate that was tried more than once has the median of its times.
    times = {}
    for key, candidate, us, vendor, number in rows:
        times.setdefault((key, candidate), []).append((us, vendor, number))
    by_problem = {}
    for (key, candidate), seen in times.items():
        by_problem.setdefault(key, []).append((key, candidate, float(np.median([each[0] for each in seen])), seen[0][1], seen[0][2]))
    return [row for rows in by_problem.values() if len(rows) >= least for row in rows]


class Models:
    """The compiled models with the trials that they know."""

    def __init__(self, build, work, rows):
        self.sources = [Source(family) for family in FAMILIES]
        work.mkdir(parents=True, exist_ok=True)
        binary = self.compile(build, work)
        listed = work / "trials.jsonl"
        listed.write_text("".join(json.dumps({"problem": row[0][0], "candidate": row[1], "device": DEVICES[row[0][1]]}) + "\n" for row in rows))
        self.process = subprocess.Popen([binary, listed], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        families = np.array([int(self.process.stdout.readline()) for _ in rows])
        known = families >= 0
        self.rows = [row for row, keep in zip(rows, known) if keep]
        self.family = families[known]
        self.of_family = [np.flatnonzero(self.family == i) for i in range(len(FAMILIES))]
        names = {}
        self.problem = np.array([names.setdefault(row[0], len(names)) for row in self.rows])
        self.keys = list(names)
        self.us = np.array([row[2] for row in self.rows])
        self.vendor = {row[0]: row[3] for row in self.rows}
        self.best = np.full(len(self.keys), np.inf)
        np.minimum.at(self.best, self.problem, self.us)
        self.file = np.array([row[4] for row in self.rows])

    def compile(self, build, work):
        commands = json.loads((build / "compile_commands.json").read_text())
        command = next(each for each in commands if each["file"].endswith("benchmarks/portfolio.cpp"))
        flags = [word for word in shlex.split(command["command"]) if re.match(r"-[IDfmO]|-std|-isystem", word)]
        link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", "benchmarks/portfolio"], capture_output=True, text=True,
                              check=True).stdout
        libraries = [str(build / word) if word.endswith(".a") and not word.startswith("/") else word for word in shlex.split(link)
                     if re.search(r"\.(a|so)$", word) and "libautotune_db" not in word]
        objects = []
        for name, text in [("models", (pathlib.Path(__file__).parent / "models.cpp").read_text())] + [
            (family.replace("/", "_"), source.instrumented()) for family, source in zip(FAMILIES, self.sources)
        ]:
            path, object_ = work / f"{name}.cpp", work / f"{name}.o"
            if not path.exists() or path.read_text() != text or not object_.exists() or newest_header() > object_.stat().st_mtime:
                path.write_text(text)
                subprocess.run(["c++", *flags, "-I", ROOT, "-w", "-c", path, "-o", object_], check=True)
            objects.append(object_)
        binary = work / "models"
        subprocess.run(["c++", *objects, "-Wl,--allow-multiple-definition", "-o", binary, *libraries], check=True)
        return binary

    def ask(self, family, numbers):
        """Returns the logarithms of the predicted times of the family's trials."""
        head = np.array([family, len(numbers)], dtype=np.int64).tobytes()
        self.process.stdin.write(head + np.asarray(numbers, dtype=np.float64).tobytes())
        self.process.stdin.flush()
        count = len(self.of_family[family])
        return np.log(np.frombuffer(self.process.stdout.read(8 * count), dtype=np.float64))

    def predict(self, numbers):
        logs = np.empty(len(self.rows))
        for family, own in enumerate(self.of_family):
            logs[own] = self.ask(family, numbers[family])
        return logs


def newest_header():
    return max(path.stat().st_mtime for path in (ROOT / "kernel_templates/gemm").rglob("*.h"))


# ---- trials of which the predictions are judged ----


def choices(models, logs, of=None):
    """For each problem: the loss if the kernel that is predicted fastest is chosen."""
    regrets = {}
    order = np.lexsort((logs, models.problem))
    for i in order:
        p = models.problem[i]
        if p not in regrets and (of is None or of[p]):
            regrets[p] = models.us[i] / models.best[p] - 1
    return regrets


def summary(values):
    values = np.sort(np.array(list(values)))
    if not len(values):
        return "none"
    return (f"{len(values):4d} problems: mean {100 * values.mean():5.1f} %, median {100 * np.median(values):5.1f}, "
            f"p90 {100 * values[len(values) * 9 // 10]:5.1f}, most {100 * values[-1]:5.1f}, above 20 %: {(values > 0.2).sum()}")


def kind_of(key):
    key = key[0]
    aligned = "rows of 16 bytes" if "align=16,16,16" in key else "other rows"
    return f'{aligned}, beta {"zero" if "beta=zero" in key else "any"}'


def report(models, logs, of=None):
    regrets = choices(models, logs, of)
    print("  regret        all:", summary(regrets.values()))
    for kind in sorted({kind_of(models.keys[p]) for p in regrets}):
        print(f"  {kind:>26}:", summary(value for p, value in regrets.items() if kind_of(models.keys[p]) == kind))
    ratios = [(models.vendor[models.keys[p]] / (models.best[p] * (1 + value)), models.vendor[models.keys[p]] / models.best[p])
              for p, value in regrets.items() if models.vendor[models.keys[p]]]
    if ratios:
        ratios = np.array(ratios)
        print(f"  cublasGemmEx / choice {np.exp(np.log(ratios[:, 0]).mean()):.3f}, least {ratios[:, 0].min():.2f}, "
              f"{(ratios[:, 0] < 0.8).sum()} below 0.80; / fastest {np.exp(np.log(ratios[:, 1]).mean()):.3f}, "
              f"{ratios[:, 1].min():.2f}, {(ratios[:, 1] < 0.8).sum()}")
    near = models.us < 1.6 * models.best[models.problem]
    if of is not None:
        near &= of[models.problem]
    for family, name in enumerate(FAMILIES):
        own = (models.family == family) & near
        if own.any():
            error = np.log(models.us[own]) - logs[own]
            print(f"  {name:>26}: {own.sum():5d} trials, measured/predicted {np.exp(np.median(error)):.2f}, "
                  f"deviation {100 * np.sqrt(np.mean((error - error.mean()) ** 2)):.1f} %")


# ---- fitting ----


class Fit:
    def __init__(self, models, options):
        self.models = models
        self.options = options
        self.families = [FAMILIES.index(family) for family in options.family] if options.family else range(len(FAMILIES))
        self.start = [source.values.copy() for source in models.sources]
        self.free = [(family, i) for family in self.families for i in np.flatnonzero(models.sources[family].may_change)]
        # Constants that no trial depends on stay as they are.
        at_start = [models.ask(family, self.start[family]) for family in range(len(FAMILIES))]
        moved = []
        for family, i in self.free:
            numbers = self.start[family].copy()
            numbers[i] *= 1.05
            if len(at_start[family]) and np.abs(models.ask(family, numbers) - at_start[family]).max() > 1e-6:
                moved.append((family, i))
        self.free = moved

    def numbers(self, logs_of_factors):
        numbers = [start.copy() for start in self.start]
        for (family, i), factor in zip(self.free, logs_of_factors):
            numbers[family][i] *= math.exp(factor)
        return numbers

    def jacobian(self, factors, logs):
        """Derivatives of the logarithms of the predicted times."""
        models, step = self.models, 0.01
        result = np.zeros((len(logs), len(factors)))
        for column, (family, i) in enumerate(self.free):
            moved = factors.copy()
            moved[column] += step
            own = models.of_family[family]
            result[own, column] = (models.ask(family, self.numbers(moved)[family]) - logs[own]) / step
        return result

    def weights(self, of):
        """Gives kernels near the best of their problem more weight. Each problem has the same total weight, however many
        kernels were timed.
        """
        models = self.models
        ratio = models.us / models.best[models.problem]
        weights = np.where(of[models.problem], np.exp(-((ratio - 1) / 0.6)), 0.0)
        total = np.zeros(len(models.keys))
        np.add.at(total, models.problem, weights)
        total[total == 0] = 1
        return weights / np.sqrt(total[models.problem]) * 2

    def least_squares(self, of, factors=None):
        """Deviations from each problem's own mean count fully. The mean itself counts less, because it does not affect the
        choice. Huber's loss.
        """
        models, options = self.models, self.options
        factors = np.zeros(len(self.free)) if factors is None else factors
        weights = self.weights(of)
        damping = 1e-2

        def centred(values, w):
            sums = np.zeros((len(models.keys),) + values.shape[1:])
            np.add.at(sums, models.problem, (w.T * values.T).T)
            total = np.zeros(len(models.keys))
            np.add.at(total, models.problem, w)
            total[total == 0] = 1
            mean = (sums.T / total).T[models.problem]
            return values - (1 - options.common) * mean

        def loss(factors):
            logs = models.predict(self.numbers(factors))
            r = centred(np.log(models.us) - logs, weights)
            huber = np.where(np.abs(r) < options.huber, r * r, 2 * options.huber * np.abs(r) - options.huber**2)
            return (weights * huber).sum() + options.ridge * (factors**2).sum(), logs, r

        value, logs, r = loss(factors)
        for _ in range(options.iterations):
            jacobian = centred(self.jacobian(factors, logs), weights)
            w = weights * np.minimum(1.0, options.huber / np.maximum(np.abs(r), 1e-12))
            normal = jacobian.T @ (w[:, None] * jacobian) + options.ridge * np.eye(len(factors))
            gradient = jacobian.T @ (w * r) - options.ridge * factors
            improved = False
            for _ in range(8):
                step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
                tried = np.clip(factors + np.clip(step, -0.5, 0.5), -options.bound, options.bound)
                new = loss(tried)
                if new[0] < value:
                    improved = True
                    break
                damping *= 4
            if not improved:
                break
            small = value - new[0] < 1e-4 * value
            (value, logs, r), factors, damping = new, tried, max(1e-4, damping / 4)
            if small:
                break
        return factors

    def of_choice(self, of, factors):
        """Minimises the average loss of a choice with probability ~ time^(-1/temperature), by gradient descent from the least
        squares.
        """
        models, options = self.models, self.options
        regret = np.log(models.us / models.best[models.problem]).clip(0, 1.0)
        inside = of[models.problem]

        def loss(factors):
            logs = models.predict(self.numbers(factors))
            least = np.full(len(models.keys), np.inf)
            np.minimum.at(least, models.problem, logs)
            p = np.exp(-(logs - least[models.problem]) / options.temperature) * inside
            total = np.zeros(len(models.keys))
            np.add.at(total, models.problem, p)
            total[total == 0] = 1
            p /= total[models.problem]
            mean = np.zeros(len(models.keys))
            np.add.at(mean, models.problem, p * regret)
            return mean[of].sum() + options.ridge_choice * ((factors - self.middle) ** 2).sum(), logs, p, mean

        self.middle = factors.copy()
        value, logs, p, mean = loss(factors)
        rate = 0.3
        for _ in range(options.choice_iterations):
            jacobian = self.jacobian(factors, logs)
            of_logs = -p * (regret - mean[models.problem]) / options.temperature
            gradient = jacobian.T @ of_logs + 2 * options.ridge_choice * (factors - self.middle)
            scale = np.sqrt((jacobian**2 * p[:, None]).sum(0) + options.ridge_choice) + 1e-9
            direction = -gradient / scale**2
            for _ in range(10):
                new = loss(factors + np.clip(rate * direction, -0.2, 0.2))
                if new[0] < value:
                    break
                rate /= 2
            else:
                break
            factors = factors + np.clip(rate * direction, -0.2, 0.2)
            done = value - new[0] < 1e-4 * value
            value, logs, p, mean = new
            rate *= 1.7
            if done:
                break
        return factors

    def fit(self, of):
        factors = self.least_squares(of)
        return self.of_choice(of, factors) if self.options.choice_iterations else factors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="+", type=pathlib.Path, help="random_gemms --json, or db/winners/*.jsonl")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="fitted; default all")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/fit_cost")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--ridge", type=float, default=0.3, help="weight of a constant's change by a factor of e")
    parser.add_argument("--bound", type=float, default=1.6, help="most change of a constant, as a logarithm")
    parser.add_argument("--huber", type=float, default=0.15)
    parser.add_argument("--common", type=float, default=0.3, help="share of a problem's own mean that counts")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--choice-iterations", type=int, default=20)
    parser.add_argument("--ridge-choice", type=float, default=0.3)
    parser.add_argument("--temperature", type=float, default=0.03)
    parser.add_argument("--least", type=int, default=2, help="kernels of a problem that counts")
    parser.add_argument("--write", action="store_true", help="the fitted constants into the sources")
    parser.add_argument("--only-report", action="store_true")
    parser.add_argument("--worst", type=int, default=0, help="problems to list whose choice loses most")
    options = parser.parse_args()

    rows = read_trials(options.trials, options.least)
    models = Models(options.build, options.work, rows)
    print(f"{len(models.rows)} trials of {len(models.keys)} problems; {len(rows) - len(models.rows)} more are of other families or not legal today")
    before = models.predict([source.values for source in models.sources])
    print("as it is:")
    report(models, before)
    if options.worst:
        list_worst(models, before, options.worst)
    if options.only_report:
        return
    fit = Fit(models, options)
    print(f"{len(fit.free)} constants may change")
    everything = np.ones(len(models.keys), dtype=bool)
    fold_of = np.random.default_rng(7).integers(0, options.folds, len(models.keys)) if options.folds > 1 else None
    if fold_of is not None:
        left_out = before.copy()
        for fold in range(options.folds):
            factors = fit.fit(fold_of != fold)
            own = fold_of[models.problem] == fold
            left_out[own] = models.predict(fit.numbers(factors))[own]
        print("fitted, each problem left out:")
        report(models, left_out)
    factors = fit.fit(everything)
    after = models.predict(fit.numbers(factors))
    print("fitted to all:")
    report(models, after)
    for (family, i), factor in zip(fit.free, factors):
        if abs(factor) > 0.02:
            source = models.sources[family]
            print(f"  {source.path.parent.name}/{source.path.name}:{source.line_of(i)}: {source.values[i]:g} -> "
                  f"{source.values[i] * math.exp(factor):.4g}   {source.context(i)}")
    if options.write:
        for family, source in enumerate(models.sources):
            numbers = fit.numbers(factors)[family]
            source.path.write_text(source.rewritten(numbers))


def list_worst(models, logs, count):
    regrets = choices(models, logs)
    for p in sorted(regrets, key=lambda p: -regrets[p])[:count]:
        own = np.flatnonzero(models.problem == p)
        print(f'{models.keys[p][0]} ({models.keys[p][1]} bits): loses {100 * regrets[p]:.0f} %, cublas {models.vendor[models.keys[p]]}')
        for i in sorted(own, key=lambda i: logs[i])[:3] + sorted(own, key=lambda i: models.us[i])[:2]:
            print(f"    {models.us[i]:8.2f} us, predicted {math.exp(logs[i]):8.2f}: {models.rows[i][1]}")


if __name__ == "__main__":
    sys.exit(main())
