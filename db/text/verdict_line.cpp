#include "db/text/verdict_line.h"

#include <nlohmann/json.hpp>

#include "src/core/error.h"

namespace autotune::db {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = R"({"autotune_label":"verdict",)";

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::database, "the verdict is not used: " + why);
}

std::string text_in(const Json& line, const char* name) {
    const auto found = line.find(name);
    if (found == line.end() || !found->is_string()) refuse(std::string("its ") + name + " is missing");
    return found->get<std::string>();
}

double number_in(const Json& line, const char* name) {
    const auto found = line.find(name);
    if (found == line.end() || !found->is_number()) refuse(std::string("its ") + name + " is missing");
    return found->get<double>();
}

}  // namespace

std::string verdict_line(const Verdict& verdict) {
    return Json{{"autotune_label", "verdict"}, {"problem", verdict.problem},     {"device", verdict.device},
                {"rival", verdict.rival},      {"in_stream", verdict.in_stream}, {"in_graphs", verdict.in_graphs},
                {"date", verdict.date}}
        .dump();
}

bool is_verdict_line(std::string_view line) {
    return line.starts_with(kBegin);
}

Verdict verdict_of_line(std::string_view line) {
    const Json read = Json::parse(line, nullptr, false);
    if (!read.is_object()) refuse("its line is no JSON");
    Verdict verdict{.problem = text_in(read, "problem"),
                    .device = text_in(read, "device"),
                    .rival = text_in(read, "rival"),
                    .in_stream = number_in(read, "in_stream"),
                    .in_graphs = number_in(read, "in_graphs"),
                    .date = text_in(read, "date")};
    if (const auto why = why_invalid(verdict)) refuse(*why);
    return verdict;
}

}  // namespace autotune::db
