// Launches for CPython without ctypes, which takes 0.3 us to make one foreign call: see _library.py.
//
// The few names of Python that are needed are declared here, all of its stable ABI, so that no Python's headers are needed to
// build this and one library serves every CPython from 3.9 on. Its loader does without it where a Python is another one. Calls
// hold the interpreter's lock.
#include <cstddef>
#include <cstdint>

#include "autotune/autotune.h"

extern "C" {

struct PyObject;
using PyFastCall = PyObject* (*)(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject* keywords);
struct PyMethodDef {
    const char* name;
    PyFastCall call;
    int flags;
    const char* doc;
};

extern PyObject _Py_NoneStruct;
extern PyObject* PyExc_TypeError;
PyObject* PyCFunction_NewEx(PyMethodDef* method, PyObject* self, PyObject* module);
PyObject* PyErr_Occurred();
PyObject* PyLong_FromLong(long value);
PyObject* PyObject_CallFunctionObjArgs(PyObject* callable, ...);
PyObject* PyTuple_GetItem(PyObject* tuple, std::ptrdiff_t index);
PyObject* PyErr_Format(PyObject* exception, const char* format, ...);
int PyUnicode_CompareWithASCIIString(PyObject* text, const char* ascii);
std::ptrdiff_t PyTuple_Size(PyObject* tuple);
void* PyLong_AsVoidPtr(PyObject* integer);
void Py_DecRef(PyObject* object);
void Py_IncRef(PyObject* object);

}  // extern "C"

namespace {

constexpr int kFastCall = 0x80, kKeywords = 0x02;  // METH_FASTCALL, METH_KEYWORDS

// Sets an exception and answers false where one is no integer.
bool read_words(PyObject* const* arguments, std::ptrdiff_t count, void** words) {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        words[i] = PyLong_AsVoidPtr(arguments[i]);
        if (words[i] == nullptr && PyErr_Occurred() != nullptr) return false;
    }
    return true;
}

template <std::size_t kCount>
bool read_all_words(const char* name, PyObject* const* arguments, std::ptrdiff_t count, void* (&words)[kCount]) {
    if (count == static_cast<std::ptrdiff_t>(kCount)) return read_words(arguments, count, words);
    PyErr_Format(PyExc_TypeError, "%s takes %zd integers, not %zd", name, static_cast<std::ptrdiff_t>(kCount), count);
    return false;
}

// self: the address of autotune_run(), and so below.
PyObject* run(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject*) {
    void* words[3];
    if (!read_all_words("run", arguments, count, words)) return nullptr;
    const auto function = reinterpret_cast<decltype(&autotune_run)>(PyLong_AsVoidPtr(self));
    return PyLong_FromLong(function(static_cast<autotune_plan>(words[0]), static_cast<const autotune_call*>(words[1]),
                                    static_cast<CUstream_st*>(words[2])));
}

PyObject* gemm(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject*) {
    void* words[9];
    if (!read_all_words("gemm", arguments, count, words)) return nullptr;
    const auto function = reinterpret_cast<decltype(&autotune_gemm)>(PyLong_AsVoidPtr(self));
    return PyLong_FromLong(function(static_cast<autotune_plan>(words[0]), words[1], words[2], words[3], words[4], words[5],
                                    words[6], reinterpret_cast<std::size_t>(words[7]), static_cast<CUstream_st*>(words[8])));
}

constexpr std::ptrdiff_t kFixed = 5, kMostTensors = 32;

// plan, call, workspace, bytes of it, stream, addresses of the tensors: the call with these in the place of its own, which stays
// as it is, so that threads share it.
PyObject* run_on(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject*) {
    void* words[kFixed + kMostTensors];
    if (count < kFixed || count > kFixed + kMostTensors)
        return PyErr_Format(PyExc_TypeError, "run_on takes from %zd to %zd integers, not %zd", kFixed, kFixed + kMostTensors,
                            count);
    if (!read_words(arguments, count, words)) return nullptr;
    autotune_call own = *static_cast<const autotune_call*>(words[1]);
    own.workspace = words[2];
    own.workspace_bytes = reinterpret_cast<std::size_t>(words[3]);
    own.tensors = words + kFixed;
    own.tensor_count = static_cast<std::size_t>(count - kFixed);
    const auto function = reinterpret_cast<decltype(&autotune_run)>(PyLong_AsVoidPtr(self));
    return PyLong_FromLong(function(static_cast<autotune_plan>(words[0]), &own, static_cast<CUstream_st*>(words[4])));
}

// self: a tuple of the addresses of autotune_run(), of the plan and of the call, of what raises for a status, and of what must
// live.
PyObject* launch(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject* keywords) {
    const std::ptrdiff_t named = keywords == nullptr ? 0 : PyTuple_Size(keywords);
    if (count + named > 1 || (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(keywords, 0), "stream") != 0))
        return PyErr_Format(PyExc_TypeError, "a launch takes one argument: stream, an int");
    void* stream = nullptr;
    if (count + named == 1) {
        stream = PyLong_AsVoidPtr(arguments[0]);
        if (stream == nullptr && PyErr_Occurred() != nullptr) return nullptr;
    }
    const auto word = [self](std::ptrdiff_t index) { return PyLong_AsVoidPtr(PyTuple_GetItem(self, index)); };
    const auto function = reinterpret_cast<decltype(&autotune_run)>(word(0));
    const autotune_status status = function(static_cast<autotune_plan>(word(1)), static_cast<const autotune_call*>(word(2)),
                                            static_cast<CUstream_st*>(stream));
    if (status != AUTOTUNE_OK) {
        PyObject* number = PyLong_FromLong(status);
        PyObject* answer = PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 3), number, nullptr);
        Py_DecRef(number);
        return answer;
    }
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

PyMethodDef run_method = {"run", run, kFastCall | kKeywords, nullptr};
PyMethodDef run_on_method = {"run_on", run_on, kFastCall | kKeywords, nullptr};
PyMethodDef gemm_method = {"gemm", gemm, kFastCall | kKeywords, nullptr};
PyMethodDef launch_method = {
    "launch", launch, kFastCall | kKeywords,
    "launch(stream=0)\n--\n\nEnqueues the plan's kernels on a stream, given as an int (see stream_handle)."};

}  // namespace

// Each answers a new builtin function, or null with an exception set.
extern "C" {
[[gnu::visibility("default")]] PyObject* autotune_quick_run(PyObject* address) {
    return PyCFunction_NewEx(&run_method, address, nullptr);
}
[[gnu::visibility("default")]] PyObject* autotune_quick_run_on(PyObject* address) {
    return PyCFunction_NewEx(&run_on_method, address, nullptr);
}
[[gnu::visibility("default")]] PyObject* autotune_quick_gemm(PyObject* address) {
    return PyCFunction_NewEx(&gemm_method, address, nullptr);
}
[[gnu::visibility("default")]] PyObject* autotune_quick_launch(PyObject* bound) {
    return PyCFunction_NewEx(&launch_method, bound, nullptr);
}
}
