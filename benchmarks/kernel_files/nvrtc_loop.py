#!/usr/bin/env python3
"""A tuner's loop as one would write it by hand: one process, NVRTC, one config after another (benchmarks/README.md).

    nvrtc_loop.py examples/kernels/tiled_gemm.toml --shape 1024x1024x1024 --space SPACE.json --out FILE

SPACE.json is what `autotune record` wrote: the loop takes the same configs in the same order. For each it does what `record` does: it
compiles, loads, checks the answer on two sets of data, runs one of them twice for the same bits, checks inputs and guard zones, and
launches as often, with the same filler before each launch and over as many sets of arrays. It measures the time of all of it.
"""
import argparse
import ctypes
import glob
import json
import math
import pathlib
import time

from kernel_file import File

HARNESS = r"""
typedef unsigned long long u64;
__device__ unsigned mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return (unsigned)(x >> 32);
}
extern "C" __global__ void fill(float* to, double* wide, u64 count, u64 seed, int integers) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        const unsigned bits = mixed(seed * 0x9e3779b97f4a7c15ULL + i);
        const float value = integers ? (float)(int)(bits % 5) - 2.0f : (float)(bits >> 8) / 8388608.0f - 1.0f;
        to[i] = value;
        if (wide) wide[i] = value;
    }
}
extern "C" __global__ void compare(const float* out, const double* expected, u64 count, double bound, u64* wrong) {
    u64 found = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
        found += !(fabs(out[i] - expected[i]) <= bound);
    if (found) atomicAdd(wrong, found);
}
extern "C" __global__ void checksum(const unsigned* words, u64 count, u64* sum) {
    u64 found = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
        found += mixed(i * 0x9e3779b97f4a7c15ULL + words[i]);
    atomicAdd(sum, found);
}
extern "C" __global__ void filler(float* data) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    data[i] = data[i] * 0.5f + 1.0f;
}
"""
ZONE = 4096  # bytes before and behind each array that nobody may write
SUMS = 64
PROBES, TIME_US, SAMPLE_US, SETS_OF_L2, MOST = 3, 10_000.0, 1_000.0, 4, 2_000


class Failed(Exception):
    pass


class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.nvrtc = self.found_nvrtc()
        self.call("cuInit", 0)
        device, context, self.stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.l2_bytes, self.sms = self.attribute(device, 38), self.attribute(device, 16)
        self.compute_capability = f"{self.attribute(device, 75)}{self.attribute(device, 76)}"

    @staticmethod
    def found_nvrtc():
        for name in (*sorted(glob.glob("/usr/local/cuda/lib64/libnvrtc.so*")), "libnvrtc.so.13"):
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise SystemExit("no libnvrtc.so.13")

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise Failed(f"{name} returned {code}")

    def attribute(self, device, which):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def allocate(self, count):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def compiled(self, source, options):
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        words = [word.encode() for word in options]
        if self.nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)):
            self.nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self.nvrtc.nvrtcGetProgramLog(program, log)
            raise Failed(log.value.decode(errors="replace"))
        self.nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetCUBIN(program, cubin)
        self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return cubin

    def load(self, cubin):
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        return module

    def function(self, module, name):
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def launch(self, function, grid, block, pointers, smem=0):
        self.call("cuLaunchKernel", function, *grid, *block, smem, self.stream, pointers, None)

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)

    def event(self):
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), 0)
        return made

    def record(self, event):
        self.call("cuEventRecord", event, self.stream)

    def elapsed_us(self, begin, end):
        ms = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(ms), begin, end)
        return ms.value * 1000


def packed(*values):
    """Parameters of a launch: the array of their addresses, which keeps them alive."""
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    pointers.values = values
    return pointers


def three(numbers):
    return tuple((list(numbers) + [1, 1])[:3])


class Loop:
    def __init__(self, file, gpu):
        self.file, self.gpu = file, gpu
        self.options = ["--std=c++17", f"-arch=sm_{gpu.compute_capability}a", "-Xptxas=-v", "--no-cache", "-default-device", *file.defines()]
        harness = gpu.load(gpu.compiled(HARNESS, self.options[:2]))
        self.fill, self.compare, self.checksum, self.filler = (gpu.function(harness, n) for n in ("fill", "compare", "checksum", "filler"))
        self.tensors = {tensor["name"]: tensor for tensor in file.said["tensor"]}
        self.count = {name: file.elements(tensor) for name, tensor in self.tensors.items()}
        self.out = next(name for name, tensor in self.tensors.items() if tensor["access"] == "out")
        self.sums, self.results = gpu.allocate(8 * SUMS), (ctypes.c_uint64 * SUMS)()
        self.idle = gpu.allocate(4 * 256 * gpu.sms)
        self.filler_call = ((gpu.sms, 1, 1), (256, 1, 1), packed(ctypes.c_uint64(self.idle)))
        self.sets = self.make_sets()
        self.tests = [self.make_test(integers) for integers in (0, 1)]
        self.events = [gpu.event() for _ in range(34)]
        self.filler_us = self.time_of_filler()

    def make_sets(self):
        of_set = sum(4 * count for count in self.count.values())
        sets = max(1, math.ceil(SETS_OF_L2 * self.gpu.l2_bytes / of_set))
        return [self.arrays(0, seed) for seed in range(sets)]

    def arrays(self, integers, seed, wide=False):
        """Filled arrays between guard zones, and for the reference the inputs as doubles."""
        places, doubles = {}, {}
        for number, (name, count) in enumerate(self.count.items()):
            places[name] = self.gpu.allocate(4 * count + 2 * ZONE) + ZONE
            doubles[name] = self.gpu.allocate(8 * count) if wide else 0
            call = packed(ctypes.c_uint64(places[name]), ctypes.c_uint64(doubles[name]), ctypes.c_uint64(count),
                          ctypes.c_uint64(16 * seed + number), ctypes.c_int(integers))
            self.gpu.launch(self.fill, (4 * self.gpu.sms, 1, 1), (256, 1, 1), call)
        return (places, doubles) if wide else places

    def parameters(self, places, scalars, words):
        values = []
        for word in words:
            if word in places:
                values.append(ctypes.c_uint64(places[word]))
            else:
                kind, expression = word.split(":", 1)
                values.append({"i32": ctypes.c_int32, "i64": ctypes.c_int64}[kind](self.file.number(expression, **scalars)))
        return packed(*values)

    def make_test(self, integers):
        """Data, and the reference's answer to it."""
        places, doubles = self.arrays(integers, 100 + integers, wide=True)
        said = self.file.said["check"]["reference"]
        module = self.gpu.load(self.gpu.compiled(self.rendered({name: values[0] for name, values in self.file.parameters.items()} |
                                                               self.default()), self.options))
        grid, block = (three(self.file.number(text) for text in said[which]) for which in ("grid", "block"))
        self.gpu.launch(self.gpu.function(module, said["kernel"]), grid, block, self.parameters(doubles, {}, said["args"]))
        self.gpu.synchronize()
        terms = max(1.0, self.file.number(self.file.said["op"]["flops"]) / 2 / self.count[self.out])
        bound = 0.0 if integers else 6 * 2**-24 * math.sqrt(terms) * math.sqrt(terms) / 3 + 1e-6
        test = {"places": places, "expected": doubles[self.out], "bound": bound, "runs": 1 if integers else 2}
        self.clear_sums()
        for number, name in enumerate(n for n in self.tensors if n != self.out):
            self.sum_of(places[name], 4 * self.count[name], number)
        for number, name in enumerate(self.tensors):
            self.sum_of(places[name] - ZONE, ZONE, 8 + 2 * number)
            self.sum_of(places[name] + 4 * self.count[name], ZONE, 9 + 2 * number)
        test["right"] = self.read_sums()
        return test

    def default(self):
        return {p["name"]: int(p["default"]) for p in self.file.said["parameter"] if "default" in p}

    def rendered(self, config):
        return "".join(f"#define {name} {value}\n" for name, value in config.items()) + self.file.source()

    def sum_of(self, address, size, number):
        call = packed(ctypes.c_uint64(address), ctypes.c_uint64(size // 4), ctypes.c_uint64(self.sums + 8 * number))
        self.gpu.launch(self.checksum, (4 * self.gpu.sms, 1, 1), (256, 1, 1), call)

    def clear_sums(self):
        self.gpu.call("cuMemsetD8Async", ctypes.c_uint64(self.sums), ctypes.c_ubyte(0), ctypes.c_size_t(8 * SUMS), self.gpu.stream)

    def read_sums(self):
        self.gpu.call("cuMemcpyDtoHAsync_v2", self.results, ctypes.c_uint64(self.sums), ctypes.c_size_t(8 * SUMS), self.gpu.stream)
        self.gpu.synchronize()
        return list(self.results)

    def time_of_filler(self):
        begin, end = self.events[:2]
        for _ in range(2):
            self.gpu.record(begin)
            for _ in range(200):
                self.gpu.launch(self.filler, *self.filler_call)
            self.gpu.record(end)
            self.gpu.synchronize()
        return self.gpu.elapsed_us(begin, end) / 200

    def check(self, run, test):
        out, count = test["places"][self.out], self.count[self.out]
        self.clear_sums()
        for turn in range(test["runs"]):
            self.gpu.call("cuMemsetD32Async", ctypes.c_uint64(out), ctypes.c_uint32(0x7FFFFFFF), ctypes.c_size_t(count), self.gpu.stream)
            run(test["places"])
            if turn == 0:
                call = packed(ctypes.c_uint64(out), ctypes.c_uint64(test["expected"]), ctypes.c_uint64(count),
                              ctypes.c_double(test["bound"]), ctypes.c_uint64(self.sums + 8 * 60))
                self.gpu.launch(self.compare, (4 * self.gpu.sms, 1, 1), (256, 1, 1), call)
            self.sum_of(out, 4 * count, 61 + turn)
        inputs = [name for name in self.tensors if name != self.out]
        for number, name in enumerate(inputs):
            self.sum_of(test["places"][name], 4 * self.count[name], number)
        for number, name in enumerate(self.tensors):
            self.sum_of(test["places"][name] - ZONE, ZONE, 8 + 2 * number)
            self.sum_of(test["places"][name] + 4 * self.count[name], ZONE, 9 + 2 * number)
        found = self.read_sums()
        if found[60]:
            raise Failed(f"{found[60]} elements are wrong")
        if test["runs"] == 2 and found[61] != found[62]:
            raise Failed("other bits in the second run")
        if found[:60] != test["right"][:60]:
            raise Failed("an input or a guard zone was written")

    def timed(self, launch_of_set):
        """The median time of a launch: as many launches as `autotune record` makes."""
        gpu, sets, launches = self.gpu, len(self.sets), 4
        next_set = 0

        def enqueue():
            nonlocal next_set
            launch_of_set[next_set]()
            next_set = (next_set + 1) % sets

        def elapsed(count):
            gpu.record(self.events[0])
            for _ in range(count):
                enqueue()
            gpu.record(self.events[1])
            gpu.synchronize()
            return gpu.elapsed_us(self.events[0], self.events[1]) / count

        single = elapsed(1)
        single = elapsed(3)
        next_set = 0
        pair = single + self.filler_us
        of_sample = sets * math.ceil(SAMPLE_US / (pair * sets))

        def sample():
            for _ in range(of_sample):
                gpu.launch(self.filler, *self.filler_call)
                enqueue()

        sample()
        gpu.synchronize()
        launches += of_sample
        times, covered = [], 0.0
        while len(times) < MOST and (len(times) < PROBES or covered < TIME_US):
            missing = max(PROBES - len(times), math.ceil((TIME_US - covered) / (pair * of_sample)))
            count = max(1, min(missing, 32))
            gpu.record(self.events[0])
            for i in range(count):
                sample()
                gpu.record(self.events[i + 1])
            gpu.synchronize()
            for i in range(count):
                whole = gpu.elapsed_us(self.events[i], self.events[i + 1])
                covered += whole
                times.append(whole / of_sample - self.filler_us)
            launches += count * of_sample
        times.sort()
        return times[len(times) // 2], launches

    def one(self, config):
        file, gpu, step = self.file, self.gpu, self.file.step
        module = gpu.load(gpu.compiled(self.rendered(config), self.options))
        try:
            function = gpu.function(module, step["kernel"])
            grid, block = (three(file.number(text, **config) for text in step[which]) for which in ("grid", "block"))
            smem = file.number(step.get("smem", "0"), **config)
            if smem > 48 * 1024:
                gpu.call("cuFuncSetAttribute", function, 8, smem)
            run = lambda places: gpu.launch(function, grid, block, self.parameters(places, config, step["args"]), smem)
            for test in self.tests:
                self.check(run, test)
            calls = [self.parameters(places, config, step["args"]) for places in self.sets]
            return self.timed([lambda call=call: gpu.launch(function, grid, block, call, smem) for call in calls])
        finally:
            gpu.synchronize()
            gpu.call("cuModuleUnload", module)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--set", action="append", default=[], help="an attribute: filter=15")
    parser.add_argument("--space", required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    file = File(options.file, options.shape, dict(word.split("=") for word in options.set))
    space = json.loads(pathlib.Path(options.space).read_text())
    names = [parameter["name"] for parameter in space["parameters"]]
    loop = Loop(file, Gpu())
    rows, begun = [], time.perf_counter()
    for row in space["rows"]:
        config = dict(zip(names, row))
        try:
            us, launches = loop.one(config)
            rows.append({"config": config, "us": us, "launches": launches})
        except Failed as error:
            rows.append({"config": config, "failure": str(error)})
    seconds = time.perf_counter() - begun
    failed = sum("failure" in row for row in rows)
    pathlib.Path(options.out).write_text(json.dumps({"points": len(rows), "seconds": seconds, "failed": failed, "sets": len(loop.sets),
                                                     "filler_us": loop.filler_us, "rows": rows}))
    print(f"{len(rows)} configs, {failed} failed, {seconds / max(len(rows), 1) * 1000:.1f} ms each")


if __name__ == "__main__":
    main()
