#pragma once

#include <string>
#include <vector>

#include "src/core/error.h"
#include "tools/cli/session.h"
#include "tuner/session/lanes/lanes.h"

namespace autotune::cli {

// The flags of commands that may work on several GPUs: --devices, --each-class.
std::vector<Flag> devices_flags();
// The GPUs that the words name, in their order, of any kind. Throws Error{usage} for one that does not exist or is named twice.
std::vector<Gpu> gpus_named(Session& session, const std::vector<std::string>& words, const std::string& purpose);
// The GPUs that --devices names, in its order: ordinals and UUIDs separated by commas, or `all`, by PCI address. Throws
// Error{usage} for one that does not exist or is named twice, and for cards of several kinds without --each-class.
std::vector<Gpu> gpus_of_devices(Session& session, const std::string& purpose);
// Why a card should not be used, as a sentence without its end; empty if it is free. It is not free if other programs use more
// than a GiB of its memory or a tenth of its time. The code is no_gpu or gpu_in_use.
struct CardTrouble {
    std::string text;
    ErrorCode code = ErrorCode::gpu_in_use;
};
CardTrouble why_not_usable(Session& session, const Gpu& gpu);  // independent of its load
CardTrouble why_not_free(Session& session, const Gpu& gpu);
// The GPUs that are free. With `all`, GPUs that are not free are skipped with a warning, and Error is thrown if none is left.
// Throws Error if a named GPU is not free.
std::vector<Gpu> free_ones(Session& session, std::vector<Gpu> gpus);
// The GPUs that are usable for a command that waits until a GPU is idle. Their load does not matter.
std::vector<Gpu> usable_ones(Session& session, std::vector<Gpu> gpus, bool is_all);
// "GPU 1 (GPU-5a3c...)".
std::string gpu_text(const Gpu& gpu);
tuner::LaneGpu lane_gpu(Session& session, const Gpu& gpu);

}  // namespace autotune::cli
