#!/usr/bin/env python3
"""fp8 products in a stream, in turns with torch's _scaled_mm, cuBLASLt's fastest heuristic and DeepGEMM: microseconds, TFLOP/s and the
best rival's time over ours.

    benchmarks/scripts/fp8_race.py PROBLEM... [--pin CANDIDATE...] [--deep-gemm FOLDER] [--rounds 7] [--warm 0.15] [--json FILE]

PROBLEM: MxNxK:SCALE, SCALE one of none, tensor, row (fast sums) and block (promoted sums): 4096x7168x2048:row. C is f16 without scales,
else bf16. Ours is the library's choice (AUTOTUNE_DB, AUTOTUNE_SHIPPED), and each --pin. FOLDER holds the package deep_gemm. torch is
CUTLASS with row scales and cuBLASLt's first choice with none or those of tensors. cuBLASLt's heuristics are raced before the rounds.
Each contestant is a graph of launches over several sets of buffers, each behind a small kernel of another kind; the time of those
small kernels alone is taken off. Needs a GPU, torch and the package autotune.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import autotune
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rivals"))
from cublaslt import WORKSPACE_BYTES, CublasLt  # noqa: E402

RIVALS = ("torch", "cuBLASLt", "DeepGEMM")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
F8 = torch.float8_e4m3fn


class Problem:
    def __init__(self, text):
        extents, self.scale = text.split(":")
        self.m, self.n, self.k = (int(extent) for extent in extents.split("x"))
        self.text = text
        self.c = "f16" if self.scale == "none" else "bf16"
        self.acc = "f32" if self.scale == "block" else "f32fast"
        self.flops = 2 * self.m * self.n * self.k
        self.bytes = self.m * self.k + self.n * self.k + 2 * self.m * self.n
        self.runs, self.blocks = -(-self.k // 128), -(-self.n // 128)
        self.padded_rows = -(-self.m // 4) * 4

    def described(self):
        tensor = autotune.Tensor
        tensors = {"a": tensor("e4m3", (self.m, self.k)), "b": tensor("e4m3", (self.k, self.n), strides=(1, self.k)),
                   "c": tensor(self.c, (self.m, self.n))}
        if self.scale in ("tensor", "row"):
            lengths = (1, 1) if self.scale == "tensor" else (self.m, self.n)
            tensors.update({name: tensor("f32", (length,), align=4) for name, length in zip(("scale_a", "scale_b"), lengths)})
        if self.scale == "block":
            tensors["scale_a"] = tensor("f32", (self.m, self.runs), strides=(1, self.padded_rows))
            tensors["scale_b"] = tensor("f32", (self.blocks, self.runs))
        return autotune.Problem("gemm", tensors, {"beta": "zero", "acc": self.acc, "scale": self.scale})

    def buffers(self, generator):
        def normal(*shape):
            return torch.randn(*shape, device="cuda", generator=generator).to(F8)

        def scales(*shape):
            return torch.rand(*shape, device="cuda", generator=generator) * 1.5 + 0.5

        made = {"a": normal(self.m, self.k), "b": normal(self.n, self.k),
                "c": torch.empty(self.m, self.n, device="cuda", dtype=DTYPES[self.c])}
        if self.scale == "tensor":
            made["scales"] = [scales(1), scales(1)]
        if self.scale == "row":
            made["scales"] = [scales(self.m, 1), scales(1, self.n)]
        if self.scale == "block":
            of_a = torch.empty_strided((self.m, self.runs), (1, self.padded_rows), device="cuda")
            made["scales"] = [of_a.copy_(scales(self.m, self.runs)), scales(self.blocks, self.runs)]
        return made

    def exact_rows(self, buffers, rows=256):
        a, b = buffers["a"][:rows].float(), buffers["b"].float()
        if self.scale == "block":
            of_a, of_b = buffers["scales"]
            a = a * of_a[:rows].repeat_interleave(128, 1)[:, :self.k]
            b = b * of_b.repeat_interleave(128, 0)[:self.n].repeat_interleave(128, 1)[:, :self.k]
        c = a @ b.t()
        if self.scale == "tensor":
            c *= buffers["scales"][0] * buffers["scales"][1]
        if self.scale == "row":
            c = c * buffers["scales"][0][:rows] * buffers["scales"][1]
        return c


def ours(plan, sets):
    workspace = torch.zeros(max(plan.workspace_bytes, 1), device="cuda", dtype=torch.uint8)
    arrays = [[s[name].data_ptr() for name in "abc"] + [scale.data_ptr() for scale in s.get("scales", [])] for s in sets]
    launches = [plan.bind(*each, scalars=(1.0, 0.0), workspace=workspace.data_ptr()) for each in arrays]
    return lambda i: launches[i](torch.cuda.current_stream().cuda_stream)


def of_torch(problem, sets):
    one = torch.ones((), device="cuda")

    def run(i):
        s = sets[i]
        of_a, of_b = s.get("scales", [one, one])
        if problem.scale == "tensor":
            of_a, of_b = of_a.reshape(()), of_b.reshape(())
        torch._scaled_mm(s["a"], s["b"].t(), of_a, of_b, out_dtype=DTYPES[problem.c], use_fast_accum=True, out=s["c"])

    return run


class OfCublasLt:
    """cuBLASLt's algorithms for a problem, on all sets."""

    def __init__(self, lt, problem, sets):
        self.product = lt.fp8_product((problem.m, problem.n, problem.k), problem.c, problem.scale, problem.scale != "block")
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self.scales = [list(s.get("scales", [])) for s in sets]
        if problem.scale == "block" and problem.m != problem.padded_rows:  # the kernel reads scales without gaps
            for of_one in self.scales:
                of_one[0] = of_one[0].t().contiguous()
        self.sets = sets

    def algorithm(self, index):
        def run(i):
            s = self.sets[i]
            self.product.run(index, s["a"].data_ptr(), s["b"].data_ptr(), s["c"].data_ptr(), self.workspace.data_ptr(),
                             torch.cuda.current_stream().cuda_stream, [scale.data_ptr() for scale in self.scales[i]])

        return run

    def fastest(self, race):
        best_us, best, best_index = float("inf"), None, None
        for index in range(self.product.count):
            run = self.algorithm(index)
            try:
                run(0)
                graph = race.graph(run, 8)
            except RuntimeError:  # this problem or this card refuses the candidate
                continue
            us = min(race.replayed_us(graph) for _ in range(4))
            if us < best_us:
                best_us, best, best_index = us, run, index
        return best, f"{best_index} of {self.product.count}"


def of_deep_gemm(deep_gemm, sets):
    return lambda i: deep_gemm.fp8_gemm_nt((sets[i]["a"], sets[i]["scales"][0]), (sets[i]["b"], sets[i]["scales"][1]), sets[i]["c"])


class Race:
    """Graphs of the contestants' launches, timed in turns."""

    def __init__(self, problem, sets):
        self.problem, self.sets = problem, sets
        self.exact = problem.exact_rows(sets[0])
        self.launches = 2 * max(1, min(32, int(300 / max(5, problem.flops / 1.1e9, problem.bytes / 4e6))))
        self.filler = torch.zeros(33792, device="cuda")
        self.graphs, self.errors = {"filler": self.graph(None)}, {}

    def graph(self, run, most=64):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(min(most, self.launches)):
                self.filler.add_(1.0)
                if run is not None:
                    run(i % len(self.sets))
        return graph

    def add(self, name, run):
        c = self.sets[0]["c"]
        c.fill_(float("nan"))
        try:
            run(0)
        except RuntimeError as error:
            print(f"  {name}: {str(error).splitlines()[0][:120]}")
            return
        rows = c[:len(self.exact)].float()
        self.errors[name] = ((rows - self.exact).norm() / self.exact.norm()).item()
        self.graphs[name] = self.graph(run)

    @staticmethod
    def replayed_us(graph):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1e3

    def time(self, rounds, warm_s):
        begun = time.time()
        while time.time() - begun < warm_s:
            for graph in self.graphs.values():
                graph.replay()
            torch.cuda.synchronize()
        samples = {name: [] for name in self.graphs}
        for _ in range(rounds):
            for name, graph in self.graphs.items():
                samples[name].append(self.replayed_us(graph) / self.launches)
        alone = samples.pop("filler")
        return {name: [both - filler for both, filler in zip(of_one, alone)] for name, of_one in samples.items()}


def planned(problem, handle):
    torch.cuda.set_device(0)  # makes the context current on this thread
    try:
        return handle.plan(problem.described())
    except autotune.Error as error:
        return error


def raced(problem, options, plans, libraries):
    generator = torch.Generator(device="cuda").manual_seed(1)
    sets = [problem.buffers(generator) for _ in range(max(2, min(48, -(-260_000_000 // problem.bytes))))]
    race = Race(problem, sets)
    notes = {}
    for name, plan in plans.items():
        if isinstance(plan, Exception):
            print(f"  {name}: {plan}")
            continue
        race.add(name, ours(plan, sets))
        notes[name] = f"{plan.origin}: {plan.candidate}"
    try:
        fastest, notes["cuBLASLt"] = OfCublasLt(libraries["cuBLASLt"], problem, sets).fastest(race)
        if fastest is not None:
            race.add("cuBLASLt", fastest)
    except RuntimeError as error:  # no algorithm
        print(f"  cuBLASLt: {error}")
    if problem.scale != "block":
        race.add("torch", of_torch(problem, sets))
    elif "DeepGEMM" in libraries:
        race.add("DeepGEMM", of_deep_gemm(libraries["DeepGEMM"], sets))
    torch.cuda.synchronize()
    return race.time(options.rounds, options.warm), race.errors, notes


def report(problem, samples, errors, notes):
    print(problem.text)
    rivals = {name: statistics.median(samples[name]) for name in RIVALS if name in samples}
    for name, of_one in sorted(samples.items(), key=lambda item: statistics.median(item[1])):
        us = statistics.median(of_one)
        ratio = ""
        if rivals and name not in RIVALS:
            ratio = f"{statistics.median(a / b for a, b in zip(samples[min(rivals, key=rivals.get)], of_one)):.3f}"
        print(f"  {us:9.2f} us {problem.flops / us * 1e-6:7.1f} TFLOP/s  error {errors[name]:.1e}  {ratio:6}  {name} {notes.get(name, '')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", type=Problem)
    parser.add_argument("--pin", action="append", default=[])
    parser.add_argument("--deep-gemm")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm", type=float, default=0.15)
    parser.add_argument("--json")
    options = parser.parse_args()
    libraries = {"cuBLASLt": CublasLt()}
    if options.deep_gemm:
        sys.path.insert(0, options.deep_gemm)
        import deep_gemm
        libraries["DeepGEMM"] = deep_gemm
    handles = {"ours": autotune.Handle()} | {pin: autotune.Handle(pin=pin) for pin in options.pin}
    with ThreadPoolExecutor(16) as pool:  # each plan needs a compilation
        plans = [{name: pool.submit(planned, problem, handle) for name, handle in handles.items()} for problem in options.problems]
        plans = [{name: plan.result() for name, plan in of_one.items()} for of_one in plans]
    results = []
    for problem, of_one in zip(options.problems, plans):
        try:
            samples, errors, notes = raced(problem, options, of_one, libraries)
        except (RuntimeError, autotune.Error) as error:
            print(f"{problem.text}: {error}", flush=True)
            continue
        report(problem, samples, errors, notes)
        results.append({"problem": problem.text, "samples_us": samples, "errors": errors, "notes": notes})
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file)


if __name__ == "__main__":
    main()
