// Two things that ctypes cannot do for CPython: see _library.py.
//
// - Launches: ctypes takes 0.3 us per foreign call.
// - Calls from threads that Python does not know: the library's log, and the driver's callback when a graph has ended. If a
// thread requests the interpreter's lock while Python ends, Python ends the thread, which unwinds through the library's frames
// and aborts the process. So such calls count themselves, and none begins once `end_calls` was called at exit.
//
// The few Python functions that are needed are declared here, all from its stable ABI. So no Python headers are needed to build
// this, and one library serves every CPython from 3.9 on. On other Pythons the loader works without it. Calls hold the
// interpreter's lock.
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>

#include "autotune/autotune.h"

extern "C" {

struct PyObject;
struct PyTypeObject;
using PyFastCall = PyObject* (*)(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject* keywords);
struct PyMethodDef {
    const char* name;
    PyFastCall call;
    int flags;
    const char* doc;
};

extern PyObject _Py_NoneStruct;
extern PyObject* PyExc_TypeError;
extern PyTypeObject PyLong_Type;
PyObject* PyObject_Type(PyObject* object);
PyObject* PyCFunction_NewEx(PyMethodDef* method, PyObject* self, PyObject* module);
PyObject* PyErr_Occurred();
PyObject* PyLong_FromLong(long value);
PyObject* PyObject_CallFunctionObjArgs(PyObject* callable, ...);
PyObject* PyTuple_GetItem(PyObject* tuple, std::ptrdiff_t index);
PyObject* PyErr_Format(PyObject* exception, const char* format, ...);
int PyUnicode_CompareWithASCIIString(PyObject* text, const char* ascii);
std::ptrdiff_t PyTuple_Size(PyObject* tuple);
void* PyLong_AsVoidPtr(PyObject* integer);
unsigned long long PyLong_AsUnsignedLongLong(PyObject* integer);
PyObject* PyLong_FromVoidPtr(void* address);
PyObject* PyBytes_FromString(const char* text);
PyObject* PyList_New(std::ptrdiff_t size);
int PyList_Append(PyObject* list, PyObject* item);
void PyErr_WriteUnraisable(PyObject* where);
void PyErr_Clear();
int PyGILState_Ensure();
void PyGILState_Release(int state);
void* PyEval_SaveThread();
void PyEval_RestoreThread(void* state);
int Py_AddPendingCall(int (*function)(void*), void* argument);
void Py_DecRef(PyObject* object);
void Py_IncRef(PyObject* object);

}  // extern "C"

namespace {

constexpr int kFastCall = 0x80, kKeywords = 0x02;  // METH_FASTCALL, METH_KEYWORDS

// Reads an unsigned integer of at most 64 bits; otherwise sets an exception and returns false.
bool read_word(PyObject* argument, void** word) {
    static_assert(sizeof(void*) == sizeof(unsigned long long));
    const unsigned long long value = PyLong_AsUnsignedLongLong(argument);
    *word = reinterpret_cast<void*>(value);
    return value != ~0ULL || PyErr_Occurred() == nullptr;
}

bool read_words(PyObject* const* arguments, std::ptrdiff_t count, void** words) {
    for (std::ptrdiff_t i = 0; i < count; ++i)
        if (!read_word(arguments[i], &words[i])) return false;
    return true;
}

template <std::size_t kCount>
bool read_all_words(const char* name, PyObject* const* arguments, std::ptrdiff_t count, void* (&words)[kCount]) {
    if (count == static_cast<std::ptrdiff_t>(kCount)) return read_words(arguments, count, words);
    PyErr_Format(PyExc_TypeError, "%s takes %zd integers, not %zd", name, static_cast<std::ptrdiff_t>(kCount), count);
    return false;
}

// `self` is the address of autotune_run(), here and below.
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

// Arguments: plan, call, workspace, its bytes, stream, addresses of the tensors. They replace those of the call, which does not
// change, so that threads can share it.
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

bool is_int(PyObject* object) {
    PyObject* const type = PyObject_Type(object);
    Py_DecRef(type);  // `object` keeps it alive
    return type == reinterpret_cast<PyObject*>(&PyLong_Type);
}

// The CUstream for a launch's argument. An int is used directly; `convert`, a Python function, converts other stream objects and
// reports errors. Sets an exception and returns false if that fails.
bool read_stream(PyObject* argument, PyObject* convert, void** stream) {
    if (is_int(argument)) {
        if (read_word(argument, stream)) return true;
        PyErr_Clear();  // the number does not fit, and `convert` has a better message
    }
    PyObject* const handle = PyObject_CallFunctionObjArgs(convert, argument, nullptr);
    if (handle == nullptr) return false;
    const bool is_read = read_word(handle, stream);
    Py_DecRef(handle);
    return is_read;
}

// self: a tuple of the addresses of autotune_run(), of the plan and of the call, the function that raises for a status, the
// function that returns a stream's handle, and objects to keep alive.
PyObject* launch(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject* keywords) {
    const std::ptrdiff_t named = keywords == nullptr ? 0 : PyTuple_Size(keywords);
    if (count + named > 1 || (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(keywords, 0), "stream") != 0))
        return PyErr_Format(PyExc_TypeError, "a launch takes one argument: stream");
    void* stream = nullptr;
    if (count + named == 1 && !read_stream(arguments[0], PyTuple_GetItem(self, 4), &stream)) return nullptr;
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

// ---- calls from threads that Python does not know ----

std::atomic<bool> has_ended{false};
std::atomic<long> inside{0};

// A call into Python, if that is still possible. Both operations are sequentially consistent: either end_calls() sees this one
// and waits for it, or this one sees that the end has begun.
class Entry {
  public:
    Entry() {
        inside.fetch_add(1);
        is_open_ = !has_ended.load();
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { inside.fetch_sub(1); }
    explicit operator bool() const { return is_open_; }

  private:
    bool is_open_;
};

// An autotune_log_function whose `user` is a Python function of a level and the message's bytes.
void hear(void* user, autotune_log_level level, const char* message) {
    const Entry entry;
    if (!entry) return;
    const int state = PyGILState_Ensure();
    auto* const function = static_cast<PyObject*>(user);
    PyObject* const number = PyLong_FromLong(level);
    PyObject* const bytes = PyBytes_FromString(message);
    PyObject* const answer =
        number == nullptr || bytes == nullptr ? nullptr : PyObject_CallFunctionObjArgs(function, number, bytes, nullptr);
    if (answer == nullptr) PyErr_WriteUnraisable(function);
    for (PyObject* const each : {number, bytes, answer})
        if (each != nullptr) Py_DecRef(each);
    PyGILState_Release(state);
}

struct Ended {
    void* number;
    Ended* next;
};

std::atomic<Ended*> ended_graphs{nullptr};
PyObject* graph_listener = nullptr;

int tell_of_ended_graphs(void*) {
    if (graph_listener == nullptr || has_ended.load()) return 0;
    PyObject* const answer = PyObject_CallFunctionObjArgs(graph_listener, nullptr);
    if (answer == nullptr)
        PyErr_WriteUnraisable(graph_listener);
    else
        Py_DecRef(answer);
    return 0;
}

// A CUhostFn of a user object: called once the graphs that held the object are gone. It runs on a thread of the driver, where
// CUDA must not be called, so it leaves the work to the main thread.
void graph_is_gone(void* number) {
    const Entry entry;
    if (!entry) return;
    auto* const node = new (std::nothrow) Ended{number, ended_graphs.load()};
    if (node == nullptr) return;  // without memory it is never released
    while (!ended_graphs.compare_exchange_weak(node->next, node)) {
    }
    // If the queue is full, it has such a call already, or another graph will add one
    Py_AddPendingCall(tell_of_ended_graphs, nullptr);
}

// The numbers of the graphs that have ended since the last call, as a list.
PyObject* ended(PyObject*, PyObject* const*, std::ptrdiff_t, PyObject*) {
    PyObject* const list = PyList_New(0);
    for (Ended* node = ended_graphs.exchange(nullptr); node != nullptr;) {
        PyObject* const number = list == nullptr ? nullptr : PyLong_FromVoidPtr(node->number);
        if (number == nullptr || PyList_Append(list, number) != 0) PyErr_Clear();
        if (number != nullptr) Py_DecRef(number);
        Ended* const next = node->next;
        delete node;
        node = next;
    }
    return list;
}

// Lets no further call begin, and waits up to ten seconds for running ones, which may need the interpreter's lock to end.
PyObject* end_calls(PyObject*, PyObject* const*, std::ptrdiff_t, PyObject*) {
    has_ended.store(true);
    void* const state = PyEval_SaveThread();
    constexpr timespec kNap{0, 1'000'000};
    for (int i = 0; i < 10'000 && inside.load() != 0; ++i) nanosleep(&kNap, nullptr);
    PyEval_RestoreThread(state);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

// A child of fork() calls this, because the running calls belong to the parent's threads.
PyObject* forget_calls(PyObject*, PyObject* const*, std::ptrdiff_t, PyObject*) {
    inside.store(0);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

PyMethodDef ended_method = {"ended_graphs", ended, kFastCall | kKeywords, nullptr};
PyMethodDef end_method = {"end_calls", end_calls, kFastCall | kKeywords, nullptr};
PyMethodDef forget_method = {"forget_calls", forget_calls, kFastCall | kKeywords, nullptr};
PyMethodDef run_method = {"run", run, kFastCall | kKeywords, nullptr};
PyMethodDef run_on_method = {"run_on", run_on, kFastCall | kKeywords, nullptr};
PyMethodDef gemm_method = {"gemm", gemm, kFastCall | kKeywords, nullptr};
PyMethodDef launch_method = {
    "launch", launch, kFastCall | kKeywords,
    "launch(stream=0)\n--\n\nEnqueues the plan's kernels on a stream: an int, or what stream_handle takes."};

}  // namespace

// Each returns a new builtin function, or null with an exception set.
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
// Addresses of functions that the library and the driver call on their own threads.
[[gnu::visibility("default")]] void* autotune_quick_hear() {
    return reinterpret_cast<void*>(hear);
}
[[gnu::visibility("default")]] void* autotune_quick_graph_is_gone() {
    return reinterpret_cast<void*>(graph_is_gone);
}
[[gnu::visibility("default")]] PyObject* autotune_quick_ended_graphs(PyObject* listener) {
    Py_IncRef(listener);
    graph_listener = listener;
    return PyCFunction_NewEx(&ended_method, nullptr, nullptr);
}
[[gnu::visibility("default")]] PyObject* autotune_quick_end_calls(PyObject*) {
    return PyCFunction_NewEx(&end_method, nullptr, nullptr);
}
[[gnu::visibility("default")]] PyObject* autotune_quick_forget_calls(PyObject*) {
    return PyCFunction_NewEx(&forget_method, nullptr, nullptr);
}
}
