"""Kernels of one's own, opened by their files, on the scripted driver."""

import shutil
import sys

import autotune
from machine import EXAMPLES, Array, Driver, MachineTest

KERNELS = EXAMPLES.parent / "kernels"
N, FILTER = 64, 3
PITCH = (N + FILTER - 1 + 3) // 4 * 4
PLUS_SOURCE = """
extern "C" __global__ void plus(const float* a, const float* b, float* c, int n) {}
extern "C" __global__ void plus_reference(const double* a, const double* b, double* c, int n) {}
"""
PLUS = (
    """format = 1
[op]
name = "plus"
extents = ["n"]
examples = ["64"]
flops = "1.0 * n"
"""
    + "".join(f'[[tensor]]\nname = "{name}"\ndtype = "f32"\nshape = ["n"]\naccess = "{access}"\n' for name, access in (("a", "in"), ("b", "in"), ("c", "out")))
    + """[[parameter]]
name = "threads"
values = [32, 64]
kind = "launch"
[[step]]
kernel = "plus"
grid = ["1"]
block = ["threads"]
args = ["a", "b", "c", "i32: n"]
[check.reference]
kernel = "plus_reference"
grid = ["1"]
block = ["64"]
args = ["a", "b", "c", "i32: n"]
"""
)


def functions_called(call):
    """How many functions a call enters, those of C included, after a first call that may prepare something."""
    call()
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


class Kernels(MachineTest):
    def setUp(self):
        super().setUp()
        self.driver = Driver.only()
        self.driver.make_current()
        self.handle = autotune.Handle()
        self.addCleanup(self.handle.close)
        self.kernel = autotune.Kernel(KERNELS / "conv2d.toml", handle=self.handle)
        edge = N + FILTER - 1
        self.image = Array((edge, edge), [0] * (edge * edge), "<f4")
        whole = Array((edge, PITCH), typestr="<f4")
        self.image.address, self.image.strides, self.keep = whole.address, (4 * PITCH, 4), whole
        self.weights = Array((FILTER, FILTER), typestr="<f4")
        self.out = Array((N, N), typestr="<f4")

    def arrays(self):
        return self.image, self.weights, self.out

    def test_tells_its_interface(self):
        self.assertEqual(self.kernel.op, "user_conv2d")
        self.assertEqual([form.name for form in self.kernel.schema.tensors], ["image", "weights", "out"])
        self.assertEqual([form.access for form in self.kernel.schema.tensors], ["in", "in", "out"])
        self.assertEqual([form.name for form in self.kernel.schema.attributes], ["filter"])

    def test_runs_without_a_winner_by_its_default_config(self):
        plan = self.kernel.plan(*self.arrays(), filter=FILTER)
        self.assertEqual(plan.origin, "default")
        self.assertTrue(plan.candidate.startswith("user_conv2d/main "))
        plan.bind(*self.arrays())(self.driver.stream())
        self.kernel(*self.arrays(), filter=FILTER)
        self.driver.synchronize()

    def test_is_tuned_and_then_runs_its_winner(self):
        result = self.kernel.tune(*self.arrays(), filter=FILTER, budget="20s", trials=3)
        self.assertEqual((result.op, result.shape), ("user_conv2d", str(N)))
        self.assertTrue(result.tuned)
        self.assertEqual(self.kernel.plan(*self.arrays(), filter=FILTER).origin, "exact")
        self.assertEqual(self.kernel.plan(*self.arrays(), filter=FILTER).candidate, result.winner.candidate)

    def test_says_what_is_wrong(self):
        for wrong, error, message in (
            (lambda: autotune.Kernel("/nonexistent/k.toml"), autotune.InvalidArgument, "the kernel file cannot be read"),
            (lambda: self.kernel(self.image, filter=3), TypeError, r"takes 3 arguments \(image, weights, out\), not 1"),
            (lambda: self.kernel(*self.arrays(), size=3), TypeError, "user_conv2d has no attribute 'size'; it has filter"),
            (lambda: self.kernel(*self.arrays(), filter=4), autotune.InvalidArgument, "filter is one of 3, 5"),
            (lambda: self.kernel(self.out, self.weights, self.out, filter=3), autotune.InvalidArgument, "shape"),
        ):
            with self.assertRaisesRegex(error, message):
                wrong()

    def test_does_as_much_in_python_as_a_builtin_op(self):
        (self.folder / "plus.toml").write_text(PLUS)
        (self.folder / "plus.cu").write_text(PLUS_SOURCE)
        plus = autotune.Kernel(self.folder / "plus.toml", handle=self.handle)
        arrays = [Array((64,), typestr="<f4") for _ in range(3)]
        of_users, of_builtin = (
            functions_called(lambda: plus(*arrays)),
            functions_called(lambda: autotune.add(*arrays, handle=self.handle)),
        )
        self.assertLessEqual(of_users, of_builtin + 4)  # of some 200

    def test_may_be_edited_and_opened_again(self):
        folder = self.folder / "kernels"
        folder.mkdir()
        for end in (".toml", ".cu"):
            shutil.copy(KERNELS / f"conv2d{end}", folder)
        first = autotune.Kernel(folder / "conv2d.toml")
        with open(folder / "conv2d.cu", "a") as source:
            source.write("__device__ int added;\n")
        with self.assertRaisesRegex(autotune.InvalidArgument, "another handle"):
            autotune.Kernel(folder / "conv2d.toml", handle=autotune.default_handle())
        second = autotune.Kernel(folder / "conv2d.toml")
        second(*self.arrays(), filter=FILTER)
        first(*self.arrays(), filter=FILTER)
        self.driver.synchronize()
