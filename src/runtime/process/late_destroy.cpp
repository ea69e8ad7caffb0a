#include "src/runtime/process/late_destroy.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/runtime/api/log.h"

namespace autotune::runtime {
namespace {

using Work = std::vector<std::function<void()>>;

// Initial-exec for the reason given in log.cpp. It is a plain pointer, because registering a destructor allocates.
[[gnu::tls_model("initial-exec")]] thread_local Work* asked = nullptr;

std::unique_ptr<Work> take() {
    return std::unique_ptr<Work>(std::exchange(asked, nullptr));
}

}  // namespace

void LateDestroy::ask(std::function<void()> destroy) {
    auto work = asked != nullptr ? take() : std::make_unique<Work>();
    work->push_back(std::move(destroy));
    asked = work.release();
}

bool LateDestroy::is_asked() noexcept {
    return asked != nullptr;
}

void LateDestroy::settle_now() noexcept {
    if (Log::is_speaking()) return;
    const std::unique_ptr<Work> work = take();
    for (const auto& destroy : *work) destroy();
}

void LateDestroy::settle_elsewhere() noexcept {
    if (asked == nullptr || Log::is_speaking()) return;
    try {
        std::thread([work = std::shared_ptr<Work>(take())] {
            for (const auto& destroy : *work) destroy();
        }).detach();
    } catch (...) {
        // Without memory or a thread the objects are never destroyed.
    }
}

}  // namespace autotune::runtime
