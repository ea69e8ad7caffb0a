#include <autotune/verdicts.h>
#include <cxxabi.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "db/verdicts.h"
#include "src/dispatch/stored/label_file.h"
#include "src/runtime/api/settings.h"
#include "src/runtime/api/status.h"
#include "src/runtime/api/versions.h"
#include "src/runtime/process/no_cancel.h"
#include "src/runtime/process/process_end.h"

namespace autotune::runtime {
namespace {

std::string text_of(const char* text) {
    return text == nullptr ? "" : text;
}

Settings standard_settings() {
    return settings_of(nullptr, [](const char* name) -> const char* { return ::secure_getenv(name); });
}

// Empty if the standard options name none.
std::string path_of(const char* database) {
    return database != nullptr ? database : standard_settings().database;
}

// Runs `work`, and gives its exception as a status.
template <typename Work>
autotune_status without_handle(Work work) {
    const NoCancel no_cancel;
    try {
        const process_end::Section section;
        work();
        return AUTOTUNE_OK;
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        const Caught caught = describe_current_exception();
        return LastError::set_for_thread(caught.status, caught.message);
    }
}

void put(const char* database, const autotune_verdict* verdicts, std::size_t count) {
    std::vector<db::Verdict> given;
    const auto* at = reinterpret_cast<const unsigned char*>(verdicts);
    for (std::size_t i = 0; i < count; ++i, at += verdicts->struct_size) {
        autotune_verdict one = {};
        if (!copy_versioned(one, reinterpret_cast<const autotune_verdict*>(at)) || one.struct_size != verdicts->struct_size)
            throw Failure(AUTOTUNE_INVALID_ARGUMENT, "verdict.struct_size must be sizeof(autotune_verdict)");
        given.push_back({.problem = text_of(one.problem),
                         .device = text_of(one.device),
                         .rival = text_of(one.rival),
                         .in_stream = one.in_stream,
                         .in_graphs = one.in_graphs});
    }
    db::OpenOptions options;
    options.path = path_of(database);
    if (options.path.empty())
        throw Failure(AUTOTUNE_INVALID_ARGUMENT, "there is no database to keep verdicts in; set AUTOTUNE_DB");
    db::put_verdicts(options, given);
}

std::vector<db::Verdict> stored_verdicts(const char* database, const std::string& rival) {
    const Settings settings = database != nullptr ? Settings{} : standard_settings();
    // Processes under one label decide alike, whatever was measured on their hosts.
    if (!settings.label.empty()) {
        std::vector<db::Verdict> found = dispatch::verdicts_of(dispatch::read_label(settings.label));
        if (!rival.empty()) std::erase_if(found, [&](const db::Verdict& each) { return each.rival != rival; });
        return found;
    }
    db::OpenOptions options;
    options.path = database != nullptr ? database : settings.database;
    options.read_only = options.missing_is_empty = true;
    options.create = false;
    options.busy_timeout_ms = 1000;
    if (options.path.empty()) return {};
    return db::read_verdicts(options, rival);
}

void read(const char* database, const char* rival, autotune_verdict_function use, void* user) {
    for (const db::Verdict& one : stored_verdicts(database, text_of(rival))) {
        const autotune_verdict given{.struct_size = sizeof(autotune_verdict),
                                     .problem = one.problem.c_str(),
                                     .device = one.device.c_str(),
                                     .rival = one.rival.c_str(),
                                     .in_stream = one.in_stream,
                                     .in_graphs = one.in_graphs};
        use(user, &given);
    }
}

}  // namespace
}  // namespace autotune::runtime

extern "C" {

autotune_status autotune_put_verdicts(const char* database, const autotune_verdict* verdicts, size_t count) {
    if (verdicts == nullptr && count > 0)
        return autotune::runtime::LastError::set_for_thread(AUTOTUNE_INVALID_ARGUMENT, "verdicts is NULL");
    return autotune::runtime::without_handle([&] { autotune::runtime::put(database, verdicts, count); });
}

autotune_status autotune_read_verdicts(const char* database, const char* rival, autotune_verdict_function use, void* user) {
    if (use == nullptr) return autotune::runtime::LastError::set_for_thread(AUTOTUNE_INVALID_ARGUMENT, "use is NULL");
    return autotune::runtime::without_handle([&] { autotune::runtime::read(database, rival, use, user); });
}

}  // extern "C"
