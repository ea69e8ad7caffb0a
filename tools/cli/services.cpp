#include "tools/cli/services.h"

#include <unistd.h>

#include <fstream>
#include <utility>

#include "src/gpu/driver/driver.h"
#include "src/gpu/library_folders.h"
#include "src/gpu/nvml.h"
#include "src/gpu/nvrtc.h"
#include "tuner/replay/recorded_space.h"

namespace autotune::cli {
namespace {

// The kernel module's version, or "" if the file does not exist. Asking NVML would take 20 ms longer.
std::string driver_module_version() {
    std::ifstream file("/sys/module/nvidia/version");
    std::string version;
    file >> version;
    return version;
}

std::string cuda_version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::vector<std::string> folders_to_search(const Environment& environment, std::vector<std::string> own) {
    std::string value;  // the value of the variable that was read last
    const auto variable = [&](const char* name) -> const char* {
        const std::optional<std::string> found = environment.get(name);
        value = found.value_or("");
        return found ? value.c_str() : nullptr;
    };
    for (std::string& folder : gpu::library_folders(variable)) own.push_back(std::move(folder));
    return own;
}

class RealServices : public Services {
  public:
    RealServices(const Environment& environment, std::vector<std::string> own_folders)
        : library_folders_(folders_to_search(environment, std::move(own_folders))) {}

    bool driver_installed() override { return gpu::Driver::installed(); }

    Gpu open_gpu(int ordinal) override {
        if (driver_ == nullptr) driver_ = gpu::Driver::load();
        Gpu gpu;
        gpu.device = driver_->device(ordinal);
        gpu.ordinal = ordinal;
        gpu.count = driver_->device_count();
        gpu.uuid = driver_->uuid(ordinal);
        gpu.pci = driver_->pci_address(ordinal);
        gpu.cuda_version = driver_->version();
        gpu.provenance.driver = driver_module_version();
        gpu.provenance.device_name = gpu.device.identity.name;
        return gpu;
    }

    void learn_versions(Gpu& gpu, const std::string& nvrtc_path) override {
        gpu.provenance.nvrtc = nvrtc(nvrtc_path, gpu.cuda_version / 1000).version;
        if (const auto nvml = load_nvml()) {
            if (gpu.provenance.driver.empty()) gpu.provenance.driver = nvml->driver_version();
            gpu.provenance.power_limit_w = nvml->power_limit_w(gpu.uuid).value_or(0);
        }
        if (gpu.provenance.driver.empty()) gpu.provenance.driver = cuda_version_text(gpu.cuda_version);
    }

    CardFacts card(const Gpu& gpu) override {
        const auto nvml = load_nvml();
        if (nvml == nullptr) {
            CardFacts none;
            none.nvml_trouble = nvml_trouble_;
            return none;
        }
        return {.nvml = true,
                .conditions = nvml->conditions(gpu.uuid),
                .power_limit_w = nvml->power_limit_w(gpu.uuid),
                .other_processes = nvml->other_processes(gpu.uuid, getpid()),
                .use = nvml->use(gpu.uuid)};
    }

    tuner::ReadLoad load_reader(std::string* why) override {
        const auto nvml = load_nvml();
        if (nvml == nullptr) {
            *why = nvml_trouble_;
            return {};
        }
        return [nvml](const std::string& uuid, unsigned long long& since_us) { return nvml->load(uuid, since_us); };
    }

    NvrtcFacts nvrtc(const std::string& path, int driver_major) override {
        const auto library = load_nvrtc(path, driver_major);
        return {.version = library->version(), .path = library->path()};
    }

    TinyCompile compile_tiny(const std::string& path, int driver_major, const std::string& arch) override {
        const auto library = load_nvrtc(path, driver_major);
        const gpu::Nvrtc::Output output =
            library->compile({.text = "extern \"C\" __global__ void tiny(float* x) { x[threadIdx.x] = 1; }\n",
                              .name = "tiny.cu",
                              .options = {"--std=c++17", "-arch=" + arch}});
        return {.milliseconds = output.milliseconds, .failure = output.ok ? "" : output.log};
    }

    gpu::Nvrtc::Output compile(const std::string& path, const gpu::Nvrtc::Source& source) override {
        return load_nvrtc(path, 0)->compile(source);
    }

    std::vector<std::string> library_folders() override { return library_folders_; }

    std::optional<tuner::TuneResult> recall(const Problem& problem, const tuner::TuneServices& services) override {
        return tuner::recall(problem, services);
    }
    tuner::TuneResult tune(const Problem& problem, const tuner::TuneOptions& options, tuner::TuneServices& services) override {
        return tuner::tune(problem, options, services);
    }
    std::unique_ptr<tuner::BenchRun> start_bench(tuner::TuneServices& services) override { return tuner::start_bench(services); }
    void verify(const std::vector<tuner::ToVerify>& items, tuner::TuneServices& services,
                const std::function<void(std::size_t, const tuner::Verified&)>& done) override {
        tuner::verify(items, services, done);
    }
    tuner::RaceAgainResult race_again(const Problem& problem, const db::Winner& stored, const tuner::RaceAgainOptions& options,
                                      tuner::TuneServices& services) override {
        return tuner::race_again(problem, stored, options, services);
    }
    std::vector<tuner::CompiledRow> compile_ranked(const Problem& problem, const tuner::CompileOptions& options,
                                                   tuner::TuneServices& services) override {
        return tuner::compile_ranked(problem, options, services);
    }
    std::vector<tuner::SweepItem> sweep(const std::vector<Problem>& problems, const tuner::SweepOptions& options,
                                        tuner::TuneServices& services, tuner::SweepObserver* observer) override {
        return tuner::sweep(problems, options, services, observer);
    }
    tuner::LanesSweep sweep_on(const std::vector<tuner::LaneGpu>& gpus, const std::vector<Problem>& problems,
                               const tuner::SweepOptions& options, const db::OpenOptions& store, tuner::TuneServices& services,
                               tuner::SweepObserver* observer) override {
        return tuner::sweep_on(gpus, problems, options, store, services, observer);
    }
    void work_when_idle(const std::vector<tuner::LaneGpu>& gpus, tuner::IdleSource& source, const tuner::TuneOptions& each,
                        const db::OpenOptions& store, tuner::TuneServices& services) override {
        tuner::work_when_idle(gpus, source, each, store, services);
    }
    tuner::RecordedSpace record(const Problem& problem, const tuner::RecordOptions& options,
                                tuner::TuneServices& services) override {
        return tuner::record(problem, options, services);
    }
    tuner::Simulation simulate(const std::string& path, const tuner::SimulateOptions& options) override {
        return tuner::simulate(tuner::read_recorded_space(path), options);
    }

  private:
    std::shared_ptr<const gpu::Nvrtc> load_nvrtc(const std::string& path, int driver_major) {
        return gpu::Nvrtc::load({.explicit_path = path, .folders = library_folders_, .driver_major = driver_major});
    }

    std::shared_ptr<const gpu::Nvml> load_nvml() {
        if (!nvml_tried_) nvml_ = gpu::Nvml::load(&nvml_trouble_);
        nvml_tried_ = true;
        return nvml_;
    }

    std::vector<std::string> library_folders_;
    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<const gpu::Nvml> nvml_;
    std::string nvml_trouble_;
    bool nvml_tried_ = false;
};

}  // namespace

std::unique_ptr<Services> real_services(const Environment& environment, std::vector<std::string> own_folders) {
    return std::make_unique<RealServices>(environment, std::move(own_folders));
}

}  // namespace autotune::cli
