#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tuner/fleet/source/fleet_link.h"
#include "tuner/session/idle/idle_source.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// Problems of a fleet's queue, for the cards of this host. A lane stores its winner in the local database first; the store gets
// it from here, now or when it is back. A problem that has a winner in the local database is not tuned again.
class FleetSource : public IdleSource {
  public:
    // REQUIRES: everything passed outlives it. `services` is for looking into the local database.
    FleetSource(fleet::FleetLink& link, const std::vector<LaneGpu>& gpus, const TuneServices& services, const ReadLoad& read,
                const IdleOptions& options, const std::atomic<bool>* stop, IdleObserver& observer);

    std::optional<Item> take(const LaneView& lane, bool is_ahead) override;
    void lane_out(const LaneView& lane) override;
    bool is_exhausted() const override;
    void done(const LaneView& lane, std::size_t id, SweepItem item) override;
    void failed(std::size_t id, Failure why, const std::string& detail) override;

    // Passes the link's remarks on.
    void pass_on_remarks();

  protected:
    bool has_in_hand() const override { return !in_hand_.empty(); }

  private:
    struct InHand {
        fleet::Claim claim;
        Problem problem;
    };
    std::optional<Problem> problem_of_claim(const fleet::Claim& claim) const;
    std::optional<TuneResult> known_winner(const Problem& problem, const LaneView& lane) const;
    bool send(const fleet::Claim& claim, const SweepItem& item);
    void fail(const fleet::Claim& claim, fleet::Loss loss, const std::string& why);

    fleet::FleetLink& link_;
    TuneServices services_;
    std::map<std::size_t, InHand> in_hand_;  // by id
    std::size_t next_id_ = 0;
};

}  // namespace autotune::tuner
