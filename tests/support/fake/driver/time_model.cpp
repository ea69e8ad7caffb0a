// The duration of a launch. It is smooth in the tile, with an optimum inside the usual ranges and small effects of all other
// parameters, so that a search has a realistic landscape. It roughly resembles a Hopper card, but predicts nothing about one.
#include <algorithm>
#include <cmath>

#include "tests/support/fake/kernels/elements.h"

namespace autotune::fake {
namespace {

constexpr double kFloor_us = 2.5;
constexpr double kFiller_us = 1.4;
constexpr double kOverlap_us = 1.5;
constexpr double kPeakShare = 0.8;  // the share of the tensor cores' peak that is reached at the optimum

// A number in [0, 1), which is the same for the same words on every machine.
double fraction(const std::string& text) {
    std::uint64_t hash = 1469598103934665603ull;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return static_cast<double>(hash >> 11) / 9007199254740992.0;
}

// 1 at the best value, and less by `weight` for each doubling away from it.
double bump(double value, double best, double weight) {
    if (value <= 0) return 1 - weight;
    const double steps = std::log2(value / best);
    return 1 / (1 + weight * steps * steps);
}

double tile_share(const Program& program) {
    const auto m = static_cast<double>(program.integer("block_m", 16));
    const auto n = static_cast<double>(program.integer("block_n", 16));
    const double reuse = m * n / (m + n);
    double share = reuse / (reuse + 24) * bump(m / n, 0.75, 0.03);
    share *= bump(static_cast<double>(program.integer("block_k", 32)), 64, 0.05);
    share *= bump(static_cast<double>(program.integer("stages", 3)), 4, 0.15);
    if (program.constants.count("reg_buffers") > 0)
        share *= bump(static_cast<double>(program.integer("reg_buffers", 1)), 2, 0.04);
    if (program.integer("smem_swizzle", 1) == 0) share *= 0.85;
    return share / (1 + program.spill_bytes / 64.0);
}

// The effect of all other parameters, up to 3 % each, by a hash.
double other_share(const Launch& launch) {
    const Program& program = launch.function->library->program;
    double share = 1;
    for (const auto& [name, value] : program.constants) share *= 1 - 0.03 * fraction(name + "=" + value);
    for (const char* name : {"raster", "group", "split_k", "swizzle_stride", "stages"}) {
        if (const auto value = launch.raw(name)) share *= 1 - 0.03 * fraction(name + std::to_string(*value));
    }
    for (const char* name : {"align_a", "align_b", "align_c"}) {
        share *= std::sqrt(static_cast<double>(std::min(16L, program.integer(name, 16))) / 16);
    }
    return share;
}

// Blocks run in waves, and the last wave is seldom full.
double wave_share(const Launch& launch) {
    const double smem = static_cast<double>(launch.config.sharedMemBytes) + 1024;
    const double threads = std::max(32.0, static_cast<double>(launch.threads()));
    const double registers = std::max(1, launch.function->library->program.registers);
    const double resident =
        std::max(1.0, std::floor(std::min({device_number(0, "smem_sm") / smem, device_number(0, "threads_sm") / threads,
                                           device_number(0, "registers_sm") / (registers * threads)})));
    const double slots = resident * device_number(0, "sms");
    const double waves = std::ceil(static_cast<double>(launch.blocks()) / slots);
    return static_cast<double>(launch.blocks()) / (waves * slots);
}

double gemm_us(const Launch& launch, const GemmView& gemm) {
    const double flops = 2.0 * static_cast<double>(gemm.products());
    const double peak_per_us = device_number(0, "sms") * device_number(0, "clock_mhz") * 4096;
    if (gemm.is_reference) return kFloor_us + flops / (peak_per_us / 100);
    const bool is_tiled = launch.function->library->program.integer("block_m", 0) > 0;
    const double share = is_tiled ? kPeakShare * tile_share(launch.function->library->program) : 0.02;
    return kFloor_us + flops / (peak_per_us * share * other_share(launch) * wave_share(launch));
}

// The bytes / the bandwidth that wide accesses reach.
double add_us(const Launch& launch, const AddView& add) {
    const Program& program = launch.function->library->program;
    const double bytes = 3.0 * static_cast<double>(add.n) * static_cast<double>(size_bytes(type_of(add.type)));
    const double peak_per_us = device_number(0, "bus") / 8 * 2 * device_number(0, "memory_clock_mhz");
    if (add.is_reference) return kFloor_us + bytes / (peak_per_us / 10);
    const double share = 0.9 * bump(static_cast<double>(program.integer("access_bytes", 16)), 16, 0.05);
    return kFloor_us + bytes / (peak_per_us * share * other_share(launch));
}

double kernel_us(const Launch& launch) {
    if (const auto gemm = gemm_view(launch)) return gemm_us(launch, *gemm);
    if (const auto add = add_view(launch)) return add_us(launch, *add);
    if (const auto rounds = launch.raw("rounds")) return kFloor_us + static_cast<double>(*rounds) * 0.01;
    return kFloor_us + static_cast<double>(launch.integer("bytes", 0)) / 3e6;
}

}  // namespace

bool is_filler(const Launch& launch) {
    return launch.function->kernel->symbol.ends_with("_filler");
}

double model_time_us(const Launch& launch) {
    if (is_filler(launch)) return kFiller_us;
    const double start_us = launch.is_programmatic ? Script::get().number("model", "pdl_us", 0) : 0;
    return start_us + kernel_us(launch);
}

// Kernels launched with the attribute let the next one start early. A kernel launched without it waits for the end of the
// previous one in any case.
bool triggers_early(const Launch& launch) {
    return launch.is_programmatic || launch.function->kernel->symbol == "autotune_trigger_filler";
}

double overlap_us(const Launch& launch, bool last_triggers_early) {
    if (!launch.is_programmatic || !last_triggers_early) return 0;
    return std::min(Script::get().number("model", "overlap_us", kOverlap_us), model_time_us(launch));
}

}  // namespace autotune::fake
