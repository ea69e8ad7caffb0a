#include "tests/kernel_templates/chosen_texts.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/pair_cover.h"
#include "tests/support/spread_configs.h"

namespace autotune::test {
namespace {

// The attributes of a problem that change the text, such as "a=f16", "layout=nt".
Words attributes_of(const Problem& problem) {
    std::istringstream key(problem.key());
    Words words;
    for (std::string word; key >> word;)
        if (word.find('=') != std::string::npos) words.push_back(word);
    return words;
}

Words parameters_of(const Config& text) {
    Words words;
    for (const auto& [name, value] : text.values()) words.push_back(name + "=" + std::to_string(value));
    return words;
}

// A problem and values of parameters, for sides of branches that no other text takes.
struct SideText {
    const char* family;
    ProblemRequest request;
    std::map<std::string, std::int64_t> pins{};
};

// clang-format off
const std::vector<SideText>& side_texts() {
    static const std::vector<SideText> all = {
        {"attention/wgmma", {"attention", "1x2x65x64", {{"dtype", "bf16"}, {"align", "16,16,16,8"}}}},
        {"attention_bwd/one_pass", {"attention_bwd", "1x2x100x128", {{"dtype", "bf16"}, {"mask", "causal"}}},
         {{"groups", 2}, {"block_q", 80}, {"swap_dq", 1}, {"early_dv", 0}, {"ds_buffers", 1}, {"stages", 2}}},
        {"attention_bwd/one_pass", {"attention_bwd", "1x1x83x64", {{"dtype", "bf16"}, {"mask", "causal"}}},
         {{"groups", 2}, {"block_q", 128}, {"early_dv", 0}, {"ds_buffers", 2}, {"stages", 2}, {"dq_path", 2}, {"dq_buffers", 2}}},
        {"attention_bwd/simt", {"attention_bwd", "1x2x17x40", {{"dtype", "f16"}, {"align", "2"}}}},
        {"gemm/simt_f32", {"sgemm", "512x384x256", {{"layout", "nt"}}}, {{"reg_transpose", 1}}},
        {"gemm/wgmma", {"hgemm", "131x137x520", {{"align", "2"}}}, {{"reduce_kernel", 1}, {"split_k", 2}, {"tma_store", 0}}},
        {"gemm/wgmma", {"hgemm", "264x136x520", {{"beta", "0.5"}}}, {{"reduce_kernel", 1}, {"split_k", 2}}},
        {"gemm/wgmma", {"hgemm", "4096x4096x64", {}}, {{"overlap_epilogue", 1}}},
        {"gemm/wgmma_fp8", {"gemm", "1024x1024x128", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "bf16"}}}, {{"overlap_epilogue", 1}}},
        {"gemm/wgmma_nonpersistent", {"hgemm", "131x177x200", {{"layout", "nt"}, {"align", "16,16,2"}}}},
        {"gemm/wgmma_nonpersistent", {"hgemm", "141x100x200", {{"layout", "nt"}}}, {{"block_n", 72}}},
        {"softmax/rows", {"softmax", "64x65536", {{"dtype", "bf16"}}}, {{"cluster_blocks", 2}}},
        {"softmax/rows", {"softmax", "5000x1024", {{"dtype", "bf16"}}}, {{"waves", 1}}},
    };
    return all;
}
// clang-format on

// A named config of any architecture, and the architectures on which it is legal.
struct NamedText {
    Config config;
    std::vector<std::string> archs;
};

class Chooser {
  public:
    Chooser(const Catalogue& catalogue, const Family& family, const std::string& arch)
        : catalogue_(catalogue), family_(family), arch_(arch) {
        const std::string_view name = family.name();
        for (const ProblemRequest& request : catalogue.find_op(name.substr(0, name.find('/')))->examples()) {
            requests_.push_back(request);
            const Problem problem = catalogue.problem(request);
            if (!takers(problem).empty()) examples_.push_back(problem);
        }
    }

    std::vector<ChosenText> choose() {
        if (examples_.empty()) return {};
        add_named();
        add_half_sums();
        add_defaults();
        if (texts_.empty()) add_first();
        if (!texts_.empty()) add_samples();
        add_sides();
        return std::move(texts_);
    }

  private:
    SearchSpace space(const Problem& problem, const std::string& arch) const {
        return family_.space(problem, reference_device(arch).value());
    }
    // The architectures on which the family takes the problem.
    std::vector<std::string> takers(const Problem& problem) const {
        std::vector<std::string> names;
        for (const std::string& name : kArchs)
            if (!family_.refuses(problem, reference_device(name).value())) names.push_back(name);
        return names;
    }
    bool is_taken(const Problem& problem) const { return !family_.refuses(problem, reference_device(arch_).value()); }
    // Whether this architecture is the one that compiles text `number`, which is valid for all of `archs`. sm_90a takes every
    // second text, and the other architectures share the rest.
    bool is_mine(const std::vector<std::string>& archs, std::size_t number) const {
        std::vector<std::string> others;
        for (const std::string& name : archs)
            if (name != "sm_90a") others.push_back(name);
        const bool has_hopper = others.size() < archs.size();
        return arch_ == (others.empty() || (has_hopper && number % 2 == 0) ? "sm_90a" : others[number / 2 % others.size()]);
    }

    std::vector<NamedText> covering_named(const Problem& problem, const Problem* unless_legal_for) const;
    void add_named();
    void add_half_sums();
    void add_defaults();
    void add_first();
    void add_samples();
    void add_sides();

    const Catalogue& catalogue_;
    const Family& family_;
    const std::string& arch_;
    std::vector<ProblemRequest> requests_;
    std::vector<Problem> examples_;  // the examples that the family takes on any architecture
    std::vector<ChosenText> texts_;
};

// Chooses from all architectures' named configs enough texts to cover all of them, with one config for each text. Configs that
// are also legal for another problem are left out.
std::vector<NamedText> Chooser::covering_named(const Problem& problem, const Problem* unless_legal_for) const {
    std::vector<NamedText> distinct;
    std::vector<Words> rows;
    std::map<std::string, std::size_t> known;  // position by text
    for (const std::string& name : takers(problem)) {
        const SearchSpace here = space(problem, name);
        for (const NamedConfig& named : here.named) {
            if (unless_legal_for != nullptr && space(*unless_legal_for, name).contains(named.config)) continue;
            const Config text = here.compile_part(named.config);
            const auto [at, is_new] = known.emplace(text.to_string(), distinct.size());
            if (is_new) {
                distinct.push_back({named.config, {}});
                rows.push_back(parameters_of(text));
            }
            if (here.contains(distinct[at->second].config)) distinct[at->second].archs.push_back(name);
        }
    }
    std::vector<NamedText> picked;
    for (const std::size_t at : covering(rows)) picked.push_back(distinct[at]);
    return picked;
}

// Adds named configs for the first example that is taken, and for the first of each other way to multiply f32, which need other
// registers. The layouts of these are distributed over the architectures.
void Chooser::add_named() {
    std::map<std::string, std::vector<Problem>> accepted;
    for (const Problem& problem : examples_) {
        const bool is_f32 = problem.has_attribute("compute") && problem.has_attribute("a") && problem.word("a") == "f32";
        accepted[is_f32 ? problem.word("compute") : ""].push_back(problem);
    }
    const auto turn = static_cast<std::size_t>(std::find(kArchs.begin(), kArchs.end(), arch_) - kArchs.begin());
    for (const auto& [compute, problems] : accepted) {
        std::size_t number = 0;
        for (const NamedText& named : covering_named(problems.front(), nullptr)) {
            if (!is_mine(named.archs, number++)) continue;
            const Problem& other = problems[2 * turn % problems.size()];
            const bool is_legal = !compute.empty() && is_taken(other) && space(other, arch_).contains(named.config);
            texts_.push_back({arch_, is_legal ? other : problems.front(), named.config});
        }
    }
}

// Adds sums in f16. They need fewer registers, so a config that is legal with other sums fits with these.
void Chooser::add_half_sums() {
    const ProblemRequest& request = requests_.front();
    if (request.op != "hgemm") return;
    const Problem problem = catalogue_.problem({"hgemm_f16acc", request.shape, request.options});
    const Problem full = catalogue_.problem(request);
    if (takers(problem).empty()) return;
    std::size_t number = 0;
    for (const NamedText& named : covering_named(problem, &full))
        if (is_mine(named.archs, number++)) texts_.push_back({arch_, problem, named.config});
    if (!is_taken(problem)) return;
    const SearchSpace here = space(problem, arch_);
    texts_.push_back({arch_, problem, here.default_config});
}

void Chooser::add_defaults() {
    std::vector<Words> rows;
    for (const Problem& problem : examples_) rows.push_back(attributes_of(problem));
    std::size_t turn = 0;
    for (const std::size_t at : covering(rows)) {
        const std::vector<std::string> names = takers(examples_[at]);
        if (names[turn++ % names.size()] != arch_) continue;
        texts_.push_back({arch_, examples_[at], space(examples_[at], arch_).default_config});
    }
}

void Chooser::add_first() {
    const auto taken = std::find_if(examples_.begin(), examples_.end(), [&](const Problem& each) { return is_taken(each); });
    if (taken != examples_.end()) texts_.push_back({arch_, *taken, space(*taken, arch_).default_config});
}

// Adds two samples for sm_90a and one for another architecture. Which one that is changes from family to family.
void Chooser::add_samples() {
    const auto taken = std::find_if(examples_.rbegin(), examples_.rend(), [&](const Problem& each) { return is_taken(each); });
    if (taken == examples_.rend()) return;
    const std::size_t place = family_.name().size() % (kArchs.size() - 1);
    const std::string& other = kArchs[place == 3 ? 4 : place];
    std::size_t wanted = arch_ == "sm_90a" ? 2 : arch_ == other ? 1 : 0;
    if (compiles_all()) wanted = 3;
    if (wanted == 0) return;
    const SearchSpace here = space(*taken, arch_);
    Pairs held;
    for (const NamedConfig& named : here.named) held.merge(pairs_of(parameters_of(here.compile_part(named.config))));
    std::vector<Config> left = spread_configs(here, 24);
    for (; wanted > 0 && !left.empty(); --wanted) {
        const auto fresh = [&](const Config& config) {
            const Pairs pairs = pairs_of(parameters_of(here.compile_part(config)));
            return std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return !held.contains(pair); });
        };
        const auto most = std::max_element(left.begin(), left.end(),
                                           [&](const Config& one, const Config& another) { return fresh(one) < fresh(another); });
        held.merge(pairs_of(parameters_of(here.compile_part(*most))));
        texts_.push_back({arch_, *taken, *most, false});
        left.erase(most);
    }
}

// Adds the default with those values, or else the first config that has them.
void Chooser::add_sides() {
    for (const SideText& side : side_texts()) {
        if (family_.name() != side.family) continue;
        const Problem problem = catalogue_.problem(side.request);
        const std::vector<std::string> names = takers(problem);
        const bool has_hopper = std::find(names.begin(), names.end(), "sm_90a") != names.end();
        if (names.empty() || (has_hopper ? "sm_90a" : names.front()) != arch_) continue;
        const SearchSpace here = space(problem, arch_);
        Config pins, config = here.default_config;
        for (const auto& [name, value] : side.pins) {
            pins.set(name, value);
            config.set(name, value);
        }
        if (!here.contains(config)) config = here.enumerate(pins, 1).at(0);
        texts_.push_back({arch_, problem, config, false});
    }
}

}  // namespace

bool compiles_all() {
    const char* const wanted = std::getenv("AUTOTUNE_EVERY_CONFIG");
    return wanted != nullptr && std::string(wanted) == "1";
}

std::vector<std::size_t> covering(const std::vector<Words>& rows) {
    if (!compiles_all()) return pair_cover(rows);
    std::vector<std::size_t> all(rows.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
}

std::vector<ChosenText> chosen_texts(const Catalogue& catalogue, const Family& family, const std::string& arch) {
    return Chooser(catalogue, family, arch).choose();
}

}  // namespace autotune::test
