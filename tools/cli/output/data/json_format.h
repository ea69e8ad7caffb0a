#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "src/core/op/op.h"
#include "tools/cli/services.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// The JSON forms of values. Members have the order of the documentation; unknown values are null or left out.
using Json = nlohmann::ordered_json;

Json problem_json(const Problem& problem);
Json device_json(const Device& device);
Json identity_json(const DeviceIdentity& identity);
Json config_json(const Config& config);
Json compile_json(const CompileReport& report);
Json conditions_json(const Conditions& conditions);
Json provenance_json(const db::Provenance& provenance);
// {"median_us", "low_us", "high_us", "min_us", "samples"}, and the op's rate if op and problem are given.
Json timing_json(const Timing& timing, const Op* op = nullptr, const Problem* problem = nullptr);
Json winner_json(const db::Winner& winner, const Op* op, const Problem* problem);
Json evidence_json(const db::Evidence& evidence);
// Seconds of each phase, by name.
// The problem, the state, the seconds and the winner, null if there is none.
Json item_json(const Catalogue& catalogue, const tuner::SweepItem& item);
Json phases_json(const tuner::TunePhases& phases);
Json compiled_row_json(const tuner::CompiledRow& row);

// JSON on one line, in which bytes that are no UTF-8 are replaced.
std::string json_text(const Json& json);
// Adds an object to the command's output (Session::document), with the warnings that no object has yet as `warnings`.
void print_json(Session& session, Json json);

// An object that is printed in parts: members of `head`, then a list, one element per line, then members that are known only at
// the end. Without finish(), as after an error, it is still closed; if it has no elements then, it is not printed.
class JsonList {
  public:
    JsonList(Session& session, const Json& head, const std::string& name);
    ~JsonList();
    JsonList(const JsonList&) = delete;
    JsonList& operator=(const JsonList&) = delete;

    void add(const Json& element);
    void add_text(const std::string& element);  // JSON already
    void finish(Json tail);

  private:
    void open();

    Session& session_;
    std::string head_;
    std::size_t written_ = 0;
    bool is_open_ = false;
    bool is_finished_ = false;
};

}  // namespace autotune::cli
