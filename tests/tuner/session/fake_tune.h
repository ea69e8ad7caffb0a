#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake/fake_run.h"

// Whole tunes by the command on the scripted driver, for a problem that it does not compute, because 256 is above its limit.
namespace autotune::test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline Words with_words(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// Small spaces, because the result does not depend on their size.
inline Words with_pins(Words words, const Words& more = {}) {
    for (const char* pin : {"smem=1", "block_n=64", "block_k=16", "vec=4", "packed=1", "bcf=0", "smem_pad=0", "stages=1",
                            "cp_async=0", "min_blocks=1"})
        words.insert(words.end(), {"--param", pin});
    return with_words(std::move(words), more);
}

// Some two dozen configs.
inline Words wide_tune(const std::string& budget = "20s", const Words& more = {}) {
    return with_pins({"tune", "--op", "hgemm", "--shape", "256x256x256", "--family", "gemm/simt", "--budget", budget, "--json"},
                     more);
}

// Six of them.
inline Words small_tune(const std::string& budget = "20s", const Words& more = {}) {
    return with_words(wide_tune(budget, {"--param", "block_m=64"}), more);
}

inline Json result_of(const fake::Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    return Json::parse(outcome.out, nullptr, false);
}

// Number of worker processes that outlived their coordinator; this sandbox's are recognised by its folder in their environment.
inline int orphans(const fake::Sandbox& sandbox) {
    const std::string folder = sandbox.folder().string();
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream environment(entry.path() / "environ", std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(environment)), {});
        std::ifstream command(entry.path() / "cmdline", std::ios::binary);
        const std::string words((std::istreambuf_iterator<char>(command)), {});
        if (text.find(folder) != std::string::npos && words.find("__worker") != std::string::npos) ++found;
    }
    return found;
}

inline bool no_orphans_soon(const fake::Sandbox& sandbox) {
    for (int i = 0; i < 100; ++i) {
        if (orphans(sandbox) == 0) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
}

}  // namespace autotune::test
