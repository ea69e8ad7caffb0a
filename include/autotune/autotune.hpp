// C++17 on top of autotune.h: owners, exceptions, tuned_gemm(), tuned_add(), tuned_attention(), and tuned() for any op. Header
// only; the rules of autotune.h hold.
#pragma once

#include <autotune/autotune.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace autotune {

// Every function below throws this: the status, with the library's sentence as what().
class StatusError : public std::runtime_error {
  public:
    // Makes an exception of a status and its sentence. If the sentence is empty, it uses autotune_status_string().
    StatusError(autotune_status status, const std::string& message)
        : std::runtime_error(message.empty() ? autotune_status_string(status) : message), status_(status) {}
    // Never AUTOTUNE_OK.
    autotune_status status() const noexcept { return status_; }

  private:
    autotune_status status_;
};

// Throws the sentence of this thread's last call. REQUIRES: `status` is the result of that call. (The handle's last error may be
// another thread's.)
inline void throw_if_failed(autotune_status status) {
    if (status != AUTOTUNE_OK) throw StatusError(status, autotune_last_error(nullptr));
}

// autotune_options with struct_size set; the environment is read.
struct Options : autotune_options {
    // The settings of the `autotune` command.
    Options() : autotune_options{} {
        struct_size = sizeof(autotune_options);
        read_environment = 1;
    }
};

// autotune_gemm_problem with struct_size set: by default an f16 product with f32 accumulation.
struct GemmProblem : autotune_gemm_problem {
    // C has `rows` x `cols` elements, and each is a sum of `depth` products; each extent may be 0.
    GemmProblem(std::int64_t rows, std::int64_t cols, std::int64_t depth) : autotune_gemm_problem{} {
        struct_size = sizeof(autotune_gemm_problem);
        m = rows;
        n = cols;
        k = depth;
        batch = 1;
        accumulator = AUTOTUNE_F32;
    }
};

// autotune_add_problem with struct_size set: f32 by default.
struct AddProblem : autotune_add_problem {
    // 0 to 2^40 elements.
    explicit AddProblem(std::int64_t elements, autotune_dtype element_type = AUTOTUNE_F32) : autotune_add_problem{} {
        struct_size = sizeof(autotune_add_problem);
        length = elements;
        type = element_type;
    }
};

// autotune_attention_problem with struct_size set: by default bf16, no mask, as many keys as queries.
struct AttentionProblem : autotune_attention_problem {
    // Self-attention: keys have as many heads and rows as queries; `head_size` is that of Q, K and V.
    AttentionProblem(std::int64_t batches, std::int64_t heads, std::int64_t length, std::int64_t head_size)
        : autotune_attention_problem{} {
        struct_size = sizeof(autotune_attention_problem);
        batch = batches;
        q_heads = heads;
        q_len = length;
        d = head_size;
        type = AUTOTUNE_BF16;
    }
};

// Owns an autotune_handle.
class Handle {
  public:
    // autotune_create(). Throws StatusError.
    explicit Handle(const Options& options = Options()) { throw_if_failed(autotune_create(&raw_, &options)); }
    ~Handle() { autotune_destroy(raw_); }
    Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    // The handle for functions of autotune.h. It is NULL after a move.
    autotune_handle get() const noexcept { return raw_; }

    // Plans that were made before are looked up again the next time they are requested.
    void refresh() const { throw_if_failed(autotune_refresh(raw_)); }
    // Waits until the library's own threads are idle (AUTOTUNE_ON_MISS_BACKGROUND).
    void finish() const { throw_if_failed(autotune_finish(raw_)); }
    // Loads every kernel that plans of the problem use for an m from 1 to the problem's; returns the number of kernels.
    std::size_t warm(const autotune_gemm_problem& problem) const {
        std::size_t kernels = 0;
        throw_if_failed(autotune_gemm_warm(raw_, &problem, &kernels));
        return kernels;
    }

  private:
    autotune_handle raw_ = nullptr;
};

// Owns an autotune_plan: the base of plans of all ops. The handle may be destroyed before it.
class PlanBase {
  public:
    ~PlanBase() { autotune_plan_destroy(raw_); }
    PlanBase(PlanBase&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    PlanBase& operator=(PlanBase&& other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }

    // The plan for functions of autotune.h. It is NULL after a move.
    autotune_plan get() const noexcept { return raw_; }
    // Device memory that a call needs: autotune_plan_workspace().
    std::size_t workspace_bytes() const {
        std::size_t bytes = 0;
        throw_if_failed(autotune_plan_workspace(raw_, &bytes));
        return bytes;
    }
    // How the kernel was found.
    autotune_origin origin() const {
        autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
        throw_if_failed(autotune_plan_origin(raw_, &origin));
        return origin;
    }
    // Whether another winner serves the problem by now: autotune_plan_is_outdated().
    bool is_outdated() const {
        int outdated = 0;
        throw_if_failed(autotune_plan_is_outdated(raw_, &outdated));
        return outdated != 0;
    }
    // The kernel and config that will run: autotune_plan_candidate().
    const char* candidate() const noexcept { return autotune_plan_candidate(raw_); }

  protected:
    // Takes ownership of the plan.
    explicit PlanBase(autotune_plan raw) noexcept : raw_(raw) {}

  private:
    autotune_plan raw_ = nullptr;
};

// A plan of C = alpha op(A) op(B) + beta C.
class GemmPlan : public PlanBase {
  public:
    // Calls autotune_gemm_plan(). Throws StatusError.
    GemmPlan(const Handle& handle, const autotune_gemm_problem& problem) : PlanBase(make(handle, problem)) {}

    // The operands of one call; addresses in device memory.
    struct Call {
        const void* a = nullptr;
        const void* b = nullptr;
        void* c = nullptr;
        float alpha = 1;
        float beta = 0;
        void* workspace = nullptr;
        std::size_t workspace_bytes = 0;
    };
    // autotune_gemm(): enqueues the kernels on `stream`; may be captured. Throws StatusError.
    void run(const Call& call, CUstream_st* stream) const {
        throw_if_failed(
            autotune_gemm(get(), &call.alpha, call.a, call.b, &call.beta, call.c, call.workspace, call.workspace_bytes, stream));
    }

  private:
    static autotune_plan make(const Handle& handle, const autotune_gemm_problem& problem) {
        autotune_plan raw = nullptr;
        throw_if_failed(autotune_gemm_plan(handle.get(), &problem, &raw));
        return raw;
    }
};

// A plan of c = a + b.
class AddPlan : public PlanBase {
  public:
    // Calls autotune_add_plan(). Throws StatusError.
    AddPlan(const Handle& handle, const autotune_add_problem& problem) : PlanBase(make(handle, problem)) {}

    // autotune_add(): enqueues the kernel on `stream`; may be captured. Addresses in device memory; c may be a or b. Throws
    // StatusError.
    void run(const void* a, const void* b, void* c, CUstream_st* stream) const {
        throw_if_failed(autotune_add(get(), a, b, c, stream));
    }

  private:
    static autotune_plan make(const Handle& handle, const autotune_add_problem& problem) {
        autotune_plan raw = nullptr;
        throw_if_failed(autotune_add_plan(handle.get(), &problem, &raw));
        return raw;
    }
};

// The operands of one product: addresses in device memory, factors as numbers.
struct GemmOperands {
    const void* a = nullptr;
    const void* b = nullptr;
    void* c = nullptr;
    float alpha = 1;
    float beta = 0;
};
// C = alpha op(A) op(B) + beta C on `stream`, by the best kernel known: see autotune_tuned_gemm(). Throws StatusError.
inline void tuned_gemm(const Handle& handle, const autotune_gemm_problem& problem, const GemmOperands& call,
                       CUstream_st* stream) {
    throw_if_failed(autotune_tuned_gemm(handle.get(), &problem, &call.alpha, call.a, call.b, &call.beta, call.c, stream));
}

// The operands of one sum: addresses in device memory.
struct AddOperands {
    const void* a = nullptr;
    const void* b = nullptr;
    void* c = nullptr;
};
// c = a + b on `stream`, by the best kernel known: see autotune_tuned_add(). Throws StatusError.
inline void tuned_add(const Handle& handle, const autotune_add_problem& problem, const AddOperands& call, CUstream_st* stream) {
    throw_if_failed(autotune_tuned_add(handle.get(), &problem, call.a, call.b, call.c, stream));
}

// The operands of one call of attention: addresses in device memory; lse is null if the problem has none.
struct AttentionOperands {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    void* o = nullptr;
    float* lse = nullptr;
    float scale = 0;
    const std::int32_t* q_offsets = nullptr;  // for packed sequences
    const std::int32_t* kv_offsets = nullptr;
};
// O = softmax(scale Q K^T, masked) V of each head on `stream`, by the best kernel known: see autotune_tuned_attention(). A scale
// of 0 is 1 / sqrt(d). Throws StatusError.
inline void tuned_attention(const Handle& handle, const autotune_attention_problem& problem, const AttentionOperands& call,
                            CUstream_st* stream) {
    throw_if_failed(
        problem.total_q != 0
            ? autotune_tuned_attention_packed(handle.get(), &problem, call.scale, call.q, call.k, call.v, call.o, call.lse,
                                              call.q_offsets, call.kv_offsets, stream)
            : autotune_tuned_attention(handle.get(), &problem, call.scale, call.q, call.k, call.v, call.o, call.lse, stream));
}

// autotune_attention_gradients with struct_size set.
struct AttentionGradients : autotune_attention_gradients {
    // The caller fills in the addresses.
    AttentionGradients() : autotune_attention_gradients{} { struct_size = sizeof(autotune_attention_gradients); }
};
// The gradients of attention: see autotune_tuned_attention_bwd(). Throws StatusError.
inline void tuned_attention_bwd(const Handle& handle, const autotune_attention_problem& problem,
                                const autotune_attention_gradients& call, float scale, CUstream_st* stream) {
    throw_if_failed(autotune_tuned_attention_bwd(handle.get(), &problem, scale, &call, stream));
}

// A problem of any op: its tensors by name, and the attributes that differ from the op's usual values. Names and words are kept
// by address: pass literals.
class Description {
  public:
    // Without tensors.
    explicit Description(std::string op) : op_(std::move(op)) {}
    // Strides in elements; none: dense. `align`: the address is a multiple of this many bytes; 0: 16. At most AUTOTUNE_MAX_DIMS
    // extents; throws std::length_error for more, or if there are not as many strides as extents.
    Description& tensor(const char* name, autotune_dtype type, std::initializer_list<std::int64_t> extents,
                        std::initializer_list<std::int64_t> strides = {}, int align = 0) {
        if (extents.size() > AUTOTUNE_MAX_DIMS || (strides.size() != 0 && strides.size() != extents.size()))
            throw std::length_error("tensor " + std::string(name) + " has too many extents, or not as many strides");
        autotune_tensor made = {};
        made.struct_size = sizeof(made);
        made.name = name;
        made.type = type;
        made.rank = static_cast<int>(extents.size());
        std::copy(extents.begin(), extents.end(), made.extents);
        std::copy(strides.begin(), strides.end(), made.strides);
        made.align = align;
        tensors_.push_back(made);
        return *this;
    }
    // Adds an attribute that is a word.
    Description& word(const char* name, const char* value) {
        autotune_attribute made = {};
        made.struct_size = sizeof(made);
        made.name = name;
        made.word = value;
        attributes_.push_back(made);
        return *this;
    }
    // Adds an attribute that is an integer.
    Description& integer(const char* name, std::int64_t value) {
        autotune_attribute made = {};
        made.struct_size = sizeof(made);
        made.name = name;
        made.kind = AUTOTUNE_ATTRIBUTE_INTEGER;
        made.integer = value;
        attributes_.push_back(made);
        return *this;
    }
    // The problem for functions of autotune.h. It points into this object.
    autotune_problem problem() const {
        return {sizeof(autotune_problem), op_.c_str(), tensors_.data(), tensors_.size(), attributes_.data(), attributes_.size()};
    }

  private:
    std::string op_;
    std::vector<autotune_tensor> tensors_;
    std::vector<autotune_attribute> attributes_;
};

// One call of any op on `stream`, by the best kernel known: see autotune_tuned(). `tensors`: addresses in the op's order, null
// for a tensor that is left out; `scalars`: its f32 numbers. Throws StatusError.
inline void tuned(const Handle& handle, const Description& description, std::initializer_list<const void*> tensors,
                  std::initializer_list<float> scalars, CUstream_st* stream) {
    std::vector<autotune_scalar> values(scalars.size());
    std::transform(scalars.begin(), scalars.end(), values.begin(), [](float value) {
        autotune_scalar scalar = {};
        scalar.value.f32 = value;
        return scalar;
    });
    const autotune_call call = {sizeof(autotune_call), tensors.begin(), tensors.size(), values.data(), values.size(), nullptr, 0};
    const autotune_problem problem = description.problem();
    throw_if_failed(autotune_tuned(handle.get(), &problem, &call, stream));
}

// A number of a call with its type.
struct CallScalar : autotune_scalar {
    CallScalar(float number) : autotune_scalar{} {  // NOLINT: calls pass plain numbers
        type = AUTOTUNE_SCALAR_F32;
        value.f32 = number;
    }
    CallScalar(std::int32_t number) : autotune_scalar{} {  // NOLINT
        type = AUTOTUNE_SCALAR_I32;
        value.i32 = number;
    }
    CallScalar(std::uint64_t number) : autotune_scalar{} {  // NOLINT
        type = AUTOTUNE_SCALAR_U64;
        value.u64 = number;
    }
};

// A plan of any op: autotune_plan_create().
class OpPlan : public PlanBase {
  public:
    // Throws StatusError.
    OpPlan(const Handle& handle, const Description& description) : OpPlan(handle.get(), description) {}
    // The same for a handle of autotune.h.
    OpPlan(autotune_handle handle, const Description& description) : PlanBase(make(handle, description)) {}

    // Device memory of workspace_bytes() bytes, for one call at a time.
    struct Workspace {
        void* address = nullptr;
        std::size_t bytes = 0;
    };
    // autotune_run(): enqueues the kernels on `stream` and does nothing else; may be captured. `tensors`: addresses in the op's
    // order. Throws StatusError.
    void run(std::initializer_list<const void*> tensors, std::initializer_list<CallScalar> scalars, CUstream_st* stream,
             Workspace workspace) const {
        const std::vector<autotune_scalar> values(scalars.begin(), scalars.end());
        const autotune_call call = {sizeof(autotune_call), tensors.begin(),   tensors.size(), values.data(),
                                    values.size(),         workspace.address, workspace.bytes};
        throw_if_failed(autotune_run(get(), &call, stream));
    }
    // For plans that need no workspace.
    void run(std::initializer_list<const void*> tensors, std::initializer_list<CallScalar> scalars, CUstream_st* stream) const {
        run(tensors, scalars, stream, Workspace());
    }

  private:
    static autotune_plan make(autotune_handle handle, const Description& description) {
        const autotune_problem problem = description.problem();
        autotune_plan raw = nullptr;
        throw_if_failed(autotune_plan_create(handle, &problem, &raw));
        return raw;
    }
};

// A kernel of the program's own, opened by its file: autotune_kernel_open(). The handle must outlive it.
class Kernel {
  public:
    // Reads the file; compiles nothing. Throws StatusError with the file's first fault.
    Kernel(const Handle& handle, const std::string& path) : handle_(handle.get()) {
        std::size_t bytes = 0;
        throw_if_failed(autotune_kernel_open(handle_, path.c_str(), nullptr, &bytes));
        op_.resize(bytes);
        throw_if_failed(autotune_kernel_open(handle_, path.c_str(), op_.data(), &bytes));
        op_.resize(bytes - 1);
    }

    // The op's name: "user_", then the name that the file states.
    const std::string& op() const noexcept { return op_; }
    // A problem to which tensors and attributes are added.
    Description problem() const { return Description(op_); }
    // The plan of a problem. Make it before a capture, because this may compile.
    OpPlan plan(const Description& description) const { return OpPlan(handle_, description); }
    // One call on `stream` by the best config known: see autotune_tuned(). `tensors` and `scalars` in the order of the file.
    // Throws StatusError.
    void operator()(const Description& description, std::initializer_list<const void*> tensors,
                    std::initializer_list<CallScalar> scalars, CUstream_st* stream) const {
        const std::vector<autotune_scalar> values(scalars.begin(), scalars.end());
        const autotune_call call = {
            sizeof(autotune_call), tensors.begin(), tensors.size(), values.data(), values.size(), nullptr, 0};
        const autotune_problem problem = description.problem();
        throw_if_failed(autotune_tuned(handle_, &problem, &call, stream));
    }

  private:
    autotune_handle handle_;
    std::string op_;
};

}  // namespace autotune
