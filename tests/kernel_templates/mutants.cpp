#include "tests/kernel_templates/mutants.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/core/error.h"
#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

using Makers = std::vector<MutantsOfAFamily>;

// The first file that adds a mutant makes this object, because files are initialised in no fixed order.
Makers& planted() {
    static Makers makers;
    return makers;
}
Makers& planted_in_chain() {
    static Makers makers;
    return makers;
}

std::vector<Mutant> made_by(const Makers& makers) {
    std::vector<Mutant> all;
    for (const MutantsOfAFamily make : makers)
        for (Mutant& mutant : make()) all.push_back(std::move(mutant));
    std::stable_sort(all.begin(), all.end(), [](const Mutant& a, const Mutant& b) { return a.family < b.family; });
    return all;
}

}  // namespace

Planted::Planted(MutantsOfAFamily make) {
    planted().push_back(make);
}
PlantedInChain::PlantedInChain(MutantsOfAFamily make) {
    planted_in_chain().push_back(make);
}

std::vector<Mutant> of_family(const std::string& family, const std::string& config, std::vector<Mutant> list) {
    for (Mutant& mutant : list) {
        mutant.name = family.substr(family.find('/') + 1) + "_" + mutant.name;
        mutant.family = family;
        mutant.config = config + " " + mutant.config;
    }
    return list;
}

std::vector<Mutant> of_attention(const std::string& family, std::vector<Mutant> list) {
    for (Mutant& mutant : list) {
        std::string prefix = family;
        std::replace(prefix.begin(), prefix.end(), '/', '_');
        mutant.name = prefix + "_" + mutant.name;
        mutant.family = family;
        if (mutant.shape.empty()) mutant.shape = "1x1x150x64";
        mutant.options.emplace("mask", "causal");
    }
    return list;
}

std::vector<Mutant> with_f32(const char* compute, std::vector<Mutant> list) {
    for (Mutant& mutant : list) {
        mutant.options["dtype"] = "f32";
        mutant.options["compute"] = compute;
    }
    return list;
}

const std::vector<Mutant>& overlap_mutants() {
    static const std::vector<Mutant> all = made_by(planted_in_chain());
    return all;
}

const std::vector<Mutant>& mutants() {
    static const std::vector<Mutant> all = made_by(planted());
    return all;
}

bool runs_on_host(const Mutant& mutant) {
    constexpr std::array without = {"gemm/wmma", "gemm/wmma_tf32", "gemm/mma_fp8"};  // instructions that the host cannot run
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    const bool has_cluster = has(mutant.config, "cluster_m=2") || has(mutant.config, "cluster_n=2") ||
                             has(mutant.config, "cluster_k=2") ||
                             (mutant.family == "attention/split" && has(mutant.config, "join=2"));
    const bool lacks_a_fence = has(mutant.find, "fence");  // fences have no effect on the host
    // A sum that does not need the lost digits does not show this fault.
    const bool lacks_digits = mutant.name == "wgmma_fp8_promotion_forgotten";
    // These tiles are too large to run quickly on the host.
    const bool is_large = mutant.races && has(mutant.family, "gemm/wgmma") && !mutant.shape.starts_with("64x64x");
    return !has_cluster && !lacks_a_fence && !lacks_digits && !is_large &&
           std::find(without.begin(), without.end(), mutant.family) == without.end();
}

std::string text_of_template(const Catalogue& catalogue, const std::string& path) {
    for (const TemplateHeader& header : catalogue.headers()) {
        if (header.name == path) return header.text();
    }
    const Family* family = catalogue.find_family(path.substr(0, path.rfind('/')));
    check(family != nullptr, "there is no template " + path);
    return catalogue.text(*family);
}

int occurrences(const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

Catalogue mutated(const Mutant& mutant) {
    std::string text = text_of_template(Catalogue::embedded(), mutant.path());
    check(occurrences(text, mutant.find) == 1,
          mutant.name + ": what it replaces does not stand exactly once in " + mutant.path());
    text.replace(text.find(mutant.find), mutant.find.size(), mutant.replace);
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("mutant_" + std::to_string(::getpid()) + "_" + mutant.name);
    std::filesystem::create_directories((folder / mutant.path()).parent_path());
    std::ofstream(folder / mutant.path(), std::ios::binary) << text;
    Catalogue catalogue = Catalogue::from_directory(folder.string());
    std::filesystem::remove_all(folder);
    return catalogue;
}

Problem problem_of(const Mutant& mutant, const Catalogue& catalogue) {
    std::map<std::string, std::string> options = mutant.options;
    options.emplace("dtype", "f16");
    return catalogue.problem({mutant.family.substr(0, mutant.family.find('/')), mutant.shape, options});
}

Config config_of(const Mutant& mutant, const SearchSpace& space) {
    Config config = space.default_config;
    std::istringstream words(mutant.config);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        config.set(word.substr(0, equals), std::stoll(word.substr(equals + 1)));
    }
    const std::optional<std::string> why = space.why_not(config);
    check(!why, mutant.name + ": " + why.value_or("") + " (" + config.to_string() + ")");
    return config;
}

}  // namespace autotune::test
