"""Arrays by their protocols: every field of __cuda_array_interface__ and of DLPack is honoured or refused."""

import ctypes
import unittest

import autotune
from autotune import _dlpack, arrays
from machine import Array, Driver, MachineTest, integers

ADDRESS = 4096


class Interface:
    def __init__(self, **fields):
        self.fields = {"shape": (3, 4), "typestr": "<f2", "data": (ADDRESS, False), "version": 3}
        self.fields.update(fields)
        for name in [name for name, value in self.fields.items() if value is KeyError]:
            del self.fields[name]

    @property
    def __cuda_array_interface__(self):
        return self.fields


class CudaArrayInterface(unittest.TestCase):
    def refuse(self, error, message, **fields):
        with self.assertRaisesRegex(error, message):
            arrays.view(Interface(**fields))

    def test_each_field_that_is_honoured(self):
        dense = arrays.ArrayView(ADDRESS, "f16", (3, 4), (4, 1), None)
        for fields, expected in (
            ({}, dense),
            ({"strides": None}, dense),
            ({"strides": (2, 6)}, dense._replace(strides=(1, 3))),
            ({"strides": (0, 2)}, dense._replace(strides=(0, 1))),
            ({"data": (ADDRESS, True)}, dense._replace(read_only=True)),
            ({"data": [ADDRESS, False]}, dense),
            ({"version": 2}, dense),
            ({"version": 0}, dense),
            ({"mask": None, "stream": None, "descr": [("", "<f2")]}, dense),
            ({"typestr": "=f2"}, dense),
            ({"typestr": "<i1"}, dense._replace(dtype="i8")),
            ({"typestr": ">i1"}, dense._replace(dtype="i8")),
            ({"shape": [3, 4]}, dense),
            ({"shape": (0, 4), "data": (0, False)}, dense._replace(address=0, shape=(0, 4))),
            ({"shape": (0, 4), "data": (None, False)}, dense._replace(address=0, shape=(0, 4))),
            ({"shape": ()}, dense._replace(shape=(), strides=())),
        ):
            with self.subTest(fields):
                self.assertEqual(arrays.view(Interface(**fields)), expected)

    def test_types(self):
        self.refuse(TypeError, r"the array's type is '>f4', big-endian; kernels read little-endian numbers", typestr=">f4")
        self.refuse(TypeError, "the array's type is '<c8'; autotune takes <f2, <f4, <f8, <i4, |i1 by", typestr="<c8")
        self.refuse(TypeError, "the array's type is 'f4'; autotune takes", typestr="f4")
        self.refuse(TypeError, "has typestr None; it must be a str such as '<f4'", typestr=None)
        self.refuse(TypeError, "the array's elements are structures .*; give an array of one of their fields", descr=[("x", "<f2"), ("y", "<f2")])

    def test_fields_that_lack(self):
        for name in ("shape", "typestr", "data", "version"):
            self.refuse(TypeError, f"__cuda_array_interface__ has no '{name}'", **{name: KeyError})

    def test_versions(self):
        self.refuse(TypeError, "has version 4; this package knows versions up to 3", version=4)
        self.refuse(TypeError, "has version -1; this package knows", version=-1)
        self.refuse(TypeError, r"\['version'\] is '3'; it must be an integer", version="3")

    def test_masks(self):
        self.refuse(TypeError, "the array has a mask; kernels use every element", mask=Interface())

    def test_shapes(self):
        self.refuse(autotune.InvalidArgument, r"shape\[0\] is -3; it must be from 0", shape=(-3, 4))
        self.refuse(TypeError, r"shape\[1\] is 4.5; it must be an integer", shape=(3, 4.5))
        self.refuse(TypeError, "shape is 12; it must be a sequence of integers", shape=12)

    def test_strides(self):
        self.refuse(autotune.InvalidArgument, "has 1 strides and 2 dimensions", strides=(2,))
        self.refuse(autotune.InvalidArgument, r"has strides \(-8, 2\); negative ones are not supported: give a copy", strides=(-8, 2))
        self.refuse(autotune.InvalidArgument, r"strides \(3, 1\) are no multiples of an element's 2 bytes", strides=(3, 1))
        self.refuse(TypeError, r"strides\[0\] is 8.0; it must be an integer", strides=(8.0, 2))

    def test_addresses(self):
        self.refuse(autotune.InvalidArgument, "the array has elements and its address is 0; it was freed, or never had memory", data=(0, False))
        self.refuse(TypeError, r"\['data'\]\[0\] is None; it must be an integer", data=(None, False))
        self.refuse(autotune.InvalidArgument, r"\['data'\]\[0\] is -8; it must be from 0", data=(-8, False))
        self.refuse(autotune.InvalidArgument, r"\['data'\]\[0\] is 18446744073709551616; it must be from 0", data=(2**64, False))
        self.refuse(TypeError, "has data 4096; it must be the address and whether it is read-only", data=ADDRESS)

    def test_streams_that_cannot_be(self):
        self.refuse(autotune.InvalidArgument, "has stream 0, which the protocol forbids; 1 is the legacy default stream", stream=0)
        self.refuse(TypeError, r"\['stream'\] is 'main'; it must be an integer", stream="main")
        self.refuse(autotune.InvalidArgument, r"\['stream'\] is -1; it must be from 0", stream=-1)

    def test_a_description_waits_for_nothing(self):
        self.assertEqual(autotune.Tensor.of(Interface(stream=0x7777)), autotune.Tensor("f16", (3, 4)))

    def test_an_address_tells_its_alignment(self):
        aligned = [autotune.Tensor.of(Interface(data=(ADDRESS + add, False))).align for add in (0, 2, 4, 8, 16, 24)]
        self.assertEqual(aligned, [16, 2, 4, 8, 16, 8])


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """A producer with fields that a test can set; counts the calls of its deleter."""

    def __init__(self, version=None, flags=0, name=None, deleter=True, device=(2, 1), asked=None, **fields):
        self.shape, self.strides = (ctypes.c_int64 * 64)(3, 4), (ctypes.c_int64 * 64)(8, 1)
        values = dict(data=8192, device_type=2, device_id=1, ndim=2, type_code=4, bits=16, lanes=1, shape=self.shape, strides=self.strides, byte_offset=32)
        values.update(fields)
        if isinstance(values["shape"], tuple):
            values["shape"] = (ctypes.c_int64 * 64)(*values["shape"])
        if isinstance(values["strides"], tuple):
            values["strides"] = (ctypes.c_int64 * 64)(*values["strides"])
        self.deleted, self.device, self.asked = [], device, [] if asked is None else asked
        self.deleter = Deleter(lambda address: self.deleted.append(address))
        raw = ctypes.cast(self.deleter, ctypes.c_void_p).value if deleter else None
        self.is_versioned = version is not None
        tensor = _dlpack.Tensor(**values)
        self.raw = _dlpack.Versioned(*version, None, raw, flags, tensor) if self.is_versioned else _dlpack.Managed(tensor, None, raw)
        self.name = name or (b"dltensor_versioned" if self.is_versioned else b"dltensor")

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append((stream, max_version))
        return _new_capsule(ctypes.addressof(self.raw), self.name, None)


class Old(Producer):
    """From before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream=stream)


class DLPack(unittest.TestCase):
    EXPECTED = arrays.ArrayView(8224, "bf16", (3, 4), (8, 1), 1)

    def refuse(self, error, message, **fields):
        for version in ((1, 1), None) if "version" not in fields and "flags" not in fields else (None,):
            producer = Producer(**{**({} if version is None else {"version": version}), **fields})
            with self.assertRaisesRegex(error, message):
                arrays.view(producer)
            if "name" not in fields:
                self.assertEqual(producer.deleted, [ctypes.addressof(producer.raw)], "its deleter is called once")

    def test_capsules_of_both_kinds(self):
        for producer in (Producer(), Producer(version=(1, 0)), Producer(version=(1, 3)), Old(), Producer(deleter=False)):
            self.assertEqual(arrays.view(producer, 99), self.EXPECTED)
            self.assertEqual(len(producer.deleted), 1 if producer.raw.deleter else 0)
        self.assertEqual(arrays.view(Producer(version=(1, 0), flags=1)), self.EXPECTED._replace(read_only=True))

    def test_streams_and_versions_that_are_asked_for(self):
        asked = []
        for stream in (99, 0, 1, 2):
            arrays.view(Producer(asked=asked), stream)
        self.assertEqual(asked, [(99, (1, 0)), (1, (1, 0)), (1, (1, 0)), (2, (1, 0))])
        old = Old()
        arrays.view(old, 0)
        self.assertEqual(old.asked, [(1, None)])

    def test_dimensions_are_not_believed(self):
        for count in (-1, 6, 1 << 30, -(1 << 31)):
            self.refuse(autotune.InvalidArgument, f"the array has {count} dimensions; at most 5", ndim=count)
        self.refuse(autotune.InvalidArgument, "DLPack's tensor has 2 dimensions and no shape", shape=None)
        self.refuse(autotune.InvalidArgument, r"shape\[1\] is -4; it must be from 0", shape=(3, -4))
        self.assertEqual(arrays.view(Producer(ndim=0, shape=None, strides=None)), self.EXPECTED._replace(shape=(), strides=()))

    def test_strides(self):
        self.assertEqual(arrays.view(Producer(strides=None)).strides, (4, 1))
        self.refuse(autotune.InvalidArgument, r"has strides \(-4, 1\); negative ones are not supported", strides=(-4, 1))

    def test_types(self):
        self.refuse(TypeError, "elements have 2 lanes; autotune takes arrays of single numbers", lanes=2)
        self.refuse(TypeError, "elements have 0 lanes", lanes=0)
        self.refuse(TypeError, "DLPack type code 5 of 64 bits is none that autotune takes", type_code=5, bits=64)
        self.refuse(TypeError, "DLPack type code 2 of 8 bits is none", type_code=2, bits=8)

    def test_addresses(self):
        self.refuse(autotune.InvalidArgument, "the array has elements and its address is 0", data=None)
        self.refuse(autotune.InvalidArgument, "the address of DLPack's tensor is .*; it must be from 0", data=2**64 - 8, byte_offset=16)
        self.assertEqual(arrays.view(Producer(data=None, byte_offset=0, shape=(0, 4))).address, 0)

    def test_devices(self):
        self.refuse(autotune.InvalidArgument, "DLPack's tensor is on device 2:0, and __dlpack_device__ says 2:1", device_id=0)
        self.refuse(autotune.InvalidArgument, "DLPack's tensor is on device 1:1, and __dlpack_device__ says 2:1", device_type=1)
        managed = Producer(device=(13, 1), device_type=13)
        self.assertEqual(arrays.view(managed).device, None)
        for device, error, message in (
            ((1, 0), TypeError, r"not on a CUDA device \(DLPack device type 1\); move it to one first"),
            ((3, 0), TypeError, r"not on a CUDA device \(DLPack device type 3\)"),
            ((2, -1), autotune.InvalidArgument, "the device of __dlpack_device__ is -1; it must be from 0"),
            (2, TypeError, "__dlpack_device__ gives 2; it must give the type of the device and its number"),
        ):
            producer = Producer(device=device)
            with self.assertRaisesRegex(error, message):
                arrays.view(producer)
            self.assertEqual(producer.asked, [], "an array of the host is not asked for")

    def test_versions_and_flags(self):
        self.refuse(TypeError, "the array has DLPack version 2.0; this package knows 1.x", version=(2, 0))
        self.refuse(autotune.InvalidArgument, "gives a copy by DLPack, which would be gone before the kernel runs", version=(1, 0), flags=2)

    def test_capsules_that_are_none(self):
        self.refuse(autotune.InvalidArgument, "the capsule of __dlpack__ was consumed before", name=b"used_dltensor")
        self.refuse(autotune.InvalidArgument, "was consumed before", version=(1, 0), name=b"used_dltensor_versioned")
        self.refuse(TypeError, "__dlpack__ gives PyCapsule; it must give a capsule named dltensor or dltensor_versioned", name=b"other")

        class Wrong(Producer):
            def __dlpack__(self, **_):
                return 8192

        with self.assertRaisesRegex(TypeError, "__dlpack__ gives int; it must give a capsule"):
            arrays.view(Wrong())

    def test_a_capsule_is_consumed(self):
        class Same(Producer):
            capsule = None

            def __dlpack__(self, **options):
                self.capsule = self.capsule or super().__dlpack__(**options)
                return self.capsule

        producer = Same()
        arrays.view(producer)
        with self.assertRaisesRegex(autotune.InvalidArgument, "was consumed before; a producer must give a new one at each call"):
            arrays.view(producer)
        self.assertEqual(len(producer.deleted), 1)


class Streams(unittest.TestCase):
    def test_what_is_no_stream(self):
        class Protocol:
            def __init__(self, *said):
                self.said = said

            def __cuda_stream__(self):
                return self.said

        for stream, message in (
            (Protocol(1, 7), r"version 1 of __cuda_stream__ is newer than this package knows \(0\)"),
            (Protocol(7), "__cuda_stream__ gives .*; it must give its version and the CUstream"),
            (Protocol(0, 7.5), "the CUstream of __cuda_stream__ is 7.5; it must be an integer"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                autotune.stream_handle(stream)


class Ordered(MachineTest):
    """On the scripted driver: which stream waits for which, and where arrays may be."""

    PRODUCT = (
        "import autotune\nfrom test_run import *\ndriver, data = Driver.only(), Product()\n"
        "class On:\n"
        "    def __init__(self, array, **fields): self.array, self.fields = array, fields\n"
        "    @property\n"
        "    def __cuda_array_interface__(self): return {**self.array.__cuda_array_interface__, **self.fields}\n"
        "handle, streams = autotune.Handle(), [driver.stream() for _ in range(3)]\n"
    )

    def calls_of(self, code):
        code, said, calls = self.run_python(self.PRODUCT + code)
        self.assertEqual(code, 0, said)
        return said, [" ".join(call.split()[1:]) for call in calls]

    def test_a_call_waits_for_each_arrays_stream_before_it_launches(self):
        said, calls = self.calls_of(
            "a, b, c = (On(each, stream=s) for each, s in zip(data.arrays(), (streams[0], streams[1], 1)))\n"
            "autotune.gemm(a, b, c, handle=handle, stream=streams[2])\nprint(*streams)\nassert data.c.values() == data.expected"
        )
        first, second, ours = said.split()
        launch = next(i for i, call in enumerate(calls) if call.startswith("cuLaunchKernelEx"))
        ordered = [call for call in calls[:launch] if call.startswith(("cuEventRecord", "cuStreamWaitEvent"))]
        wait = f"cuStreamWaitEvent {ours}"
        self.assertEqual(ordered, [f"cuEventRecord {first}", wait, f"cuEventRecord {second}", wait, "cuEventRecord 1", wait])
        self.assertEqual(sum(call.startswith("cuEventCreate") for call in calls), sum(call.startswith("cuEventDestroy") for call in calls))

    def test_the_same_stream_is_not_waited_for(self):
        _, calls = self.calls_of(
            "a, b, c = (On(each, stream=streams[0]) for each in data.arrays())\nautotune.gemm(a, b, c, handle=handle, stream=streams[0])\n"
            "a, b, c = (On(each, stream=1) for each in data.arrays())\nautotune.gemm(a, b, c, handle=handle)\n"
            "a, b, c = (On(each, stream=None) for each in data.arrays())\nautotune.gemm(a, b, c, handle=handle)"
        )
        self.assertFalse([call for call in calls if call.startswith("cuStreamWaitEvent")])

    def test_plans_and_launches_wait_too(self):
        for call in ("plan.run(*arrays, scalars=(1.0, 0.0), workspace=work, stream=streams[2])", "plan.bind(*arrays, scalars=(1.0, 0.0), workspace=work, stream=streams[2])"):
            _, calls = self.calls_of(
                "plan = handle.plan(gemm_problem())\narrays = [On(each, stream=streams[0]) for each in data.arrays()]\n"
                "work = Array((plan.workspace_bytes // 4,), typestr='<f4') if plan.workspace_bytes else None\n" + call
            )
            self.assertEqual(sum(call.startswith("cuStreamWaitEvent") for call in calls), 3)

    def test_a_capture_does_not_wait_for_what_is_outside_of_it(self):
        _, calls = self.calls_of(
            "import ctypes\narrays = [On(each, stream=streams[0]) for each in data.arrays()]\n"
            "autotune.gemm(*arrays, handle=handle, stream=streams[2])\n"
            "driver.check(driver.library.cuStreamBeginCapture(ctypes.c_void_p(streams[2]), 0))\n"
            "autotune.gemm(*arrays, handle=handle, stream=streams[2])\ngraph = ctypes.c_void_p()\n"
            "driver.check(driver.library.cuStreamEndCapture(ctypes.c_void_p(streams[2]), ctypes.byref(graph)))"
        )
        self.assertEqual(sum(call.startswith("cuStreamWaitEvent") for call in calls), 3)

    def test_devices_are_checked_at_every_call(self):
        script = "device\ndevice\n"
        code = (
            "import ctypes\nother = ctypes.c_void_p()\ndriver.check(driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1))\n"
            "autotune.gemm(*data.arrays(), handle=handle)\nplan = handle.plan(gemm_problem())\nhere = driver.context\n"
            "def refused(call, message):\n"
            "    try: call(); print('not refused')\n"
            "    except autotune.InvalidArgument as error: print(str(error) if message not in str(error) else 'refused')\n"
            "driver.check(driver.library.cuCtxSetCurrent(other))\n"
            "wrong = 'arrays are on device 0 and the current context is of device 1; make the arrays\\' device current'\n"
            "refused(lambda: autotune.gemm(*data.arrays(), handle=handle), wrong)\n"
            "refused(lambda: handle.run(gemm_problem(beta='zero'), *data.arrays(), scalars=(1.0, 0.0)), wrong)\n"
            "there = Product()\nautotune.gemm(*there.arrays(), handle=handle)\nassert there.c.values() == there.expected\n"
            "refused(lambda: autotune.gemm(there.a, data.b, there.c, handle=handle), 'arrays are on devices 0, 1; move them to one')\n"
            "driver.check(driver.library.cuCtxSetCurrent(here))\n"
            "refused(lambda: autotune.gemm(*there.arrays(), handle=handle), 'arrays are on device 1 and the current context is of device 0')\n"
            "made = 'arrays are on device 1 and the plan was made on device 0; make the arrays\\' device current'\n"
            "refused(lambda: plan.run(*there.arrays(), scalars=(1.0, 0.0), workspace=1 << 20), made)\n"
            "refused(lambda: plan.bind(*there.arrays(), scalars=(1.0, 0.0), workspace=1 << 20), made)\n"
            "autotune.gemm(*data.arrays(), handle=handle)"
        )
        ended, said, _ = self.run_python(self.PRODUCT + code, script)
        self.assertEqual((ended, said.split("\n")[:-1]), (0, ["refused"] * 6), said)


class Written(MachineTest):
    def setUp(self):
        super().setUp()
        Driver.only().make_current()
        self.handle = autotune.Handle()
        self.addCleanup(self.handle.close)

    def read_only(self, array):
        interface = array.__cuda_array_interface__
        return Interface(**{**interface, "data": (interface["data"][0], True)})

    def test_arrays_that_are_read_only_are_read_alone(self):
        a, b, c = (Array((8, 8), integers(64, seed)) for seed in range(3))
        autotune.gemm(self.read_only(a), self.read_only(b), c, handle=self.handle)
        message = "c is written, and its array is read-only; give an array that may be written"
        tensors = {name: autotune.Tensor("f16", (8, 8)) for name in "abc"}
        problem = autotune.Problem("gemm", tensors, {"beta": "zero"})
        plan = self.handle.plan(problem)
        for call in (
            lambda: autotune.gemm(a, b, self.read_only(c), handle=self.handle),
            lambda: self.handle.run(problem, a, b, self.read_only(c), scalars=(1.0, 0.0)),
            lambda: plan.run(a, b, self.read_only(c), scalars=(1.0, 0.0), workspace=1 << 20),
            lambda: plan.bind(a, b, self.read_only(c), scalars=(1.0, 0.0), workspace=1 << 20),
        ):
            with self.assertRaisesRegex(autotune.InvalidArgument, message):
                call()

    # These arrays gave wrong answers and reads outside of the arrays.
    def test_arrays_are_those_of_the_problem(self):
        a, b, c = (Array((8, 8), integers(64, seed)) for seed in range(3))
        plan = self.handle.plan(autotune.Problem("gemm", {"a": a, "b": b, "c": c}))
        strided = Interface(**{**a.__cuda_array_interface__, "strides": (32, 2)})
        small, single = Array((4, 8), integers(32, 1)), Array((8, 8), typestr="<f4")
        for given, message in (
            ((strided, b, c), r"a has shape \(8, 8\) and strides \(8, 1\) in the problem, and its array shape \(8, 8\) and strides \(16, 1\)"),
            ((a, small, c), r"b has shape \(8, 8\).*and its array shape \(4, 8\)"),
            ((a, b, single), "c is f16 in the problem, and its array is f32"),
            ((a, b, c, None, None, None, None, None, None, None, a), r"the call passes 11 arrays; op gemm takes \d+"),
        ):
            for call in (
                lambda: self.handle.run(plan.problem, *given, scalars=(1.0, 0.0)),
                lambda: plan.run(*given, scalars=(1.0, 0.0), workspace=1 << 20),
                lambda: plan.bind(*given, scalars=(1.0, 0.0), workspace=1 << 20),
            ):
                with self.assertRaisesRegex(autotune.InvalidArgument, message):
                    call()
        batch = Interface(**{**a.__cuda_array_interface__, "shape": (1, 8, 8), "strides": None})
        self.handle.run(plan.problem, batch, b, c, scalars=(1.0, 0.0))  # a batch of one matrix equals that matrix

    def test_a_workspace_is_measured_where_that_is_possible(self):
        from autotune.arrays import placed
        from autotune.handle import Call

        call = Call(3, ())
        with self.assertRaisesRegex(autotune.WorkspaceTooSmall, r"the workspace has 64 bytes; the plan needs 65 \(Plan.workspace_bytes\)"):
            call.set_workspace(placed(Array((4, 4), typestr="<f4")), 65)
        with self.assertRaisesRegex(autotune.InvalidArgument, "the workspace is read-only"):
            call.set_workspace(placed(self.read_only(Array((4,), typestr="<f4"))), 8)
        call.set_workspace(placed(Array((4, 4), typestr="<f4")), 64)
        call.set_workspace(placed(1 << 20), 1 << 30)


if __name__ == "__main__":
    unittest.main()
