#include "src/gpu/vendor_blas.h"

#include "src/gpu/vendor_blas_api.h"

namespace autotune::gpu {
namespace {

// What cuBLAS is given to work in; 32 MiB is what it asks for on Hopper, and Lt's heuristics get as much.
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

void* at(const std::vector<DeviceAddress>& tensors, const VendorGemm::Matrix& matrix) {
    return reinterpret_cast<void*>(tensors.at(static_cast<std::size_t>(matrix.tensor)));
}

VendorGemm require(const Problem& problem) {
    std::string why;
    auto gemm = vendor_gemm(problem, &why);
    if (!gemm) throw Error(ErrorCode::no_valid_config, why);
    return *gemm;
}

// cuBLASLt's descriptors of one problem and the algorithms it proposes for it.
class LtPlan {
  public:
    LtPlan(const blas::Api& api, blas::LtHandle handle, const VendorGemm& gemm) : api_(api), handle_(handle), gemm_(gemm) {
        try {
            create();
        } catch (...) {
            destroy();
            throw;
        }
    }
    ~LtPlan() { destroy(); }
    LtPlan(const LtPlan&) = delete;
    LtPlan& operator=(const LtPlan&) = delete;

    int ask(int requested, std::size_t workspace_bytes) {
        blas::LtPreference preference = nullptr;
        blas::throw_if_failed(api_.lt_preference_create(&preference), "cublasLtMatmulPreferenceCreate");
        const auto set = [&](int attribute, const auto& value) {
            api_.lt_preference_set(preference, attribute, &value, sizeof(value));
        };
        set(blas::kMaxWorkspaceBytes, workspace_bytes);
        // Unset, Lt assumes 256 bytes and may pick a kernel that the real addresses do not allow.
        set(blas::kMinAlignmentA, gemm_.first.alignment_bytes);
        set(blas::kMinAlignmentB, gemm_.second.alignment_bytes);
        set(blas::kMinAlignmentC, gemm_.out.alignment_bytes);
        set(blas::kMinAlignmentD, gemm_.out.alignment_bytes);
        found_.resize(static_cast<std::size_t>(requested));
        int count = 0;
        const int status =
            api_.lt_heuristics(handle_, descriptor_, first_, second_, out_, out_, preference, requested, found_.data(), &count);
        api_.lt_preference_destroy(preference);
        if (status == blas::kNotSupported) count = 0;
        if (status != blas::kNotSupported) blas::throw_if_failed(status, "cublasLtMatmulAlgoGetHeuristic");
        found_.resize(static_cast<std::size_t>(count));
        std::erase_if(found_, [](const blas::LtHeuristic& heuristic) { return heuristic.state != blas::kSuccess; });
        workspace_bytes_ = workspace_bytes;
        return static_cast<int>(found_.size());
    }

    void run(int index, const std::vector<DeviceAddress>& tensors, DeviceAddress workspace, StreamHandle stream) const {
        check(index >= 0 && static_cast<std::size_t>(index) < found_.size(), "no such cuBLASLt heuristic");
        void* out = at(tensors, gemm_.out);
        const int status =
            api_.lt_matmul(handle_, descriptor_, gemm_.alpha.data(), at(tensors, gemm_.first), first_, at(tensors, gemm_.second),
                           second_, gemm_.beta.data(), out, out_, out, out_, &found_[static_cast<std::size_t>(index)].algorithm,
                           reinterpret_cast<void*>(workspace), workspace == 0 ? 0 : workspace_bytes_, stream);
        blas::throw_if_failed(status, "cublasLtMatmul");
    }

  private:
    void create() {
        blas::throw_if_failed(api_.lt_desc_create(&descriptor_, gemm_.compute, gemm_.scale_type), "cublasLtMatmulDescCreate");
        const std::int32_t first_op = gemm_.first_op;
        const std::int32_t second_op = gemm_.second_op;
        blas::throw_if_failed(api_.lt_desc_set(descriptor_, blas::kTransA, &first_op, sizeof(first_op)),
                              "cublasLtMatmulDescSetAttribute");
        blas::throw_if_failed(api_.lt_desc_set(descriptor_, blas::kTransB, &second_op, sizeof(second_op)),
                              "cublasLtMatmulDescSetAttribute");
        create_layout(first_, gemm_.first);
        create_layout(second_, gemm_.second);
        create_layout(out_, gemm_.out);
    }

    void create_layout(blas::LtLayout& layout, const VendorGemm::Matrix& matrix) const {
        blas::throw_if_failed(api_.lt_layout_create(&layout, matrix.type, static_cast<std::uint64_t>(matrix.rows),
                                                    static_cast<std::uint64_t>(matrix.cols), matrix.ld),
                              "cublasLtMatrixLayoutCreate");
        const auto batch = static_cast<std::int32_t>(gemm_.batch);
        const std::int64_t stride = matrix.batch_stride;
        blas::throw_if_failed(api_.lt_layout_set(layout, blas::kBatchCount, &batch, sizeof(batch)),
                              "cublasLtMatrixLayoutSetAttribute");
        blas::throw_if_failed(api_.lt_layout_set(layout, blas::kBatchOffset, &stride, sizeof(stride)),
                              "cublasLtMatrixLayoutSetAttribute");
    }

    void destroy() noexcept {
        for (const blas::LtLayout layout : {first_, second_, out_}) {
            if (layout != nullptr) api_.lt_layout_destroy(layout);
        }
        if (descriptor_ != nullptr) api_.lt_desc_destroy(descriptor_);
    }

    const blas::Api& api_;
    blas::LtHandle handle_;
    VendorGemm gemm_;
    blas::LtDescriptor descriptor_ = nullptr;
    blas::LtLayout first_ = nullptr, second_ = nullptr, out_ = nullptr;
    std::vector<blas::LtHeuristic> found_;
    std::size_t workspace_bytes_ = 0;
};

// Both libraries of one release: they are versioned together.
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

struct VendorBlas::Impl {
    std::shared_ptr<const Driver> driver;
    blas::Api api;
    blas::Handle handle = nullptr;
    blas::LtHandle lt = nullptr;
    Buffer workspace;
    std::unique_ptr<LtPlan> plan;
    std::string planned_for;

    ~Impl() {
        plan.reset();
        if (handle != nullptr) api.destroy(handle);
        if (lt != nullptr) api.lt_destroy(lt);
    }
    // Handles are made at first use, when a context is current.
    blas::Handle cublas() {
        if (handle == nullptr) {
            workspace = Buffer(driver, kWorkspaceBytes);
            blas::throw_if_failed(api.create(&handle), "cublasCreate");
        }
        return handle;
    }
    blas::LtHandle cublas_lt() {
        if (lt == nullptr) blas::throw_if_failed(api.lt_create(&lt), "cublasLtCreate");
        return lt;
    }
};

VendorBlas::VendorBlas() : impl_(std::make_unique<Impl>()) {}
VendorBlas::~VendorBlas() = default;

std::shared_ptr<VendorBlas> VendorBlas::load(std::shared_ptr<const Driver> driver, const std::vector<std::string>& folders) {
    const auto libraries = find_libraries(folders);
    if (!libraries) return nullptr;
    std::shared_ptr<VendorBlas> vendor(new VendorBlas);
    vendor->impl_->driver = std::move(driver);
    if (!vendor->impl_->api.bind(libraries->first, libraries->second)) return nullptr;
    return vendor;
}

std::string VendorBlas::version() const {
    std::string text;
    for (const int property : {blas::kMajor, blas::kMinor, blas::kPatch}) {
        int value = 0;
        if (impl_->api.get_property(property, &value) != blas::kSuccess) return {};
        text += (text.empty() ? "" : ".") + std::to_string(value);
    }
    return text;
}

std::string VendorBlas::refuses(const Problem& problem) const {
    std::string why;
    vendor_gemm(problem, &why);
    return why;
}

void VendorBlas::run_default(const Problem& problem, const std::vector<DeviceAddress>& tensors, StreamHandle stream) {
    const VendorGemm g = require(problem);
    const blas::Handle handle = impl_->cublas();
    const blas::Api& api = impl_->api;
    blas::throw_if_failed(api.set_stream(handle, stream), "cublasSetStream");
    // Changing the stream takes the library's own workspace back; ours keeps a graph capture free of allocations.
    blas::throw_if_failed(api.set_workspace(handle, reinterpret_cast<void*>(impl_->workspace.address()), kWorkspaceBytes),
                          "cublasSetWorkspace");
    const int m = static_cast<int>(g.m);
    const int n = static_cast<int>(g.n);
    const int k = static_cast<int>(g.k);
    const int lda = static_cast<int>(g.first.ld);
    const int ldb = static_cast<int>(g.second.ld);
    const int ldc = static_cast<int>(g.out.ld);
    void* first = at(tensors, g.first);
    void* second = at(tensors, g.second);
    void* out = at(tensors, g.out);
    if (g.batch == 1) {
        blas::throw_if_failed(
            api.gemm_ex(handle, g.first_op, g.second_op, m, n, k, g.alpha.data(), first, g.first.type, lda, second, g.second.type,
                        ldb, g.beta.data(), out, g.out.type, ldc, g.compute, blas::kGemmDefault),
            "cublasGemmEx");
        return;
    }
    blas::throw_if_failed(api.gemm_strided_batched_ex(
                              handle, g.first_op, g.second_op, m, n, k, g.alpha.data(), first, g.first.type, lda,
                              g.first.batch_stride, second, g.second.type, ldb, g.second.batch_stride, g.beta.data(), out,
                              g.out.type, ldc, g.out.batch_stride, static_cast<int>(g.batch), g.compute, blas::kGemmDefault),
                          "cublasGemmStridedBatchedEx");
}

int VendorBlas::lt_prepare(const Problem& problem, int requested, std::size_t workspace_bytes) {
    impl_->plan.reset();
    impl_->plan = std::make_unique<LtPlan>(impl_->api, impl_->cublas_lt(), require(problem));
    impl_->planned_for = problem.key();
    return impl_->plan->ask(requested, workspace_bytes);
}

void VendorBlas::lt_run(int index, const Problem& problem, const std::vector<DeviceAddress>& tensors, DeviceAddress workspace,
                        StreamHandle stream) {
    check(impl_->plan != nullptr && impl_->planned_for == problem.key(), "lt_run for a problem that was not prepared");
    impl_->plan->run(index, tensors, workspace, stream);
}

}  // namespace autotune::gpu
