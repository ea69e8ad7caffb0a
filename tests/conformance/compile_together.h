#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/jit/compiler.h"

namespace autotune::test {

// Compiles on all cores at once and returns the results by identity: compiling takes most of the time of a test on a GPU.
inline std::map<std::string, jit::CompileResult> compile_together(const gpu::Nvrtc& nvrtc, const jit::CubinCache& cache,
                                                                  const std::vector<jit::Rendered>& wanted) {
    std::map<std::string, const jit::Rendered*> distinct;
    for (const jit::Rendered& rendered : wanted) distinct.emplace(rendered.identity, &rendered);
    std::map<std::string, jit::CompileResult> results;
    std::vector<std::pair<const jit::Rendered*, jit::CompileResult*>> queue;
    for (const auto& [identity, rendered] : distinct) queue.emplace_back(rendered, &results[identity]);
    std::atomic<std::size_t> next = 0;
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
            threads.emplace_back([&] {
                for (std::size_t at = next++; at < queue.size(); at = next++)
                    *queue[at].second = jit::compile(nvrtc, cache, *queue[at].first);
            });
        }
    }
    return results;
}

}  // namespace autotune::test
