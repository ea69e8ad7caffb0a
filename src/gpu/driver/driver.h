#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/core/family/launch_plan.h"
#include "src/core/problem/device.h"

struct CUstream_st;

namespace autotune::gpu {

using DeviceAddress = std::uint64_t;
using StreamHandle = CUstream_st*;

// The consequence of a failed driver call for the process.
enum class Severity : std::uint8_t {
    refused,        // invalid value, no binary, out of launch resources: the call had no effect, the context is intact
    out_of_memory,  // the context lives
    sticky,         // illegal address, launch failed, ...: the process must end and start again
    lost,           // the device is gone or the driver does not answer
};

// A CUDA driver call that failed: ErrorCode::driver, with the driver's code and name ("CUDA_ERROR_ILLEGAL_ADDRESS").
class DriverError : public Error {
  public:
    DriverError(int code, const std::string& name, const std::string& call);
    int code() const { return code_; }
    Severity severity() const;

  private:
    int code_;
};

// Whether a code means that other processes hold the device or that its MPS server cannot be reached: the card is healthy.
bool is_in_use(int code);
// Advice for the user about such a code, as text.
std::string in_use_advice(int code);
// Whether a fault of the kernel itself causes such a code. Other codes come from the card, the driver or another process.
bool is_the_kernels(int code);

// The CUDA driver, opened with dlopen("libcuda.so.1"): entry points by explicit version through cuGetProcAddress. Thread-safe.
class Driver {
  public:
    // Opens the library and calls cuInit. Throws Error{no_gpu} naming what is missing (no library, stub, too old, no device).
    static std::shared_ptr<const Driver> load();
    // Whether libcuda.so.1 is installed. This distinguishes a machine without a driver, which works without a GPU, from a driver
    // that fails.
    static bool installed();

    int version() const;  // 13000 for CUDA 13.0
    int device_count() const;
    // Identity and limits from attributes only: creates no context. Throws Error{no_gpu} for a bad ordinal, naming the range.
    Device device(int ordinal) const;
    std::string uuid(int ordinal) const;         // "GPU-xxxxxxxx-..."; names the card's lock
    std::string pci_address(int ordinal) const;  // The PCI address as in /sys/bus/pci/devices, such as "0000:18:00.0".

    struct Api;  // The table of entry points, defined in src/gpu/driver/driver_api.h and used only in this folder.
    const Api& api() const { return *api_; }
    ~Driver();

  private:
    Driver();
    std::unique_ptr<Api> api_;
};

// The owners below are movable but not copyable. Their destructors report nothing, throw nothing, and are silent at process exit.

// Retains a device's primary context and makes it current on the constructing thread.
class Context {
  public:
    Context(std::shared_ptr<const Driver> driver, int ordinal);
    ~Context();
    Context(Context&&) noexcept;
    Context& operator=(Context&&) = delete;

    void make_current() const;
    void synchronize() const;  // throws DriverError
    std::size_t free_bytes() const;

  private:
    std::shared_ptr<const Driver> driver_;
    int device_ = -1;
    void* raw_ = nullptr;
};

// The context that is current on this thread: its id (never reused, unlike its pointer) and its device's ordinal.
struct CurrentContext {
    std::uint64_t id = 0;
    int ordinal = 0;
};
// nullopt if there is none.
std::optional<CurrentContext> current_context(const Driver& driver);
bool is_capturing(const Driver& driver, StreamHandle stream);

// During its lifetime this thread's loads and allocations do not disturb a graph capture on another thread (RELAXED capture
// mode).
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const Driver& driver);
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    const Driver& driver_;
    int previous_mode_ = 0;
};

// Device memory in the current context.
class Buffer {
  public:
    Buffer() = default;
    Buffer(std::shared_ptr<const Driver> driver, std::size_t bytes);  // throws DriverError{out_of_memory}
    ~Buffer();
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;

    DeviceAddress address() const { return address_; }
    std::size_t bytes() const { return bytes_; }
    void upload(std::span<const std::byte> host, std::size_t offset_bytes = 0);
    void download(std::span<std::byte> host, std::size_t offset_bytes = 0) const;
    // Enqueues on `stream` and waits. If kernels are timed, pass their stream: memsets on another one slow down all later
    // launches of the context (docs/measuring.md, "Speeds of a context").
    void fill_bytes(std::uint8_t value, StreamHandle stream = nullptr);

  private:
    std::shared_ptr<const Driver> driver_;
    DeviceAddress address_ = 0;
    std::size_t bytes_ = 0;
};

class Stream {
  public:
    explicit Stream(std::shared_ptr<const Driver> driver);  // non-blocking
    ~Stream();
    Stream(Stream&& other) noexcept;
    Stream& operator=(Stream&&) = delete;
    StreamHandle handle() const { return raw_; }
    void synchronize() const;
    bool idle() const;  // throws DriverError on a sticky error

  private:
    std::shared_ptr<const Driver> driver_;
    StreamHandle raw_ = nullptr;
};

class Event {
  public:
    explicit Event(std::shared_ptr<const Driver> driver);
    ~Event();
    Event(Event&& other) noexcept;
    Event& operator=(Event&&) = delete;
    void record(StreamHandle stream);
    void synchronize() const;
    bool done() const;

  private:
    friend double elapsed_us(const Event& from, const Event& to);
    std::shared_ptr<const Driver> driver_;
    void* raw_ = nullptr;
};
double elapsed_us(const Event& from, const Event& to);

// Everything launched on a stream between begin and end, as one replayable graph.
class Graph {
  public:
    // Runs `record` with `stream` in capture mode and instantiates what it enqueued.
    template <typename F>
    static Graph capture(std::shared_ptr<const Driver> driver, const Stream& stream, F&& record) {
        begin(*driver, stream);
        try {
            record();
        } catch (...) {
            abandon(*driver, stream);
            throw;
        }
        return end(std::move(driver), stream);
    }
    ~Graph();
    Graph(Graph&& other) noexcept;
    Graph& operator=(Graph&&) = delete;
    void launch(StreamHandle stream) const;

  private:
    Graph() = default;
    static void begin(const Driver& driver, const Stream& stream);
    static void abandon(const Driver& driver, const Stream& stream);
    static Graph end(std::shared_ptr<const Driver> driver, const Stream& stream);
    std::shared_ptr<const Driver> driver_;
    void* graph_ = nullptr;
    void* executable_ = nullptr;
};

// One kernel of a loaded library in the current context. A view that may be copied: the Library owns the kernel.
class Function {
  public:
    struct Info {
        int registers = 0;
        int local_bytes = 0;
        int static_smem_bytes = 0;
        int max_threads = 0;
    };
    Info info() const;
    // Allows all launches of this code at least `bytes` of dynamic shared memory; never lowers the limit. Throws
    // DriverError{refused} above the device's opt-in limit.
    void allow_dynamic_smem(std::size_t bytes) const;
    // Allows clusters of more than 8 blocks, for which not every device of an architecture has room.
    void allow_large_clusters() const;
    // Resident blocks per SM for this launch shape.
    int blocks_per_sm(int threads, std::size_t dynamic_smem_bytes) const;
    // Makes the driver load the code now, so that a later launch loads nothing.
    void force_load() const;
    // Enqueues the step's geometry with `parameters` (cuLaunchKernelEx) and does nothing else. Returns the CUresult: the hot path
    // never throws.
    int launch(const LaunchStep& step, void** parameters, StreamHandle stream) const noexcept;

  private:
    friend class Library;
    const Driver* driver_ = nullptr;
    void* raw_ = nullptr;
};

// A cubin in memory (cuLibraryLoadData). It belongs to no context and can be used in every one.
class Library {
  public:
    Library(std::shared_ptr<const Driver> driver, std::span<const std::byte> cubin);
    ~Library();
    Library(Library&& other) noexcept;
    Library& operator=(Library&&) = delete;
    // The kernel of that name for the current context. Throws DriverError{refused} if there is none.
    Function function(const std::string& symbol) const;
    // A function with its code loaded and the step's shared memory allowed. The driver is called once per context and kernel, and
    // again if a step needs more memory; such a call may wait for other threads that load code. Throws DriverError{refused} for a
    // step that can never be launched. Thread-safe.
    Function ready(const std::string& symbol, const LaunchStep& step) const;
    // For a caller that knows the current context's id. It calls no driver function if the kernel is known.
    Function ready(const std::string& symbol, const LaunchStep& step, std::uint64_t context_id) const;
    // A __constant__ or __device__ variable of the code in the current context; nullopt if there is none of that name.
    struct Variable {
        DeviceAddress address = 0;
        std::size_t bytes = 0;
    };
    std::optional<Variable> variable(const std::string& name) const;
    // Loads a kernel's code into the current context, whose id is given, so that ready() finds it there. False if there is no
    // such kernel. Thread-safe.
    bool load(const std::string& symbol, std::uint64_t context_id) const;

  private:
    struct Ready;
    std::shared_ptr<const Driver> driver_;
    void* raw_ = nullptr;
    std::unique_ptr<Ready> ready_;
};

// CUtensorMap by value, 64-byte aligned as the hardware requires.
struct alignas(64) TensorMap {
    std::array<std::uint64_t, 16> words{};
};
// Throws DriverError{refused} if the driver rejects the geometry.
TensorMap encode_tensor_map(const Driver& driver, const TensorMapArg& map, DType type, DeviceAddress address);

// Enqueues a copy between two places of the device's memory. Returns the CUresult.
int copy_on_device(const Driver& driver, DeviceAddress to, DeviceAddress from, std::size_t bytes, StreamHandle stream) noexcept;

// Throws DriverError for a code other than CUDA_SUCCESS; for callers of Function::launch.
void throw_if_failed(const Driver& driver, int code, const char* call);

}  // namespace autotune::gpu
