#include "tests/support/fake/driver/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/pending.h"

namespace autotune::fake {
namespace {

// The attributes of an H200 SXM, as the driver reports them.
double h200(const std::string& name) {
    // The map is never destroyed, because calls are made until the process ends.
    static const auto& kFacts = *new std::map<std::string, double>{{"sms", 132},
                                                                   {"l2_mib", 60},
                                                                   {"memory_mib", 143167},
                                                                   {"bus", 6144},
                                                                   {"clock_mhz", 1980},
                                                                   {"memory_clock_mhz", 3201},
                                                                   {"smem_block", 232448},
                                                                   {"smem_sm", 233472},
                                                                   {"registers_sm", 65536},
                                                                   {"registers_block", 65536},
                                                                   {"threads_block", 1024},
                                                                   {"threads_sm", 2048},
                                                                   {"blocks_sm", 32}};
    const auto found = kFacts.find(name);
    return found == kFacts.end() ? 0 : found->second;
}

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

double device_number(int ordinal, const std::string& name) {
    const Words& words = Script::get().devices().at(static_cast<std::size_t>(ordinal));
    const auto found = words.find(name);
    return found == words.end() ? h200(name) : std::atof(found->second.c_str());
}

std::string device_word(int ordinal, const std::string& name, const std::string& otherwise) {
    const Words& words = Script::get().devices().at(static_cast<std::size_t>(ordinal));
    const auto found = words.find(name);
    return found == words.end() ? otherwise : found->second;
}

Machine& Machine::get() {
    // It is never destroyed, because exit handlers of the tested program may still call it.
    static Machine* machine = new Machine;
    return *machine;
}

Machine::Machine() {
    const std::size_t count = Script::get().devices().size();
    for (std::size_t i = 0; i < count; ++i) contexts.push_back({static_cast<int>(i), 0, 0});
}

bool Machine::vanished_for_good() const {
    const Script& script = Script::get();
    const std::string& only = script.only_device();
    return access(script.marker("vanished").c_str(), F_OK) == 0 ||
           (!only.empty() && access(script.marker("vanished." + only).c_str(), F_OK) == 0);
}

void Machine::vanish(const Rule& rule) {
    health = static_cast<CUresult>(static_cast<int>(rule.number("code", CUDA_ERROR_UNKNOWN)));
    if (rule.number("persist", 0) == 0) return;
    const std::string what = rule.gpu.empty() ? "vanished" : "vanished." + rule.gpu;
    const int file = open(Script::get().marker(what).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
}

std::size_t Machine::capacity_bytes() const {
    return static_cast<std::size_t>(device_number(0, "memory_mib")) << 20;
}

// Memory that is free, without the memory that other processes hold according to the script.
std::size_t Machine::free_bytes() const {
    const Script& script = Script::get();
    const auto others = static_cast<std::size_t>(std::atof(script.reading(script.devices().at(0), "others_mib", "0").c_str()))
                        << 20;
    return capacity_bytes() - std::min(capacity_bytes(), used_bytes_ + others);
}

CUresult Machine::allocate(std::size_t bytes, Address& address) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    void* mapped = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    address = reinterpret_cast<Address>(mapped);
    static std::uint64_t last_id = 0;
    const CUctx_st* const context = current_context();
    allocations_[address] = {address, bytes, context == nullptr ? 0 : context->ordinal, ++last_id};
    used_bytes_ += bytes;
    return CUDA_SUCCESS;
}

CUresult Machine::release(Address address) {
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) {
        log_call("BUG free of an address that is not allocated");
        return CUDA_ERROR_INVALID_VALUE;
    }
    Pending::get().touch(address, found->second.bytes, true);
    munmap(reinterpret_cast<void*>(address), whole_pages(found->second.bytes));
    used_bytes_ -= found->second.bytes;
    allocations_.erase(found);
    return CUDA_SUCCESS;
}

Allocation* Machine::find(Address address, std::size_t bytes) {
    auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) return nullptr;
    Allocation& candidate = std::prev(after)->second;
    const std::size_t offset = address - candidate.base;
    return offset <= candidate.bytes && bytes <= candidate.bytes - offset ? &candidate : nullptr;
}

void Machine::report_leaks() const {
    if (!allocations_.empty()) {
        log_call("leak " + std::to_string(used_bytes_) + " bytes in " + std::to_string(allocations_.size()) + " allocations");
    }
}

void Machine::note_stream(const void* stream) {
    if (has_last_stream_ && stream != last_stream_) ++stream_changes_;
    last_stream_ = stream;
    has_last_stream_ = true;
}

double Machine::streams_us() const {
    constexpr int kChanges = 8;
    return stream_changes_ < kChanges ? 0 : Script::get().number("model", "streams_us", 0);
}

void Machine::wait_idle() {
    if (is_busy()) sleep_s(std::chrono::duration<double>(busy_until - std::chrono::steady_clock::now()).count());
}

void set_bytes(Address base, unsigned char value, std::size_t bytes) {
    constexpr std::size_t kWhole = std::size_t{16} << 20;
    constexpr std::size_t kEnd = std::size_t{1} << 20;
    auto* data = reinterpret_cast<std::byte*>(base);
    if (bytes <= kWhole) {
        std::memset(data, value, bytes);
        return;
    }
    std::memset(data, value, kEnd);
    std::memset(data + bytes - kEnd, value, kEnd);
}

CUresult enter(const char* name, const std::string& details) {
    Machine& machine = Machine::get();
    log_call(details.empty() ? name : std::string(name) + " " + details);
    if (!machine.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (machine.health != CUDA_SUCCESS) return machine.health;
    const Rule* rule = Script::get().fire({name, "", nullptr});
    if (rule == nullptr) return CUDA_SUCCESS;
    if (rule->action == "crash") crash(rule->word("how", "segv"));
    if (rule->action == "hang") sleep_s(rule->number("seconds", 60));
    if (rule->action == "vanish") machine.vanish(*rule);
    if (rule->action == "return") return static_cast<CUresult>(static_cast<int>(rule->number("code", CUDA_ERROR_UNKNOWN)));
    return machine.health;
}

CUstreamCaptureMode& thread_capture_mode() {
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

std::uint64_t thread_id() {
    return std::hash<std::thread::id>{}(std::this_thread::get_id());
}

CUresult unsafe_call() {
    const CUstreamCaptureMode mine = thread_capture_mode();
    if (mine == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    bool breaks = false;
    for (CUstream_st* stream : Machine::get().capturing) {
        const bool own = stream->thread == thread_id() && stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool other = mine == CU_STREAM_CAPTURE_MODE_GLOBAL && stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !other) continue;
        stream->invalidated = true;
        breaks = true;
    }
    return breaks ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

std::optional<std::uint64_t> Launch::raw(std::string_view name) const {
    const int index = function->kernel->index_of(name);
    if (index < 0) return std::nullopt;
    return words[static_cast<std::size_t>(index)];
}

std::int64_t Launch::integer(std::string_view name, std::int64_t otherwise) const {
    const int index = function->kernel->index_of(name);
    if (index < 0) return otherwise;
    const std::uint64_t word = words[static_cast<std::size_t>(index)];
    const bool is_narrow = function->kernel->parameters[static_cast<std::size_t>(index)].type == ParameterType::i32;
    return is_narrow ? static_cast<std::int32_t>(static_cast<std::uint32_t>(word)) : static_cast<std::int64_t>(word);
}

float Launch::f32(std::string_view name, float otherwise) const {
    const auto word = raw(name);
    if (!word) return otherwise;
    const auto bits = static_cast<std::uint32_t>(*word);
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

}  // namespace autotune::fake
