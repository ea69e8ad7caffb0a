#pragma once

#include <functional>
#include <optional>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/space/config.h"

namespace autotune::gemm {

// The start of a descent may be slower than the end of another by this factor.
constexpr double kGiveUpRatio = 1.5;

// Finds a default config in two stages, because predicting every tile, cluster and division of K would take too long. First a
// family offers some configs; then the best of them is changed in small steps for as long as a step shortens the predicted time.
template <class ResolvedConfig>
class Descent {
  public:
    using Offer = std::function<void(const ResolvedConfig&)>;
    struct Family {
        std::function<double(const ResolvedConfig&)> predict;                     // microseconds
        std::function<Config(const ResolvedConfig&)> config_of;                   // called for a config that could be chosen
        std::function<void(const ResolvedConfig&, const Offer&)> for_neighbours;  // legal or not
    };

    // REQUIRES: `space` and `family` outlive this.
    Descent(const SearchSpace& space, const Family& family) : choice_(space), family_(family) {}

    void offer(const ResolvedConfig& shape) {
        const double us = family_.predict(shape);
        if (choice_.wants(us) && choice_.offer(family_.config_of(shape), us)) best_ = shape;
    }
    void descend() {
        for (double before = 0; best_ && choice_.predicted_us() != before;) {
            before = choice_.predicted_us();
            const ResolvedConfig from = *best_;  // a copy, because an offered config may replace *best_
            family_.for_neighbours(from, [this](const ResolvedConfig& shape) { offer(shape); });
        }
    }
    const DefaultChoice& choice() const { return choice_; }

  private:
    DefaultChoice choice_;
    const Family& family_;
    std::optional<ResolvedConfig> best_;
};

// The best result of several descents. Descent i starts from the best offer of `offer_start(i, descent)`. REQUIRES: the space is
// not empty.
template <class ResolvedConfig, class OfferStart>
Config best_of_descents(const SearchSpace& space, const typename Descent<ResolvedConfig>::Family& family, int starts,
                        const OfferStart& offer_start) {
    std::optional<DefaultChoice> best;
    for (int i = 0; i < starts; ++i) {
        Descent<ResolvedConfig> descent(space, family);
        offer_start(i, descent);
        if (best && descent.choice().predicted_us() > kGiveUpRatio * best->predicted_us()) continue;
        descent.descend();
        if (!best || descent.choice().predicted_us() < best->predicted_us()) best.emplace(descent.choice());
    }
    return best->choose();
}

}  // namespace autotune::gemm
