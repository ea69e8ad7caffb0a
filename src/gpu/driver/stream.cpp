#include <utility>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {
namespace {

CUevent as_event(void* raw) {
    return static_cast<CUevent>(raw);
}

// Whether the work is done. Throws if it has failed, but not if it is still running.
bool finished(const Driver& driver, CUresult result, const char* call) {
    if (result == CUDA_ERROR_NOT_READY) return false;
    throw_if_failed(driver, result, call);
    return true;
}

}  // namespace

Stream::Stream(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
    throw_if_failed(*driver_, driver_->api().stream_create(&raw_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Stream::~Stream() {
    if (raw_ != nullptr) driver_->api().stream_destroy(raw_);
}

Stream::Stream(Stream&& other) noexcept : driver_(std::move(other.driver_)), raw_(std::exchange(other.raw_, nullptr)) {}

void Stream::synchronize() const {
    throw_if_failed(*driver_, driver_->api().stream_synchronize(raw_), "cuStreamSynchronize");
}

bool Stream::idle() const {
    return finished(*driver_, driver_->api().stream_query(raw_), "cuStreamQuery");
}

Event::Event(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
    CUevent event = nullptr;
    throw_if_failed(*driver_, driver_->api().event_create(&event, CU_EVENT_DEFAULT), "cuEventCreate");
    raw_ = event;
}

Event::~Event() {
    if (raw_ != nullptr) driver_->api().event_destroy(as_event(raw_));
}

Event::Event(Event&& other) noexcept : driver_(std::move(other.driver_)), raw_(std::exchange(other.raw_, nullptr)) {}

void Event::record(StreamHandle stream) {
    throw_if_failed(*driver_, driver_->api().event_record(as_event(raw_), stream), "cuEventRecord");
}

void Event::synchronize() const {
    throw_if_failed(*driver_, driver_->api().event_synchronize(as_event(raw_)), "cuEventSynchronize");
}

bool Event::done() const {
    return finished(*driver_, driver_->api().event_query(as_event(raw_)), "cuEventQuery");
}

double elapsed_us(const Event& from, const Event& to) {
    float milliseconds = 0;
    const CUresult result = from.driver_->api().event_elapsed_time(&milliseconds, as_event(from.raw_), as_event(to.raw_));
    throw_if_failed(*from.driver_, result, "cuEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e3;
}

void Graph::begin(const Driver& driver, const Stream& stream) {
    // The capture is thread-local, so other threads of the process cannot break it and are not disturbed by it.
    throw_if_failed(driver, driver.api().stream_begin_capture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                    "cuStreamBeginCapture");
}

void Graph::abandon(const Driver& driver, const Stream& stream) {
    CUgraph graph = nullptr;
    driver.api().stream_end_capture(stream.handle(), &graph);
    if (graph != nullptr) driver.api().graph_destroy(graph);
}

Graph Graph::end(std::shared_ptr<const Driver> driver, const Stream& stream) {
    Graph captured;
    captured.driver_ = std::move(driver);
    const Driver::Api& api = captured.driver_->api();
    CUgraph graph = nullptr;
    throw_if_failed(*captured.driver_, api.stream_end_capture(stream.handle(), &graph), "cuStreamEndCapture");
    captured.graph_ = graph;
    CUgraphExec executable = nullptr;
    throw_if_failed(*captured.driver_, api.graph_instantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
    captured.executable_ = executable;
    return captured;
}

Graph::~Graph() {
    if (executable_ != nullptr) driver_->api().graph_exec_destroy(static_cast<CUgraphExec>(executable_));
    if (graph_ != nullptr) driver_->api().graph_destroy(static_cast<CUgraph>(graph_));
}

Graph::Graph(Graph&& other) noexcept
    : driver_(std::move(other.driver_)),
      graph_(std::exchange(other.graph_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)) {}

void Graph::launch(StreamHandle stream) const {
    throw_if_failed(*driver_, driver_->api().graph_launch(static_cast<CUgraphExec>(executable_), stream), "cuGraphLaunch");
}

}  // namespace autotune::gpu
