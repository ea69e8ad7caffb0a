#include "src/runtime/api/agreement.h"

#include <autotune/autotune.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/catalogue/hash.h"
#include "src/core/system/read_file.h"
#include "src/gpu/driver/borrowed_context.h"

namespace autotune::runtime {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{256} << 20;

std::string kernels_of(const Catalogue& catalogue) {
    Hash hash;
    for (const Family* family : catalogue.families()) {
        hash.field(family->name());
        hash.field(catalogue.template_identity(*family));
    }
    return to_hex(hash.digest());
}

// A digest of the contents of winners and portfolios, without their paths.
std::string shipped_digest(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code failed;
    if (folder.empty() || !fs::exists(folder, failed)) return "none";
    std::vector<std::string> names;
    if (fs::is_regular_file(folder, failed)) names.emplace_back();
    for (auto each = fs::recursive_directory_iterator(folder, failed); !failed && each != fs::recursive_directory_iterator();
         each.increment(failed))
        if (each->path().extension() == ".jsonl") names.push_back(fs::relative(each->path(), folder, failed).string());
    std::sort(names.begin(), names.end());
    Hash hash;
    for (const std::string& name : names) {
        const FileContent content = read_regular_file(name.empty() ? folder : folder + "/" + name, kMostFileBytes);
        hash.field(name);
        hash.field(content.is_read ? content.text : "unreadable");
    }
    return to_hex(hash.digest());
}

std::string label_of(Services& services) {
    if (services.settings.label.empty()) return "off";
    return services.dispatcher.stored().label_digest();
}

std::string nvrtc_of(Services& services) {
    try {
        return services.instances.compiler_version();
    } catch (const Failure&) {
        return "none";
    }
}

}  // namespace

std::vector<AgreementPart> agreement_of(Services& services) {
    const auto current = gpu::current_context(*services.driver);
    return {{"version", autotune_version_string()},
            {"kernels", kernels_of(services.catalogue)},
            {"label", label_of(services)},
            {"shipped", shipped_digest(services.settings.shipped)},
            {"pin", services.settings.pin.empty() ? "none" : services.settings.pin},
            {"policy", std::to_string(static_cast<int>(services.settings.on_miss))},
            {"nvrtc", nvrtc_of(services)},
            {"device", services.device(current ? current->ordinal : 0).identity.key()}};
}

}  // namespace autotune::runtime
