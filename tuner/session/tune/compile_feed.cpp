#include "tuner/session/tune/compile_feed.h"

#include <algorithm>
#include <utility>

#include "src/core/error.h"

namespace autotune::tuner {

CompileFeed::CompileFeed(RunShared& shared, Options options)
    : shared_(shared),
      options_(std::move(options)),
      owner_(shared.engine.new_owner()),
      nvrtc_(shared.engine.nvrtc_version()),
      busy_before_s_(shared.engine.pool().busy_seconds()) {
    const Catalogue& catalogue = shared_.engine.services().catalogue;
    request(jit::render_harness(catalogue, target()), harness_);
    request(jit::render_reference(catalogue, catalogue.op_of(options_.problem), options_.problem, target()), reference_);
}

// Queues a compilation before those of all candidates of the same problem.
void CompileFeed::request(const jit::Rendered& rendered, Instance& place) {
    if (const auto known = shared_.instances.find(rendered.identity); known != shared_.instances.end()) {
        place = known->second;
        return;
    }
    shared_.engine.pool().submit({rendered, options_.urgency - 1, owner_, options_.keep_folder},
                                 [this, &place](const CompileOutcome& outcome) {
                                     if (outcome.compiled == nullptr) {
                                         judges_failure_ = outcome.failure;
                                         return;
                                     }
                                     place = shared_.instances[outcome.compiled->identity] = outcome.compiled;
                                 });
}

bool CompileFeed::has_judges() const {
    if (!judges_failure_.empty()) throw Error(ErrorCode::compile_failed, judges_failure_);
    return harness_ != nullptr && reference_ != nullptr;
}

void CompileFeed::submit(std::size_t point) {
    const Candidates::Part& part = options_.candidates.part_of(point);
    jit::Rendered rendered = jit::render(shared_.engine.services().catalogue, *part.family, options_.problem, part.space,
                                         options_.candidates.at(point).config, target());
    ++compiling_;
    shared_.engine.pool().submit({std::move(rendered), options_.urgency, owner_, options_.keep_folder},
                                 [this, point](const CompileOutcome& outcome) {
                                     --compiling_;
                                     ready_.push_back({point, outcome});
                                 });
}

std::optional<CompileFeed::Ready> CompileFeed::next() {
    if (ready_.empty()) return std::nullopt;
    Ready first = std::move(ready_.front());
    ready_.pop_front();
    return first;
}

void CompileFeed::stop() {
    shared_.engine.pool().cancel(owner_);
    compiling_ = 0;
}

std::size_t CompileFeed::room() const {
    const std::size_t wanted = shared_.engine.pool().capacity() + 4;
    return wanted - std::min(wanted, under_way());
}

}  // namespace autotune::tuner
