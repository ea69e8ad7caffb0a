#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/problem/device.h"
#include "src/gpu/nvml.h"
#include "src/gpu/nvrtc.h"
#include "tools/cli/environment.h"
#include "tuner/replay/simulate.h"
#include "tuner/session/idle/idle_worker.h"
#include "tuner/session/lanes/list_source.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// What the command knows about a GPU without creating a CUDA context.
struct Gpu {
    Device device;
    int ordinal = 0;
    int count = 1;  // number of devices that the driver has
    std::string uuid;
    std::string pci;            // "0000:18:00.0"
    int cuda_version = 0;       // CUDA version of the driver: 13000 for 13.0
    db::Provenance provenance;  // driver and device name; learn_versions() adds the rest
};

// The result of compiling a kernel of one line.
struct TinyCompile {
    double milliseconds = 0;
    std::string failure;  // the compiler's message, or "" if it compiled
};

struct NvrtcFacts {
    std::string version;  // "13.0"
    std::string path;
};

// The card's current readings; empty without NVML.
struct CardFacts {
    bool nvml = false;
    std::string nvml_trouble{};  // why NVML cannot be used
    Conditions conditions;
    std::optional<int> power_limit_w;
    std::optional<int> other_processes;
    gpu::CardUse use;
};

// Everything outside its own process that the command uses: the machine and the tuner. Tests replace it.
class Services {
  public:
    virtual ~Services() = default;

    // Whether a CUDA driver is installed at all: tells "work without a GPU" from "a GPU that fails".
    virtual bool driver_installed() = 0;
    // Throws Error{no_gpu} naming what is missing. Creates no context.
    virtual Gpu open_gpu(int ordinal) = 0;
    // Adds facts that take longer to query and matter only for timing: NVRTC's version, the power limit.
    virtual void learn_versions(Gpu& gpu, const std::string& nvrtc_path) = 0;
    virtual CardFacts card(const Gpu& gpu) = 0;
    // Reads the load of cards; empty if NVML cannot be used, with the reason in `why`.
    virtual tuner::ReadLoad load_reader(std::string* why) = 0;
    // `path` empty: searched. `driver_major` 0: any. Throws Error{no_compiler} listing what was searched for.
    virtual NvrtcFacts nvrtc(const std::string& path, int driver_major) = 0;
    // Compiles with the NVRTC that nvrtc() finds. REQUIRES: nvrtc() with the same arguments did not throw.
    virtual TinyCompile compile_tiny(const std::string& path, int driver_major, const std::string& arch) = 0;
    // Compiles with the NVRTC that nvrtc() finds for any driver. Callable from several threads.
    virtual gpu::Nvrtc::Output compile(const std::string& path, const gpu::Nvrtc::Source& source) = 0;
    // Folders to search for CUDA's libraries after the loader's own path.
    virtual std::vector<std::string> library_folders() = 0;

    virtual std::optional<tuner::TuneResult> recall(const Problem& problem, const tuner::TuneServices& services) = 0;
    virtual tuner::TuneResult tune(const Problem& problem, const tuner::TuneOptions& options, tuner::TuneServices& services) = 0;
    virtual std::unique_ptr<tuner::BenchRun> start_bench(tuner::TuneServices& services) = 0;
    virtual void verify(const std::vector<tuner::ToVerify>& items, tuner::TuneServices& services,
                        const std::function<void(std::size_t, const tuner::Verified&)>& done) = 0;
    virtual tuner::RaceAgainResult race_again(const Problem& problem, const db::Winner& stored,
                                              const tuner::RaceAgainOptions& options, tuner::TuneServices& services) = 0;
    virtual std::vector<tuner::CompiledRow> compile_ranked(const Problem& problem, const tuner::CompileOptions& options,
                                                           tuner::TuneServices& services) = 0;
    virtual std::vector<tuner::SweepItem> sweep(const std::vector<Problem>& problems, const tuner::SweepOptions& options,
                                                tuner::TuneServices& services, tuner::SweepObserver* observer) = 0;
    virtual tuner::LanesSweep sweep_on(const std::vector<tuner::LaneGpu>& gpus, const std::vector<Problem>& problems,
                                       const tuner::SweepOptions& options, const db::OpenOptions& store,
                                       tuner::TuneServices& services, tuner::SweepObserver* observer) = 0;
    virtual void work_when_idle(const std::vector<tuner::LaneGpu>& gpus, tuner::IdleSource& source,
                                const tuner::TuneOptions& each, const db::OpenOptions& store, tuner::TuneServices& services) = 0;
    virtual tuner::RecordedSpace record(const Problem& problem, const tuner::RecordOptions& options,
                                        tuner::TuneServices& services) = 0;
    virtual tuner::Simulation simulate(const std::string& path, const tuner::SimulateOptions& options) = 0;
};

// The real machine and tuner. CUDA's libraries are searched in `own_folders` before the folders that `environment` gives.
std::unique_ptr<Services> real_services(const Environment& environment, std::vector<std::string> own_folders);

}  // namespace autotune::cli
