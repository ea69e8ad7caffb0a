#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/kernel_files/reader.h"
#include "src/kernel_files/source_text.h"

// The loader of kernel_file.cpp. Each file load_*.cpp has the members that read certain tables.
namespace autotune::kernel_files {

using ArgumentKind = StepDefinition::Argument::Kind;

constexpr std::size_t kMostThings = 64, kMostSteps = 32;

// Whether a text is a name: small letters, digits and _, a letter first; with `capitals` also capitals, and _ first.
bool is_name(std::string_view text, bool capitals, std::size_t most);
bool is_utf8(std::string_view text);
const std::vector<std::string>& type_words();

// The names that an expression may use.
enum class Level : std::uint8_t { problem, device, config };

// Reads one kernel file.
class Loader {
  public:
    Loader(Loaded& loaded, const std::string& path, const LoadOptions& options)
        : reading_(loaded, path), options_(options), folder_(std::filesystem::path(path).parent_path()) {}

    void run();

  private:
    std::optional<toml::table> parsed();
    void read(const toml::table& root);
    void read_op(const toml::table& table);
    void read_attribute(const toml::table& table);
    void read_tensor(const toml::table& table);
    void read_fill(TableReader& table, OpDefinition::Tensor& tensor);
    void read_scalar(const toml::table& table);
    void read_source(const toml::table* table, const toml::table& root);
    void read_headers(const std::string& text, const std::filesystem::path& from,
                      const std::vector<std::filesystem::path>& folders, const Place& place);
    void read_let(const toml::table& table);
    void read_parameter(const toml::table& table);
    void read_constraint(const toml::table& table);
    void read_workspace(const toml::table& table);
    StepDefinition read_step(const toml::table& table, const std::string& title, Level level);
    void read_loop(TableReader& reader, StepDefinition& step);
    bool read_memory_step(TableReader& reader, StepDefinition& step, Level level);
    std::optional<StepDefinition::Argument> memory_named(const toml::node& node, const std::string& title, Level level);
    StepDefinition::Argument read_pick(const toml::table& table, const std::string& title, Level level);
    void read_prepare(const toml::table& table);
    void read_symbol(TableReader& reader, OpDefinition::Tensor& tensor);
    void read_file_fill(const toml::node& node, OpDefinition::Tensor& tensor, const std::optional<std::string>& sum);
    void check_symbols();
    StepDefinition::Argument read_argument(const toml::node& node, const std::string& title, Level level);
    void read_check(const toml::table& table);
    void read_config(const toml::table& table);
    void read_defaults(TableReader& top, const std::string& name, const std::vector<std::string>& keys);
    void read_examples(const toml::node& node);
    void check_kernel(const StepDefinition& step, const Place& place, Level level);
    void check_kernel_expression(const StepDefinition& step, const KernelFound& found, const Place& place, Level level);
    // The suffix of a kernel's symbol, "_scale"; kernels named by expressions are numbered.
    std::string suffix_of(const std::string& kernel);
    void check_flops();
    void check_arguments();
    void check_reference_types(const StepDefinition& step);
    void check_writers();
    const KernelFound* find_kernel(const std::string& kernel) const;
    void choose_parameters(const std::vector<SourceSeen>& seen, const Lets& lets);
    // "hotspot.cu:12", where the source defines a macro of this name itself; empty: nowhere.
    std::string definition_of(const std::string& name, const std::vector<SourceSeen>& seen) const;
    MacroNames macro_names(const toml::table& root) const;
    void refuse_missing_header(const IncludeFound& include, const Place& place);
    void check_use();
    void check_names();
    void choose_constants();
    bool is_used(const std::string& name, const Lets& lets) const;
    std::string known_names(Level level) const;

    void use(const std::string& expression, Level level) { uses_.push_back({expression, level, index_}); }
    // All names share one name space, so a name has one meaning.
    bool take_name(const std::string& name, const std::string& what, const Place& place);
    std::optional<std::string> file_below(const std::string& name, const Place& place);

    Reading reading_;
    const LoadOptions& options_;
    std::filesystem::path folder_;
    OpDefinition op_;
    std::map<std::string, std::string> names_;  // the meaning of each name, such as "an extent"
    std::map<std::string, Place> name_places_;
    std::map<std::string, Place> symbol_places_;
    // An expression, the names that it may use, and the index of the loop that it stands in.
    struct Use {
        std::string text;
        Level level;
        std::string index;
    };
    std::vector<Use> uses_;
    std::string index_;  // the loop index of the step that is being read
    // The code of the user's headers and then of the files, without comments and literals.
    struct Code {
        std::string file;
        std::string text;
    };
    std::vector<Code> codes_;
    std::vector<KernelFound> kernels_;
    std::vector<std::string> kernel_expressions_;  // that are names of kernels
    std::vector<std::string> names_in_kernels_;    // parameters in such names
    std::vector<std::string> unread_parameters_;   // their values are wrong, which has been reported
    MacroNames macros_;                            // before the source
    std::optional<Place> flops_missing_;           // where 'flops' should be
    Place reference_place_;                        // of its arguments
    std::vector<std::string> workspace_names_;
};

}  // namespace autotune::kernel_files
