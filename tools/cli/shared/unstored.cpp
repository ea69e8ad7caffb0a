#include "tools/cli/shared/unstored.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "src/core/system/file_descriptor.h"
#include "src/core/system/private_folder.h"
#include "src/records/json_line.h"
#include "tools/cli/output/text/command_line.h"

namespace autotune::cli {
namespace {

constexpr const char* kFileName = "/unstored.jsonl";

// Writes the line at once, so that lines of several processes do not mix. If a full disk cuts it off, it is removed again.
bool append_line(const std::string& path, const std::string& line) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.open()) return false;
    struct stat before = {};
    const bool is_regular = ::fstat(file.get(), &before) == 0 && S_ISREG(before.st_mode);
    const std::string text = line + "\n";
    const bool is_whole = is_regular && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                          ::fsync(file.get()) == 0;
    if (is_regular && !is_whole) (void)!::ftruncate(file.get(), before.st_size);
    return is_whole;
}

}  // namespace

std::string why_unstored(const Session& session, const tuner::TuneResult& result) {
    const bool is_lost = session.stores_nothing() && result.tuned && !result.interrupted;
    return is_lost && result.not_stored.empty() ? "there is no place for a database" : result.not_stored;
}

Unstored save_unstored_winner(Session& session, const db::Winner& winner, const std::string& because) {
    if (because.empty()) return {};
    Unstored unstored{.because = because, .file = "", .line = records::to_json_line(winner)};
    Places& places = session.places();
    // The usual folder of the state is tried too: one line may fit into it, even if it is too full for everything else.
    for (const std::string& folder : {places.state().path, places.usual_state_folder(), places.cache().path,
                                      make_fallback_home().empty() ? fallback_home() : ""}) {
        if (folder.empty() || make_private_folders(folder) != 0 || !append_line(folder + kFileName, unstored.line)) continue;
        unstored.file = folder + kFileName;
        break;
    }
    return unstored;
}

void report_unstored(Session& session, const Unstored& unstored) {
    const std::string into = session.arguments().has("db") ? " --db " + shell_word(session.arguments().text("db")) : "";
    if (!unstored.file.empty()) {
        session.complain("the winner is not stored: " + unstored.because + ". It is kept in " + unstored.file +
                         "; when the database can be written, `autotune import " + shell_word(unstored.file) + into +
                         "` stores it");
        return;
    }
    session.complain("the winner is not stored: " + unstored.because +
                     ", and no other folder can be written. Save the next line in a file FILE; when the database can be written, "
                     "`autotune import FILE" +
                     into + "` stores it");
    session.err() << unstored.line << std::endl;
}

void add_unstored(Json& json, const Unstored& unstored) {
    json["stored"] = unstored.is_stored();
    if (unstored.is_stored()) return;
    json["not_stored_because"] = unstored.because;
    json["import_file"] = unstored.file.empty() ? Json(nullptr) : Json(unstored.file);
}

}  // namespace autotune::cli
