#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/host_cuda/device/machine.h"
#include "tests/support/host_cuda/machine/fiber.h"

namespace autotune::test::host_cuda {

using ::host_cuda::BulkCopy;
using ::host_cuda::GroupProduct;
using ::host_cuda::Index;
using ::host_cuda::Multiplier;
using ::host_cuda::u16;
using ::host_cuda::u32;
using ::host_cuda::u64;

// Orders that correct kernels must not depend on: each order shows other missing barriers, and late copies show missing waits.
struct Schedule {
    bool last_thread_first = false;  // among the threads that can run, the last one runs first
    bool late_copies = false;        // whether copies happen when they are waited for, not when they are issued
    bool late_products = false;      // wgmma likewise
};

// A forbidden action of a kernel, in one sentence. `address`: of an access to protected memory.
struct KernelFault : std::runtime_error {
    explicit KernelFault(const std::string& what, const void* at = nullptr) : std::runtime_error(what), address(at) {}
    const void* address;
};

// The threads of a block as fibers: one runs until it must wait for others. Nothing here runs concurrently.
class BlockMachine final : public ::host_cuda::Machine {
  public:
    // Runs `body` as every thread of one block, whose position is in `block`, `block_extent` and `grid_extent`. Throws
    // KernelFault: threads that wait forever, lanes that meet at different instructions, an access to protected memory. `shared`:
    // start of shared memory.
    void run(Schedule schedule, unsigned char* shared, const std::function<void()>& body);

    void barrier(int id, int threads) override;
    void arrive(int id, int threads) override;
    void gather(u32 mask, const char* instruction, u64 mine, u64 (&all)[32]) override;
    void copy_async(void* to, const void* from, int bytes, int valid) override;
    void commit_copies() override;
    void wait_for_copies(int pending_groups) override;
    void copy_bulk(const BulkCopy& copy) override;
    void commit_bulk() override;
    void wait_for_bulk(int pending_groups) override;
    void load_matrices(u32 (&to)[4], const void* row, bool transposed) override;
    void store_matrices(void* row, const u32 (&from)[4], bool transposed) override;
    void multiply(Multiplier type, float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) override;
    void multiply_f16(u32 (&sums)[2], const u32 (&a)[4], const u32 (&b)[2]) override;
    void multiply_group(const GroupProduct& product) override;
    void commit_products() override;
    void wait_for_products(int pending_groups) override;
    void trap() override;
    void pause() override;
    void wait_a_turn() override;
    u16 to_half(double value) override;
    u16 to_bfloat(double value) override;
    float from_half(u16 bits) override;
    u16 to_e4m3(float value) override;
    u16 to_e5m2(float value) override;

  private:
    struct Copy {
        void* to;
        const void* from;
        int bytes, valid;
    };
    struct Thread {
        std::vector<Copy> open;                  // copies of the uncommitted group
        std::vector<std::vector<Copy>> pending;  // the committed groups, the oldest first
        std::vector<BulkCopy> open_bulk;         // stores, likewise
        std::vector<std::vector<BulkCopy>> pending_bulk;
        const char* waits_at = "";
        bool has_ended = false;
    };
    // A warp's rows of a product: the operands from each lane.
    struct WarpProduct {
        GroupProduct lanes[32];
        int first_row;  // its first row, of 64
    };
    // Lanes of a warp that wait for the other lanes in their mask.
    struct Meeting {
        u32 mask = 0, arrived = 0;
        const char* instruction = "";
        void* operands[32] = {};
    };
    struct Warp {
        u32 ready = 0, polling = 0;  // lanes that can continue, and lanes that can check again
        Meeting meeting;
        std::vector<WarpProduct> open_products;
        std::vector<std::vector<WarpProduct>> pending_products;
    };
    struct Barrier {
        int expected = 0;  // 0: all threads that have not ended
        int arrived = 0;   // without waiting
        std::vector<int> waiting;
    };
    using Act = void (*)(u32 mask, void* const (&operands)[32]);

    void begin(const std::function<void()>& body);
    void run_threads();
    int next_thread() const;
    void end_thread(int number);
    // Waits until something makes this thread ready again.
    void park(const char* at);
    // The last lane of the mask to arrive acts for all lanes, with the data of each.
    void meet(u32 mask, const char* instruction, void* mine, Act act);
    Barrier& barrier_for(int id, int threads);
    void release_if_full(Barrier& barrier);
    bool wake_polling();
    Thread& current() { return threads_[static_cast<std::size_t>(running_)]; }
    Warp& warp_of(int number) { return warps_[static_cast<std::size_t>(number) / 32]; }
    // Ends the running thread with a fault; it never continues.
    void fail(const std::string& what);
    std::string deadlock() const;
    static void perform(const std::vector<Copy>& group);
    void perform(const BulkCopy& copy) const;
    void perform(const std::vector<BulkCopy>& group) const;
    void perform(const WarpProduct& product) const;
    bool perform_a_load();

    Schedule schedule_;
    unsigned char* shared_ = nullptr;
    std::vector<BulkCopy> loads_;  // on their way
    FiberPool fibers_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::map<int, Barrier> barriers_;
    std::string failure_;
    int running_ = -1;
    int alive_ = 0;
    bool was_progress_ = false;  // whether anything has happened since threads last checked without success
};

}  // namespace autotune::test::host_cuda
