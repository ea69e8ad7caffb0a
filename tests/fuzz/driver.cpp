// Feeds a target with its seeds, then with mutations of them until the time is over: for compilers without libFuzzer. The same
// seed gives the same inputs. An input that crashes the target is saved in the file that the last line of output names; add it to
// the seeds once the bug is fixed.
//
// fuzz TARGET SEEDS [seconds=10] [seed=1]
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace autotune::fuzz {
namespace {

constexpr std::size_t kLongest = 64 * 1024;
constexpr unsigned kLongest_s = 10;  // one input

std::string g_input;       // the current input, which a signal handler saves
std::string g_crash_file;  // the name is made before any fault can happen

void leave_input(const char* what) {
    std::ofstream(g_crash_file, std::ios::binary) << g_input;
    std::fprintf(stderr, "fuzz: %s on the input in %s\n", what, g_crash_file.c_str());
}

[[noreturn]] void on_signal(int number) {
    leave_input(number == SIGALRM ? "hang" : "crash");
    ::signal(number, SIG_DFL);
    ::raise(number);
    std::_Exit(1);
}

class Mutator {
  public:
    Mutator(std::vector<std::string> seeds, std::uint64_t seed) : pool_(std::move(seeds)), random_(seed) {
        if (pool_.empty()) pool_.emplace_back("0");
    }

    std::string next() {
        std::string text = pool_[below(pool_.size())];
        for (std::size_t left = 1 + below(6); left > 0; --left) change(text);
        text.resize(std::min(text.size(), kLongest));
        return text;
    }

  private:
    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

    void change(std::string& text) {
        static const std::vector<std::string> words = {"0",
                                                       "-1",
                                                       "2147483648",
                                                       "9223372036854775807",
                                                       "9223372036854775808",
                                                       "1e999",
                                                       "-0.0",
                                                       "null",
                                                       "true",
                                                       "{}",
                                                       "[]",
                                                       "[[[[[[[[[[",
                                                       "\"\"",
                                                       "\"\\u0000\"",
                                                       "\xff",
                                                       std::string(1, '\0'),
                                                       "\n",
                                                       ":",
                                                       ",",
                                                       "x",
                                                       "=",
                                                       "${",
                                                       "}",
                                                       "#",
                                                       "//",
                                                       "\\",
                                                       "${symbol}",
                                                       "${block_m}",
                                                       "ATF1",
                                                       "\"cache\":",
                                                       "\"format\":",
                                                       "[[problem]]",
                                                       "\xf0\x9f\x98\x80",
                                                       "'; DROP TABLE winner"};
        const std::size_t at = text.empty() ? 0 : below(text.size());
        const std::size_t length = std::min<std::size_t>(text.size() - at, 1 + below(32));
        switch (below(8)) {
            case 0:
                if (!text.empty()) text[at] = static_cast<char>(random_());
                break;
            case 1:
                if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
                break;
            case 2:
                text.erase(at, length);
                break;
            case 3:
                text.insert(at, text.substr(at, length));
                break;
            case 4:
                text.insert(at, words[below(words.size())]);
                break;
            case 5:
                text.replace(at, length, words[below(words.size())]);
                break;
            case 6: {  // appends the rest of another input
                const std::string& other = pool_[below(pool_.size())];
                text = text.substr(0, at) + (other.empty() ? "" : other.substr(below(other.size())));
                break;
            }
            default:
                if (below(10) == 0) text.resize(at);
                break;
        }
    }

    std::vector<std::string> pool_;
    std::mt19937_64 random_;
};

void feed(const Target& target, std::string input) {
    g_input = std::move(input);
    ::alarm(kLongest_s);
    try {
        target.feed(g_input);
    } catch (const std::exception& error) {
        leave_input(error.what());
        std::_Exit(1);
    }
    ::alarm(0);
}

std::vector<std::string> read_seeds(const std::string& folder) {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::exists(folder)) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    std::vector<std::string> seeds;
    for (const auto& path : files) {
        std::ifstream file(path, std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return seeds;
}

int run(const Target& target, const std::string& seeds_folder, double seconds, std::uint64_t seed) {
    g_crash_file = "fuzz-" + std::string(target.name) + "-" + std::to_string(::getpid());
    for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) ::signal(number, on_signal);
    const std::vector<std::string> seeds = read_seeds(seeds_folder);
    for (const std::string& input : seeds) feed(target, input);
    Mutator mutator(seeds, seed);
    const auto begun = std::chrono::steady_clock::now();
    long count = 0;
    for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() < seconds; ++count)
        feed(target, mutator.next());
    std::printf("%s: %zu seeds and %ld mutations\n", std::string(target.name).c_str(), seeds.size(), count);
    return 0;
}

}  // namespace
}  // namespace autotune::fuzz

int main(int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    for (const auto& target : autotune::fuzz::targets()) {
        if (argc < 3 || target.name != name) continue;
        const double seconds = argc > 3 ? std::atof(argv[3]) : 10;
        return autotune::fuzz::run(target, argv[2], seconds, argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
    }
    std::fputs("usage: fuzz TARGET SEEDS [SECONDS] [SEED]; targets:", stderr);
    for (const auto& target : autotune::fuzz::targets()) std::fprintf(stderr, " %s", std::string(target.name).c_str());
    std::fputs("\n", stderr);
    return 2;
}
