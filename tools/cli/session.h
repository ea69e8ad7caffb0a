#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "tools/cli/command.h"
#include "tools/cli/environment.h"
#include "tools/cli/input/arguments.h"
#include "tools/cli/log.h"
#include "tools/cli/output/data/json_document.h"
#include "tools/cli/output/terminal/wrap.h"
#include "tools/cli/places.h"
#include "tools/cli/services.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

struct Streams {
    std::ostream& out;
    std::ostream& err;
    bool out_is_terminal = false;
    bool err_is_terminal = false;
    std::function<int()> out_failure{};          // errno of the first write to `out` that failed; 0: none
    std::function<std::size_t()> err_columns{};  // the current width of the terminal behind `err`, or 0 if unknown

    // Whether nobody reads `out` any more, as after `| head`.
    bool reader_left() const;
};

// Facts about the program, from main or a test.
struct Program {
    std::string binary;      // the file from which workers are started
    std::string build = {};  // the build id of this executable; if empty, it is not compared with that of workers
    std::string version;     // "0.1.0"
    std::vector<std::string> shipped_folders;  // folders that may hold the shipped winners; the first that exists is used
    const std::atomic<bool>* stop = nullptr;   // set by Ctrl-C
    // Whether a signal sets `stop`, for the command to save what it has, or ends the process at once.
    std::atomic<bool>* saves_on_interrupt = nullptr;
};

// One run of one command: its arguments and what commands share. Throws Error with a sentence for the user, also from the
// constructor, for --json with --csv. What it opens lives as long as it does.
class Session {
  public:
    Session(Streams streams, const Environment& environment, Services& services, const Program& program,
            const Arguments& arguments);

    // The log of the run; nullptr: none. REQUIRES: it outlives the session.
    void log_to(Log* log) { log_ = log; }

    const Arguments& arguments() const { return arguments_; }
    std::ostream& out() { return streams_.out; }
    std::ostream& err() { return streams_.err; }
    const Streams& streams() const { return streams_; }
    Services& services() { return services_; }
    const Program& program() const { return program_; }
    const Environment& environment() const { return environment_; }
    Places& places() { return places_; }
    bool json() const { return arguments_.has("json"); }
    bool csv() const { return arguments_.has("csv"); }
    // Text for people: neither JSON nor comma-separated values.
    bool plain() const { return !json() && !csv(); }
    // --full: tables show everything, and may be wide.
    bool full() const { return arguments_.has("full"); }
    std::size_t text_columns() const { return full() ? SIZE_MAX : kTextColumns; }
    bool stopped() const { return program_.stop != nullptr && program_.stop->load(); }
    // Nobody reads the output any more.
    bool reader_left() const { return streams_.reader_left(); }
    bool colour() const;  // on a terminal, unless NO_COLOR is set
    std::string bold(const std::string& text) const;
    std::string nvrtc_path() const { return environment_.get("AUTOTUNE_NVRTC").value_or(""); }

    // Embedded, or from --templates, with the kernels of add_kernels().
    const Catalogue& catalogue();
    // Users' kernels. REQUIRES: called before catalogue().
    void add_kernels(std::vector<FamilyDefinition> kernels) { kernels_ = std::move(kernels); }

    // ---- messages in addition to the result ----
    // Writes a warning to standard error, each once.
    void warn(const std::string& text);
    // A note that is not a warning but worth knowing while the command works.
    void remark(const std::string& text);
    // An error that does not end the run.
    void complain(const std::string& text);
    // Warnings that no JSON object contains yet.
    std::vector<std::string> take_warnings();
    JsonDocument& document() { return document_; }
    // Ends the JSON document.
    void close();

    // ---- the database ---- The file of --db, otherwise the one that readers find; empty: there is none.
    std::string database_path();
    // The folder of the winners that came with the product; at most one.
    std::vector<std::string> shipped() const;
    // Opens it for writing, and creates it if it is missing. If it may not be written, it is opened for reading, with a warning.
    // If no default place can be used, the store is an empty one in memory, also with a warning.
    db::WinnerStore& open_store();
    // The options of open_store(), so that another process can open the store in the same way.
    const db::OpenOptions& store_options() const { return store_options_; }
    // Opens a file that one of several --db names.
    db::WinnerStore& open_store_at(const std::string& path);
    // Whether open_store() found no place for a database, so that stored rows are lost when the command ends.
    bool stores_nothing() const { return stores_nothing_; }
    // Opens a command's database for writing: a named one must exist, and a default one that was never created is empty.
    db::WinnerStore& open_store_that_exists();
    // Opens the store for rows to be accepted. This is open_store(), or with --dry-run open_store_if_any(), which creates
    // nothing.
    db::WinnerStore& open_store_to_take();
    // Whether open_store() would create the file.
    bool is_database_missing();
    // Opens it for reading. A default database that was never created is empty, with a warning; a named one must exist.
    db::WinnerStore& open_store_to_read();
    // Opens the store without a warning if it is missing, for cases in which a missing database is normal, named or not.
    db::WinnerStore& open_store_if_any();

    // ---- the GPU ----
    // nullopt where no driver is installed. Throws where one is and fails, or with --require-gpu.
    std::optional<Gpu> find_gpu();
    // Throws Error{no_gpu} if there is none. `purpose`: "autotune bench times kernels".
    Gpu need_gpu(const std::string& purpose);

    // Queries the toolchain as far as possible; a machine without NVRTC is not a failure.
    void learn_versions(Gpu& gpu);

    // The tuner's services. `device` may represent an absent GPU. The caller keeps store and observer alive.
    tuner::TuneServices tune_services(const Device& device, db::WinnerStore* store, tuner::TuneObserver* observer);
    tuner::TuneServices tune_services(const Gpu& gpu, db::WinnerStore* store, tuner::TuneObserver* observer);

  private:
    const std::string& told(const Place& place);
    db::WinnerStore& open(std::string path, db::OpenOptions options, bool expects_missing = false);
    int jobs() const;
    void clear_progress();
    void note(LogLevel level, const std::string& text);

    Streams streams_;
    const Environment& environment_;
    Services& services_;
    const Program& program_;
    const Arguments& arguments_;
    Places places_;
    bool stores_nothing_ = false;
    db::OpenOptions store_options_;
    Log* log_ = nullptr;
    std::optional<Catalogue> catalogue_;
    std::vector<FamilyDefinition> kernels_;
    std::vector<std::string> warnings_;  // all that were reported
    std::size_t in_json_ = 0;            // how many of the warnings are in a JSON object already
    JsonDocument document_;
    std::vector<std::unique_ptr<db::WinnerStore>> stores_;  // last, because a store may warn while it closes
};

}  // namespace autotune::cli
