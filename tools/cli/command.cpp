#include "tools/cli/command.h"

#include <algorithm>
#include <climits>

#include "src/core/log.h"
#include "tools/cli/input/budget.h"
#include "tuner/search/search.h"

namespace autotune::cli {

std::vector<Command> all_commands() {
    std::vector<Command> commands = {
        tune_command(),       sweep_command(),  worker_command(), bench_command(),  show_command(),     explain_command(),
        report_command(),     verify_command(), export_command(), import_command(), merge_command(),    compile_command(),
        families_command(),   new_command(),    check_command(),  record_command(), simulate_command(), doctor_command(),
        completion_command(), manual_command(), warm_command(),   fleet_command(),  sync_command()};
    for (Command& command : commands) command.flags = std::move(command.flags) + log_flags();
    return commands;
}

std::vector<Flag> operator+(std::vector<Flag> left, const std::vector<Flag>& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

std::vector<Flag> problem_flags() {
    return {
        {"op", "NAME", "operation: hgemm, bgemm, gemm, ... (see `autotune families`)", false, {}},
        {"shape", "SHAPE", "extents, 4096x4096x2048; lists 1024,2048 and ranges start:stop:step for each; repeatable", true, {}}};
}

std::vector<Flag> choice_flags() {
    return {{"family", "NAME", "only this family: gemm/mma or mma; repeatable", true, {}},
            {"config", "NAME", "this named config instead of a search", false, {}},
            {"param", "NAME=VALUE", "hold a parameter at a value; repeatable", true, {}}};
}

std::vector<Flag> search_flags() {
    const FlagCheck count = integer_value({.least = 1, .most = INT_MAX});
    return std::vector<Flag>{
               {"budget",
                "TIME",
                "per problem: 30s, 5m, 200t (trials) or both, 30s,200t; default 7s, with --kernel 20s",
                false,
                {},
                budget_value()},
               {"trials", "N", "per problem: at most N trials", false, {}, count},
               {"patience",
                "N",
                "per problem: end the search after N trials without a better one; default 100",
                false,
                {},
                count},
               {"target-gain",
                "PERCENT",
                "per problem: end the search when going on is expected to gain less; 0: never; default 0.5",
                false,
                {},
                percent_value()},
               {"target", "TIME", "per problem: end the search at a kernel this fast: 95us, 1.2ms", false, {}, time_us_value()},
               {"seed", "N", "seed of the search and of the data; default 1", false, {}, seed_value()},
               {"strategy", "NAME", "how to search", false, tuner::strategy_names()},
               {"finalists",
                "N",
                "per problem: candidates that go on to the final rounds; default 8",
                false,
                {},
                integer_value({.least = 1, .most = 64})},
               {"tie-gap",
                "PERCENT",
                "per problem: a smaller lead is a tie: the previous winner stays, else the kernel with fewer "
                "resources; default 0.5",
                false,
                {},
                positive_value(1'000'000)},
               {"retune", "", "search even if the database has a valid winner", false, {}},
               {"no-learning",
                "",
                "order candidates by the cost models alone: what earlier problems said of their errors is neither used nor added "
                "to",
                false,
                {}}} +
           measuring_flags() + std::vector<Flag>{keep_flag()};
}

std::vector<Flag> measuring_flags() {
    return {{"l2", "POLICY", "cold: operands are evicted from L2 before each launch; warm: they stay", false, {"cold", "warm"}},
            {"streams",
             "N",
             "2: measure as in a program that runs kernels on two streams; default 1",
             false,
             {},
             integer_value({.least = 1, .most = 2})}};
}

std::vector<Flag> device_flags() {
    return {{"device", "N", "ordinal of the GPU; default 0", false, {}, integer_value({.least = 0, .most = 1023})},
            {"require-gpu", "", "fail with exit code 3 where there is no GPU", false, {}}};
}

std::vector<Flag> store_flags() {
    return {{"db", "FILE", "database; default AUTOTUNE_DB or the XDG data folder", false, {}}};
}

std::vector<Flag> output_flags() {
    return {{"json", "", "print JSON", false, {}}};
}

std::vector<Flag> table_flags() {
    return output_flags() + std::vector<Flag>{{"csv", "", "print the rows as comma-separated values", false, {}}};
}

std::vector<Flag> log_flags() {
    return {{"log-level",
             "LEVEL",
             "log entries of this level and more important ones; default info",
             false,
             {kLogLevels.begin(), kLogLevels.end()}},
            {"log-file", "FILE", "append the log to FILE; default standard error", false, {}}};
}

Flag jobs_flag() {
    return {"jobs", "N", "compile N candidates at once; default AUTOTUNE_JOBS, else what processors, memory and limits allow",
            false,  {},  integer_value({.least = 1, .most = 1024})};
}
Flag full_flag() {
    return {"full", "", "tables with every parameter, however wide", false, {}};
}
Flag shapes_flag() {
    return {"shapes", "FILE|RANGES", "problems from a file, one a line, or ranges; repeatable", true, {}};
}

Flag arch_flag() {
    return {"arch", "LIST", "architectures to compile for: sm_80,sm_90a", false, known_archs()};
}
Flag keep_flag() {
    return {"keep", "DIR", "keep rendered sources, compiler logs and cubins in DIR", false, {}};
}
FlagCheck seed_value() {
    return integer_value({.least = 0});
}
Flag templates_flag() {
    return {"templates", "DIR", "kernel templates from DIR instead of the embedded ones", false, {}};
}
Flag kernel_flag() {
    return {"kernel", "FILE", "a kernel file of your own: its op is known, and is the one that is meant; repeatable", true, {}};
}
Flag dry_run_flag() {
    return {"dry-run", "", "print what would be done; do nothing", false, {}};
}

std::vector<Flag> flags_of(const Command& command, const std::vector<const Op*>& ops) {
    std::vector<Flag> flags = command.flags;
    if (!command.takes_op_options) return flags;
    for (const Op* op : ops) {
        for (const OpOption& option : op->options()) {
            const bool known =
                std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == option.name; });
            // The op checks the value, because its message explains the other values. Help and completion use `allowed`.
            if (!known)
                flags.push_back({option.name, option.form.empty() ? "WORD" : option.form, option.about, false, option.allowed});
        }
    }
    return flags;
}

}  // namespace autotune::cli
