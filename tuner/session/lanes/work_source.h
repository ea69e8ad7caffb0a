#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// The view of a lane that a source of work gets.
struct LaneView {
    std::size_t index = 0;
    const std::string& uuid;  // of its GPU
    const Device& device;
    const std::string& class_key;  // the class of the item that it received last; empty if there was none
};

// Where several lanes get their problems: the list of a sweep, or the misses of databases. Members are called on the thread that
// runs the lanes, at least ten times a second while a lane waits, so they must return at once.
class WorkSource {
  public:
    struct Item {
        std::size_t id = 0;  // chosen by the source, and unique among the items in hand
        Problem problem;
    };
    // Why no lane could finish an item.
    enum class Failure {
        lost_twice,  // two lanes died while they worked on it
        no_lane,     // every GPU is out
        stopped,     // the user asked to stop before it was begun
    };

    virtual ~WorkSource() = default;
    // The next item for this lane; nullopt: none at the moment. `is_ahead`: the lane is still working and would only prepare the
    // item, so an item that another lane could begin at once should be kept.
    virtual std::optional<Item> take(const LaneView& lane, bool is_ahead) = 0;
    // Whether the lane should leave its GPU in the middle of its item because others want the GPU. The item then comes back
    // through done(), interrupted, and the lane is restarted. Called ten times a second while the lane has an item.
    virtual bool wants_back(const LaneView& lane) {
        static_cast<void>(lane);
        return false;
    }
    // This lane takes no more items: its GPU is out.
    virtual void lane_out(const LaneView& lane) = 0;
    // Whether take() will never give another item to the remaining lanes: they end when their items are done.
    virtual bool is_exhausted() const = 0;
    // The item was tuned, found fresh, failed for a reason of its own, or was interrupted.
    virtual void done(const LaneView& lane, std::size_t id, SweepItem item) = 0;
    // Each item that was taken gets exactly one call of done() or failed().
    virtual void failed(std::size_t id, Failure why, const std::string& detail) = 0;
};

}  // namespace autotune::tuner
