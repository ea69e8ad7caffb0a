#!/usr/bin/env python3
"""`autotune check` on kernel files whose mistakes only a compiler shows: each is named in one sentence. Needs NVRTC and no GPU.

usage: kernel_check_test.py AUTOTUNE
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

AUTOTUNE = os.path.abspath(sys.argv.pop(1))

SOURCE = """#ifndef AUTOTUNE
#define threads 128
#define width 4
#endif
__constant__ float table[4];
__global__ void scale(const float* x, float* y, float factor, int n) {
    const int first = blockIdx.x * threads * width + threadIdx.x;
    for (int i = 0; i < width; ++i)
        if (first + i * threads < n) y[first + i * threads] = x[first + i * threads] * factor;
}
__global__ void scale_reference(const double* x, double* y, float factor, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * factor;
}
"""
FILE = """format = 1
[op]
name = "scale"
extents = ["n"]
examples = ["1000"]
flops = "1.0 * n"
[[tensor]]
name = "x"
dtype = "f32"
shape = ["n"]
access = "in"
[[tensor]]
name = "y"
dtype = "f32"
shape = ["n"]
access = "out"
[[scalar]]
name = "factor"
type = "f32"
value = 1.5
[[parameter]]
name = "threads"
values = [64, 128]
[[parameter]]
name = "width"
values = [1, 2, 4]
[[step]]
kernel = "scale"
grid = ["ceil_div(n, threads * width)"]
block = ["threads"]
args = ["x", "y", "factor", "i32: n"]
[check.reference]
kernel = "scale_reference"
grid = ["1"]
block = ["128"]
args = ["x", "y", "factor", "i32: n"]
"""


def check(source=SOURCE, text=FILE, more=None):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {"scale.cu": source, "scale.toml": text, **(more or {})}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        ran = subprocess.run([AUTOTUNE, "check", "--arch", "sm_90a", "scale.toml"], cwd=folder, capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout + ran.stderr


def changed(text, *pairs):
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


class Check(unittest.TestCase):
    def says(self, what, code=2, **files):
        rc, told = check(**files)
        self.assertEqual(rc, code, told)
        self.assertIn(what, told)
        return told

    def test_a_right_file(self):
        self.says("nothing is wrong", 0)

    def test_an_error_of_the_source_at_its_line_once(self):
        told = self.says('scale.cu:9: config threads=64 width=1 does not compile for sm_90a: error: identifier "fctor" is undefined',
                         source=changed(SOURCE, ("threads] * factor;", "threads] * fctor;")))
        self.assertEqual(told.count("is undefined"), 1)

    def test_arguments_of_another_size(self):
        self.says("argument 4 of kernel scale has 4 bytes, and 'n' passes 8",
                  text=changed(FILE, ('"i32: n"]\n[check', '"i64: n"]\n[check')))

    def test_an_array_that_is_smaller_than_its_tensor(self):
        self.says("array table of the source has 16 bytes in config threads=64 width=1, and its tensor has 4000",
                  source=changed(SOURCE, ("threads] * factor;", "threads] * factor + table[i & 3];")),
                  text=changed(FILE, ('access = "in"', 'access = "in"\nsymbol = "table"')))

    def test_a_reference_that_depends_on_a_parameter(self):
        self.says("the reference depends on parameter width; it must not",
                  source=changed(SOURCE, ("y[i] = x[i] * factor;", "y[i] = x[i] * factor * width;")))

    def test_a_parameter_without_effect(self):
        self.says("warning: parameter width changes nothing in the machine code",  0,
                  source=changed(SOURCE, ("threads * width + threadIdx", "threads * 4 + threadIdx"), ("i < width", "i < 4 + 0 * width")))

    def test_too_much_shared_memory(self):
        much = ("    const int first", "    __shared__ float much[BYTES / 4];\n    much[threadIdx.x] = n;\n    __syncthreads();\n    n = much[n % threads];\n    const int first")
        self.says("kernel scale has 307200 bytes of shared memory, and a block of sm_90a has 232448",
                  source=changed(SOURCE, (much[0], much[1].replace("BYTES", "307200"))))
        self.says("kernel scale has 240000 bytes of shared memory",
                  source=changed(SOURCE, (much[0], much[1].replace("BYTES", "40000"))),
                  text=changed(FILE, ('args = ["x", "y", "factor", "i32: n"]\n[check', 'smem = 200000\nargs = ["x", "y", "factor", "i32: n"]\n[check')))

    def test_code_of_the_host_in_the_source(self):
        host = "#include <vector>\n#include <string>\nint main() { std::vector<int> all; scale<<<1, 2>>>(nullptr, nullptr, 1, 1); }\n"
        self.says("nothing is wrong", 0, source=SOURCE + "#ifndef __CUDACC_RTC__\n" + host + "#endif\n")
        self.says("<vector> is a header of the host", source=SOURCE + host)
        self.says("Put host code between `#ifndef __CUDACC_RTC__` and `#endif`",
                  source=SOURCE + "void go(float* x) { scale<<<1, 2>>>(x, x, 1, 1); }\n")

    def test_kernels_that_are_templates(self):
        source = changed(SOURCE, ("#ifndef AUTOTUNE\n#define threads 128\n#define width 4\n#endif\n", ""),
                         ("__global__ void scale(", "namespace ours {\ntemplate <int threads, typename T, int width>\n__global__ void __launch_bounds__(threads) scale("),
                         ("const float* x, float* y", "const T* x, T* y"),
                         ("}\n__global__ void scale_reference(const double* x, double* y", "}\n}\ntemplate <typename T> __global__ void scale_reference(const T* x, T* y"))
        text = changed(FILE, ('kernel = "scale"', 'kernel = "ours::scale<threads, float, width>"'),
                       ('kernel = "scale_reference"', 'kernel = "scale_reference<double>"'))
        self.says("nothing is wrong", 0, source=source, text=text)
        self.says("argument 4 of kernel ours::scale<threads, float, width> has 4 bytes", source=source,
                  text=changed(text, ('"i32: n"]\n[check', '"i64: n"]\n[check')))
        self.says("warning: parameter width changes nothing in the machine code", 0,
                  source=changed(source, ("threads * width + threadIdx", "threads * 4 + threadIdx"), ("i < width", "i < 4")), text=text)
        self.says("say its arguments", source=source, text=changed(text, ("ours::scale<threads, float, width>", "scale")))


if __name__ == "__main__":
    rc, told = check()
    if "checked without compiling" in told:
        print("no NVRTC here")
        sys.exit(77)
    unittest.main()
