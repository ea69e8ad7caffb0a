#include "tests/fuzz/targets.h"

#include <array>
#include <optional>
#include <sstream>

#include "db/portfolio.h"
#include "db/store/store.h"
#include "db/text/transfer.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/stored_winner.h"
#include "src/jit/render.h"
#include "src/records/json_line.h"
#include "tools/cli/input/shapes.h"
#include "tuner/replay/recorded_space.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune::fuzz {
namespace {

// Runs `act` and ignores an Error of one of these classes.
template <class Act>
void expecting(std::initializer_list<ErrorCode> codes, const Act& act) {
    try {
        act();
    } catch (const Error& error) {
        for (const ErrorCode code : codes) {
            if (error.code() == code) return;
        }
        throw;
    }
}

const Catalogue& catalogue() {
    static const Catalogue embedded = Catalogue::embedded();
    return embedded;
}

// Parses the input as a shape, such as "4096x4096x2048", and makes each problem from it.
void shape(std::string_view input) {
    expecting({ErrorCode::usage}, [&] {
        const auto shapes = cli::expand_shapes(input, 3);
        for (std::size_t i = 0; i < std::min<std::size_t>(shapes.size(), 20); ++i) {
            expecting({ErrorCode::usage}, [&] { (void)catalogue().problem({"hgemm", shapes[i], {}}); });
        }
    });
}

// Parses the input as a sweep file in either format: lines of words, or TOML.
void sweep_file(std::string_view input) {
    expecting({ErrorCode::usage}, [&] { (void)cli::parse_shapes_text(input, "fuzz.txt"); });
    expecting({ErrorCode::usage}, [&] { (void)cli::parse_shapes_toml(input, "fuzz.toml"); });
}

// Parses the input as one winner in a line of JSON.
void winner_line(std::string_view input) {
    expecting({ErrorCode::database}, [&] {
        const db::Winner winner = records::from_json_line(input);
        const std::string written = records::to_json_line(winner);
        check(records::to_json_line(records::from_json_line(written)) == written,
              "a line that was taken changes when it is written again");
    });
}

void import_with(std::string_view input, const db::RowCheck& ask) {
    db::Store store = db::Store::open({.path = ":memory:"});
    std::istringstream stream{std::string(input)};
    const db::TakeReport report = db::import_lines(store, stream, {.check = ask});
    std::int64_t refused = 0;
    for (const auto& [reason, count] : report.refused_for) refused += count;
    check(refused == report.refused, "an import's refusals do not add up");
    check(store.verify_integrity().empty(), "an import left a store that fails its checks");
}

// Makes the checks that the command's import makes for each row. The row's template counts as today's, because otherwise little
// would be checked.
db::RowVerdict verdict_on(const Winner& winner) {
    static TemplateIdentities identities(catalogue());
    Winner current = winner;
    if (const Family* family = catalogue().find_family(winner.candidate.family))
        current.template_identity = identities.of(*family);
    const RowJudgement judged = judge(identities, current);
    if (judged.verdict == RowJudgement::Verdict::take) return {std::nullopt, judged.why};
    return {db::Refusal::unusable, judged.why};
}

// Imports many lines into a store: every valid row, and only those that the catalogue can use.
void database_import(std::string_view input) {
    for (const db::RowCheck& ask : {db::RowCheck{}, db::RowCheck{verdict_on}}) import_with(input, ask);
}

template <class Read>
void read_as(const Read& read) {
    try {
        (void)read();
    } catch (const tuner::Json::exception&) {
    } catch (const Error&) {  // Any Error is allowed: if a reader throws one, its peer counts as broken (wire.h).
    }
}

// Reads each member of a message as every kind of value that a message may contain.
void read_as_everything(const tuner::Json& body) {
    namespace wire = tuner::wire;
    for (const tuner::Json& json : body) {
        read_as([&] { return wire::read_problem(json); });
        read_as([&] { return wire::read_candidate(json); });
        read_as([&] { return wire::read_report(json); });
        read_as([&] { return wire::read_trial(json); });
        read_as([&] { return wire::read_device(json); });
        read_as([&] { return wire::read_rendered(json); });
    }
}

// Reads bytes from a worker. Few mutations keep the checksum, so it also reads the input as the body of a message in a valid
// frame.
void worker_protocol(std::string_view input) {
    tuner::Decoder decoder;
    decoder.feed(std::as_bytes(std::span(input)));
    while (const auto message = decoder.next()) read_as_everything(message->body);
    const tuner::Json body = tuner::Json::parse(input, nullptr, false);
    if (!body.is_object()) return;
    tuner::Decoder framed;
    framed.feed(tuner::encode({body, {}}));
    const auto message = framed.next();
    check(message.has_value(), "a message that was encoded does not come out");
    read_as_everything(message->body);
}

// Renders the input as a template's text. Some of the values for its placeholders are invalid.
void template_text(std::string_view input) {
    const std::vector<Binding> bindings = {
        {"block_m", std::int64_t{128}}, {"stages", std::int64_t{-3}}, {"in_type", DType::bf16}};
    expecting({ErrorCode::internal}, [&] { (void)jit::fill(std::string(input), "fuzz.cuh", bindings, "gemm_fuzz_0"); });
}

void recorded_space(std::string_view input) {
    expecting({ErrorCode::usage}, [&] {
        const tuner::RecordedSpace space = tuner::parse_recorded_space(input, "fuzz.json");
        if (!space.rows.empty()) (void)tuner::parse_recorded_space(tuner::to_json(space), "again.json");
    });
}

// Reads a line of portfolios and uses its kernels as the library does. Its templates count as today's.
void portfolio_line(std::string_view input) {
    static const Device device = *reference_device("sm_90a");
    static const Problem problem = catalogue().problem({"hgemm", "512x1024x768", {}});
    std::optional<db::Portfolio> portfolio;
    expecting({ErrorCode::database}, [&] { portfolio = db::parse_portfolio(input); });
    if (!portfolio) return;
    Legality legality(catalogue(), problem, device);
    for (const auto& ranked : OfferRanking(catalogue(), problem, device).best(portfolio->candidates, 64))
        check(legality.allows(ranked.candidate), "a choice that is not legal");
    check(db::to_json_line(db::parse_portfolio(db::to_json_line(*portfolio))) == db::to_json_line(*portfolio),
          "a portfolio that was taken changes when it is written again");
}

constexpr std::array<Target, 8> kTargets = {{{"shape", shape},
                                             {"sweep_file", sweep_file},
                                             {"winner_line", winner_line},
                                             {"database_import", database_import},
                                             {"portfolio_line", portfolio_line},
                                             {"worker_protocol", worker_protocol},
                                             {"template_text", template_text},
                                             {"recorded_space", recorded_space}}};

}  // namespace

std::span<const Target> targets() {
    return kTargets;
}

}  // namespace autotune::fuzz

// The entry point for clang's libFuzzer, with `-fsanitize=fuzzer` and without driver.cpp. AUTOTUNE_FUZZ_TARGET names the target.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    static const autotune::fuzz::Target* const chosen = [] {
        const char* name = std::getenv("AUTOTUNE_FUZZ_TARGET");
        for (const auto& target : autotune::fuzz::targets()) {
            if (name != nullptr && target.name == name) return &target;
        }
        return autotune::fuzz::targets().data();
    }();
    chosen->feed({reinterpret_cast<const char*>(data), bytes});
    return 0;
}
