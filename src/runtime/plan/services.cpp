#include "src/runtime/plan/services.h"

#include <string>
#include <utility>

namespace autotune::runtime {

Services::Services(Settings given)
    : settings(std::move(given)),
      log(settings),
      driver(gpu::Driver::load()),
      reach(gpu::Reach::of(driver)),
      kernels(settings, catalogue),
      dispatcher(
          {.files = {settings.label.empty() ? settings.database : "", settings.shipped, settings.label}, .pin = settings.pin},
          catalogue, [this](const std::string& subject, const std::string& message) { log.warn_once(subject, message); }),
      misses(settings, log, dispatcher.stored()),
      gate(settings.on_miss == AUTOTUNE_ON_MISS_BACKGROUND),
      instances(settings, catalogue, driver, log, gate),
      workspaces(driver) {}

const Device& Services::device(int ordinal) {
    const std::lock_guard lock(devices_mutex_);
    const auto found = devices_.find(ordinal);
    if (found != devices_.end()) return found->second;
    return devices_.emplace(ordinal, driver->device(ordinal)).first->second;
}

}  // namespace autotune::runtime
