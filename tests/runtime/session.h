#pragma once

#include <autotune/autotune.hpp>
#include <memory>
#include <string>
#include <vector>

#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "src/gpu/driver/driver.h"
#include "tests/runtime/ops/gemm_data.h"
#include "tests/runtime/sample.h"

namespace autotune::runtime::test {

// A program that uses the library on device 0: driver, context, stream and a listener.
struct Session {
    std::shared_ptr<const gpu::Driver> driver = gpu::Driver::load();
    gpu::Context context{driver, 0};
    gpu::Stream stream{driver};
    Listener listener;
    Catalogue catalogue = Catalogue::embedded();

    Handle open(autotune_on_miss on_miss = AUTOTUNE_ON_MISS_COMPILE) {
        Options options;
        options.on_miss = on_miss;
        options.log = &Listener::hear;
        options.log_user = &listener;
        return Handle(options);
    }
    // A graph of everything that `work` enqueues on the session's stream.
    template <typename Work>
    gpu::Graph capture(Work work) {
        return gpu::Graph::capture(driver, stream, work);
    }
    void replay(const gpu::Graph& graph) {
        graph.launch(stream.handle());
        stream.synchronize();
    }
    // The user's database, in which a tune would have stored its winner.
    std::string database() const { return std::string(std::getenv("XDG_DATA_HOME")) + "/autotune/autotune.db"; }
    void remember(const std::string& shape, const std::string& beta = "zero") {
        const Problem problem = catalogue.problem({"hgemm", shape, {{"beta", beta}}});
        db::Store::open({.path = database()}).put(winner_of(catalogue, problem, driver->device(0)));
    }
};

// The status that `work` throws; AUTOTUNE_OK if it throws none.
template <typename Work>
autotune_status status_of(Work work) {
    try {
        work();
    } catch (const StatusError& error) {
        return error.status();
    }
    return AUTOTUNE_OK;
}

// Runs data through tuned_gemm() on the session's stream.
inline void run_tuned(Session& session, const Handle& handle, const autotune_gemm_problem& problem, const GemmData& data) {
    tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, session.stream.handle());
}

}  // namespace autotune::runtime::test
