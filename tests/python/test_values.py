"""Values that need no driver: tensors, problems, schemas, arrays by their protocols."""

import ctypes
import subprocess
import sys
import unittest
from typing import Literal, Optional, get_type_hints

import autotune
from autotune import arrays, ops
from autotune.command import run_json
from autotune.dtypes import dtype_word


class Named:
    def __init__(self, name):
        self.name = name


class Tensors(unittest.TestCase):
    def test_dense_strides_are_filled_in(self):
        self.assertEqual(autotune.Tensor("f16", (2, 3, 4)).strides, (12, 4, 1))
        self.assertEqual(autotune.Tensor("f16", (2, 0, 4)).strides, (4, 4, 1))

    def test_dtypes_have_other_names(self):
        for name, word in (("float16", "f16"), ("torch.bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"), ("f32", "f32")):
            self.assertEqual(dtype_word(name), word)
        self.assertEqual(dtype_word(Named("float32")), "f32")

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

    def test_one_element_that_is_repeated_is_not_taken_for_dense(self):
        dense = autotune.Tensor("f16", (8, 8))
        with self.assertRaisesRegex(ValueError, r"tensor a repeats one element \(all of its strides are 0\); make it contiguous"):
            autotune.Problem("add", {"a": autotune.Tensor("f16", (8, 8), strides=(0, 0)), "b": dense, "c": dense})
        row = autotune.Tensor("f16", (8,))
        with self.assertRaisesRegex(autotune.InvalidArgument, "tensor a has gaps or is not row-major; add takes contiguous tensors"):
            autotune.Problem("add", {"a": autotune.Tensor("f16", (8,), strides=(0,)), "b": row, "c": row}).key

    def test_attributes_are_words_or_numbers(self):
        with self.assertRaisesRegex(TypeError, "attribute acc is True"):
            self.gemm(acc=True)


class Protocols(unittest.TestCase):
    def test_array_interface_with_strides(self):
        class Columns:
            __cuda_array_interface__ = {"shape": (3, 4), "typestr": "<f2", "data": (4096, False), "version": 3, "strides": (2, 6)}

        self.assertEqual(arrays.view(Columns()), arrays.ArrayView(4096, "f16", (3, 4), (1, 3), None))

    def test_strides_between_elements_are_refused(self):
        class Odd:
            __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": (6,)}

        with self.assertRaisesRegex(ValueError, "no multiples"):
            arrays.view(Odd())

    def test_dlpack(self):
        shape, strides = (ctypes.c_int64 * 2)(3, 4), (ctypes.c_int64 * 2)(8, 1)
        raw = arrays._DLTensor(8192, 2, 1, 2, 4, 16, 1, shape, strides, 32)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        asked = []

        class Pack:
            def __dlpack_device__(self):
                return 2, 1

            def __dlpack__(self, stream=None):
                asked.append(stream)
                return new(ctypes.addressof(raw), b"dltensor", None)

        self.assertEqual(arrays.view(Pack(), 99), arrays.ArrayView(8224, "bf16", (3, 4), (8, 1), 1))
        arrays.view(Pack())
        self.assertEqual(asked, [99, 1])

    def test_dlpack_of_the_host_is_refused(self):
        class Host:
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, stream=None):
                raise AssertionError("not asked for")

        with self.assertRaisesRegex(TypeError, "not on a CUDA device"):
            arrays.view(Host())

    def test_an_address_tells_its_alignment(self):
        class At:
            def __init__(self, address):
                self.__cuda_array_interface__ = {"shape": (8,), "typestr": "<f2", "data": (address, False), "version": 3}

        self.assertEqual([autotune.Tensor.of(At(4096 + add)).align for add in (0, 2, 4, 8, 16, 24)], [16, 2, 4, 8, 16, 8])


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


class Package(unittest.TestCase):
    def test_version_is_the_librarys(self):
        self.assertRegex(autotune.__version__, r"^\d+\.\d+\.\d+$")

    def test_torch_is_not_imported(self):
        self.assertNotIn("torch", sys.modules)

    def test_torch_is_asked_for_where_it_is_used(self):
        # From another folder: this one has a folder called torch.
        code = "try: import autotune.torch; print('torch is here')\nexcept ImportError as e: print(e)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/").stdout.strip()
        if said == "torch is here":
            self.skipTest(said)
        self.assertEqual(said, "autotune.torch needs PyTorch 2.8 or newer: pip install torch")

    def test_every_status_has_its_exception(self):
        from autotune.errors import error_of

        self.assertEqual({type(error_of(status, "x")).status for status in range(1, 14)}, set(range(1, 14)))
        self.assertIs(type(error_of(99, "x")), autotune.Error)


if __name__ == "__main__":
    unittest.main()
