#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/completion.h"
#include "tools/cli/session.h"

namespace autotune::cli {
namespace {

ExitCode run(Session& session, const Arguments& arguments) {
    const std::string& shell = arguments.words().front();
    if (shell == "bash") {
        session.out() << bash_completion();
    } else if (shell == "zsh") {
        session.out() << zsh_completion();
    } else {
        throw Error(ErrorCode::usage, "completion knows bash and zsh, not '" + shell + "'");
    }
    return ExitCode::done;
}

}  // namespace

Command completion_command() {
    return {.name = "completion",
            .about = "print shell completion",
            .examples = {"source <(autotune completion bash)", "autotune completion zsh > ~/.zfunc/_autotune"},
            .flags = {},
            .takes_op_options = false,
            .words = "bash|zsh",
            .fewest_words = 1,
            .run = run};
}

}  // namespace autotune::cli
