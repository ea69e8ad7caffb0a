#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/exit_codes.h"
#include "tools/cli/log.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// The command as an object: arguments in, an exit code and text out. It uses no global state.
class Cli {
  public:
    Cli(Streams streams, Environment environment, Services& services, Program program);

    // `words` without the program's name. Never throws: an error becomes one sentence on the error stream and an exit code.
    ExitCode run(const std::vector<std::string>& words);

  private:
    ExitCode dispatch(const std::vector<std::string>& words);
    ExitCode run_command(const Command& command, const Arguments& arguments);
    void read_kernels(const std::vector<std::string>& words, Catalogue& catalogue);
    void mean_the_kernel(const Command& command, Arguments& arguments) const;
    void take_defaults(const Command& command, Arguments& arguments) const;
    ExitCode fail(ExitCode code, const std::string& message);
    void open_log(const Command& command, const Arguments& arguments);

    Streams streams_;
    Environment environment_;
    Services& services_;
    Program program_;
    std::vector<FamilyDefinition> kernels_;  // that --kernel names
    // Of flags, by the kernel file's tables [search] and [measure].
    std::map<std::string, std::string> defaults_;
    std::unique_ptr<Log> log_;  // nullptr: no log was requested
};

}  // namespace autotune::cli
