#include "src/catalogue/catalogue.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <set>

#include "kernel_templates/empty_sum.h"
#include "kernel_templates/registry.h"
#include "src/catalogue/hash.h"
#include "src/catalogue/op_names.h"
#include "src/core/error.h"
#include "src/core/spelling.h"
#include "src/core/system/read_file.h"
#include "src/core/text.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

using Texts = std::vector<std::pair<std::string, std::shared_ptr<const DeviceText>>>;

constexpr std::string_view kHarness = "common/harness.cuh";
constexpr std::string_view kKernelFile = "/kernel.cuh";
constexpr std::string_view kReferenceFile = "/op/reference.cuh";

const DeviceText& text_named(const Texts& texts, std::string_view name) {
    const auto found = std::find_if(texts.begin(), texts.end(), [&](const auto& entry) { return entry.first == name; });
    check(found != texts.end(), "no device text is embedded for '" + std::string(name) + "'");
    return *found->second;
}

bool is_header(std::string_view file) {
    return file != kHarness && file != kEmptySumText && !file.ends_with(kKernelFile) && !file.ends_with(kReferenceFile);
}

std::string template_file(const fs::path& path) {
    constexpr std::size_t kMostBytes = 16 << 20;
    FileContent content = read_regular_file(path.string(), kMostBytes);
    if (!content.is_read) throw Error(ErrorCode::usage, "the template file " + path.string() + " cannot be read: " + content.why);
    return std::move(content.text);
}

// The embedded text of a file, or the file below `directory` that replaces it.
std::string text_of(const EmbeddedFile& file, const std::string& directory) {
    const fs::path path = fs::path(directory) / file.name;
    std::error_code ignored;
    if (directory.empty() || !fs::is_regular_file(path, ignored)) return std::string(file.text);
    return template_file(path);
}

// The names of the .cuh files below a folder.
std::vector<std::string> device_files_below(const std::string& directory) {
    std::vector<std::string> names;
    std::error_code unreadable;
    for (fs::recursive_directory_iterator at(directory, unreadable), end; !unreadable && at != end; at.increment(unreadable))
        if (at->path().extension() == ".cuh") names.push_back(at->path().lexically_relative(directory).generic_string());
    return names;
}

bool is_embedded(const std::string& file) {
    const auto& files = registry().files;
    return std::any_of(files.begin(), files.end(), [&](const EmbeddedFile& known) { return known.name == file; });
}

// The path of an embedded file that has the same base name as `file`, or "". If `file` is not one of ours, the folder's owner may
// have meant that path.
std::string place_of(const std::string& file) {
    const auto is_like_it = [&](const EmbeddedFile& known) {
        if (!file.ends_with("reference.cuh")) return base_name(known.name) == base_name(file);
        return known.name.ends_with(kReferenceFile) &&
               known.name.substr(0, known.name.find('/')) == file.substr(0, file.find('/'));
    };
    const auto& files = registry().files;
    const auto found = std::find_if(files.begin(), files.end(), is_like_it);
    return found == files.end() || found->name.ends_with(kKernelFile) ? "" : std::string(found->name);
}

std::string why_without_effect(const std::string& file) {
    if (file.ends_with(kKernelFile)) {
        const std::string family = file.substr(0, file.size() - kKernelFile.size());
        return "this build has no family " + family + "; remove the file, or build autotune with the family";
    }
    const std::string place = place_of(file);
    if (!place.empty()) return "this version reads it as " + place + "; move it there";
    return "no template includes it; include it as \"" + file + "\", or remove it";
}

// Adds the headers that only this folder has. An older text of a template may include headers that no longer exist elsewhere.
void add_headers_of(const std::string& directory, std::vector<TemplateHeader>& to) {
    for (const std::string& name : device_files_below(directory))
        if (is_header(name) && !is_embedded(name)) to.push_back({name, DeviceText(template_file(fs::path(directory) / name))});
    std::sort(to.begin(), to.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

bool has_alias(const Op& op, std::string_view name) {
    const std::vector<OpAlias> aliases = op.aliases();
    return std::any_of(aliases.begin(), aliases.end(), [&](const OpAlias& alias) { return alias.name == name; });
}

std::string op_of_family(const Family& family) {
    const std::string_view name = family.name();
    return std::string(name.substr(0, name.find('/')));
}

bool is_before(const Family* a, const Family* b) {
    return a->name() < b->name();
}

// Puts the length in front of the field, so that two fields never run into each other. Stored rows depend on each byte.
void add_field(Hash& hash, std::string_view field) {
    hash.raw(std::to_string(field.size()) + ":");
    hash.raw(field);
}

std::string whole_text(const KernelSource& source) {
    std::string all;
    for (const KernelText& file : source.files) all += file.text + "\n";
    return all;
}

bool is_before_by_base_name(const TemplateHeader* a, const TemplateHeader* b) {
    const std::string_view of_a = base_name(a->name), of_b = base_name(b->name);
    return of_a != of_b ? of_a < of_b : a->device_text.code_hash() < b->device_text.code_hash();
}

// Headers that `text` reaches through its #include lines, ordered by base name. Missing ones are skipped here; rendering reports
// them.
std::vector<const TemplateHeader*> reached_headers(const std::vector<TemplateHeader>& headers, const DeviceText& text) {
    std::vector<const TemplateHeader*> reached;
    std::vector<const DeviceText*> unread = {&text};
    while (!unread.empty()) {
        const DeviceText* const current = unread.back();
        unread.pop_back();
        for (const std::string& name : current->headers()) {
            const auto is_named = [&](const TemplateHeader& header) { return header.name == name; };
            const auto found = std::find_if(headers.begin(), headers.end(), is_named);
            if (found == headers.end() || std::find(reached.begin(), reached.end(), &*found) != reached.end()) continue;
            reached.push_back(&*found);
            unread.push_back(&found->device_text);
        }
    }
    std::sort(reached.begin(), reached.end(), is_before_by_base_name);
    return reached;
}

}  // namespace

Catalogue Catalogue::embedded() {
    return Catalogue("");
}

Catalogue Catalogue::from_directory(const std::string& directory) {
    std::error_code problem;
    const fs::directory_iterator probe(directory, problem);
    if (directory.empty() || problem) {
        throw Error(ErrorCode::usage, "the templates folder '" + directory + "' cannot be read (" + problem.message() +
                                          "); give a folder laid out like kernel_templates");
    }
    // Accepts only folders that contain device text. Others, such as / or a home folder, would be searched for headers.
    std::error_code ignored;
    const auto has = [&](std::string_view folder) { return fs::is_directory(fs::path(directory) / folder, ignored); };
    const auto& ops = registry().ops;
    const bool has_any = has("common") || std::any_of(ops.begin(), ops.end(), [&](const Op* op) { return has(op->name()); });
    if (!has_any) {
        throw Error(ErrorCode::usage, "the templates folder '" + directory +
                                          "' has no kernel template; give a folder laid out like kernel_templates");
    }
    return Catalogue(directory);
}

Catalogue::Catalogue(const std::string& directory) {
    auto contents = std::make_shared<Contents>();
    contents->ops = registry().ops;
    contents->families = registry().families;
    std::sort(contents->families.begin(), contents->families.end(), is_before);
    for (const EmbeddedFile& file : registry().files) {
        DeviceText text(text_of(file, directory));
        if (is_header(file.name)) {
            headers_.push_back({std::string(file.name), std::move(text)});
        } else {
            contents->texts.emplace_back(file.name, std::make_shared<const DeviceText>(std::move(text)));
        }
    }
    show(std::move(contents));
    if (directory.empty()) return;
    add_headers_of(directory, headers_);
    require_effect(directory);
    require_distinct_names(directory);
}

Catalogue::Catalogue(const Catalogue& other) : headers_(other.headers_) {
    show(other.kept_.back());
}

Catalogue& Catalogue::operator=(const Catalogue& other) {
    if (this == &other) return *this;
    headers_ = other.headers_;
    show(other.kept_.back());
    return *this;
}

void Catalogue::show(std::shared_ptr<const Contents> contents) {
    kept_.push_back(std::move(contents));
    shown_.store(kept_.back().get(), std::memory_order_release);
}

void Catalogue::require_effect(const std::string& directory) const {
    std::set<std::string_view> included;
    for (const auto& [name, text] : contents().texts)
        for (const TemplateHeader* header : reached_headers(headers_, *text)) included.insert(header->name);
    std::vector<std::string> useless;
    for (std::string& name : device_files_below(directory))
        if (!is_embedded(name) && !included.contains(name)) useless.push_back(std::move(name));
    if (useless.empty()) return;
    std::sort(useless.begin(), useless.end());
    std::string also;
    if (useless.size() > 1) also = " (and " + std::to_string(useless.size() - 1) + " other files have no effect)";
    throw Error(ErrorCode::usage, "in the templates folder '" + directory + "' the file " + useless.front() +
                                      " has no effect: " + why_without_effect(useless.front()) + also);
}

// Base names must be distinct, because an identity names a header by its base name.
void Catalogue::require_distinct_names(const std::string& directory) const {
    for (const auto& [name, text] : contents().texts) {
        const TemplateHeader* before = nullptr;
        for (const TemplateHeader* header : reached_headers(headers_, *text)) {  // ordered by base name
            if (before != nullptr && base_name(before->name) == base_name(header->name)) {
                const auto& [first, second] = std::minmax(before->name, header->name);
                throw Error(ErrorCode::usage, "with the templates folder '" + directory + "' " + name +
                                                  " includes two headers of one base name, " + first + " and " + second +
                                                  "; rename one of them");
            }
            before = header;
        }
    }
}

void Catalogue::add(FamilyDefinition definition) {
    const auto family = std::make_shared<const DefinedFamily>(std::move(definition));
    const std::string name(family->name());
    const std::string op = op_of_family(*family);
    const std::shared_ptr<const OpDefinition>& own = family->definition().op;
    auto more = std::make_shared<Contents>(contents());
    if (own != nullptr) {
        if (find_op(own->name) != nullptr || own->name != op)
            throw Error(ErrorCode::usage, "there is an op '" + own->name + "' already; choose another name");
        more->defined_ops.push_back(std::make_shared<const DefinedOp>(own));
        more->ops.push_back(more->defined_ops.back().get());
        const auto text = std::make_shared<const DeviceText>(whole_text(own->source));
        more->texts.emplace_back(op + std::string(kReferenceFile), text);
        more->texts.emplace_back(name + std::string(kKernelFile), text);
    }
    const bool has_op = std::any_of(more->ops.begin(), more->ops.end(), [&](const Op* known) { return known->name() == op; });
    if (!has_op) throw Error(ErrorCode::usage, "family '" + name + "' is of the unknown op '" + op + "'");
    if (find_family(name) != nullptr)
        throw Error(ErrorCode::usage, "there is a family '" + name + "' already; choose another name");
    more->defined.push_back(family);
    if (own == nullptr)
        more->texts.emplace_back(name + std::string(kKernelFile), std::make_shared<const DeviceText>(family->definition().text));
    more->families.insert(std::upper_bound(more->families.begin(), more->families.end(), family.get(), is_before), family.get());
    show(std::move(more));
}

std::vector<FamilyDefinition> Catalogue::definitions() const {
    std::vector<FamilyDefinition> all;
    for (const auto& family : contents().defined) all.push_back(family->definition());
    return all;
}

std::vector<const Family*> Catalogue::families_of(std::string_view op) const {
    std::vector<const Family*> found;
    const std::vector<const Family*>& all = families();
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&](const Family* family) { return op_of_family(*family) == op; });
    return found;
}

const Op* Catalogue::find_op(std::string_view name_or_alias) const {
    // Looks for the op's own name first, because building the lists of aliases takes as long as the rest of making a problem.
    const std::vector<const Op*>& all = ops();
    const auto named = std::find_if(all.begin(), all.end(), [&](const Op* op) { return op->name() == name_or_alias; });
    if (named != all.end()) return *named;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Op* op) { return has_alias(*op, name_or_alias); });
    return found == all.end() ? nullptr : *found;
}

const Family* Catalogue::find_family(std::string_view name) const {
    const std::vector<const Family*>& all = families();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Family* family) { return family->name() == name; });
    if (found != all.end()) return *found;
    return name == empty_sum_family().name() ? &empty_sum_family() : nullptr;
}

std::vector<std::string> op_names(const Catalogue& catalogue) {
    std::vector<std::string> names;
    for (const Op* op : catalogue.ops()) {
        for (const OpAlias& alias : op->aliases())
            if (alias.name != op->name()) names.push_back(alias.name);
        names.emplace_back(op->name());
    }
    return names;
}

Problem Catalogue::problem(const ProblemRequest& request) const {
    ProblemRequest plain{.op = request.op, .shape = plain_shape(request.shape), .options = request.options};
    const Op* op = find_op(request.op);
    if (op == nullptr) {
        const std::vector<std::string> names = op_names(*this);
        plain.op = known_word(request.op, names);
        op = find_op(plain.op);
        if (op == nullptr) {
            throw Error(ErrorCode::usage,
                        "unknown op '" + plain.op + "'" + did_you_mean(plain.op, names) + "; known are " + join(names));
        }
    }
    return op->problem(plain);
}

const Op& Catalogue::op_of(const Problem& problem) const {
    const Op* op = find_op(problem.op);
    if (op == nullptr) internal_error("a problem of the unknown op '" + problem.op + "'");
    return *op;
}

const DeviceText& Catalogue::device_text(const Family& family) const {
    if (&family == &empty_sum_family()) return text_named(contents().texts, kEmptySumText);
    return text_named(contents().texts, std::string(family.name()) + std::string(kKernelFile));
}

const DeviceText& Catalogue::device_text_of_reference(const Op& op) const {
    return text_named(contents().texts, std::string(op.name()) + std::string(kReferenceFile));
}

const DeviceText& Catalogue::device_text_of_harness() const {
    return text_named(contents().texts, kHarness);
}

std::string Catalogue::template_identity(const Family& family) const {
    const DeviceText& text = device_text(family);
    const std::vector<const TemplateHeader*> reached = reached_headers(headers_, text);
    const bool shows_spelling =
        text.shows_spelling() || std::any_of(reached.begin(), reached.end(),
                                             [](const TemplateHeader* header) { return header->device_text.shows_spelling(); });
    Hash hash;
    add_field(hash, "autotune template 2");
    add_field(hash, std::to_string(family.space_version()));
    add_field(hash, text.hash_among(shows_spelling));
    if (const auto* defined = dynamic_cast<const DefinedFamily*>(&family)) {
        add_field(hash, defined->definition().canonical_rules());
        if (defined->definition().op != nullptr) {
            for (const KernelText& header : defined->definition().op->source.headers) {
                add_field(hash, header.name);
                add_field(hash, DeviceText(header.text).hash_among(shows_spelling));
            }
        }
    }
    for (const TemplateHeader* header : reached) {
        add_field(hash, base_name(header->name));
        add_field(hash, header->device_text.hash_among(shows_spelling));
    }
    return to_hex(hash.digest()).substr(0, 16);
}

}  // namespace autotune
