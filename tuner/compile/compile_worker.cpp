#include "tuner/compile/compile_worker.h"

#include <new>

#include "src/core/error.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "tuner/worker/build_id.h"
#include "tuner/worker/protocol/wire.h"
#include "tuner/worker/protocol/worker_channel.h"
#include "tuner/worker/worker_log.h"

namespace autotune::tuner {
namespace {

constexpr std::size_t kMaxLogBytes = 64 * 1024;  // A compiler that prints without end must not fill our memory.

Message compile_one(const gpu::Nvrtc& nvrtc, const Message& job, LogSink* log) {
    const jit::Rendered rendered = wire::read_rendered(job.body.at("rendered"));
    allow_cpu_seconds(job.body.at("cpu_seconds").get<int>());
    // This process has no cache, because it may not write files. The coordinator stores the results.
    jit::CompileResult result;
    try {
        result = jit::compile(nvrtc, jit::CubinCache(""), rendered);
    } catch (const std::bad_alloc&) {
        result.failure = "the compiler found no memory: out of memory";
        result.by_circumstance = true;
    }
    log_to(log, LogLevel::debug, "", [&] {
        return rendered.symbol + (result.compiled ? ": " + std::to_string(result.compiled->cubin.size()) + " bytes of cubin"
                                                  : ": " + result.failure + result.rejected);
    });
    Message reply;
    reply.body = {{"event", "compiled"},
                  {"identity", rendered.identity},
                  {"log", result.log.substr(0, kMaxLogBytes)},
                  {"failure", result.failure.substr(0, kMaxLogBytes)},
                  {"by_circumstance", result.by_circumstance},
                  {"rejected", result.rejected}};
    if (result.compiled) {
        reply.body["symbol"] = result.compiled->symbol;
        reply.body["report"] = wire::write(result.compiled->report);
        reply.payload = result.compiled->cubin;
    }
    return reply;
}

}  // namespace

int run_compile_worker(const CompileWorkerArguments& arguments) {
    WorkerChannel channel;
    WorkerLog log(channel, arguments.log_level);
    limit_compiler_process();
    keep_freed_memory();
    std::shared_ptr<const gpu::Nvrtc> nvrtc;
    try {
        nvrtc = gpu::Nvrtc::load({.explicit_path = arguments.nvrtc_path,
                                  .folders = arguments.library_folders,
                                  .driver_major = arguments.driver_major});
    } catch (const Error& error) {
        channel.send({{{"event", "fatal"}, {"message", error.what()}}, {}});
        return 1;
    }
    channel.send({{{"event", "ready"}, {"nvrtc", nvrtc->version()}, {"build", build_id()}}, {}});
    log_to(log.sink(), LogLevel::debug, "", [&] { return "NVRTC " + nvrtc->version() + ", " + nvrtc->path(); });
    while (const auto job = channel.receive()) {
        const std::string what = job->body.value("do", "");
        if (what != "compile") {
            channel.send({{{"event", "fatal"}, {"message", unknown_request("compile", what)}}, {}});
            return 1;
        }
        channel.send(compile_one(*nvrtc, *job, log.sink()));
    }
    return 0;
}

}  // namespace autotune::tuner
