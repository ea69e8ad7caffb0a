#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/dispatch/dispatcher.h"
#include "src/gpu/driver/driver.h"
#include "src/gpu/driver/ownership.h"
#include "src/runtime/api/log.h"
#include "src/runtime/api/settings.h"
#include "src/runtime/api/status.h"
#include "src/runtime/load/instances.h"
#include "src/runtime/load/load_gate.h"
#include "src/runtime/load/opened_kernels.h"
#include "src/runtime/memory/workspaces.h"
#include "src/runtime/plan/misses.h"

namespace autotune::runtime {

// Shared by the parts of one handle. Each member is thread-safe by itself.
struct Services {
    // Throws Error{no_gpu} without a driver.
    explicit Services(Settings given);

    const Device& device(int ordinal);  // never erased

    const Settings settings;
    Log log;
    const std::shared_ptr<LastError> errors = std::make_shared<LastError>();
    const std::shared_ptr<const gpu::Driver> driver;
    const std::shared_ptr<gpu::Reach> reach;      // nullptr if there is one device
    Catalogue catalogue = Catalogue::embedded();  // only `kernels` adds to it
    OpenedKernels kernels;
    dispatch::Dispatcher dispatcher;
    Misses misses;
    LoadGate gate;
    Instances instances;
    Workspaces workspaces;

  private:
    std::mutex devices_mutex_;
    std::map<int, Device> devices_;  // by ordinal
};

}  // namespace autotune::runtime
