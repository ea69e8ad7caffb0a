#include "db/store/corrections.h"

#include <utility>

#include "src/records/validate.h"

namespace autotune::db {

std::vector<CostCorrection> read_corrections(Connection& connection, const std::string& device_key, const std::string& class_key,
                                             int& skipped) {
    Query query = connection.query(
        "SELECT device, family, template, nvrtc, class, problems, trials, deviation, effects, date FROM learning "
        "WHERE device = ?1 AND (?2 = '' OR class = ?2) ORDER BY family, class, template, nvrtc");
    query.bind_all(device_key, class_key);
    std::vector<CostCorrection> corrections;
    while (query.next()) {
        CostCorrection one;
        for (std::string* text : {&one.device_key, &one.family, &one.template_identity, &one.nvrtc, &one.class_key})
            *text = query.text();
        one.problems = query.small();
        one.trials = query.small();
        one.deviation = query.real();
        auto effects = records::effects_from_text(query.text());
        one.date = records::cleaned(query.text());
        if (effects) one.effects = std::move(*effects);
        if (effects && !records::why_invalid(one)) {
            corrections.push_back(std::move(one));
        } else {
            ++skipped;
        }
    }
    return corrections;
}

void write_correction(Connection& connection, const CostCorrection& correction) {
    Query query = connection.query(
        "INSERT OR REPLACE INTO learning(device, family, template, nvrtc, class, problems, trials, deviation, effects, date) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    query
        .bind_all(correction.device_key, correction.family, correction.template_identity, correction.nvrtc, correction.class_key,
                  correction.problems, correction.trials, correction.deviation, records::effects_to_text(correction.effects),
                  correction.date)
        .run();
}

}  // namespace autotune::db
