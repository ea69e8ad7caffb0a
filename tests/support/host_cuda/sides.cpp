#include "tests/support/host_cuda/sides.h"

#include <cstdio>
#include <sstream>

#include "tests/support/host_cuda/kernel.h"
#include "tests/support/host_cuda/scratch_folder.h"

namespace autotune::test::host_cuda {
namespace {

const std::string kIf = "if constexpr (";

// The position of the parenthesis that closes the one at `at`.
std::size_t end_of_condition(const std::string& text, std::size_t at) {
    for (int depth = 1; at < text.size(); ++at) {
        if (text[at] == '(') ++depth;
        if (text[at] == ')' && --depth == 0) return at;
    }
    return at;
}

// The text with a warning of g++ on each side of each branch, which names the side. `branches` receives its branches.
std::string marked(const std::string& text, std::vector<Branch>& branches) {
    struct Open {
        std::size_t number;
        bool has_else;
    };
    std::vector<Open> open;
    const auto warning = [](std::size_t number, bool value) {
        return "#pragma GCC warning \"side " + std::to_string(number) + (value ? " true\"\n" : " false\"\n");
    };
    std::istringstream lines(text);
    std::string out, line;
    for (std::size_t number = 1; std::getline(lines, line); ++number) {
        if (line.starts_with("#if ")) {
            open.push_back({branches.size(), false});
            branches.push_back({number, line});
            out += line + "\n" + warning(open.back().number, true);
        } else if (line.starts_with("#else") && !open.empty()) {
            open.back().has_else = true;
            out += line + "\n" + warning(open.back().number, false);
        } else if (line.starts_with("#endif") && !open.empty()) {
            if (!open.back().has_else) out += "#else\n" + warning(open.back().number, false);
            open.pop_back();
            out += line + "\n";
        } else {
            std::size_t from = 0;
            for (std::size_t at = line.find(kIf); at != std::string::npos; at = line.find(kIf, from)) {
                const std::size_t begin = at + kIf.size(), end = end_of_condition(line, begin);
                const std::string condition = line.substr(begin, end - begin);
                out += line.substr(from, begin - from) + "autotune_side<" + std::to_string(branches.size()) + ", bool(" +
                       condition + ")>()";
                branches.push_back({number, condition});
                from = end;
            }
            out += line.substr(from) + "\n";
        }
    }
    return out;
}

}  // namespace

std::vector<Branch> branches_of(const std::string& text) {
    std::vector<Branch> branches;
    marked(text, branches);
    return branches;
}

std::set<std::pair<std::size_t, bool>> sides_taken(const jit::Rendered& rendered) {
    std::vector<Branch> branches;
    const std::string text = marked(rendered.source, branches);
    if (branches.empty()) return {};
    const ScratchFolder folder;
    for (const auto& [name, header] : rendered.headers) folder.write(name, header);
    folder.write("kernel.cu",
                 "#include \"cuda.h\"\ntemplate <int where, bool value>\n[[deprecated]] constexpr bool autotune_side() { return "
                 "value; }\n" +
                     text);
    const std::string arch = rendered.arch == kLaterArch ? "900" : "800";
    folder.try_run(HOST_CUDA_COMPILER " -fsyntax-only -x c++ -std=c++17 -D__CUDACC__ -D__shared__= -D__CUDA_ARCH__=" + arch +
                   " -I. -I'" HOST_CUDA_DEVICE_FOLDER "' kernel.cu");
    std::set<std::pair<std::size_t, bool>> sides;
    const std::string said = folder.read("said");
    const auto collect = [&](const std::string& before, const std::string& between) {
        for (std::size_t at = said.find(before); at != std::string::npos; at = said.find(before, at + 1)) {
            std::size_t length = 0;
            const std::string rest = said.substr(at + before.size(), 40);
            const auto number = static_cast<std::size_t>(std::stoul(rest, &length));
            sides.emplace(number, rest.compare(length, between.size() + 4, between + "true") == 0);
        }
    };
    collect("with int where = ", "; bool value = ");
    collect("warning: side ", " ");
    if (sides.empty()) throw Error(ErrorCode::usage, "g++ saw no branch of " + rendered.symbol + ":\n" + said);
    return sides;
}

}  // namespace autotune::test::host_cuda
