#include "src/catalogue/former_templates.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace autotune {
namespace {

// clang-format off
// Identities were hashes of whole texts, comments included, up to the version that hashes code (code_of.h).
constexpr std::array<FormerIdentity, 29> kFormerIdentities = {{
    {"add/bulk", "ee22ff815e592af7", "2dc70fa58df755ca"},
    {"add/vector", "70650f6732ea19d4", "43e692f5dc6ad62d"},
    {"attention/mma", "ca5c9686b4f309a6", "7982d2170f2b2f85"},
    {"attention/naive", "3ac84e8ac4c04d6b", "e96b0e6552d99e72"},
    {"attention/simt", "ab908f222ea65d70", "e749fd3e41c6c40c"},
    {"attention/split", "9df84e8bebc8e512", "01e45b387a2abf89"},
    {"attention/wgmma", "ef475bb7b77fe15b", "7ac964c24f8dd637"},
    {"attention_bwd/one_pass", "029a86e1389792df", "878edc5ae4433982"},
    {"attention_bwd/simt", "4348229e7631d679", "e23a0edb814cf041"},
    {"attention_bwd/two_pass", "98fba5093a6e6a59", "2a0efd320f03b506"},
    {"attention_bwd/wgmma", "1264d44e8971d979", "d74516a7fe63fe74"},
    {"gemm/dot", "fd6fd14eff5f7a6b", "3a78724de0d95131"},
    {"gemm/dot_windows", "c59fcd8e2daa8e4b", "5fc84459cc6214a4"},
    {"gemm/gemv", "f1b6d1ff52d3f9e2", "bf31a16552bd9a53"},
    {"gemm/mma", "969b9568d86b0d06", "1aa419e282d41582"},
    {"gemm/mma_fp8", "66e2900b700d607d", "8ff8a2bdfe41b737"},
    {"gemm/mma_tf32", "dcdee462dd93a361", "68601e08a235128f"},
    {"gemm/simt", "f638f0258885a4ef", "02d15c2a3f3bb2ca"},
    {"gemm/simt_f32", "086e357f9dccabf5", "c449546415a139bc"},
    {"gemm/wgmma", "21a855d7438a2848", "f79bd87533056a46"},
    {"gemm/wgmma_fp8", "c7b3f1f998fc8a80", "1b94bda0dcceec3c"},
    {"gemm/wgmma_fp8_plain", "e9a53c8a306a99af", "16986839ecc850d5"},
    {"gemm/wgmma_nonpersistent", "23d8cd631333897f", "9760aa5d3e88d104"},
    {"gemm/wgmma_tf32", "d4029fca657bb25f", "d7deb15d6bd8d39f"},
    {"gemm/wgmma_tf32x3", "3fd4294e661a232a", "bc724f3018a7aa9b"},
    {"gemm/wmma", "36119efd18c99b19", "4161e2c4a39441ee"},
    {"gemm/wmma_tf32", "e70ef02500217a9a", "f41e4a333e7085a3"},
    {"softmax/bulk", "acae061cba132366", "49e8e10990a253c3"},
    {"softmax/rows", "4fb9f2de9f26a611", "a9e98f28ffe30e6b"},
}};

// These renames apply to every family that has the new name and lacks the old one.
constexpr std::array<RenamedParameter, 10> kRenamedParameters = {{
    {"math_groups", "consumer_warpgroups"},
    {"k_groups", "k_warpgroups"},
    {"q_groups", "q_warpgroups"},
    {"turn_k", "serpentine_k"},
    {"whole_tiles", "overlap_epilogue"},
    {"store_buffers", "epilogue_stages"},
    {"incremental", "advance_descriptors"},
    {"agree", "warp_max_first"},
    {"held", "register_chunks"},
    {"drained", "copy_to_registers"},
}};
// clang-format on

// The parameters of a family, which are the same for every problem. They are taken from the first example that the family
// accepts.
std::set<std::string, std::less<>> parameters_of(const Catalogue& catalogue, const Family& family) {
    std::set<std::string, std::less<>> names;
    const Op* op = catalogue.find_op(family.name().substr(0, family.name().find('/')));
    if (op == nullptr) return names;
    for (const ProblemRequest& request : op->examples()) {
        const Problem problem = catalogue.problem(request);
        for (const char* arch : {"sm_90a", "sm_80", "sm_89", "sm_120"}) {
            const Device device = *reference_device(arch);
            if (family.refuses(problem, device)) continue;
            for (const Parameter& parameter : family.rules(problem, device).parameters) names.insert(parameter.name);
            return names;
        }
    }
    return names;
}

// Caches today's identity and parameter names of each family that was looked up.
class PresentNames {
  public:
    explicit PresentNames(const Catalogue& catalogue) : catalogue_(catalogue) {}

    std::optional<std::string> identity(const std::string& family, const std::string& identity) {
        const auto is_it = [&](const FormerIdentity& each) { return each.former == identity && each.family == family; };
        const auto found = std::find_if(kFormerIdentities.begin(), kFormerIdentities.end(), is_it);
        if (found == kFormerIdentities.end()) return std::nullopt;
        const std::lock_guard lock(mutex_);
        const std::string& today = of(family).identity;
        return today == found->same_code ? std::optional(today) : std::nullopt;
    }
    std::string parameter(const std::string& family, const std::string& parameter) {
        const auto is_it = [&](const RenamedParameter& each) { return each.former == parameter; };
        const auto found = std::find_if(kRenamedParameters.begin(), kRenamedParameters.end(), is_it);
        if (found == kRenamedParameters.end()) return parameter;
        const std::lock_guard lock(mutex_);
        const auto& today = of(family).parameters;
        const bool is_renamed = today.contains(found->present) && !today.contains(found->former);
        return is_renamed ? std::string(found->present) : parameter;
    }

  private:
    struct Names {
        std::string identity{};
        std::set<std::string, std::less<>> parameters{};
    };
    // Returns empty names for an unknown family. REQUIRES: mutex_ is held.
    const Names& of(const std::string& name) {
        const auto [names, is_new] = by_family_.try_emplace(name);
        const Family* const family = is_new ? catalogue_.find_family(name) : nullptr;
        if (family != nullptr) names->second = {catalogue_.template_identity(*family), parameters_of(catalogue_, *family)};
        return names->second;
    }

    const Catalogue& catalogue_;
    std::mutex mutex_;
    std::map<std::string, Names> by_family_;
};

}  // namespace

std::span<const FormerIdentity> former_identities() {
    return kFormerIdentities;
}

std::span<const RenamedParameter> renamed_parameters() {
    return kRenamedParameters;
}

FormerTemplates former_templates(const Catalogue& catalogue) {
    const auto names = std::make_shared<PresentNames>(catalogue);
    return {.present_identity = [names](const std::string& family,
                                        const std::string& identity) { return names->identity(family, identity); },
            .present_parameter = [names](const std::string& family,
                                         const std::string& parameter) { return names->parameter(family, parameter); }};
}

}  // namespace autotune
