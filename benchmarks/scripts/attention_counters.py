#!/usr/bin/env python3
"""Hardware counters of attention's winners as a Markdown table: what each of them waits for.

    benchmarks/scripts/attention_counters.py [--json FILE] [PROBLEM...]      PROBLEM: 4x16x4096x128,mask=causal or 1x32x1x128,kv_heads=8,keys=4096
                                                                        or 4x16x4096x128,op=attention_bwd,deterministic=any

Needs Nsight Compute's `ncu`, the right to read counters, and the Python package; no torch. One process makes the context and runs the kernels
that the library serves, all problems one after the other, so that ncu attaches once: the command's tuner has a worker process, which ncu ends.
Each problem is profiled in its third launch, at the clock that the card has. Of several kernels of a problem the one that is named without a
suffix is profiled: the pass of gradients, or of two passes that for dK and dV.
"""
import argparse
import ctypes
import json
import math
import random
import struct
import subprocess
import sys

from ladder_counters import COUNTERS, in_unit, known_counters, profiled_kernels

WINNERS = ["4x16x4096x128", "4x16x4096x128,mask=causal", "1x16x16384x128,mask=causal", "2x32x8192x128", "1x16x13312x64,mask=causal",
           "16x16x1024x64,mask=causal", "1x1x13312x64,mask=causal", "1x32x1x128,kv_heads=8,keys=4096", "64x32x1x128,kv_heads=8,keys=4096",
           "1x8x8192x128,dtype=f32", "1x8x8192x64,dtype=f32,mask=causal"]
COPIES = 3  # copies of the arrays, which for most shapes exceed the L2 together


class Driver:
    """The few driver calls that make a context current, fill memory and mark what is profiled."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answered {status}")

    def array(self, count, table):
        address, size = ctypes.c_uint64(), len(table)
        total = count * (2 if isinstance(table, Bf16) else 4)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(total))
        for begin in range(0, total, size):
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address.value + begin), bytes(table), ctypes.c_size_t(min(size, total - begin)))
        return address.value


class Bf16(bytes):
    """The bytes of normal values, which are the upper halves of f32 values."""


def normal_values(dtype, count=1 << 20):
    values = struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))
    if dtype == "f32":
        return values
    halves = bytearray(2 * count)
    halves[0::2], halves[1::2] = values[2::4], values[3::4]
    return Bf16(halves)


def described(text):
    extents, *words = text.split(",")
    batch, heads, queries, size = (int(extent) for extent in extents.split("x"))
    options = {"op": "attention", "mask": "none", "dtype": "bf16", "kv_heads": heads, "keys": queries, "deterministic": "yes"} | dict(word.split("=") for word in words)
    return (batch, heads, queries, size), (batch, int(options["kv_heads"]), int(options["keys"]), size), options


def run(texts):
    import autotune  # imported here, because only the process that ncu starts needs it

    driver, tables = Driver(), {}
    for text in texts:
        q, kv, options = described(text)
        dtype = options["dtype"]
        shapes = {"q": q, "k": kv, "v": kv, "o": q}
        types = dict.fromkeys(shapes, dtype)
        attributes = {"mask": options["mask"]} | ({"compute": "f32"} if dtype == "f32" else {})
        rest = (None,)
        if options["op"] == "attention_bwd":
            shapes |= {"lse": q[:3], "do": q, "dq": q, "dk": kv, "dv": kv}
            types = dict.fromkeys(shapes, dtype) | {"lse": "f32"}
            attributes["deterministic"], rest = options["deterministic"], ()
        problem = autotune.Problem(options["op"], {name: autotune.Tensor(types[name], shape) for name, shape in shapes.items()}, attributes)
        for each in set(types.values()) - set(tables):
            tables[each] = normal_values(each)
        sets = [[driver.array(math.prod(shape), tables[types[name]]) for name, shape in shapes.items()] for _ in range(COPIES)]
        for i, arrays in enumerate(sets):
            if i == COPIES - 1:
                driver.call("cuCtxSynchronize")
                driver.call("cuProfilerStart")
            autotune.default_handle().run(problem, *arrays, *rest, scalars=(1 / math.sqrt(q[-1]),))
            driver.call("cuCtxSynchronize")
        driver.call("cuProfilerStop")
        plan = autotune.default_handle().plan(problem)
        print(json.dumps({"problem": text, "candidate": plan.candidate, "origin": plan.origin}), flush=True)
        for address in (address for arrays in sets for address in arrays):
            driver.call("cuMemFree_v2", ctypes.c_uint64(address))


def profiled(texts, counters):
    """Returns the run's output for each problem, and {counter: (value, unit)} for each kernel."""
    metrics = ",".join(name + reduction for name, reduction, _, _ in counters)
    command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv",
               "--kernel-name", "regex:^attention_[a-z_]+_[0-9a-f]{16}$", "--metrics", metrics, sys.executable, __file__, "--run", *texts]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = said.stdout.splitlines()
    kernels = profiled_kernels(lines)
    if not kernels:
        sys.exit("attention_counters.py: ncu measured nothing: " + (said.stdout + said.stderr).strip()[-600:])
    return [json.loads(line) for line in lines if line.startswith("{")], list(kernels.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=WINNERS)
    parser.add_argument("--json")
    parser.add_argument("--run", action="store_true", help="what ncu starts")
    options = parser.parse_args()
    if options.run:
        return run(options.problems)
    counters = known_counters()
    problems, kernels = profiled(options.problems, counters)
    print("| problem | " + " | ".join(head for _, _, head, _ in counters) + " |")
    print("|---" * (len(counters) + 1) + "|")
    for number, values in enumerate(kernels):
        about = problems[number] if len(problems) == len(kernels) else {"problem": values["kernel"]}
        row = {head: in_unit(*values[name + reduction], factor) for name, reduction, head, factor in counters if name + reduction in values}
        print(f"| {about['problem']} | " + " | ".join(f"{row[head]:.4g}" if head in row else "-" for _, _, head, _ in counters) + " |")
        values["about"], values["row"] = about, row
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(kernels, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
