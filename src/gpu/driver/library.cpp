#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "src/core/integer_math.h"
#include "src/gpu/driver/driver_api.h"
#include "src/gpu/kernel_names.h"

namespace autotune::gpu {
namespace {

CUfunction as_function(void* raw) {
    return static_cast<CUfunction>(raw);
}

bool is_cluster(const Dim3& cluster) {
    return cluster.x * cluster.y * cluster.z > 1;
}

bool is_large_cluster(const Dim3& cluster) {
    constexpr std::uint32_t kMostPortableBlocks = 8;
    return cluster.x * cluster.y * cluster.z > kMostPortableBlocks;
}

int read_attribute(const Driver& driver, CUfunction function, CUfunction_attribute attribute) {
    int value = 0;
    throw_if_failed(driver, driver.api().func_get_attribute(&value, attribute, function), "cuFuncGetAttribute");
    return value;
}

// Refuses a launch that does not fit when its code is loaded, because the driver would refuse it only when it is enqueued.
void check_fits(const Driver& driver, const LaunchStep& step, int max_threads) {
    const std::uint64_t threads = std::uint64_t{step.block.x} * step.block.y * step.block.z;
    const bool too_many = max_threads > 0 && threads > static_cast<std::uint64_t>(max_threads);
    if (too_many) throw_if_failed(driver, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "cuLaunchKernelEx (threads per block)");
}

}  // namespace

// Kernels whose code is loaded in a context. Context ids are never reused.
struct Library::Ready {
    struct Kernel {
        std::uint64_t context;
        std::string symbol;
        Function function;
        int max_threads = 0;
        // `mutex` protects this member; the other members never change.
        std::size_t dynamic_smem_bytes = 0;
        bool allows_large_clusters = false;

        bool is_ready_for(const LaunchStep& step) const {
            return step.dynamic_smem_bytes <= dynamic_smem_bytes && (allows_large_clusters || !is_large_cluster(step.cluster));
        }
    };
    std::map<std::string, std::string> names_in_image;  // of kernels whose name there is another
    std::mutex mutex;
    std::deque<Kernel> kernels;  // a deque, because its elements never move

    Kernel& loaded(const Library& library, const std::string& symbol, std::uint64_t context);
    // REQUIRES: the mutex is held.
    Kernel* find(std::uint64_t context, const std::string& symbol) {
        const auto is_it = [&](const Kernel& kernel) { return kernel.context == context && kernel.symbol == symbol; };
        const auto found = std::find_if(kernels.begin(), kernels.end(), is_it);
        return found == kernels.end() ? nullptr : &*found;
    }
};

Library::Library(std::shared_ptr<const Driver> driver, std::span<const std::byte> cubin)
    : driver_(std::move(driver)), ready_(std::make_unique<Ready>()) {
    CUlibrary library = nullptr;
    const CUresult result = driver_->api().library_load_data(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    throw_if_failed(*driver_, result, "cuLibraryLoadData");
    raw_ = library;
    ready_->names_in_image = kernel_names_of(cubin);
}

Library::~Library() {
    if (raw_ != nullptr) driver_->api().library_unload(static_cast<CUlibrary>(raw_));
}

Library::Library(Library&& other) noexcept
    : driver_(std::move(other.driver_)), raw_(std::exchange(other.raw_, nullptr)), ready_(std::move(other.ready_)) {}

Function Library::function(const std::string& symbol) const {
    const Driver::Api& api = driver_->api();
    CUkernel kernel = nullptr;
    const auto known = ready_->names_in_image.find(symbol);
    const std::string& name = known == ready_->names_in_image.end() ? symbol : known->second;
    throw_if_failed(*driver_, api.library_get_kernel(&kernel, static_cast<CUlibrary>(raw_), name.c_str()),
                    ("cuLibraryGetKernel(" + symbol + ")").c_str());
    CUfunction raw = nullptr;
    throw_if_failed(*driver_, api.kernel_get_function(&raw, kernel), "cuKernelGetFunction");
    Function function;
    function.driver_ = driver_.get();
    function.raw_ = raw;
    return function;
}

std::optional<Library::Variable> Library::variable(const std::string& name) const {
    const RelaxedCapture relaxed(*driver_);  // this may load code while this thread is capturing
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    const CUresult result = driver_->api().library_get_global(&address, &bytes, static_cast<CUlibrary>(raw_), name.c_str());
    if (result == CUDA_ERROR_NOT_FOUND) return std::nullopt;
    throw_if_failed(*driver_, result, ("cuLibraryGetGlobal(" + name + ")").c_str());
    return Variable{address, bytes};
}

// Loads a kernel without the lock, so that threads whose kernel is loaded do not wait.
Library::Ready::Kernel& Library::Ready::loaded(const Library& library, const std::string& symbol, std::uint64_t context) {
    {
        const std::lock_guard lock(mutex);
        if (Kernel* const known = find(context, symbol)) return *known;
    }
    const RelaxedCapture relaxed(*library.driver_);  // this thread may be capturing a stream
    Kernel made{.context = context, .symbol = symbol, .function = library.function(symbol)};
    made.max_threads = read_attribute(*library.driver_, as_function(made.function.raw_), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    made.function.force_load();
    const std::lock_guard lock(mutex);
    if (Kernel* const known = find(context, symbol)) return *known;
    return kernels.emplace_back(std::move(made));
}

bool Library::load(const std::string& symbol, std::uint64_t context) const {
    try {
        ready_->loaded(*this, symbol, context);
        return true;
    } catch (const DriverError& error) {
        if (error.code() != CUDA_ERROR_NOT_FOUND) throw;
        return false;
    }
}

Function Library::ready(const std::string& symbol, const LaunchStep& step, std::uint64_t context) const {
    Ready::Kernel& kernel = ready_->loaded(*this, symbol, context);
    check_fits(*driver_, step, kernel.max_threads);
    {
        const std::lock_guard lock(ready_->mutex);
        if (kernel.is_ready_for(step)) return kernel.function;
    }
    const RelaxedCapture relaxed(*driver_);
    const bool is_large = is_large_cluster(step.cluster);
    if (step.dynamic_smem_bytes > 0) kernel.function.allow_dynamic_smem(step.dynamic_smem_bytes);
    if (is_large) kernel.function.allow_large_clusters();
    const std::lock_guard lock(ready_->mutex);
    kernel.dynamic_smem_bytes = std::max(kernel.dynamic_smem_bytes, step.dynamic_smem_bytes);
    kernel.allows_large_clusters |= is_large;
    return kernel.function;
}

Function Library::ready(const std::string& symbol, const LaunchStep& step) const {
    const auto context = current_context(*driver_);
    return ready(symbol, step, context ? context->id : 0);  // without a context the driver returns an error
}

Function::Info Function::info() const {
    const auto read = [this](CUfunction_attribute attribute) { return read_attribute(*driver_, as_function(raw_), attribute); };
    return {.registers = read(CU_FUNC_ATTRIBUTE_NUM_REGS),
            .local_bytes = read(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
            .static_smem_bytes = read(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
            .max_threads = read(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
}

// The limit belongs to the code, which plans with other launch parameters share: if one plan lowered it, launches of another
// would fail.
void Function::allow_dynamic_smem(std::size_t bytes) const {
    static std::mutex raising;  // one mutex per process, because the driver's setting is per process, too
    const std::lock_guard lock(raising);
    int allowed = 0;
    throw_if_failed(
        *driver_, driver_->api().func_get_attribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, as_function(raw_)),
        "cuFuncGetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
    const int wanted = narrow<int>(bytes);
    if (allowed >= wanted) return;
    const CUresult result =
        driver_->api().func_set_attribute(as_function(raw_), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, wanted);
    throw_if_failed(*driver_, result, "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
}

void Function::allow_large_clusters() const {
    const CUresult result =
        driver_->api().func_set_attribute(as_function(raw_), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    throw_if_failed(*driver_, result, "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)");
}

int Function::blocks_per_sm(int threads, std::size_t dynamic_smem_bytes) const {
    int blocks = 0;
    const CUresult result = driver_->api().occupancy_max_blocks(&blocks, as_function(raw_), threads, dynamic_smem_bytes);
    throw_if_failed(*driver_, result, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return blocks;
}

void Function::force_load() const {
    if (driver_->api().func_load != nullptr) {
        throw_if_failed(*driver_, driver_->api().func_load(as_function(raw_)), "cuFuncLoad");
    } else {
        info();  // Before 12.4 the driver loads the code only when its attributes are read.
    }
}

int Function::launch(const LaunchStep& step, void** parameters, StreamHandle stream) const noexcept {
    std::array<CUlaunchAttribute, 2> attributes{};
    unsigned count = 0;
    if (is_cluster(step.cluster)) {
        CUlaunchAttribute& attribute = attributes[count++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = step.cluster.x;
        attribute.value.clusterDim.y = step.cluster.y;
        attribute.value.clusterDim.z = step.cluster.z;
    }
    if (step.programmatic_dependent) {
        CUlaunchAttribute& attribute = attributes[count++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    CUlaunchConfig config{};
    config.gridDimX = step.grid.x;
    config.gridDimY = step.grid.y;
    config.gridDimZ = step.grid.z;
    config.blockDimX = step.block.x;
    config.blockDimY = step.block.y;
    config.blockDimZ = step.block.z;
    config.sharedMemBytes = static_cast<unsigned>(step.dynamic_smem_bytes);
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = count;
    return driver_->api().launch_kernel_ex(&config, as_function(raw_), parameters, nullptr);
}

}  // namespace autotune::gpu
