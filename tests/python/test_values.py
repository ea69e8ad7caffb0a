"""Values that need no driver: tensors, problems, schemas, arrays by their protocols."""

import copy
import math
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
from typing import Literal, Optional, get_type_hints
from unittest import mock

import autotune
from autotune import _nvrtc, arrays, ops
from autotune.command import command_environment, run_json
from autotune.dtypes import dtype_word
from autotune.handle import Call


class Named:
    def __init__(self, name):
        self.name = name


class Tensors(unittest.TestCase):
    def test_dense_strides_are_filled_in(self):
        self.assertEqual(autotune.Tensor("f16", (2, 3, 4)).strides, (12, 4, 1))
        self.assertEqual(autotune.Tensor("f16", (2, 0, 4)).strides, (4, 4, 1))

    def test_dtypes_have_other_names(self):
        for name, word in (("float16", "f16"), ("fp16", "f16"), ("half", "f16"), ("fp32", "f32"), ("torch.bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"), ("f32", "f32")):
            self.assertEqual(dtype_word(name), word)
        self.assertEqual(dtype_word(Named("float32")), "f32")

    def test_unknown_dtypes(self):
        with self.assertRaisesRegex(TypeError, "unknown dtype 'fp17'; autotune knows f16, bf16, f32, f64, e4m3, e5m2, i32, i8"):
            dtype_word("fp17")

    def test_as_many_strides_as_extents(self):
        with self.assertRaisesRegex(ValueError, "1 strides for 2 dimensions"):
            autotune.Tensor("f16", (2, 3), (1,))


class Problems(unittest.TestCase):
    def gemm(self, **attributes):
        tensors = {
            "a": autotune.Tensor("bf16", (16, 64)),
            "b": autotune.Tensor("bf16", (64, 32), (1, 64)),
            "c": autotune.Tensor("bf16", (16, 32)),
        }
        return autotune.Problem("gemm", tensors, attributes)

    def test_equal_problems_are_one_key(self):
        self.assertEqual(self.gemm(), self.gemm())
        self.assertEqual(len({self.gemm(), self.gemm(), self.gemm(acc="f32")}), 2)

    def test_the_order_of_tensors_and_attributes_counts_for_nothing(self):
        tensors = {name: autotune.Tensor("f16", (64, 64)) for name in "abc"}
        words = {"beta": "zero", "acc": "f32"}
        one = autotune.Problem("gemm", tensors, words)
        other = autotune.Problem("gemm", dict(reversed(tensors.items())), dict(reversed(words.items())))
        self.assertEqual(one, other)
        self.assertEqual(len({one, other}), 1)

    def test_a_problem_does_not_change(self):
        problem = autotune.Problem("add", {name: autotune.Tensor("f32", (16,)) for name in "abc"})
        with self.assertRaises(TypeError):
            problem.tensors["a"] = autotune.Tensor("f32", (5,))
        with self.assertRaises(TypeError):
            problem.attributes["x"] = "y"

    def test_a_problem_may_be_copied_and_pickled(self):
        problem = self.gemm(acc="f32")
        self.assertIs(copy.copy(problem), problem)
        self.assertIs(copy.deepcopy({"it": problem})["it"], problem)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(problem, protocol))
            self.assertEqual((again, hash(again), again.key), (problem, hash(problem), problem.key))
            tensor = problem.tensors["b"]
            self.assertEqual(pickle.loads(pickle.dumps(tensor, protocol)), tensor)
        self.assertEqual(copy.deepcopy(dict(problem.tensors)), problem.tensors)

    def test_a_problem_reaches_a_process_that_was_spawned(self):
        code = (
            "import multiprocessing, autotune\n"
            "def key(problem): return problem.key\n"
            "if __name__ == '__main__':\n"
            "    problem = autotune.Problem('add', {n: autotune.Tensor('f32', (64,)) for n in 'abc'})\n"
            "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(key, [problem]) == [problem.key])\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "spawns.py").write_text(code)
            said = subprocess.run([sys.executable, "spawns.py"], capture_output=True, text=True, cwd=folder)
        self.assertEqual(said.stdout.strip(), "True", said.stderr)

    def test_a_problem_does_not_change(self):
        with self.assertRaises(AttributeError):
            self.gemm().op = "add"

    def test_the_key_is_the_commands_words(self):
        op, *words, shape = self.gemm(beta="any").key.split()
        self.assertEqual((op, shape), ("gemm", "16x32x64"))
        self.assertLessEqual({"a=bf16", "layout=nt", "beta=any"}, set(words))

    def test_a_key_of_nothing_is_refused(self):
        with self.assertRaises(autotune.InvalidArgument):
            autotune.Problem("gemm", {}).key

    REPEATED = (
        r"tensor a repeats one element \(all of its strides are 0\), and kernels read only elements that lie in memory; "
        r"give a dense copy: contiguous\(\) of a torch tensor, ascontiguousarray\(\) of CuPy$"
    )

    def test_one_element_that_is_repeated_is_not_taken_for_dense(self):
        for dtype, extents in (("f16", (8, 8)), ("f32", (4, 4)), ("bf16", (2, 8, 8)), ("f32", (2, 2, 2, 2, 2))):
            with self.assertRaisesRegex(autotune.InvalidArgument, self.REPEATED):
                autotune.Problem("gemm", {"a": autotune.Tensor(dtype, extents, strides=(0,) * len(extents))})
        row = autotune.Tensor("f16", (8,))
        with self.assertRaisesRegex(autotune.InvalidArgument, "tensor a has gaps or is not row-major; add takes contiguous tensors"):
            autotune.Problem("add", {"a": autotune.Tensor("f16", (8,), strides=(0,)), "b": row, "c": row}).key

    def test_one_element_that_is_repeated_along_one_dimension_is_what_the_op_says(self):
        """A scalar that was expanded to (rows, 1), or to a batch of matrices of one element: C must not treat it as dense."""
        for extents, said in (((8, 1), [0, 1]), ((1, 8), [1, 0]), ((3, 1, 1), [0, 1, 1]), ((1, 1), [0, 0]), ((0, 1), [0, 0])):
            problem = autotune.Problem("softmax", {"x": autotune.Tensor("f32", extents, (0,) * len(extents))})
            self.assertEqual(problem.struct.tensors[0].strides[: len(extents)], said)
        y = autotune.Tensor("f32", (8, 1))
        self.assertEqual(autotune.Problem("softmax", {"x": autotune.Tensor("f32", (8, 1), (0, 0)), "y": y}).key.split()[-1], "8x1")

    def test_attributes_are_words_or_numbers(self):
        with self.assertRaisesRegex(TypeError, "attribute acc is True"):
            self.gemm(acc=True)
        with self.assertRaisesRegex(TypeError, "attribute acc is b'f32'; an attribute is a word or a number"):
            self.gemm(acc=b"f32")
        with self.assertRaisesRegex(autotune.InvalidArgument, "attribute left is 18446744073709551680; it must be from"):
            self.gemm(left=2**64 + 64)

    def test_names_are_text_that_c_can_take(self):
        f32 = autotune.Tensor("f32", (4,))
        for op, names, message in (
            (b"add", "abc", "op is b'add'; it must be a str"),
            ("add\0gemm", "abc", "op is .*; it must not contain a NUL character"),
            ("\udcff", "abc", "op is .*; it must be text that UTF-8 can express"),
            ("add", ["a", "b", "c\0d"], "a tensor's name is .*; it must not contain a NUL character"),
            ("add", [1, "b", "c"], "a tensor's name is 1; it must be a str"),
        ):
            with self.assertRaisesRegex((TypeError, autotune.InvalidArgument), message):
                autotune.Problem(op, {name: f32 for name in names})
        with self.assertRaisesRegex(autotune.InvalidArgument, "attribute acc is .*; it must not contain a NUL character"):
            self.gemm(acc="f32\0f16")

    def test_one_element_has_any_strides(self):
        one = autotune.Tensor("f32", (1, 1), (0, 0))
        dense = {name: autotune.Tensor("f32", (1, 1)) for name in "abc"}
        self.assertEqual(autotune.Problem("add", {name: one for name in "abc"}).key, autotune.Problem("add", dense).key)


class Integers(unittest.TestCase):
    def test_extents_strides_and_alignments(self):
        for make, error, message in (
            (lambda: autotune.Tensor("f16", (64.5, 4)), TypeError, r"shape\[0\] is 64.5; it must be an integer"),
            (lambda: autotune.Tensor("f16", (4, 64.0)), TypeError, r"shape\[1\] is 64.0; it must be an integer"),
            (lambda: autotune.Tensor("f16", (True, 4)), TypeError, r"shape\[0\] is True; it must be an integer"),
            (lambda: autotune.Tensor("f16", ("4",)), TypeError, r"shape\[0\] is '4'; it must be an integer"),
            (lambda: autotune.Tensor("f16", 4), TypeError, "shape is 4; it must be a sequence of integers"),
            (lambda: autotune.Tensor("f16", (2**64 + 64,)), autotune.InvalidArgument, r"shape\[0\] is 18446744073709551680; it must be from 0 to"),
            (lambda: autotune.Tensor("f16", (-1,)), autotune.InvalidArgument, r"shape\[0\] is -1; it must be from 0 to 9223372036854775807"),
            (lambda: autotune.Tensor("f16", (4, 4), (2**63, 1)), autotune.InvalidArgument, r"strides\[0\] is 9223372036854775808; it must be from"),
            (lambda: autotune.Tensor("f16", (4, 4), (4, -1)), autotune.InvalidArgument, r"strides\[1\] is -1; it must be from 0"),
            (lambda: autotune.Tensor("f16", (4,), align=3), autotune.InvalidArgument, "align is 3; it must be one of 1, 2, 4, 8, 16"),
            (lambda: autotune.Tensor("f16", (4,), align=2**32 + 16), autotune.InvalidArgument, "align is 4294967312; it must be one of"),
            (lambda: autotune.U64(-1), autotune.InvalidArgument, "a u64 scalar is -1; it must be from 0 to 18446744073709551615"),
            (lambda: autotune.U64(2**64), autotune.InvalidArgument, "a u64 scalar is 18446744073709551616; it must be from 0"),
            (lambda: autotune.U64(1.5), TypeError, "a u64 scalar is 1.5; it must be an integer"),
            (lambda: Call(0, (2**31,)), autotune.InvalidArgument, "scalar 0 is 2147483648; it must be from -2147483648 to 2147483647"),
            (lambda: Call(0, (1.0, True)), TypeError, "scalar 1 is True; it must be an integer"),
            (lambda: Call(0, (1e39,)), autotune.InvalidArgument, r"scalar 0 is 1e\+39, which f32 cannot express"),
            (lambda: Call(0, ("1",)), TypeError, "scalar 0 is '1'; it must be a number"),
            (lambda: autotune.stream_handle(-1), autotune.InvalidArgument, "the stream is -1; it must be from 0 to"),
            (lambda: autotune.stream_handle(2**64), autotune.InvalidArgument, "the stream is 18446744073709551616; it must be from 0 to"),
            (lambda: autotune.stream_handle(True), TypeError, "bool is no stream"),
            (lambda: autotune.stream_handle(1.0), TypeError, "float is no stream"),
            (lambda: arrays.address(-8), autotune.InvalidArgument, "an address is -8; it must be from 0 to"),
            (lambda: arrays.address(2**64 + 4096), autotune.InvalidArgument, "an address is 18446744073709555712; it must be from 0 to"),
            (lambda: arrays.address(4096.0), TypeError, "float is not a device array"),
        ):
            with self.assertRaisesRegex(error, message):
                make()

    def test_integers_of_numpy_are_integers(self):
        class Number:  # as numpy.int64
            def __init__(self, value):
                self.value = value

            def __index__(self):
                return self.value

        self.assertEqual(autotune.Tensor("f16", (Number(4), 2), (Number(2), 1)), autotune.Tensor("f16", (4, 2)))
        self.assertEqual(autotune.stream_handle(Number(7)), 7)
        self.assertEqual(Call(0, (Number(5), autotune.U64(Number(2**63)))).scalars[1].value.u64, 2**63)
        self.assertTrue(math.isinf(Call(0, (math.inf,)).scalars[0].value.f32))


class Schemas(unittest.TestCase):
    def test_every_op_has_a_function_that_says_its_tensors(self):
        self.assertGreaterEqual(set(ops.SCHEMA), {"add", "gemm", "softmax"})
        for name, schema in ops.SCHEMA.items():
            function = getattr(autotune, name)
            for tensor in schema.tensors:
                self.assertIn(f"{tensor.name} [", function.__doc__)

    def test_annotations_are_what_the_command_says_of_each_op(self):
        kinds = {"f32": float, "i32": int, "u64": int}
        for op in run_json(["families", "--op", "add"])["ops"]:
            scalars = {scalar["name"]: kinds[scalar["type"]] for scalar in op["scalars"]}
            hints = get_type_hints(getattr(autotune, op["name"]))
            for tensor in op["tensors"]:
                wanted = Optional[arrays.DeviceArray] if tensor["optional"] else arrays.DeviceArray
                self.assertEqual(hints.pop(tensor["name"]), wanted, (op["name"], tensor["name"]))
            for attribute in op["attributes"]:
                if attribute["name"] not in scalars and not any(attribute["name"] == tensor["name"] for tensor in op["tensors"]):
                    number = int if attribute["form"].startswith("integer") else float
                    wanted = Literal[tuple(attribute["allowed"])] if attribute["allowed"] else number
                    self.assertEqual(hints.pop(attribute["name"]), Optional[wanted], (op["name"], attribute["name"]))
            self.assertEqual({name: hints.pop(name) for name in scalars}, scalars)
            self.assertEqual(set(hints), {"stream", "handle", "return"}, op["name"])

    def test_beta_says_whether_c_is_read(self):
        gemm = ops.SCHEMA["gemm"]
        self.assertEqual(gemm.attributes_for({}, {"alpha": 1.0, "beta": 0.0})["beta"], "zero")
        self.assertEqual(gemm.attributes_for({"acc": None}, {"alpha": 1.0, "beta": 0.5}), {"beta": "any"})


class Compilers(unittest.TestCase):
    """The NVRTC that pip installed for this Python."""

    def found(self, *names, driver=12, **environment):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in names:
            path = pathlib.Path(folder.name, name)
            path.parent.mkdir(parents=True)
            path.touch()
        for patched in (
            mock.patch.object(sys, "path", [folder.name]),
            mock.patch.object(_nvrtc, "driver_major", lambda: driver),
            mock.patch.dict(os.environ, environment),
        ):
            patched.start()
            self.addCleanup(patched.stop)
        return folder.name

    def setUp(self):
        without = {name: value for name, value in os.environ.items() if name not in ("AUTOTUNE_NVRTC", "CUDA_PATH", "CUDA_HOME")}
        patched = mock.patch.dict(os.environ, without, clear=True)
        patched.start()
        self.addCleanup(patched.stop)

    NONE = "no NVRTC, the compiler that kernels need: install the CUDA toolkit or another; looked for:\n  libnvrtc.so.12: is not there"

    def test_one_that_is_newer_than_the_driver_is_named_with_what_helps(self):
        folder = self.found("nvidia/cu13/lib/libnvrtc.so.13")
        self.assertIsNone(_nvrtc.nvrtc_of_this_python())
        self.assertEqual(
            _nvrtc.with_this_pythons(self.NONE),
            f"NVRTC 13 ({folder}/nvidia/cu13/lib/libnvrtc.so.13) was found, but the driver supports CUDA 12 and cannot load kernels of a newer "
            "compiler: install NVRTC 12 with `pip install nvidia-cuda-nvrtc-cu12`, or a driver of release 580 or newer, which supports CUDA 13; "
            "install the CUDA toolkit or another; looked for:\n  libnvrtc.so.12: is not there",
        )
        self.assertEqual(_nvrtc.with_this_pythons("another message"), "another message")

    def test_one_that_the_driver_can_use_goes_first(self):
        folder = self.found("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
        self.assertEqual(_nvrtc.nvrtc_of_this_python(), f"{folder}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
        self.assertEqual(_nvrtc.with_this_pythons(self.NONE), self.NONE)

    def test_the_command_looks_into_this_environment_too(self):
        folder = self.found("nvidia/cu13/lib/libnvrtc.so.13", VIRTUAL_ENV="")
        del os.environ["VIRTUAL_ENV"]
        with mock.patch.object(sys, "prefix", folder):
            self.assertEqual(command_environment()["VIRTUAL_ENV"], folder)
        with mock.patch.object(sys, "prefix", sys.base_prefix):
            self.assertNotIn("VIRTUAL_ENV", command_environment())

    def test_nothing_is_said_of_what_was_not_to_be_used(self):
        self.found("nvidia/cu13/lib/libnvrtc.so.13", AUTOTUNE_NVRTC="/opt/libnvrtc.so.12")
        self.assertEqual(_nvrtc.with_this_pythons(self.NONE), self.NONE)

    def test_without_a_driver_any_may_be_used(self):
        folder = self.found("nvidia/cu13/lib/libnvrtc.so.13", driver=None)
        self.assertEqual(_nvrtc.nvrtc_of_this_python(), f"{folder}/nvidia/cu13/lib/libnvrtc.so.13")


class Package(unittest.TestCase):
    def test_version_is_the_librarys(self):
        self.assertRegex(autotune.__version__, r"^\d+\.\d+\.\d+$")

    def test_torch_is_not_imported(self):
        self.assertNotIn("torch", sys.modules)

    def test_torch_is_asked_for_where_it_is_used(self):
        # Runs in another folder, because this folder contains one named torch.
        code = "try: import autotune.torch; print('torch is here')\nexcept ImportError as e: print(e)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/").stdout.strip()
        if said == "torch is here":
            self.skipTest(said)
        self.assertEqual(said, "autotune.torch needs PyTorch 2.8 or newer: pip install torch")

    def test_errors_may_be_pickled(self):
        for error in (autotune.InvalidArgument("a"), autotune.OutOfMemory("b"), autotune.CommandError("c", 5, "said")):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))

    def test_every_status_has_its_exception(self):
        from autotune.errors import error_of

        self.assertEqual({type(error_of(status, "x")).status for status in range(1, 14)}, set(range(1, 14)))
        self.assertIs(type(error_of(99, "x")), autotune.Error)


if __name__ == "__main__":
    unittest.main()
