#include "tests/support/host_cuda/machine/block_machine.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace autotune::test::host_cuda {
namespace {

bool is_multiple(const void* address, int bytes) {
    return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace

void BlockMachine::begin(const std::function<void()>& body) {
    const std::size_t count = std::size_t{block_extent.x} * block_extent.y * block_extent.z;
    threads_.assign(count, {});
    warps_.assign((count + 31) / 32, {});
    for (std::size_t i = 0; i < count; ++i) warps_[i / 32].ready |= 1U << i % 32;
    alive_ = static_cast<int>(count);
    barriers_.clear();
    loads_.clear();
    failure_.clear();
    was_progress_ = true;
    fibers_.begin(count, [this, body](int number) {
        body();
        end_thread(number);
    });
}

void BlockMachine::run(Schedule schedule, unsigned char* shared, const std::function<void()>& body) {
    schedule_ = schedule;
    shared_ = shared;
    begin(body);
    const StopReport report = FiberPool::guarded([&] { run_threads(); });
    const std::string who = "thread " + std::to_string(running_);
    if (report.stop == Stop::protected_memory) throw KernelFault(who + " accesses memory that is not its own", report.address);
    if (report.stop == Stop::trap) throw KernelFault(who + " accesses an address that is not aligned to its access");
    if (!failure_.empty()) throw KernelFault(failure_);
}

void BlockMachine::run_threads() {
    while (failure_.empty()) {
        running_ = next_thread();
        if (running_ < 0) {
            if (alive_ == 0 && !loads_.empty()) failure_ = "the block ends while copies to it are on their way";
            if (alive_ == 0) return;
            if (!perform_a_load() && !wake_polling()) failure_ = deadlock();
            continue;
        }
        const auto number = static_cast<u32>(running_);
        warp_of(running_).ready &= ~(1U << number % 32);
        thread = {number % block_extent.x, number / block_extent.x % block_extent.y, number / block_extent.x / block_extent.y};
        fibers_.resume(running_);
    }
}

int BlockMachine::next_thread() const {
    const auto count = static_cast<int>(warps_.size());
    for (int i = 0; i < count; ++i) {
        const int warp = schedule_.last_thread_first ? count - 1 - i : i;
        const u32 ready = warps_[static_cast<std::size_t>(warp)].ready;
        if (ready != 0) return warp * 32 + (schedule_.last_thread_first ? 31 - std::countl_zero(ready) : std::countr_zero(ready));
    }
    return -1;
}

void BlockMachine::end_thread(int number) {
    Thread& mine = threads_[static_cast<std::size_t>(number)];
    mine.has_ended = true;
    --alive_;
    was_progress_ = true;
    for (const std::vector<Copy>& group : mine.pending) perform(group);
    perform(mine.open);
    for (const std::vector<BulkCopy>& group : mine.pending_bulk) perform(group);
    perform(mine.open_bulk);
    for (auto& [id, barrier] : barriers_) release_if_full(barrier);
}

void BlockMachine::park(const char* at) {
    current().waits_at = at;
    was_progress_ = true;
    fibers_.yield();
}

void BlockMachine::fail(const std::string& what) {
    failure_ = "thread " + std::to_string(running_) + " " + what;
    fibers_.yield();
}

std::string BlockMachine::deadlock() const {
    std::map<std::string, int> places;
    for (const Thread& each : threads_)
        if (!each.has_ended) ++places[each.waits_at];
    std::string text = "threads wait for ever:";
    for (const auto& [place, count] : places) text += " " + std::to_string(count) + " at " + place + ",";
    return text + " " + std::to_string(threads_.size() - static_cast<std::size_t>(alive_)) + " have ended";
}

// ---- synchronisation of a block and of a warp ----

void BlockMachine::release_if_full(Barrier& barrier) {
    const int expected = barrier.expected != 0 ? barrier.expected : alive_;
    const int arrived = static_cast<int>(barrier.waiting.size()) + barrier.arrived;
    if (arrived == 0 || arrived < expected) return;
    barrier.arrived = 0;
    for (const int number : barrier.waiting) warp_of(number).ready |= 1U << number % 32;
    barrier.waiting.clear();
}

BlockMachine::Barrier& BlockMachine::barrier_for(int id, int threads) {
    Barrier& here = barriers_[id];
    if ((!here.waiting.empty() || here.arrived > 0) && here.expected != threads)
        fail("waits at barrier " + std::to_string(id) + " for another number of threads than the others do");
    here.expected = threads;
    return here;
}

void BlockMachine::arrive(int id, int threads) {
    Barrier& here = barrier_for(id, threads);
    ++here.arrived;
    was_progress_ = true;
    release_if_full(here);
}

void BlockMachine::barrier(int id, int threads) {
    Barrier& here = barrier_for(id, threads);
    here.waiting.push_back(running_);
    release_if_full(here);
    park(id == 0 ? "__syncthreads" : "a named barrier");
}

void BlockMachine::meet(u32 mask, const char* instruction, void* mine, Act act) {
    const auto lane = static_cast<u32>(running_) % 32;
    Warp& warp = warp_of(running_);
    Meeting& meeting = warp.meeting;
    if ((mask >> lane & 1) == 0) return fail("is not in the mask of its own " + std::string(instruction));
    if (meeting.arrived == 0) {
        meeting.mask = mask;
        meeting.instruction = instruction;
    } else if (meeting.mask != mask || std::string_view(meeting.instruction) != instruction) {
        return fail("is at " + std::string(instruction) + " while lanes of its warp are at " + meeting.instruction);
    }
    meeting.operands[lane] = mine;
    meeting.arrived |= 1U << lane;
    if (meeting.arrived != mask) return park(instruction);
    meeting.arrived = 0;
    was_progress_ = true;
    act(mask, meeting.operands);
    warp.ready |= mask & ~(1U << lane);
}

void BlockMachine::trap() {
    fail("comes to a trap");
}

void BlockMachine::pause() {
    was_progress_ = true;
    if (schedule_.late_products) wait_a_turn();
}

void BlockMachine::wait_a_turn() {
    warp_of(running_).polling |= 1U << running_ % 32;
    current().waits_at = "an mbarrier";
    fibers_.yield();
}

bool BlockMachine::wake_polling() {
    bool any = false;
    for (Warp& warp : warps_) {
        warp.ready |= warp.polling;
        any = any || warp.polling != 0;
        warp.polling = 0;
    }
    const bool may_help = was_progress_;
    was_progress_ = false;
    return any && may_help;
}

void BlockMachine::gather(u32 mask, const char* instruction, u64 mine, u64 (&all)[32]) {
    struct Operands {
        u64 mine;
        u64* all;
    } operands = {mine, all};
    meet(mask, instruction, &operands, [](u32 lanes, void* const(&each)[32]) {
        u64 values[32] = {};
        for (u32 lane = 0; lane < 32; ++lane)
            if ((lanes >> lane & 1) != 0) values[lane] = static_cast<const Operands*>(each[lane])->mine;
        for (u32 lane = 0; lane < 32; ++lane)
            if ((lanes >> lane & 1) != 0) std::memcpy(static_cast<const Operands*>(each[lane])->all, values, sizeof(values));
    });
}

// ---- asynchronous copies ----

void BlockMachine::perform(const std::vector<Copy>& group) {
    for (const Copy& copy : group) {
        std::memset(copy.to, 0, static_cast<std::size_t>(copy.bytes));
        std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.valid));
    }
}

void BlockMachine::copy_async(void* to, const void* from, int bytes, int valid) {
    if (valid < 0 || valid > bytes) return fail("copies " + std::to_string(valid) + " of " + std::to_string(bytes) + " bytes");
    if (!is_multiple(to, bytes) || (valid > 0 && !is_multiple(from, bytes)))
        return fail("copies from or to an address that is no multiple of " + std::to_string(bytes));
    const Copy copy = {to, valid > 0 ? from : to, bytes, valid};
    if (schedule_.late_copies) {
        current().open.push_back(copy);
    } else {
        perform({copy});
    }
}

void BlockMachine::commit_copies() {
    current().pending.push_back(std::move(current().open));
    current().open.clear();
}

void BlockMachine::wait_for_copies(int pending_groups) {
    std::vector<std::vector<Copy>>& pending = current().pending;
    if (pending_groups < 0) return fail("waits for fewer than no groups of copies");
    while (pending.size() > static_cast<std::size_t>(pending_groups)) {
        perform(pending.front());
        pending.erase(pending.begin());
    }
}

}  // namespace autotune::test::host_cuda
