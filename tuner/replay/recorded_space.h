#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/space/config.h"
#include "src/core/space/search_space.h"
#include "tuner/search/search.h"

namespace autotune::tuner {

// A space of which every point was tried once: strategies are replayed on it without a GPU.
struct RecordedSpace {
    std::string name;                             // such as "Xgemm on NVIDIA GeForce RTX 3090"
    std::vector<Parameter> parameters;            // words are stored as their positions in `words`
    std::vector<std::vector<std::string>> words;  // by parameter, the spelling of each value if values were not integers
    struct Row {
        Config config;
        std::optional<double> time_us;  // nullopt: the point failed
        std::string failure;            // why, in one word
        std::optional<double> prior;    // the time that a cost model predicted, in any unit
    };
    std::vector<Row> rows;  // all configs are different

    std::optional<double> best_us() const;  // The best time, or nullopt if every point failed.
};

struct RecordedLimits {
    std::size_t file_bytes = 256u << 20;     // as stored
    std::size_t text_bytes = 256u << 20;     // after decompression
    std::size_t parsed_bytes = 1024u << 20;  // a rough limit of the memory for the parsed text
    std::size_t rows = 2'000'000;
    std::size_t parameters = 256;
    std::size_t values = 8'000'000;  // rows times parameters
};

// Reads Kernel Tuner's cache format, the T4 results format, or our own export; plain or gzip, recognised by content. Throws
// Error{usage} naming the file and what is wrong with it.
RecordedSpace read_recorded_space(const std::string& path, const RecordedLimits& limits = {});
// Parses a space from text. `name` replaces the file's name in messages.
RecordedSpace parse_recorded_space(std::string_view text, const std::string& name, const RecordedLimits& limits = {});

// Our own format: {"format": "autotune-space-1", "name", "parameters": [{"name", "values", "kind"}], "rows": [[values..., time_us
// | "failure", prior?]]}.
std::string to_json(const RecordedSpace& space);

Domain make_domain(const RecordedSpace& space);

}  // namespace autotune::tuner
