#include "tools/cli/help/completion.h"

#include <nlohmann/json.hpp>

#include "tools/cli/command.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {
namespace {

ExitCode run_completion(Session& session, const Arguments& arguments) {
    const std::string shell = parse_word(arguments.words().front(), "the shell of a completion", {"bash", "zsh"});
    const std::string script = shell == "bash" ? bash_completion() : zsh_completion();
    if (session.json()) {
        print_json(session, {{"shell", shell}, {"script", script}});
    } else {
        session.out() << script;
    }
    return ExitCode::done;
}

}  // namespace

Command completion_command() {
    return {.name = "completion",
            .about = "print shell completion",
            .examples = {"source <(autotune completion bash)", "autotune completion zsh > ~/.zfunc/_autotune"},
            .flags = output_flags(),
            .takes_op_options = false,
            .words = "bash|zsh",
            .min_positional = 1,
            .run = run_completion};
}

}  // namespace autotune::cli
