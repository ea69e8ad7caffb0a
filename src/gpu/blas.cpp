#include "src/gpu/blas.h"

#include <cstring>
#include <optional>
#include <utility>

#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/core/problem/dtype.h"

namespace autotune::gpu {
namespace {

// Workspace for cuBLAS: twice the 32 MiB that it requests on Hopper. Lt's heuristics get as much.
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

void* at(std::span<const DeviceAddress> tensors, int tensor) {
    check(tensor >= 0 && static_cast<std::size_t>(tensor) < tensors.size(), "a product names a tensor that was not given");
    return reinterpret_cast<void*>(tensors[static_cast<std::size_t>(tensor)]);
}

// The parts of cuBLASLt that a plan uses. They outlive the plan.
struct Lt {
    std::shared_ptr<Blas> library;
    const blas::Api& api;
    blas::LtHandle handle = nullptr;
    DeviceAddress workspace = 0;
};

class LtPlan final : public BlasLtPlan {
  public:
    LtPlan(Lt lt, const BlasProduct& product, int requested) : lt_(std::move(lt)), product_(product) {
        try {
            create();
            ask(requested);
        } catch (...) {
            destroy();
            throw;
        }
    }
    ~LtPlan() override { destroy(); }
    LtPlan(const LtPlan&) = delete;
    LtPlan& operator=(const LtPlan&) = delete;

    std::size_t algorithms() const override { return found_.size(); }

    void run(std::size_t algorithm, std::span<const DeviceAddress> tensors, StreamHandle stream) override {
        check(algorithm < found_.size(), "no such cuBLASLt heuristic");
        for (const BlasProduct::Address& entry : product_.addresses) {
            set(entry.name, reinterpret_cast<const void*>(at(tensors, entry.tensor)));
        }
        void* out = at(tensors, product_.out.tensor);
        // If the added matrix has another type than the result, it must not have its address.
        void* added = product_.added_type >= 0 ? nullptr : out;
        const int status =
            lt_.api.lt_matmul(lt_.handle, descriptor_, product_.alpha.data(), at(tensors, product_.first.tensor), first_,
                              at(tensors, product_.second.tensor), second_, product_.beta.data(), added, added_, out, out_,
                              &found_[algorithm].algorithm, reinterpret_cast<void*>(lt_.workspace), kWorkspaceBytes, stream);
        blas::throw_if_failed(status, "cublasLtMatmul");
    }

  private:
    template <class Value>
    void set(int name, const Value& value) {
        blas::throw_if_failed(lt_.api.lt_desc_set(descriptor_, name, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
    }

    void create() {
        blas::throw_if_failed(lt_.api.lt_desc_create(&descriptor_, product_.compute, product_.scale_type),
                              "cublasLtMatmulDescCreate");
        set(blas::kTransA, static_cast<std::int32_t>(product_.first_op));
        set(blas::kTransB, static_cast<std::int32_t>(product_.second_op));
        // An attribute of 4 or 8 bytes is passed at the same address, because a little-endian number has its low byte first.
        for (const BlasProduct::Attribute& attribute : product_.attributes) {
            blas::throw_if_failed(lt_.api.lt_desc_set(descriptor_, attribute.name, &attribute.value, attribute.bytes),
                                  "cublasLtMatmulDescSetAttribute");
        }
        // The heuristics check whether there is a scale, not its address.
        for (const BlasProduct::Address& entry : product_.addresses)
            set(entry.name, reinterpret_cast<const void*>(lt_.workspace));
        create_layout(first_, product_.first);
        create_layout(second_, product_.second);
        create_layout(out_, product_.out);
        BlasProduct::Matrix added = product_.out;
        if (product_.added_type >= 0) added.type = product_.added_type;
        create_layout(added_, added);
    }

    void create_layout(blas::LtLayout& layout, const BlasProduct::Matrix& matrix) const {
        blas::throw_if_failed(lt_.api.lt_layout_create(&layout, matrix.type, static_cast<std::uint64_t>(matrix.rows),
                                                       static_cast<std::uint64_t>(matrix.cols), matrix.ld),
                              "cublasLtMatrixLayoutCreate");
        const auto batch = narrow<std::int32_t>(product_.batch);
        const std::int64_t stride = matrix.batch_stride;
        blas::throw_if_failed(lt_.api.lt_layout_set(layout, blas::kBatchCount, &batch, sizeof(batch)),
                              "cublasLtMatrixLayoutSetAttribute");
        blas::throw_if_failed(lt_.api.lt_layout_set(layout, blas::kBatchOffset, &stride, sizeof(stride)),
                              "cublasLtMatrixLayoutSetAttribute");
    }

    void ask(int requested) {
        blas::LtPreference preference = nullptr;
        blas::throw_if_failed(lt_.api.lt_preference_create(&preference), "cublasLtMatmulPreferenceCreate");
        const auto prefer = [&](int attribute, const auto& value) {
            lt_.api.lt_preference_set(preference, attribute, &value, sizeof(value));
        };
        prefer(blas::kMaxWorkspaceBytes, kWorkspaceBytes);
        // Without this preference Lt assumes 256 bytes and may choose a kernel that the real addresses do not allow.
        prefer(blas::kMinAlignmentA, product_.first.alignment_bytes);
        prefer(blas::kMinAlignmentB, product_.second.alignment_bytes);
        prefer(blas::kMinAlignmentC, product_.out.alignment_bytes);
        prefer(blas::kMinAlignmentD, product_.out.alignment_bytes);
        found_.resize(static_cast<std::size_t>(requested));
        int count = 0;
        const int status = lt_.api.lt_heuristics(lt_.handle, descriptor_, first_, second_, added_, out_, preference, requested,
                                                 found_.data(), &count);
        lt_.api.lt_preference_destroy(preference);
        if (status == blas::kNotSupported) count = 0;
        if (status != blas::kNotSupported) blas::throw_if_failed(status, "cublasLtMatmulAlgoGetHeuristic");
        found_.resize(static_cast<std::size_t>(count));
        std::erase_if(found_, [](const blas::LtHeuristic& heuristic) { return heuristic.state != blas::kSuccess; });
    }

    void destroy() noexcept {
        for (const blas::LtLayout layout : {first_, second_, added_, out_}) {
            if (layout != nullptr) lt_.api.lt_layout_destroy(layout);
        }
        if (descriptor_ != nullptr) lt_.api.lt_desc_destroy(descriptor_);
    }

    Lt lt_;
    BlasProduct product_;
    blas::LtDescriptor descriptor_ = nullptr;
    blas::LtLayout first_ = nullptr, second_ = nullptr, added_ = nullptr, out_ = nullptr;
    std::vector<blas::LtHeuristic> found_;
};

// Finds both libraries of the same release, because they are versioned together.
std::optional<std::pair<SharedLibrary, SharedLibrary>> find_libraries(const std::vector<std::string>& folders) {
    std::vector<std::string> prefixes{""};
    for (const std::string& folder : folders) prefixes.push_back(folder + "/");
    for (const char* major : {"13", "12"}) {
        for (const std::string& prefix : prefixes) {
            auto lt = SharedLibrary::open(prefix + "libcublasLt.so." + major);
            if (!lt) continue;
            auto cublas = SharedLibrary::open(prefix + "libcublas.so." + major);
            if (cublas) return std::pair(*cublas, *lt);
        }
    }
    return std::nullopt;
}

}  // namespace

struct Blas::Impl {
    std::shared_ptr<const Driver> driver;
    blas::Api api;
    blas::Handle handle = nullptr;
    blas::LtHandle lt = nullptr;
    Buffer workspace;

    ~Impl() {
        if (handle != nullptr) api.destroy(handle);
        if (lt != nullptr) api.lt_destroy(lt);
    }
    void need_workspace() {
        if (workspace.bytes() == 0) workspace = Buffer(driver, kWorkspaceBytes);
    }
};

Blas::Blas() : impl_(std::make_unique<Impl>()) {}
Blas::~Blas() = default;

std::shared_ptr<Blas> Blas::load(std::shared_ptr<const Driver> driver, const std::vector<std::string>& folders) {
    const auto libraries = find_libraries(folders);
    if (!libraries) return nullptr;
    std::shared_ptr<Blas> blas(new Blas);
    blas->impl_->driver = std::move(driver);
    if (!blas->impl_->api.bind(libraries->first, libraries->second)) return nullptr;
    return blas;
}

std::string Blas::version() const {
    std::string text;
    for (const int property : {blas::kMajor, blas::kMinor, blas::kPatch}) {
        int value = 0;
        if (impl_->api.get_property(property, &value) != blas::kSuccess) return {};
        text += (text.empty() ? "" : ".") + std::to_string(value);
    }
    return text;
}

// Makes the handle at its first use, because a context must be current.
void Blas::prepare() {
    impl_->need_workspace();
    if (impl_->handle == nullptr) blas::throw_if_failed(impl_->api.create(&impl_->handle), "cublasCreate");
}

void Blas::run(const BlasProduct& product, std::span<const DeviceAddress> tensors, StreamHandle stream) {
    const blas::Handle handle = impl_->handle;
    const blas::Api& api = impl_->api;
    check(handle != nullptr, "cublasGemmEx was not prepared");
    blas::throw_if_failed(api.set_stream(handle, stream), "cublasSetStream");
    // Setting the stream resets the workspace to the library's own, so ours is set again. With it a graph capture needs no
    // allocations.
    blas::throw_if_failed(api.set_workspace(handle, reinterpret_cast<void*>(impl_->workspace.address()), kWorkspaceBytes),
                          "cublasSetWorkspace");
    const BlasProduct& g = product;
    const int m = narrow<int>(g.m), n = narrow<int>(g.n), k = narrow<int>(g.k);
    const int lda = narrow<int>(g.first.ld, "lda of a product of cuBLAS"),
              ldb = narrow<int>(g.second.ld, "ldb of a product of cuBLAS");
    const int ldc = narrow<int>(g.out.ld, "ldc of a product of cuBLAS");
    void* first = at(tensors, g.first.tensor);
    void* second = at(tensors, g.second.tensor);
    void* out = at(tensors, g.out.tensor);
    if (g.batch == 1) {
        blas::throw_if_failed(
            api.gemm_ex(handle, g.first_op, g.second_op, m, n, k, g.alpha.data(), first, g.first.type, lda, second, g.second.type,
                        ldb, g.beta.data(), out, g.out.type, ldc, g.compute, blas::kGemmDefault),
            "cublasGemmEx");
        return;
    }
    blas::throw_if_failed(
        api.gemm_strided_batched_ex(handle, g.first_op, g.second_op, m, n, k, g.alpha.data(), first, g.first.type, lda,
                                    g.first.batch_stride, second, g.second.type, ldb, g.second.batch_stride, g.beta.data(), out,
                                    g.out.type, ldc, g.out.batch_stride, narrow<int>(g.batch), g.compute, blas::kGemmDefault),
        "cublasGemmStridedBatchedEx");
}

std::shared_ptr<BlasLtPlan> Blas::plan(const BlasProduct& product, int requested) {
    impl_->need_workspace();
    if (impl_->lt == nullptr) blas::throw_if_failed(impl_->api.lt_create(&impl_->lt), "cublasLtCreate");
    return std::make_shared<LtPlan>(Lt{shared_from_this(), impl_->api, impl_->lt, impl_->workspace.address()}, product,
                                    requested);
}

std::array<std::byte, 8> blas_scalar(double value, int scale_type) {
    std::array<std::byte, 8> bytes{};
    const auto narrow = static_cast<float>(value);
    if (scale_type == blas::kR16F) {
        const auto half = static_cast<std::uint16_t>(encode(DType::f16, value));
        std::memcpy(bytes.data(), &half, sizeof(half));
    } else if (scale_type == blas::kR64F) {
        std::memcpy(bytes.data(), &value, sizeof(value));
    } else {
        std::memcpy(bytes.data(), &narrow, sizeof(narrow));
    }
    return bytes;
}

}  // namespace autotune::gpu
