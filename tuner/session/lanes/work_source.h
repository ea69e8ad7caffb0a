#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// A lane as a source of work sees it.
struct LaneView {
    std::size_t index = 0;
    const std::string& uuid;  // of its GPU
    const Device& device;
    const std::string& class_key;  // of the item that it was given last; empty: none yet
};

// Where several lanes get their problems from: the list of a sweep, or the misses of databases. Its members are called on the
// thread that runs the lanes, at least ten times a second while a lane waits, so they must return at once.
class WorkSource {
  public:
    struct Item {
        std::size_t id = 0;  // the source's own; unique among the items in hand
        Problem problem;
    };
    // An item that no lane could bring to an end.
    enum class Failure {
        lost_twice,  // two lanes ended in the middle of it
        no_lane,     // every GPU is out
        stopped,     // the user asked to stop before it was begun
    };

    virtual ~WorkSource() = default;
    // The next item for this lane; nullopt: none at the moment. `is_ahead`: the lane is still at work, and the item is only
    // prepared meanwhile; an item that another lane could begin at once is better kept.
    virtual std::optional<Item> take(const LaneView& lane, bool is_ahead) = 0;
    // Whether the lane is to leave its GPU in the middle of its item, since others want the GPU. The item then comes back by
    // done(), interrupted, and the lane is started anew. Asked ten times a second while the lane has an item.
    virtual bool wants_back(const LaneView& lane) {
        static_cast<void>(lane);
        return false;
    }
    // This lane takes no more items: its GPU is out.
    virtual void lane_out(const LaneView& lane) = 0;
    // Whether take() will never give another item to the lanes that are left: they end when what they have is done.
    virtual bool is_exhausted() const = 0;
    // The item was tuned, found fresh, failed for a reason of its own, or was interrupted.
    virtual void done(const LaneView& lane, std::size_t id, SweepItem item) = 0;
    // Each item that was taken gets either done() or failed(), once.
    virtual void failed(std::size_t id, Failure why, const std::string& detail) = 0;
};

}  // namespace autotune::tuner
