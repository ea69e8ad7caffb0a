#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake/program.h"
#include "tests/support/fake/script.h"

// The structs behind cuda.h's handles, as this driver defines them.
struct CUctx_st {
    int ordinal = 0;
    unsigned long long id = 0;
    int retained = 0;
};
struct CUlib_st {
    autotune::fake::Program program;
    std::vector<std::unique_ptr<CUfunc_st>> kernels;
    std::vector<std::unique_ptr<CUfunc_st>> functions;
    std::map<std::string, std::uint64_t> variables;  // the variables that were requested
};
// A kernel, or its function in a context.
struct CUfunc_st {
    CUlib_st* library = nullptr;
    CUfunc_st* of_kernel = nullptr;
    CUctx_st* context = nullptr;
    const autotune::fake::KernelFact* kernel = nullptr;
    std::size_t dynamic_smem_allowed_bytes = 48 << 10;
    bool allows_large_clusters = false;
};

// Hooks of the preloaded interposer (tests/support/interposer), if there is one.
extern "C" [[gnu::weak]] void autotune_interposer_inside_driver(int change);

namespace autotune::fake {

// An entry point for outside callers: the interposer does not count what the scripted driver does inside.
template <auto entry>
struct Outside;
template <typename... Arguments, CUresult (*entry)(Arguments...)>
struct Outside<entry> {
    static CUresult call(Arguments... arguments) {
        const auto tell = [](int change) {
            if (autotune_interposer_inside_driver != nullptr) autotune_interposer_inside_driver(change);
        };
        tell(1);
        const CUresult result = entry(arguments...);
        tell(-1);
        return result;
    }
};

using Address = std::uint64_t;

// The data that cuTensorMapEncodeTiled wrote into a map.
struct MapFacts {
    Address address = 0;
    std::int64_t row_bytes = 0;    // distance along dimension 1
    std::int64_t batch_bytes = 0;  // the distance along dimension 2, or 0 for a map of two dimensions
};

// A launch with its arguments copied out, so that a graph can replay it.
struct Launch {
    CUfunc_st* function = nullptr;
    CUlaunchConfig config{};
    std::vector<std::uint64_t> words;             // by parameter
    std::map<std::string, MapFacts> tensor_maps;  // by parameter name
    std::uint32_t cluster_blocks = 1;
    bool is_programmatic = false;  // the kernel was launched with the attribute for programmatic dependent launch
    std::uint64_t blocks() const { return std::uint64_t{config.gridDimX} * config.gridDimY * config.gridDimZ; }
    std::uint64_t threads() const { return std::uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ; }
    // Value of a parameter by name; nullopt if the kernel has none of that name.
    std::optional<std::uint64_t> raw(std::string_view name) const;
    std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
    float f32(std::string_view name, float otherwise) const;
};

}  // namespace autotune::fake

// An object that graphs hold: destroyed with the last of its holders.
struct CUuserObject_st {
    void* payload = nullptr;
    CUhostFn destroy = nullptr;
    ~CUuserObject_st() { destroy(payload); }
};
struct CUgraph_st {
    std::vector<autotune::fake::Launch> launches;
    std::uint64_t capture_id = 0;
    std::vector<std::shared_ptr<CUuserObject_st>> objects{};
};
struct CUgraphExec_st {
    std::vector<autotune::fake::Launch> launches;
    std::vector<std::shared_ptr<CUuserObject_st>> objects{};
    double total_us = 0;  // by the model
    // `slow after_us`: additional time after the graph has run alone for that long; infinity: never
    double extra_us = 0, after_us = std::numeric_limits<double>::infinity();
    bool is_rest = true;       // nothing but fillers
    bool is_plain = true;      // no rule concerns any launch, and running it twice gives the same as running it once
    std::uint64_t ran_at = 0;  // Pending's generation after the last run; 0: never ran
};
struct CUstream_st {
    CUctx_st* context = nullptr;
    std::unique_ptr<CUgraph_st> capture;  // set while capturing
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::uint64_t thread = 0;  // the thread that began the capture
    bool invalidated = false;
};
// The stream handles NULL, 1 (legacy) and 2 (per thread) are not objects, and are never captured here. REQUIRES: the stream is
// none of these.
inline bool is_capturing(CUstream stream) {
    return reinterpret_cast<std::uintptr_t>(stream) > 2 && stream->capture != nullptr;
}
struct CUevent_st {
    std::optional<double> at_us;
    bool is_captured = false;
};

namespace autotune::fake {

// A piece of device memory: host memory, mapped on demand, so that huge buffers cost nothing until they are used.
struct Allocation {
    Address base = 0;
    std::size_t bytes = 0;
    int device = 0;  // the device whose context was current: kernels on other devices that use it break their context
    std::uint64_t id = 0;
};

// The state of the driver library. One mutex guards it: calls are atomic, in the order in which they are made.
class Machine {
  public:
    static Machine& get();
    std::recursive_mutex mutex;

    // ---- health ----
    // The result of every call once the device is lost or the context is broken; CUDA_SUCCESS before that.
    CUresult health = CUDA_SUCCESS;
    bool initialised = false;
    bool vanished_for_good() const;
    void vanish(const Rule& rule);

    // ---- memory ----
    CUresult allocate(std::size_t bytes, Address& address);
    CUresult release(Address address);
    // The allocation that contains all of [address, address + bytes); nullptr if none does.
    Allocation* find(Address address, std::size_t bytes);
    std::size_t used_bytes() const { return used_bytes_; }
    std::size_t capacity_bytes() const;
    std::size_t free_bytes() const;
    void report_leaks() const;

    // ---- time ----
    double now_us = 0;
    // The graph that ran last, and how long only it has run.
    const void* alone = nullptr;
    double alone_us = 0;
    // Real time since which only fillers ran, and at which such a period last ended.
    std::optional<std::chrono::steady_clock::time_point> rests_since;
    std::chrono::steady_clock::time_point busy_since{};
    // `model streams_us`: records that a kernel (or a memset of more than 4,096 bytes) was launched on this stream. Graphs do not
    // count.
    void note_stream(const void* stream);
    // Extra time of every launch once kernels have changed streams eight times.
    double streams_us() const;
    // Whether the last kernel lets the next one start before its end.
    bool last_triggers_early = false;
    // Real time until which the device is busy with a kernel that hangs.
    std::chrono::steady_clock::time_point busy_until{};
    bool is_busy() const { return std::chrono::steady_clock::now() < busy_until; }
    void wait_idle();

    std::vector<CUctx_st> contexts;  // the primary contexts, one for each device
    std::vector<std::unique_ptr<CUctx_st>> made_contexts;
    std::vector<CUstream_st*> capturing;
    // Libraries are kept after they are unloaded, because a graph may still contain their launches.
    std::vector<std::unique_ptr<CUlib_st>> libraries;

  private:
    Machine();
    const void* last_stream_ = nullptr;
    bool has_last_stream_ = false;
    int stream_changes_ = 0;
    std::map<Address, Allocation> allocations_;
    std::size_t used_bytes_ = 0;
};

// Sets device memory. If it is larger than 16 MiB, only the first and the last MiB, where red zones are: setting the rest would
// only commit memory that is never read.
void set_bytes(Address base, unsigned char value, std::size_t bytes);

// An attribute of device `ordinal` of the script: numbers by name, with an H200's as defaults.
double device_number(int ordinal, const std::string& name);
std::string device_word(int ordinal, const std::string& name, const std::string& otherwise);

// Runs all launches of a graph, as fast as the script allows. REQUIRES: Machine::mutex is held.
CUresult replay(CUgraphExec_st& graph);
// Sets the facts about a new graph that replay() needs.
void prepare(CUgraphExec_st& graph);
// Runs a launch: rules, time, arithmetic. REQUIRES: Machine::mutex is held.
CUresult execute(const Launch& launch);
// Whether the driver would refuse the launch before it reaches the device.
CUresult refuse(const Launch& launch);

// Microseconds of a launch after a kernel that ends before it starts, without rules and noise.
double model_time_us(const Launch& launch);
// The part of that time that overlaps with the end of the previous kernel.
double overlap_us(const Launch& launch, bool last_triggers_early);
bool triggers_early(const Launch& launch);
// Whether it is one of the small kernels before timed launches. Running such a kernel again changes no result.
bool is_filler(const Launch& launch);

// Entry points, by the name and version passed to cuGetProcAddress.
struct Entry {
    const char* name;
    int version;
    void* address;
};
std::vector<Entry> device_entries();
std::vector<Entry> memory_entries();
std::vector<Entry> stream_entries();
std::vector<Entry> library_entries();

// Begins an entry point: logs the call, applies its rules, and returns whether it may continue (CUDA_SUCCESS). Calls that must
// work on a broken device use log_call instead.
CUresult enter(const char* name, const std::string& details = "");
// Whether this thread may now make a call that a capture forbids (allocation, load, synchronisation); if not, the captures that
// it breaks are invalidated.
CUresult unsafe_call();
// This thread's context, nullptr if it has none.
CUctx_st* current_context();
// Whether a created stream belongs to another context than this thread's.
bool is_of_another_context(CUstream stream);
CUstreamCaptureMode& thread_capture_mode();
std::uint64_t thread_id();

}  // namespace autotune::fake
