// A program that ends while threads are in the library: exit_fake_test.cpp runs it many times. usage: exit_program HOW SEED
#include <autotune/autotune.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <autotune/autotune.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/gpu/driver/driver.h"

namespace {

using namespace autotune;

unsigned seed = 0;
std::atomic<int> heard{0};
std::atomic<bool> has_exit_begun{false};

// an action of the log function
enum class OnMessage { nothing, exit, end_thread, destroy } on_message = OnMessage::nothing;
std::atomic<int> patience{-1};  // messages until it happens
std::atomic<autotune_handle> to_destroy{nullptr};

void hear(void*, autotune_log_level, const char* message) {
    if (has_exit_begun) {
        std::fprintf(stderr, "the log function was called after exit() had begun: %s\n", message);
        std::_Exit(98);
    }
    ++heard;
    if (patience-- != 0) return;
    switch (on_message) {
        case OnMessage::nothing:
            return;
        case OnMessage::exit:
            std::exit(7);
        case OnMessage::end_thread:
            ::pthread_exit(nullptr);
        case OnMessage::destroy:
            if (const autotune_handle handle = to_destroy.exchange(nullptr)) autotune_destroy(handle);
            return;
    }
}

autotune_gemm_problem product(unsigned m) {
    autotune_gemm_problem problem = {};
    problem.struct_size = sizeof(problem);
    problem.m = 2048 + m % 4096;  // the scripted driver computes nothing this large
    problem.n = 64 + 8 * (m % 7);
    problem.k = 64;
    problem.trans_a = static_cast<int>(m % 2);
    problem.trans_b = static_cast<int>(m / 2 % 2);
    return problem;
}

struct Program {
    std::shared_ptr<const gpu::Driver> driver = gpu::Driver::load();
    gpu::Context context{driver, 0};
    gpu::Buffer memory{driver, std::size_t{16} << 20};
    autotune_handle handle = nullptr;

    void open(autotune_on_miss on_miss) {
        autotune_options options = {};
        options.struct_size = sizeof(options);
        options.read_environment = 1;
        options.on_miss = on_miss;
        options.record_misses = 1;
        options.log = hear;
        if (autotune_create(&handle, &options) != AUTOTUNE_OK) std::_Exit(99);
    }
    void launch(unsigned m) const {
        const autotune_gemm_problem problem = product(m);
        const float one = 1, zero = 0;
        void* const data = reinterpret_cast<void*>(memory.address());
        void* const result = reinterpret_cast<void*>(memory.address() + (8 << 20));
        autotune_tuned_gemm(handle, &problem, &one, data, data, &zero, result, nullptr);
    }
    void plan(unsigned m) const {
        const autotune_gemm_problem problem = product(m);
        autotune_plan made = nullptr;
        autotune_gemm_plan(handle, &problem, &made);
        autotune_plan_destroy(made);
    }
    // Starts threads that never end by themselves. Some launch, and some make plans.
    void work_on_threads(int count) const {
        for (int i = 0; i < count; ++i) {
            std::thread([this, i] {
                context.make_current();
                std::minstd_rand random(seed + static_cast<unsigned>(i) + 1);
                while (true) i % 2 == 0 ? launch(static_cast<unsigned>(random() % 64)) : plan(static_cast<unsigned>(random()));
            }).detach();
        }
    }
};

Program& program = *new Program;  // other threads use the program until the process ends

void wait_a_while() {
    std::this_thread::sleep_for(std::chrono::microseconds(std::minstd_rand(seed + 77)() % 60'000));
}

int ends_while_threads_work(autotune_on_miss on_miss) {
    program.open(on_miss);
    program.work_on_threads(4);
    wait_a_while();
    return 0;
}

std::optional<Handle> static_handle;  // destroyed by exit()

int run(const std::string& how) {
    if (how == "return") return ends_while_threads_work(AUTOTUNE_ON_MISS_BACKGROUND);
    if (how == "return_compiling") return ends_while_threads_work(AUTOTUNE_ON_MISS_COMPILE);
    if (how == "exit_on_thread") {
        program.open(AUTOTUNE_ON_MISS_BACKGROUND);
        program.work_on_threads(3);
        std::thread([] {
            wait_a_while();
            std::exit(0);
        }).detach();
        for (unsigned m = 0;; ++m) program.plan(m);
    }
    if (how == "quick_exit") {
        program.open(AUTOTUNE_ON_MISS_BACKGROUND);
        program.work_on_threads(4);
        wait_a_while();
        std::quick_exit(0);
    }
    if (how == "static_handle") {
        Options options;
        options.on_miss = AUTOTUNE_ON_MISS_BACKGROUND;
        options.log = hear;
        static_handle.emplace(options);
        program.handle = static_handle->get();
        program.plan(1);
        program.work_on_threads(4);
        wait_a_while();
        return 0;
    }
    if (how == "exit_in_log") {
        on_message = OnMessage::exit;
        patience = static_cast<int>(1 + seed % 24);
        program.open(AUTOTUNE_ON_MISS_BACKGROUND);
        program.work_on_threads(4);
        ::pause();
    }
    if (how == "end_thread_in_log") {  // the log function runs on a thread of the library, or on one of ours
        program.open(AUTOTUNE_ON_MISS_BACKGROUND);
        on_message = OnMessage::end_thread;
        patience = static_cast<int>(seed % 12);
        program.work_on_threads(4);
        std::thread([] {
            program.context.make_current();
            for (unsigned m = 0; patience >= 0; ++m) program.launch(m), program.plan(m);
        }).join();
        on_message = OnMessage::nothing;
        program.launch(1);
        if (autotune_finish(program.handle) != AUTOTUNE_OK) return 96;
        return 0;
    }
    if (how == "cancel") {
        program.open(AUTOTUNE_ON_MISS_COMPILE);
        for (unsigned i = 0; i < 6; ++i) {
            std::thread thread([i] {
                program.context.make_current();
                for (unsigned m = 1000 * i;; ++m) program.plan(m), ::pthread_testcancel();
            });
            std::this_thread::sleep_for(std::chrono::microseconds(std::minstd_rand(seed + i)() % 20'000));
            ::pthread_cancel(thread.native_handle());
            thread.join();
        }
        program.plan(5);
        autotune_destroy(program.handle);
        return 0;
    }
    if (how == "destroy_in_log") {  // the log function runs on a thread of the library, or on one of ours
        on_message = OnMessage::destroy;
        const bool is_ours = seed % 2 == 0;
        program.open(is_ours ? AUTOTUNE_ON_MISS_COMPILE : AUTOTUNE_ON_MISS_BACKGROUND);
        for (unsigned m = 0; !is_ours && m < 24; ++m) program.launch(m);  // from here on another thread owns the handle
        to_destroy = program.handle;
        patience = static_cast<int>(seed / 2 % 3);
        for (unsigned m = 0; is_ours && to_destroy != nullptr && m < 64; ++m) program.launch(m);
        for (int i = 0; to_destroy != nullptr && i < 500; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        wait_a_while();
        return to_destroy == nullptr ? 0 : 96;
    }
    if (how == "fork") {
        program.open(AUTOTUNE_ON_MISS_BACKGROUND);
        program.work_on_threads(4);
        wait_a_while();
        const pid_t child = ::fork();
        if (child == 0) return 0;  // the child calls exit(), as a careless program does
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 96;
    }
    return 95;
}

}  // namespace

int main(int argc, char** argv) {
    seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 0;
    std::atexit([] { has_exit_begun = true; });  // registered first, so it is called after the library's handlers
    return run(argc > 1 ? argv[1] : "");
}
