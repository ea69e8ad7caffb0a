#pragma once

#include <functional>
#include <optional>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/space/config.h"

namespace autotune::gemm {

// By how much the start of a descent may be slower than the end of another.
constexpr double kGiveUpRatio = 1.5;

// Finds a default in two stages, as a list of every tile, cluster and division of K would be too long to predict: offers of a
// family's own, then small changes of the best of them for as long as one shortens the predicted time.
template <class ResolvedConfig>
class Descent {
  public:
    using Offer = std::function<void(const ResolvedConfig&)>;
    struct Family {
        std::function<double(const ResolvedConfig&)> predict;                     // microseconds
        std::function<Config(const ResolvedConfig&)> config_of;                   // asked of a shape that could be chosen
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

// Where the best of several walks ends; `offer_start(i, descent)` makes the offers from whose best the i-th goes. REQUIRES: the
// space is not empty.
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
