#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/compile/compile_pool.h"
#include "tuner/session/tune.h"
#include "tuner/worker/gpu_lock.h"
#include "tuner/worker/gpu_worker_client.h"
#include "tuner/worker/run_folder.h"

namespace autotune::tuner {

// Thrown out of a wait when services.stop was set; the callers that keep measured results catch it.
struct Interrupted {};

// The processes of a run, and the one loop that waits on them. Shared by all problems of a sweep.
class Engine {
  public:
    explicit Engine(TuneServices& services);

    Compilers& pool() { return pool_; }
    GpuWorkerClient& gpu_worker() { return gpu_worker_; }
    TuneServices& services() { return services_; }
    // for GPU locks and journals; empty: there is no such folder
    const std::string& state_folder() const { return state_folder_; }

    // Waits until something happens, at most for `limit`, and handles it. Throws Interrupted if the user asked to stop.
    void pump(std::chrono::milliseconds limit);
    // Sends a request to the GPU worker; compile results are handled meanwhile.
    GpuWorkerReply ask(const Message& request, const StageLimits& limits);
    // Pumps until `done`.
    void wait_for(const std::function<bool()>& done);

    // NVRTC's version, from the services or from a compile worker.
    const std::string& nvrtc_version();
    // The architecture and NVRTC version for which this run renders.
    jit::Target target() { return {services_.device.arch(), nvrtc_version()}; }
    // Takes the GPU's lock, waiting until another tuner releases it; warns the observer once. Held until release_gpu() or the
    // end. If nobody can take it (no folder, a file system without locks), the run continues without it, with one warning.
    void acquire_gpu();
    void release_gpu() { lock_.reset(); }
    bool holds_gpu() const { return lock_.has_value() || goes_without_lock_; }
    bool stopping() const { return services_.stop != nullptr && services_.stop->load(); }
    int new_owner() { return ++owners_; }
    // A descriptor that ends a wait when it is readable. Call unwatch() before closing it.
    void watch(int fd) { watched_.push_back(fd); }
    void unwatch(int fd) { std::erase(watched_, fd); }
    // Called in every iteration of the loop: keeps the compile queue full while the GPU worker is busy.
    void set_idle_hook(std::function<void()> hook) { idle_hook_ = std::move(hook); }

    void warn(const std::string& text);

  private:
    TuneServices& services_;
    RunFolder private_folder_;
    std::string state_folder_;
    LockFolders lock_folders_;
    std::optional<GpuLock> lock_;  // outlives the workers
    bool goes_without_lock_ = false;
    bool has_warned_of_users_ = false;
    std::unique_ptr<CompilePool> own_pool_;  // if the services have none
    Compilers& pool_;
    GpuWorkerClient gpu_worker_;
    std::string nvrtc_;
    std::vector<int> watched_;
    std::function<void()> idle_hook_;
    int owners_ = 0;
};

}  // namespace autotune::tuner
