#include "tools/cli/session.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "src/catalogue/former_templates.h"
#include "src/core/error.h"
#include "tools/cli/output/terminal/messages.h"

namespace autotune::cli {
namespace {

// The database if there is no place for one. This file does not exist and cannot be created.
constexpr const char* kNoDatabase = "/nonexistent/autotune.db";

bool exists(const std::string& path) {
    struct stat facts = {};
    return stat(path.c_str(), &facts) == 0;
}

}  // namespace

bool Streams::reader_left() const {
    return out_failure && out_failure() == EPIPE;
}

Session::Session(Streams streams, const Environment& environment, Services& services, const Program& program,
                 const Arguments& arguments)
    : streams_(streams),
      environment_(environment),
      services_(services),
      program_(program),
      arguments_(arguments),
      places_(environment),
      document_(streams.out) {
    if (json() && csv()) throw Error(ErrorCode::usage, "--json and --csv exclude each other; give one of them");
}

bool Session::colour() const {
    return streams_.out_is_terminal && plain() && !environment_.get("NO_COLOR");
}

std::string Session::bold(const std::string& text) const {
    return colour() ? std::string(kBold) + text + std::string(kPlain) : text;
}

const Catalogue& Session::catalogue() {
    if (!catalogue_) {
        catalogue_ =
            arguments_.has("templates") ? Catalogue::from_directory(arguments_.text("templates")) : Catalogue::embedded();
        for (const FamilyDefinition& kernel : kernels_) catalogue_->add(kernel);
    }
    return *catalogue_;
}

void Session::warn(const std::string& text) {
    if (std::find(warnings_.begin(), warnings_.end(), text) != warnings_.end()) return;
    warnings_.push_back(text);
    clear_progress();
    say(err(), Message::warning, text);
    note(LogLevel::warn, text);
}

// Messages on standard error also go to the log, unless the log is standard error, too.
void Session::note(LogLevel level, const std::string& text) {
    if (log_ != nullptr && !log_->is_on_standard_error()) autotune::log_to(log_, level, "autotune", [&] { return text; });
}

void Session::remark(const std::string& text) {
    clear_progress();
    say(err(), Message::note, text);
    note(LogLevel::info, text);
}

void Session::complain(const std::string& text) {
    clear_progress();
    say(err(), Message::error, text);
    note(LogLevel::error, text);
}

// Warns if the place is not the usual one.
const std::string& Session::told(const Place& place) {
    if (!place.warning.empty()) warn(place.warning);
    return place.path;
}

// Ends the progress line, so that a message begins on a new line.
void Session::clear_progress() {
    if (streams_.err_is_terminal) err() << "\r\x1b[K";
}

std::vector<std::string> Session::take_warnings() {
    const auto first = warnings_.begin() + static_cast<std::ptrdiff_t>(in_json_);
    in_json_ = warnings_.size();
    return {first, warnings_.end()};
}

void Session::close() {
    if (json()) document_.finish();
}

std::string Session::database_path() {
    return arguments_.has("db") ? arguments_.text("db") : places_.database_to_read().path;
}

std::vector<std::string> Session::shipped() const {
    if (const auto folder = environment_.get("AUTOTUNE_SHIPPED")) return {*folder};
    for (const std::string& folder : program_.shipped_folders) {
        if (exists(folder)) return {folder};
    }
    return {};
}

db::WinnerStore& Session::open(std::string path, db::OpenOptions options, bool expects_missing) {
    options.path = std::move(path);
    options.shipped = shipped();
    options.former = former_templates(catalogue());
    options.on_warning = [this, expects_missing](const db::Warning& warning) {
        if (!expects_missing || warning.kind != db::WarningKind::missing) warn(warning.text);
    };
    store_options_ = options;
    return *stores_.emplace_back(db::open_store(options));
}

db::WinnerStore& Session::open_store() {
    if (arguments_.has("db")) return open_store_at(arguments_.text("db"));
    const std::string path = told(places_.database_to_write());
    // Shipped winners can still be used, and a new winner is printed.
    stores_nothing_ = path.empty();
    if (stores_nothing_) return open(kNoDatabase, {.read_only = true, .create = false, .missing_is_empty = true}, true);
    return open(path, {.or_read_only = true});
}

db::WinnerStore& Session::open_store_at(const std::string& path) {
    if (path.empty()) throw Error(ErrorCode::usage, "--db is empty; give the path of a file");
    return open(path, {.or_read_only = true});
}

db::WinnerStore& Session::open_store_that_exists() {
    if (arguments_.has("db")) return open(arguments_.text("db"), {.create = false, .or_read_only = true});
    return exists(database_path()) ? open_store() : open_store_to_read();
}

db::WinnerStore& Session::open_store_to_take() {
    return arguments_.has("dry-run") ? open_store_if_any() : open_store();
}

bool Session::is_database_missing() {
    const std::string path = database_path();
    return !path.empty() && !exists(path);
}

db::WinnerStore& Session::open_store_to_read() {
    const bool is_named = arguments_.has("db");
    if (!is_named) told(places_.database_to_read());
    return open(database_path(), {.read_only = true, .create = false, .missing_is_empty = !is_named});
}

db::WinnerStore& Session::open_store_if_any() {
    const std::string path = database_path();
    return open(path.empty() ? kNoDatabase : path, {.read_only = true, .create = false, .missing_is_empty = true}, true);
}

std::optional<Gpu> Session::find_gpu() {
    if (!services_.driver_installed()) {
        if (!arguments_.has("require-gpu")) {
            if (arguments_.has("device"))
                warn("--device " + arguments_.text("device") + " has no effect: no CUDA driver is installed here");
            return std::nullopt;
        }
        throw Error(ErrorCode::no_gpu,
                    "--require-gpu: no CUDA driver (libcuda.so.1) is installed; install the NVIDIA driver, or drop the flag");
    }
    return services_.open_gpu(static_cast<int>(arguments_.integer("device", 0, {.least = 0, .most = 1023})));
}

Gpu Session::need_gpu(const std::string& purpose) {
    if (!services_.driver_installed()) {
        throw Error(ErrorCode::no_gpu,
                    purpose + ", and no CUDA driver (libcuda.so.1) is installed here; `autotune doctor` says more");
    }
    return *find_gpu();
}

void Session::learn_versions(Gpu& gpu) {
    try {
        services_.learn_versions(gpu, nvrtc_path());
    } catch (const Error& error) {
        warn(error.what());
    }
}

// The value of --jobs, or else of AUTOTUNE_JOBS. 0 means as many as this machine has room for.
int Session::jobs() const {
    constexpr IntegerRange kJobs{.least = 1, .most = 1024};
    if (arguments_.has("jobs")) return static_cast<int>(arguments_.integer("jobs", 0, kJobs));
    const auto variable = environment_.get("AUTOTUNE_JOBS");
    return variable ? static_cast<int>(parse_integer(*variable, "AUTOTUNE_JOBS", kJobs)) : 0;
}

tuner::TuneServices Session::tune_services(const Device& device, db::WinnerStore* store, tuner::TuneObserver* observer) {
    tuner::TuneServices services{.catalogue = catalogue(),
                                 .store = store,
                                 .device = device,
                                 .device_uuid = "",
                                 .provenance = {},
                                 .workers = {},
                                 .observer = observer,
                                 .stop = program_.stop};
    services.provenance.device_name = device.identity.name;
    services.provenance.tool_version = program_.version;
    services.workers.binary = program_.binary;
    services.workers.templates_folder = arguments_.text("templates");
    services.workers.build = program_.build;
    services.workers.compile_workers = jobs();
    services.workers.cache_folder = told(places_.cache());
    services.workers.nvrtc_path = nvrtc_path();
    services.workers.library_folders = services_.library_folders();
    services.workers.log = log_;
    services.workers.profiled = environment_.get("AUTOTUNE_PROFILED").has_value();
    return services;
}

tuner::TuneServices Session::tune_services(const Gpu& gpu, db::WinnerStore* store, tuner::TuneObserver* observer) {
    tuner::TuneServices services = tune_services(gpu.device, store, observer);
    services.device_uuid = gpu.uuid;
    services.provenance = gpu.provenance;
    services.provenance.tool_version = program_.version;
    services.workers.device = gpu.ordinal;
    services.workers.driver_major = gpu.cuda_version / 1000;
    services.workers.lock_folder = told(places_.state());
    services.workers.host_lock_folder = places_.host_locks();
    return services;
}

}  // namespace autotune::cli
