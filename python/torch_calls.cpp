// patch() of autotune.torch: kernels of aten's products at a backend's dispatch key, by torch's stable C interface.
//
// A call whose key (shapes, strides, types, alignments) is in the table runs our plan. Every other call runs aten's own kernel,
// which is reached without the dispatcher. Nothing here compiles, reads a file or races. Torch's functions are found at
// run time and declared here, so that one library serves every torch from 2.9 on; each that is missing switches its operator off.
//
// A kernel is registered only for an operator of which some call is taken: torch boxes the arguments of kernels that come through
// its C interface, which alone costs a call 0.25 us. A kernel first looks the sizes up in a small
// filter. For most calls that stay with aten it reads nothing else.
//
// Calls come from any thread, with or without the interpreter's lock. The table is replaced as a whole and never changed; tables
// that were replaced stay, because a call may still read them.
#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "autotune/autotune.h"

namespace {

// ---- torch ----

using Value = std::uint64_t;          // StableIValue
using TensorHandle = struct Tensor*;  // AtenTensorHandle: the address of an at::Tensor on the heap
using LibraryHandle = struct Library*;
using GuardHandle = struct Guard*;
using Status = std::int32_t;  // 0: success
using Boxed = void (*)(Value* stack, std::uint64_t inputs, std::uint64_t outputs);

struct Torch {
    Status (*get_dim)(TensorHandle, std::int64_t*);
    Status (*get_sizes)(TensorHandle, std::int64_t**);
    Status (*get_strides)(TensorHandle, std::int64_t**);
    Status (*get_dtype)(TensorHandle, std::int32_t*);
    Status (*get_device_type)(TensorHandle, std::int32_t*);
    Status (*get_device_index)(TensorHandle, std::int32_t*);
    Status (*get_data_ptr)(TensorHandle, void**);
    Status (*delete_tensor)(TensorHandle);
    Status (*new_undefined)(TensorHandle*);
    std::int32_t (*dtype_uint64)();
    Status (*empty_strided)(std::int64_t dim, const std::int64_t* sizes, const std::int64_t* strides, std::int32_t dtype,
                            std::int32_t device_type, std::int32_t device_index, TensorHandle*);
    Status (*library_init)(const char* name, const char* key, const char* file, std::uint32_t line, LibraryHandle*);
    Status (*library_impl)(LibraryHandle, const char* name, Boxed);
    Status (*library_delete)(LibraryHandle);
    // The functions of the backend. The host's backend has no streams.
    Status (*flash)(TensorHandle q, TensorHandle k, TensorHandle v, double dropout, std::int32_t is_causal,
                    std::int32_t returns_mask, double* scale, TensorHandle*, TensorHandle*, TensorHandle*, TensorHandle*,
                    std::int64_t*, std::int64_t*, TensorHandle*, TensorHandle*, TensorHandle*);
    Status (*cudnn)(TensorHandle q, TensorHandle k, TensorHandle v, TensorHandle* bias, std::int32_t with_lse, double dropout,
                    std::int32_t is_causal, std::int32_t returns_mask, double* scale, TensorHandle*, TensorHandle*, TensorHandle*,
                    TensorHandle*, std::int64_t*, std::int64_t*, TensorHandle*, TensorHandle*, TensorHandle*);
    Status (*efficient)(TensorHandle q, TensorHandle k, TensorHandle v, TensorHandle* bias, std::int32_t with_lse, double dropout,
                        std::int32_t is_causal, double* scale, TensorHandle*, TensorHandle*, TensorHandle*, TensorHandle*);
    Status (*current_stream)(std::int32_t device, void** stream);
    Status (*current_device)(std::int32_t* device);
    Status (*guard_device)(std::int32_t device, GuardHandle*);
    Status (*delete_guard)(GuardHandle);
    // aten's own functions in C++, by names that hold their types: they need neither the dispatcher nor an output that is made
    // beforehand, and the caller gets torch's own exceptions. They return an at::Tensor, which is one pointer that the caller
    // owns, at the address of the first argument.
    void (*mm)(void* result, const void* a, const void* b);
    void (*bmm)(void* result, const void* a, const void* b);
    void* (*mm_into)(void* out, const void* a, const void* b);
    void* (*bmm_into)(void* out, const void* a, const void* b);
    void (*softmax)(void* result, const void* x, std::int64_t dim, bool half_to_float);  // which has no shim
    void* (*context)();
    bool (*allows_tf32)(const void* context);
    void (*flash_in_cpp)(void* results, const void* q, const void* k, const void* v, double, bool, bool, std::optional<double>);
    void (*cudnn_in_cpp)(void* results, const void* q, const void* k, const void* v, const void* bias, bool, double, bool, bool,
                         std::optional<double>);
    void (*efficient_in_cpp)(void* results, const void* q, const void* k, const void* v, const void* bias, bool, double, bool,
                             std::optional<double>);
} torch_;

template <typename F>
bool find(void* library, const char* name, F*& function) {
    function = library == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(library, name));
    return function != nullptr;
}

// A reference that the callee of a boxed kernel owns.
class Owned {
  public:
    explicit Owned(TensorHandle handle) : handle_(handle) {}
    explicit Owned(Value value) : handle_(reinterpret_cast<TensorHandle>(value)) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        if (handle_ != nullptr) torch_.delete_tensor(handle_);
    }
    [[nodiscard]] TensorHandle get() const { return handle_; }
    TensorHandle release() {
        TensorHandle const handle = handle_;
        handle_ = nullptr;
        return handle;
    }

  private:
    TensorHandle handle_;
};

// ---- keys ----

constexpr std::size_t kMostWords = 48;  // at most 34 are used, by attention in f32
constexpr std::int64_t kMostAlign = 16;

struct Key {
    std::int64_t words[kMostWords];
    std::uint32_t count = 0;

    void add(std::int64_t word) { words[count++] = word; }
    [[nodiscard]] std::uint64_t hash() const {
        std::uint64_t value = 0x9e3779b97f4a7c15ULL;
        for (std::uint32_t i = 0; i < count; ++i) {
            value ^= static_cast<std::uint64_t>(words[i]);
            value *= 0xff51afd7ed558ccdULL;
            value ^= value >> 32;
        }
        return value;
    }
    bool operator==(const Key& other) const {
        return count == other.count && std::memcmp(words, other.words, count * sizeof words[0]) == 0;
    }
};

struct View {
    TensorHandle handle;
    std::int64_t dim;
    std::int64_t *sizes, *strides;
    std::int32_t dtype, device_type, device;
    void* data;
};

bool view_of(TensorHandle handle, View& view) {
    view.handle = handle;
    return torch_.get_dim(handle, &view.dim) == 0 && torch_.get_sizes(handle, &view.sizes) == 0 &&
           torch_.get_strides(handle, &view.strides) == 0 && torch_.get_dtype(handle, &view.dtype) == 0 &&
           torch_.get_device_type(handle, &view.device_type) == 0 && torch_.get_device_index(handle, &view.device) == 0;
}

bool has_data(View& view) {
    return torch_.get_data_ptr(view.handle, &view.data) == 0 && view.data != nullptr;
}

void add_view(Key& key, const View& view) {
    for (std::int64_t i = 0; i < view.dim; ++i) key.add(view.sizes[i]);
    for (std::int64_t i = 0; i < view.dim; ++i) key.add(view.strides[i]);
    const auto low = reinterpret_cast<std::uintptr_t>(view.data) & (kMostAlign - 1);
    key.add(low == 0 ? kMostAlign : static_cast<std::int64_t>(low & -low));
}

// ---- the table ----

}  // namespace

extern "C" {

// Runs the calls of a key. Written by _shims.py.
struct autotune_torch_entry {
    autotune_plan plan;
    std::size_t workspace_bytes, workspace_zero_bytes;
    std::int32_t in_stream, in_graphs;  // whether our kernel won in a stream, and in graphs
    std::int64_t strides[4];            // strides of attention's output
};

// autotune_gemm() and autotune_run().
using autotune_torch_gemm = autotune_status (*)(autotune_plan, const void* alpha, const void* a, const void* b, const void* beta,
                                                void* c, void* workspace, std::size_t workspace_bytes,
                                                struct CUstream_st* stream);
using autotune_torch_run = autotune_status (*)(autotune_plan, const autotune_call* call, struct CUstream_st* stream);

}  // extern "C"

namespace {

// A set of sizes, with false positives: a call of other sizes than these has no entry in the table.
class Filter {
  public:
    static std::uint32_t bit_of(std::int64_t code, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
        std::uint64_t value = static_cast<std::uint64_t>(code) * 0x9e3779b97f4a7c15ULL;
        value = (value ^ static_cast<std::uint64_t>(rows)) * 0xff51afd7ed558ccdULL;
        value = (value ^ static_cast<std::uint64_t>(inner)) * 0xc4ceb9fe1a85ec53ULL;
        value = (value ^ static_cast<std::uint64_t>(columns)) * 0xff51afd7ed558ccdULL;
        return static_cast<std::uint32_t>(value >> 52);
    }
    void add(std::uint32_t bit) { words_[bit / 64] |= std::uint64_t{1} << (bit % 64); }
    [[nodiscard]] bool may_have(std::uint32_t bit) const { return (words_[bit / 64] >> (bit % 64) & 1) != 0; }

  private:
    std::uint64_t words_[(1 << 12) / 64] = {};
};

std::uint32_t filter_bit_of(const Key& key);

struct Slot {
    Key key;
    autotune_torch_entry entry{};
    bool is_used = false;
    mutable std::atomic<bool> has_failed{false};
};

struct Table {
    explicit Table(std::size_t count) : mask(size_for(count) - 1), slots(mask + 1) {}

    static std::size_t size_for(std::size_t count) {
        std::size_t size = 16;
        while (size < 2 * count) size *= 2;
        return size;
    }
    void add(const Key& key, const autotune_torch_entry& entry) {
        std::size_t at = key.hash() & mask;
        while (slots[at].is_used && !(slots[at].key == key)) at = (at + 1) & mask;
        slots[at].key = key;
        slots[at].entry = entry;
        slots[at].is_used = true;
        filter.add(filter_bit_of(key));
    }
    [[nodiscard]] const Slot* find(const Key& key, std::uint64_t hash) const {
        for (std::size_t at = hash & mask; slots[at].is_used; at = (at + 1) & mask)
            if (slots[at].key == key) return &slots[at];
        return nullptr;
    }

    std::size_t mask;
    Filter filter;
    std::vector<Slot> slots;
};

std::atomic<const Table*> table{nullptr};
std::atomic<std::uint64_t> taken{0}, failed{0};
autotune_torch_gemm launch_gemm = nullptr;
autotune_torch_run launch_run = nullptr;

// Keys that were not in the table, each once. A slot is taken by the thread that writes its hash, and read once its key is
// written.
constexpr std::size_t kMisses = 4096;  // a power of two; half of them are used at most
struct Miss {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<bool> is_written{false};
    Key key;
};
Miss misses[kMisses];
std::atomic<std::uint32_t> miss_count{0};
std::atomic<bool> notes_misses{false};

void note_miss(const Key& key, std::uint64_t key_hash) {
    const std::uint64_t hash = key_hash | 1;
    for (std::size_t at = hash & (kMisses - 1), tries = 0; tries < 8; ++tries, at = (at + 1) & (kMisses - 1)) {
        std::uint64_t found = misses[at].hash.load(std::memory_order_relaxed);
        if (found == hash) return;
        if (found != 0) continue;
        if (miss_count.load(std::memory_order_relaxed) >= kMisses / 2) return;
        if (misses[at].hash.compare_exchange_strong(found, hash, std::memory_order_relaxed)) {
            miss_count.fetch_add(1, std::memory_order_relaxed);
            misses[at].key = key;
            misses[at].is_written.store(true, std::memory_order_release);
            return;
        }
        if (found == hash) return;
    }
}

// The slot that takes the call over, or NULL.
const Slot* slot_of(const Table& winners, const Key& key) {
    const std::uint64_t hash = key.hash();
    const Slot* const slot = winners.find(key, hash);
    if (slot == nullptr && notes_misses.load(std::memory_order_relaxed)) note_miss(key, hash);
    return slot;
}

// The table, or NULL if no entry has such sizes and no misses are noted.
const Table* table_for(std::int64_t code, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    const Table* const winners = table.load(std::memory_order_acquire);
    if (winners == nullptr) return nullptr;
    if (winners->filter.may_have(Filter::bit_of(code, rows, inner, columns))) return winners;
    return notes_misses.load(std::memory_order_relaxed) ? winners : nullptr;
}

// ---- the driver: what a launch needs besides the plan ----

int (*is_capturing_)(CUstream_st*, int*) = nullptr;
int (*memset_)(std::uintptr_t, unsigned char, std::size_t, CUstream_st*) = nullptr;

bool is_captured(CUstream_st* stream) {
    int status = 0;
    return is_capturing_ != nullptr && is_capturing_(stream, &status) == 0 && status != 0;
}

// ---- products ----

enum Code : std::int64_t { kMm = 1, kBmm, kMmOut, kBmmOut };

// The table if it may have a product of these tensors; NULL if they are not such tensors.
const Table* table_for_product(Code code, std::int64_t dim, TensorHandle a, TensorHandle b) {
    std::int64_t a_dim = 0, b_dim = 0, *a_sizes = nullptr, *b_sizes = nullptr;
    if (torch_.get_dim(a, &a_dim) != 0 || a_dim != dim || torch_.get_dim(b, &b_dim) != 0 || b_dim != dim ||
        torch_.get_sizes(a, &a_sizes) != 0 || torch_.get_sizes(b, &b_sizes) != 0)
        return nullptr;
    return table_for(code, a_sizes[dim - 2], a_sizes[dim - 1], b_sizes[dim - 1]);
}

// Makes the tensors' device current, if another one is.
class OnDevice {
  public:
    explicit OnDevice(std::int32_t device) {
        std::int32_t current = device;
        if (torch_.current_device == nullptr) return;
        is_right_ = torch_.current_device(&current) == 0 && (current == device || torch_.guard_device(device, &guard_) == 0);
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    ~OnDevice() {
        if (guard_ != nullptr) torch_.delete_guard(guard_);
    }
    [[nodiscard]] bool is_right() const { return is_right_; }

  private:
    GuardHandle guard_ = nullptr;
    bool is_right_ = true;
};

// Launches the plan of a slot on the stream of a tensor's device, by launch(workspace, stream); false if aten must run the call.
template <typename Launch>
bool run_plan(const Slot& slot, const View& first, const Launch& launch) {
    const autotune_torch_entry& entry = slot.entry;
    if (slot.has_failed.load(std::memory_order_relaxed)) return false;
    const OnDevice on(first.device);
    void* stream = nullptr;
    if (!on.is_right() || (torch_.current_stream != nullptr && torch_.current_stream(first.device, &stream) != 0)) return false;
    auto* const raw = static_cast<CUstream_st*>(stream);
    if (entry.in_stream != entry.in_graphs && (is_captured(raw) ? entry.in_graphs : entry.in_stream) == 0) return false;
    // Freed when this function returns. torch's allocator gives the memory only to later calls on the same stream, which run
    // after this one.
    TensorHandle memory = nullptr;
    if (entry.workspace_bytes != 0) {
        const std::int64_t size = static_cast<std::int64_t>(entry.workspace_bytes), one = 1;
        constexpr std::int32_t kBytes = 0;  // torch.uint8
        if (torch_.empty_strided(1, &size, &one, kBytes, first.device_type, first.device, &memory) != 0) return false;
    }
    const Owned workspace(memory);
    void* address = nullptr;
    if (memory != nullptr && torch_.get_data_ptr(memory, &address) != 0) return false;
    if (entry.workspace_zero_bytes != 0 &&
        (memset_ == nullptr || memset_(reinterpret_cast<std::uintptr_t>(address), 0, entry.workspace_zero_bytes, raw) != 0))
        return false;
    if (launch(address, raw) != AUTOTUNE_OK) {
        slot.has_failed.store(true, std::memory_order_relaxed);  // aten's from now on
        failed.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    taken.fetch_add(1, std::memory_order_relaxed);
    return true;
}

bool run_product(const Slot& slot, const View& a, const View& b, void* c) {
    return run_plan(slot, a, [&](void* workspace, CUstream_st* stream) {
        const float alpha = 1, beta = 0;
        return launch_gemm(slot.entry.plan, &alpha, a.data, b.data, &beta, c, workspace, slot.entry.workspace_bytes, stream);
    });
}

bool run_described(const Slot& slot, const View& first, const void* const* tensors, std::size_t count, const float* scale) {
    return run_plan(slot, first, [&](void* workspace, CUstream_st* stream) {
        autotune_scalar scalar{};
        scalar.type = AUTOTUNE_SCALAR_F32;
        if (scale != nullptr) scalar.value.f32 = *scale;
        const autotune_call call{sizeof(autotune_call),
                                 tensors,
                                 count,
                                 scale == nullptr ? nullptr : &scalar,
                                 scale == nullptr ? 0U : 1U,
                                 workspace,
                                 slot.entry.workspace_bytes};
        return launch_run(slot.entry.plan, &call, stream);
    });
}

constexpr std::int32_t kF16 = 5, kF32 = 6, kBf16 = 15, kI64 = 4;  // torch's numbers of its types

bool has_kernels(const View& view) {
    return view.dtype == kBf16 || view.dtype == kF16 || view.dtype == kF32;
}

// Adds the type that a product is computed in; false if aten must run the product. The precision of f32 is a setting of torch,
// whose C++ function is found by its name.
bool add_compute(Key& key, const View& view) {
    if (!has_kernels(view)) return false;
    key.add(view.dtype);
    if (view.dtype != kF32) return true;
    if (torch_.context == nullptr || torch_.allows_tf32 == nullptr) return false;
    try {
        key.add(torch_.allows_tf32(torch_.context()) ? 1 : 0);
    } catch (...) {  // torch throws if its older and newer settings were mixed
        return false;
    }
    return true;
}

[[noreturn]] void fail(const char* name) {
    throw std::runtime_error(std::string("aten::") + name + " failed; torch's message is on the standard error stream");
}

bool is_product(const View& a, const View& b, std::int64_t dim) {
    return a.dim == dim && b.dim == dim && a.dtype == b.dtype && a.device_type == b.device_type && a.device == b.device &&
           a.sizes[dim - 1] == b.sizes[dim - 2] && (dim == 2 || a.sizes[0] == b.sizes[0]);
}

TensorHandle handle_of(void* tensor) {
    auto* const made = static_cast<void**>(::operator new(sizeof tensor));
    *made = tensor;
    return reinterpret_cast<TensorHandle>(made);
}

// Runs the product by aten's own C++ function: without the dispatcher, and with torch's own exceptions.
TensorHandle by_torch(bool is_batched, TensorHandle a, TensorHandle b) {
    void* result = nullptr;
    (is_batched ? torch_.bmm : torch_.mm)(&result, a, b);
    return handle_of(result);
}

// Our plan's result, or NULL if aten must run the call.
template <bool kBatched>
TensorHandle product_by_us(const Table& winners, TensorHandle a_handle, TensorHandle b_handle) {
    constexpr std::int64_t kDim = kBatched ? 3 : 2;
    View a, b;
    if (!view_of(a_handle, a) || !view_of(b_handle, b) || !is_product(a, b, kDim) || !has_data(a) || !has_data(b)) return nullptr;
    Key key;
    key.add(kBatched ? kBmm : kMm);
    if (!add_compute(key, a)) return nullptr;
    key.add(a.device);
    add_view(key, a);
    add_view(key, b);
    const Slot* const slot = slot_of(winners, key);
    if (slot == nullptr) return nullptr;
    const std::int64_t rows = a.sizes[kDim - 2], columns = b.sizes[kDim - 1];
    const std::int64_t sizes[] = {a.sizes[0], kBatched ? rows : columns, columns};
    const std::int64_t strides[] = {kBatched ? (rows > 0 ? rows : 1) * (columns > 0 ? columns : 1) : (columns > 0 ? columns : 1),
                                    kBatched ? (columns > 0 ? columns : 1) : 1, 1};
    TensorHandle made = nullptr;
    if (torch_.empty_strided(kDim, sizes, strides, a.dtype, a.device_type, a.device, &made) != 0) return nullptr;
    Owned out(made);
    void* c = nullptr;
    return torch_.get_data_ptr(made, &c) == 0 && run_product(*slot, a, b, c) ? out.release() : nullptr;
}

template <bool kBatched>
void on_product(Value* stack, std::uint64_t, std::uint64_t) {
    const Owned a(stack[0]), b(stack[1]);
    const Table* const winners = table_for_product(kBatched ? kBmm : kMm, kBatched ? 3 : 2, a.get(), b.get());
    TensorHandle made = winners == nullptr ? nullptr : product_by_us<kBatched>(*winners, a.get(), b.get());
    if (made == nullptr) made = by_torch(kBatched, a.get(), b.get());
    stack[0] = reinterpret_cast<Value>(made);
}

template <bool kBatched>
bool product_into_by_us(const Table& winners, TensorHandle out, TensorHandle a_handle, TensorHandle b_handle) {
    constexpr std::int64_t kDim = kBatched ? 3 : 2;
    View a, b, c;
    if (!view_of(a_handle, a) || !view_of(b_handle, b) || !view_of(out, c) || !is_product(a, b, kDim) || c.dim != kDim ||
        c.dtype != a.dtype || c.device_type != a.device_type || c.device != a.device || !has_data(a) || !has_data(b) ||
        !has_data(c))
        return false;
    Key key;
    key.add(kBatched ? kBmmOut : kMmOut);
    if (!add_compute(key, a)) return false;
    key.add(a.device);
    add_view(key, a);
    add_view(key, b);
    add_view(key, c);
    const Slot* const slot = slot_of(winners, key);
    return slot != nullptr && run_product(*slot, a, b, c.data);
}

template <bool kBatched>
void on_product_out(Value* stack, std::uint64_t, std::uint64_t) {
    const Owned a(stack[0]), b(stack[1]);
    Owned out(stack[2]);
    const Table* const winners = table_for_product(kBatched ? kBmmOut : kMmOut, kBatched ? 3 : 2, a.get(), b.get());
    if (winners == nullptr || !product_into_by_us<kBatched>(*winners, out.get(), a.get(), b.get()))
        (kBatched ? torch_.bmm_into : torch_.mm_into)(out.get(), a.get(), b.get());
    stack[0] = reinterpret_cast<Value>(out.release());
}

// ---- softmax ----

constexpr std::int64_t kSoftmax = 5, kMostDims = 5;

void on_softmax(Value* stack, std::uint64_t, std::uint64_t) {
    const Owned x_owned(stack[0]);
    const auto dim = static_cast<std::int64_t>(stack[1]);
    const bool half_to_float = (stack[2] & 0xff) != 0;
    View x;
    const Table* winners = nullptr;
    std::int64_t dims = 0, *sizes = nullptr;
    if (!half_to_float && torch_.get_dim(x_owned.get(), &dims) == 0 && dims >= 1 && dims <= kMostDims &&
        (dim == -1 || dim == dims - 1) && torch_.get_sizes(x_owned.get(), &sizes) == 0)
        winners = table_for(kSoftmax, dims, sizes[0], sizes[dims - 1]);
    if (winners != nullptr && view_of(x_owned.get(), x) && has_kernels(x) && has_data(x)) {
        Key key;
        key.add(kSoftmax);
        key.add(x.dtype);
        key.add(x.device);
        add_view(key, x);
        const Slot* const slot = slot_of(*winners, key);
        TensorHandle made = nullptr;
        if (slot != nullptr && torch_.empty_strided(x.dim, x.sizes, x.strides, x.dtype, x.device_type, x.device, &made) == 0) {
            Owned y(made);
            void* address = nullptr;
            if (torch_.get_data_ptr(made, &address) == 0) {
                const void* const tensors[] = {x.data, address, nullptr};
                if (run_described(*slot, x, tensors, 3, nullptr)) {
                    stack[0] = reinterpret_cast<Value>(y.release());
                    return;
                }
            }
        }
    }
    void* result = nullptr;
    torch_.softmax(&result, x_owned.get(), dim, half_to_float);
    stack[0] = reinterpret_cast<Value>(handle_of(result));
}

// ---- attention ----

enum Attention : std::int64_t { kFlash = 16, kCudnn, kEfficient };

// A double that a boxed kernel is given in memory of its own, or nothing.
class OwnedScalar {
  public:
    explicit OwnedScalar(Value value) : at_(reinterpret_cast<Value*>(value)) {}
    OwnedScalar(const OwnedScalar&) = delete;
    OwnedScalar& operator=(const OwnedScalar&) = delete;
    ~OwnedScalar() { delete at_; }
    [[nodiscard]] double* get() const { return reinterpret_cast<double*>(at_); }

  private:
    Value* at_;
};

// A tensor that a boxed kernel is given in memory of its own, or nothing.
class OwnedOptional {
  public:
    explicit OwnedOptional(Value value) : at_(reinterpret_cast<TensorHandle*>(value)) {}
    OwnedOptional(const OwnedOptional&) = delete;
    OwnedOptional& operator=(const OwnedOptional&) = delete;
    ~OwnedOptional() {
        if (at_ == nullptr) return;
        torch_.delete_tensor(*at_);
        delete reinterpret_cast<Value*>(at_);
    }
    [[nodiscard]] TensorHandle* get() const { return at_; }

  private:
    TensorHandle* at_;
};

// A std::optional<at::Tensor> that a function in C++ reads: an at::Tensor is one pointer.
struct OptionalInCpp {
    explicit OptionalInCpp(TensorHandle* handle) : has_value(handle != nullptr) {
        if (has_value) std::memcpy(&tensor, *handle, sizeof tensor);
    }
    void* tensor = nullptr;
    bool has_value;
};

std::optional<double> in_cpp(const double* scalar) {
    return scalar == nullptr ? std::nullopt : std::optional<double>(*scalar);
}

// Room for the results of attention in C++, at most nine of eight bytes. The functions are called where torch's C function has
// failed, for their exception: a program looks for torch's OutOfMemoryError.
struct alignas(16) ResultsInCpp {
    unsigned char bytes[128];
};

double as_double(Value value) {
    double result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

struct Attended {
    TensorHandle o = nullptr, lse = nullptr;
};

// The table if it may have attention of these tensors.
const Table* table_for_attention(Attention which, TensorHandle q, TensorHandle k) {
    std::int64_t q_dim = 0, k_dim = 0, *q_sizes = nullptr, *k_sizes = nullptr;
    if (torch_.get_dim(q, &q_dim) != 0 || q_dim != 4 || torch_.get_dim(k, &k_dim) != 0 || k_dim != 4 ||
        torch_.get_sizes(q, &q_sizes) != 0 || torch_.get_sizes(k, &k_sizes) != 0)
        return nullptr;
    return table_for(which, q_sizes[1], q_sizes[2], k_sizes[2]);
}

// Computes o and the logarithms by our kernel, in the form of the operator `which` of aten; false if aten must run the call.
bool attend(const Table* winners, Attention which, const View& q, const View& k, const View& v, bool is_causal,
            const double* scale, bool with_lse, Attended& made) {
    const float factor = scale == nullptr ? 1.0F / std::sqrt(static_cast<float>(q.sizes[3])) : static_cast<float>(*scale);
    if (!(factor > 0) || !std::isfinite(factor)) return false;  // our kernels take no other
    Key key;
    key.add(which);
    if (!add_compute(key, q)) return false;
    key.add(q.device);
    key.add(is_causal ? 1 : 0);
    key.add(with_lse ? 1 : 0);
    add_view(key, q);
    add_view(key, k);
    add_view(key, v);
    const Slot* const slot = slot_of(*winners, key);
    if (slot == nullptr) return false;
    const std::int64_t sizes[] = {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
    const bool has_rows = which != kEfficient;
    const std::int64_t lse_sizes[] = {sizes[0], sizes[1], has_rows ? sizes[2] : 0, 1};
    const std::int64_t lse_strides[] = {sizes[1] * sizes[2], sizes[2], 1, 1};
    TensorHandle o = nullptr, lse = nullptr;
    if (torch_.empty_strided(4, sizes, slot->entry.strides, q.dtype, q.device_type, q.device, &o) != 0) return false;
    Owned o_owned(o);
    if (torch_.empty_strided(which == kCudnn ? 4 : 3, lse_sizes, lse_strides, kF32, q.device_type, q.device, &lse) != 0)
        return false;
    Owned lse_owned(lse);
    void *o_data = nullptr, *lse_data = nullptr;
    if (torch_.get_data_ptr(o, &o_data) != 0 || (with_lse && torch_.get_data_ptr(lse, &lse_data) != 0)) return false;
    const void* const tensors[] = {q.data, k.data, v.data, o_data, lse_data};
    if (!run_described(*slot, q, tensors, 5, &factor)) return false;
    made.o = o_owned.release();
    made.lse = lse_owned.release();
    return true;
}

bool fits_attention(View& q, View& k, View& v) {
    return q.dim == 4 && k.dim == 4 && v.dim == 4 && k.dtype == q.dtype && v.dtype == q.dtype && k.device_type == q.device_type &&
           v.device_type == q.device_type && k.device == q.device && v.device == q.device && has_data(q) && has_data(k) &&
           has_data(v);
}

Value new_tensor(const View& like, std::int64_t dim, std::int64_t size, std::int32_t dtype) {
    const std::int64_t one = 1;
    TensorHandle made = nullptr;
    if (torch_.empty_strided(dim, &size, &one, dtype, like.device_type, like.device, &made) != 0) fail("empty_strided");
    return reinterpret_cast<Value>(made);
}

Value undefined() {
    TensorHandle made = nullptr;
    if (torch_.new_undefined(&made) != 0) fail("attention");
    return reinterpret_cast<Value>(made);
}

// The first six of the nine results of our attention: the output, its logarithms, no offsets, and the lengths.
void put_first_six(Value* stack, const Attended& made, const View& q, const View& k) {
    stack[0] = reinterpret_cast<Value>(made.o);
    stack[1] = reinterpret_cast<Value>(made.lse);
    stack[2] = undefined();
    stack[3] = undefined();
    stack[4] = static_cast<Value>(q.sizes[2]);
    stack[5] = static_cast<Value>(k.sizes[2]);
}

void put_nine(Value* stack, TensorHandle* tensors, const std::int64_t* lengths) {
    for (int i = 0; i < 4; ++i) stack[i] = reinterpret_cast<Value>(tensors[i]);
    stack[4] = static_cast<Value>(lengths[0]);
    stack[5] = static_cast<Value>(lengths[1]);
    for (int i = 0; i < 3; ++i) stack[6 + i] = reinterpret_cast<Value>(tensors[4 + i]);
}

// (q, k, v, dropout_p, is_causal, return_debug_mask, *, scale)
void on_flash(Value* stack, std::uint64_t, std::uint64_t) {
    const Owned q_owned(stack[0]), k_owned(stack[1]), v_owned(stack[2]);
    const double dropout = as_double(stack[3]);
    const bool is_causal = (stack[4] & 0xff) != 0, returns_mask = (stack[5] & 0xff) != 0;
    const OwnedScalar scale(stack[6]);
    View q, k, v;
    Attended made;
    const Table* const winners =
        dropout == 0 && !returns_mask ? table_for_attention(kFlash, q_owned.get(), k_owned.get()) : nullptr;
    const bool is_ours = winners != nullptr && view_of(q_owned.get(), q) && view_of(k_owned.get(), k) &&
                         view_of(v_owned.get(), v) && fits_attention(q, k, v) && q.sizes[3] == v.sizes[3] &&
                         !(is_causal && q.sizes[2] != k.sizes[2]) &&
                         attend(winners, kFlash, q, k, v, is_causal, scale.get(), true, made);
    if (is_ours) {
        put_first_six(stack, made, q, k);
        stack[6] = new_tensor(q, 1, 2, torch_.dtype_uint64());
        stack[7] = new_tensor(q, 0, 0, torch_.dtype_uint64());
        stack[8] = new_tensor(q, 1, 0, q.dtype);
        return;
    }
    TensorHandle t[7] = {};
    std::int64_t lengths[2] = {};
    if (torch_.flash == nullptr) fail("_scaled_dot_product_flash_attention");
    if (torch_.flash(q_owned.get(), k_owned.get(), v_owned.get(), dropout, is_causal ? 1 : 0, returns_mask ? 1 : 0, scale.get(),
                     &t[0], &t[1], &t[2], &t[3], &lengths[0], &lengths[1], &t[4], &t[5], &t[6]) != 0) {
        if (torch_.flash_in_cpp != nullptr) {  // for its exception
            ResultsInCpp results;
            torch_.flash_in_cpp(&results, q_owned.get(), k_owned.get(), v_owned.get(), dropout, is_causal, returns_mask,
                                in_cpp(scale.get()));
        }
        fail("_scaled_dot_product_flash_attention");
    }
    put_nine(stack, t, lengths);
}

// (q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask, *, scale)
void on_cudnn(Value* stack, std::uint64_t, std::uint64_t) {
    const Owned q_owned(stack[0]), k_owned(stack[1]), v_owned(stack[2]);
    const OwnedOptional bias(stack[3]);
    const bool with_lse = (stack[4] & 0xff) != 0, is_causal = (stack[6] & 0xff) != 0, returns_mask = (stack[7] & 0xff) != 0;
    const double dropout = as_double(stack[5]);
    const OwnedScalar scale(stack[8]);
    View q, k, v;
    Attended made;
    const bool may_be = dropout == 0 && !returns_mask && bias.get() == nullptr;
    const Table* const winners = may_be ? table_for_attention(kCudnn, q_owned.get(), k_owned.get()) : nullptr;
    const bool is_ours = winners != nullptr && view_of(q_owned.get(), q) && view_of(k_owned.get(), k) &&
                         view_of(v_owned.get(), v) && fits_attention(q, k, v) &&
                         attend(winners, kCudnn, q, k, v, is_causal, scale.get(), with_lse, made);
    if (is_ours) {
        put_first_six(stack, made, q, k);
        stack[6] = new_tensor(q, 0, 0, kI64);
        stack[7] = new_tensor(q, 0, 0, kI64);
        stack[8] = undefined();
        return;
    }
    TensorHandle t[7] = {};
    std::int64_t lengths[2] = {};
    if (torch_.cudnn == nullptr) fail("_scaled_dot_product_cudnn_attention");
    if (torch_.cudnn(q_owned.get(), k_owned.get(), v_owned.get(), bias.get(), with_lse ? 1 : 0, dropout, is_causal ? 1 : 0,
                     returns_mask ? 1 : 0, scale.get(), &t[0], &t[1], &t[2], &t[3], &lengths[0], &lengths[1], &t[4], &t[5],
                     &t[6]) != 0) {
        if (torch_.cudnn_in_cpp != nullptr) {
            ResultsInCpp results;
            const OptionalInCpp bias_in_cpp(bias.get());
            torch_.cudnn_in_cpp(&results, q_owned.get(), k_owned.get(), v_owned.get(), &bias_in_cpp, with_lse, dropout, is_causal,
                                returns_mask, in_cpp(scale.get()));
        }
        fail("_scaled_dot_product_cudnn_attention");
    }
    put_nine(stack, t, lengths);
}

// (q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale)
void on_efficient(Value* stack, std::uint64_t, std::uint64_t) {
    const Owned q_owned(stack[0]), k_owned(stack[1]), v_owned(stack[2]);
    const OwnedOptional bias(stack[3]);
    const bool with_lse = (stack[4] & 0xff) != 0, is_causal = (stack[6] & 0xff) != 0;
    const double dropout = as_double(stack[5]);
    const OwnedScalar scale(stack[7]);
    View q, k, v;
    Attended made;
    // This operator pads logarithms to 32 rows, and our kernels do not.
    const bool may_be = dropout == 0 && bias.get() == nullptr && !with_lse;
    const Table* const winners = may_be ? table_for_attention(kEfficient, q_owned.get(), k_owned.get()) : nullptr;
    const bool is_ours = winners != nullptr && view_of(q_owned.get(), q) && view_of(k_owned.get(), k) &&
                         view_of(v_owned.get(), v) && fits_attention(q, k, v) &&
                         attend(winners, kEfficient, q, k, v, is_causal, scale.get(), false, made);
    if (is_ours) {
        stack[0] = reinterpret_cast<Value>(made.o);
        stack[1] = reinterpret_cast<Value>(made.lse);
        stack[2] = new_tensor(q, 0, 0, kI64);
        stack[3] = new_tensor(q, 0, 0, kI64);
        return;
    }
    TensorHandle t[4] = {};
    if (torch_.efficient == nullptr) fail("_scaled_dot_product_efficient_attention");
    if (torch_.efficient(q_owned.get(), k_owned.get(), v_owned.get(), bias.get(), with_lse ? 1 : 0, dropout, is_causal ? 1 : 0,
                         scale.get(), &t[0], &t[1], &t[2], &t[3]) != 0) {
        if (torch_.efficient_in_cpp != nullptr) {
            ResultsInCpp results;
            const OptionalInCpp bias_in_cpp(bias.get());
            torch_.efficient_in_cpp(&results, q_owned.get(), k_owned.get(), v_owned.get(), &bias_in_cpp, with_lse, dropout,
                                    is_causal, in_cpp(scale.get()));
        }
        fail("_scaled_dot_product_efficient_attention");
    }
    for (int i = 0; i < 4; ++i) stack[i] = reinterpret_cast<Value>(t[i]);
}

// The bit of the filter of a key, which table_for() computes from the sizes of a call: of products the rows, the length of the
// sums and the columns; of attention the heads and the two lengths; of softmax how many dimensions, the first and the last size.
std::uint32_t filter_bit_of(const Key& key) {
    const std::int64_t* words = key.words + 1;
    const std::int64_t code = key.words[0];
    const std::int64_t number = *words++;
    if (number == kF32 && code != kSoftmax) ++words;  // whether tf32 is allowed
    ++words;                                          // the device
    if (code == kSoftmax) {
        const std::int64_t dims = (key.count - 4) / 2;
        return Filter::bit_of(code, dims, words[0], words[dims - 1]);
    }
    if (code >= kFlash) {
        const std::int64_t *const q = words + 2, *const k = q + 9;
        return Filter::bit_of(code, q[1], q[2], k[2]);
    }
    const std::int64_t dim = code == kMm || code == kMmOut ? 2 : 3;
    const std::int64_t* const b = words + 2 * dim + 1;
    return Filter::bit_of(code, words[dim - 2], words[dim - 1], b[dim - 1]);
}

// The kernels, each registered in a library of its own. Bits of autotune_torch_install() count from the first.
struct Kernel {
    const char* name;
    Boxed function;
    const char* needs;
    bool (*is_there)(bool is_host);
};
constexpr const char* kAttentionShims = "aoti_torch_cuda__scaled_dot_product_*_attention";
// torch for the CPU alone lacks the shims of attention. Tests register ours there all the same and never let a call go to aten.
const Kernel kKernels[] = {
    {"mm", on_product<false>, "at::cuda::mm(at::Tensor const&, at::Tensor const&)", [](bool) { return torch_.mm != nullptr; }},
    {"bmm", on_product<true>, "at::cuda::bmm(at::Tensor const&, at::Tensor const&)", [](bool) { return torch_.bmm != nullptr; }},
    {"mm.out", on_product_out<false>, "at::cuda::mm_out(at::Tensor&, at::Tensor const&, at::Tensor const&)",
     [](bool) { return torch_.mm_into != nullptr; }},
    {"bmm.out", on_product_out<true>, "at::cuda::bmm_out(at::Tensor&, at::Tensor const&, at::Tensor const&)",
     [](bool) { return torch_.bmm_into != nullptr; }},
    {"_softmax", on_softmax, "at::cuda::_softmax(at::Tensor const&, long, bool)", [](bool) { return torch_.softmax != nullptr; }},
    {"_scaled_dot_product_flash_attention", on_flash, kAttentionShims,
     [](bool is_host) { return is_host || torch_.flash != nullptr; }},
    {"_scaled_dot_product_cudnn_attention", on_cudnn, kAttentionShims,
     [](bool is_host) { return is_host || torch_.cudnn != nullptr; }},
    {"_scaled_dot_product_efficient_attention", on_efficient, kAttentionShims,
     [](bool is_host) { return is_host || torch_.efficient != nullptr; }},
};
constexpr std::size_t kKernelCount = sizeof kKernels / sizeof kKernels[0];

std::mutex install_lock;
LibraryHandle libraries[kKernelCount] = {};
bool at_host = false;  // whether the registered kernels are at the host's dispatch key

std::uint32_t registered_kernels() {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < kKernelCount; ++i)
        if (libraries[i] != nullptr) bits |= 1U << i;
    return bits;
}

// The first name of torch that is missing, or NULL.
const char* find_torch(bool is_host) {
    void* const cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_NOW);
    void* const own = is_host ? cpu : dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_NOW);
    if (cpu == nullptr) return "libtorch_cpu.so";
    if (own == nullptr) return "libtorch_cuda.so";
#define NEEDS(library, field, name) \
    if (!find(library, name, torch_.field)) return name
    NEEDS(cpu, get_dim, "aoti_torch_get_dim");
    NEEDS(cpu, get_sizes, "aoti_torch_get_sizes");
    NEEDS(cpu, get_strides, "aoti_torch_get_strides");
    NEEDS(cpu, get_dtype, "aoti_torch_get_dtype");
    NEEDS(cpu, get_device_type, "aoti_torch_get_device_type");
    NEEDS(cpu, get_device_index, "aoti_torch_get_device_index");
    NEEDS(cpu, get_data_ptr, "aoti_torch_get_data_ptr");
    NEEDS(cpu, delete_tensor, "aoti_torch_delete_tensor_object");
    NEEDS(cpu, new_undefined, "aoti_torch_new_uninitialized_tensor");
    NEEDS(cpu, dtype_uint64, "aoti_torch_dtype_uint64");
    NEEDS(cpu, empty_strided, "aoti_torch_empty_strided");
    NEEDS(cpu, library_init, "aoti_torch_library_init_impl");
    NEEDS(cpu, library_impl, "aoti_torch_library_impl");
    NEEDS(cpu, library_delete, "aoti_torch_delete_library_object");
    if (!is_host) {
        NEEDS(own, current_stream, "aoti_torch_get_current_cuda_stream");
        NEEDS(cpu, current_device, "aoti_torch_get_current_device_index");
        NEEDS(own, guard_device, "aoti_torch_create_cuda_guard");
        NEEDS(own, delete_guard, "aoti_torch_delete_cuda_guard");
        void* const driver = dlopen("libcuda.so.1", RTLD_NOW);  // torch loads it later, with its first use of a GPU
        if (driver == nullptr) return "libcuda.so.1";
        if (!find(driver, "cuStreamIsCapturing", is_capturing_)) return "cuStreamIsCapturing";
        if (!find(driver, "cuMemsetD8Async", memset_)) return "cuMemsetD8Async";
    }
#undef NEEDS
    find(own, is_host ? "_ZN2at3cpu2mmERKNS_6TensorES3_" : "_ZN2at4cuda2mmERKNS_6TensorES3_", torch_.mm);
    find(own, is_host ? "_ZN2at3cpu3bmmERKNS_6TensorES3_" : "_ZN2at4cuda3bmmERKNS_6TensorES3_", torch_.bmm);
    find(own, is_host ? "_ZN2at3cpu6mm_outERNS_6TensorERKS1_S4_" : "_ZN2at4cuda6mm_outERNS_6TensorERKS1_S4_", torch_.mm_into);
    find(own, is_host ? "_ZN2at3cpu7bmm_outERNS_6TensorERKS1_S4_" : "_ZN2at4cuda7bmm_outERNS_6TensorERKS1_S4_", torch_.bmm_into);
    find(own, is_host ? "_ZN2at3cpu8_softmaxERKNS_6TensorElb" : "_ZN2at4cuda8_softmaxERKNS_6TensorElb", torch_.softmax);
    find(cpu, "_ZN2at13globalContextEv", torch_.context);
    find(cpu, "_ZNK2at7Context15allowTF32CuBLASEv", torch_.allows_tf32);
    find(own, "aoti_torch_cuda__scaled_dot_product_flash_attention", torch_.flash);
    find(own, "aoti_torch_cuda__scaled_dot_product_cudnn_attention", torch_.cudnn);
    find(own, "aoti_torch_cuda__scaled_dot_product_efficient_attention", torch_.efficient);
    find(own, "_ZN2at4cuda35_scaled_dot_product_flash_attentionERKNS_6TensorES3_S3_dbbSt8optionalIdE", torch_.flash_in_cpp);
    find(own, "_ZN2at4cuda35_scaled_dot_product_cudnn_attentionERKNS_6TensorES3_S3_RKSt8optionalIS1_EbdbbS4_IdE",
         torch_.cudnn_in_cpp);
    find(own, "_ZN2at4cuda39_scaled_dot_product_efficient_attentionERKNS_6TensorES3_S3_RKSt8optionalIS1_EbdbS4_IdE",
         torch_.efficient_in_cpp);
    return nullptr;
}

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

// Registers our kernels whose bit is set at `key`, "CUDA" or, for tests, "CPU". Bit i is the i-th of kKernels. Kernels that are
// registered already stay so. Returns the first name of torch that is missing, or NULL; *installed gets the bits of all kernels
// that are registered.
EXPORT const char* autotune_torch_install(const char* key, std::uint32_t wanted, autotune_torch_gemm gemm, autotune_torch_run run,
                                          std::uint32_t* installed) {
    const std::lock_guard<std::mutex> lock(install_lock);
    const bool is_host = std::strcmp(key, "CPU") == 0;
    *installed = registered_kernels();
    if (*installed != 0 && is_host != at_host) return "the dispatch key of a patch that is active";
    const char* missing = find_torch(is_host);
    if (missing != nullptr) return missing;
    at_host = is_host;
    launch_gemm = gemm;
    launch_run = run;
    for (std::size_t i = 0; i < kKernelCount; ++i) {
        if ((wanted >> i & 1) == 0 || libraries[i] != nullptr) continue;
        if (!kKernels[i].is_there(is_host)) {
            missing = missing == nullptr ? kKernels[i].needs : missing;
            continue;
        }
        if (torch_.library_init("aten", key, "autotune/torch_calls.cpp", 0, &libraries[i]) != 0)
            return "aoti_torch_library_init_impl";
        if (torch_.library_impl(libraries[i], kKernels[i].name, kKernels[i].function) != 0) {
            torch_.library_delete(libraries[i]);
            libraries[i] = nullptr;
        }
    }
    *installed = registered_kernels();
    return missing;
}

// Gives aten its kernels back.
EXPORT void autotune_torch_remove() {
    const std::lock_guard<std::mutex> lock(install_lock);
    table.store(nullptr, std::memory_order_release);
    for (LibraryHandle& each : libraries) {
        if (each != nullptr) torch_.library_delete(each);
        each = nullptr;
    }
}

EXPORT void autotune_torch_note_misses(int does) {
    notes_misses.store(does != 0, std::memory_order_relaxed);
}

// `words` holds `count` keys, each preceded by the number of its words.
EXPORT int autotune_torch_set_table(const std::int64_t* words, const autotune_torch_entry* entries, std::size_t count) {
    auto* const made = new (std::nothrow) Table(count);
    if (made == nullptr) return 1;
    for (std::size_t i = 0; i < count; ++i) {
        Key key;
        const std::int64_t size = *words++;
        if (size < 0 || size > static_cast<std::int64_t>(kMostWords)) return 1;
        for (std::int64_t k = 0; k < size; ++k) key.add(*words++);
        made->add(key, entries[i]);
    }
    table.store(made, std::memory_order_release);  // the previous table stays, because a call may still read it
    return 0;
}

EXPORT void autotune_torch_counts(std::uint64_t* calls_taken, std::uint64_t* calls_failed) {
    *calls_taken = taken.load(std::memory_order_relaxed);
    *calls_failed = failed.load(std::memory_order_relaxed);
}

// Writes the keys that were not in the table as autotune_torch_set_table() takes them; returns how many words that takes.
EXPORT std::size_t autotune_torch_misses(std::int64_t* words, std::size_t most) {
    std::size_t used = 0;
    for (const Miss& each : misses) {
        if (!each.is_written.load(std::memory_order_acquire)) continue;
        if (words != nullptr && used + 1 + each.key.count <= most) {
            words[used] = each.key.count;
            std::memcpy(words + used + 1, each.key.words, each.key.count * sizeof words[0]);
        }
        used += 1 + each.key.count;
    }
    return used;
}

EXPORT void autotune_torch_clear_misses() {
    for (Miss& each : misses) {
        each.is_written.store(false, std::memory_order_relaxed);
        each.hash.store(0, std::memory_order_release);
    }
    miss_count.store(0, std::memory_order_relaxed);
}

}  // extern "C"
