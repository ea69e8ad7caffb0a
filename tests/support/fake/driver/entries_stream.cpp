// Streams, capture, events and graphs. Work is done when it is enqueued; only the simulated clock shows that it takes time.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>

#include "tests/support/fake/driver/machine.h"

namespace autotune::fake {
namespace {

CUresult stream_create(CUstream* stream, unsigned) {
    if (const CUresult result = enter("cuStreamCreate"); result != CUDA_SUCCESS) return result;
    if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *stream = new CUstream_st;
    (*stream)->context = current_context();
    return CUDA_SUCCESS;
}

CUresult stream_get_ctx(CUstream stream, CUcontext* context) {
    if (const CUresult result = enter("cuStreamGetCtx"); result != CUDA_SUCCESS) return result;
    *context = reinterpret_cast<std::uintptr_t>(stream) > 2 ? stream->context : current_context();
    return CUDA_SUCCESS;
}

void forget_capture(CUstream stream) {
    auto& all = Machine::get().capturing;
    all.erase(std::remove(all.begin(), all.end(), stream), all.end());
    stream->capture.reset();
    stream->invalidated = false;
}

CUresult stream_destroy(CUstream stream) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    const CUresult result = enter("cuStreamDestroy");
    forget_capture(stream);
    delete stream;
    return result;
}

CUresult stream_synchronize(CUstream stream) {
    Machine& machine = Machine::get();
    if (const CUresult result = enter("cuStreamSynchronize"); result != CUDA_SUCCESS) return result;
    if (is_capturing(stream)) {
        stream->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    machine.wait_idle();
    return machine.health;
}

CUresult stream_query(CUstream stream) {
    if (const CUresult result = enter("cuStreamQuery"); result != CUDA_SUCCESS) return result;
    if (is_capturing(stream)) {
        stream->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return Machine::get().is_busy() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
    if (const CUresult result = enter("cuStreamIsCapturing"); result != CUDA_SUCCESS) return result;
    *status = !is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult exchange_capture_mode(CUstreamCaptureMode* mode) {
    std::swap(*mode, thread_capture_mode());
    return CUDA_SUCCESS;
}

CUresult stream_begin_capture(CUstream stream, CUstreamCaptureMode mode) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuStreamBeginCapture"); result != CUDA_SUCCESS) return result;
    if (stream == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (is_capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
    static std::uint64_t captures = 0;
    stream->capture = std::make_unique<CUgraph_st>();
    stream->capture->capture_id = ++captures;
    stream->mode = mode;
    stream->thread = thread_id();
    machine.capturing.push_back(stream);
    return CUDA_SUCCESS;
}

CUresult stream_end_capture(CUstream stream, CUgraph* graph) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    *graph = nullptr;
    const CUresult entered = enter("cuStreamEndCapture");
    if (!is_capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
    const bool is_whole = !stream->invalidated && entered == CUDA_SUCCESS;
    if (is_whole) *graph = stream->capture.release();
    forget_capture(stream);
    return is_whole ? CUDA_SUCCESS : entered != CUDA_SUCCESS ? entered : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult stream_get_capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                 const CUgraphNode**, std::size_t*) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuStreamGetCaptureInfo"); result != CUDA_SUCCESS) return result;
    *status = !is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    *id = stream->capture->capture_id;
    *graph = stream->capture.get();
    return CUDA_SUCCESS;
}

// References are not counted, because the library passes its one reference to a graph at once.
CUresult user_object_create(CUuserObject* object, void* payload, CUhostFn destroy, unsigned, unsigned) {
    if (const CUresult result = enter("cuUserObjectCreate"); result != CUDA_SUCCESS) return result;
    *object = new CUuserObject_st{payload, destroy};
    return CUDA_SUCCESS;
}

CUresult user_object_release(CUuserObject object, unsigned) {
    const CUresult result = enter("cuUserObjectRelease");
    delete object;
    return result;
}

CUresult graph_retain_user_object(CUgraph graph, CUuserObject object, unsigned, unsigned) {
    if (const CUresult result = enter("cuGraphRetainUserObject"); result != CUDA_SUCCESS) return result;
    graph->objects.emplace_back(object);
    return CUDA_SUCCESS;
}

CUresult event_create(CUevent* event, unsigned) {
    if (const CUresult result = enter("cuEventCreate"); result != CUDA_SUCCESS) return result;
    if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *event = new CUevent_st;
    return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event) {
    const CUresult result = enter("cuEventDestroy");
    delete event;
    return result;
}

CUresult event_record(CUevent event, CUstream stream) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    const auto recorded = std::to_string(reinterpret_cast<std::uintptr_t>(stream));
    if (const CUresult result = enter("cuEventRecord", recorded); result != CUDA_SUCCESS) return result;
    event->is_captured = is_capturing(stream);
    if (!event->is_captured) event->at_us = machine.now_us;
    return CUDA_SUCCESS;
}

// Work is done when it is enqueued, so nothing waits; the log shows which calls would wait.
CUresult stream_wait_event(CUstream stream, CUevent event, unsigned) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    const auto waiting = std::to_string(reinterpret_cast<std::uintptr_t>(stream));
    if (const CUresult result = enter("cuStreamWaitEvent", waiting); result != CUDA_SUCCESS) return result;
    if (is_capturing(stream) && !event->is_captured) {
        stream->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    return CUDA_SUCCESS;
}

CUresult event_synchronize(CUevent) {
    if (const CUresult result = enter("cuEventSynchronize"); result != CUDA_SUCCESS) return result;
    Machine::get().wait_idle();
    return Machine::get().health;
}

CUresult event_query(CUevent) {
    if (const CUresult result = enter("cuEventQuery"); result != CUDA_SUCCESS) return result;
    return Machine::get().is_busy() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult event_elapsed_time(float* milliseconds, CUevent from, CUevent to) {
    if (const CUresult result = enter("cuEventElapsedTime"); result != CUDA_SUCCESS) return result;
    if (!from->at_us || !to->at_us) return CUDA_ERROR_INVALID_HANDLE;
    if (Machine::get().is_busy()) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>((*to->at_us - *from->at_us) / 1e3);
    return CUDA_SUCCESS;
}

CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
    if (const CUresult result = enter("cuGraphInstantiate", std::to_string(graph->launches.size())); result != CUDA_SUCCESS)
        return result;
    *executable = new CUgraphExec_st{graph->launches, graph->objects};
    prepare(**executable);
    return CUDA_SUCCESS;
}

CUresult graph_launch(CUgraphExec executable, CUstream stream) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    const CUresult entered = enter("cuGraphLaunch", std::to_string(executable->launches.size()));
    if (entered != CUDA_SUCCESS) return entered;
    if (is_capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return replay(*executable);
}

CUresult graph_destroy(CUgraph graph) {
    const CUresult result = enter("cuGraphDestroy");
    delete graph;
    return result;
}

CUresult graph_exec_destroy(CUgraphExec executable) {
    const CUresult result = enter("cuGraphExecDestroy");
    delete executable;
    return result;
}

}  // namespace

std::vector<Entry> stream_entries() {
    const PFN_cuStreamCreate_v2000 f_create = Outside<stream_create>::call;
    const PFN_cuStreamDestroy_v4000 f_destroy = Outside<stream_destroy>::call;
    const PFN_cuStreamSynchronize_v2000 f_synchronize = Outside<stream_synchronize>::call;
    const PFN_cuStreamQuery_v2000 f_query = Outside<stream_query>::call;
    const PFN_cuStreamIsCapturing_v10000 f_capturing = Outside<stream_is_capturing>::call;
    const PFN_cuThreadExchangeStreamCaptureMode_v10010 f_mode = Outside<exchange_capture_mode>::call;
    const PFN_cuStreamBeginCapture_v10010 f_begin = Outside<stream_begin_capture>::call;
    const PFN_cuStreamEndCapture_v10000 f_end = Outside<stream_end_capture>::call;
    const PFN_cuStreamGetCaptureInfo_v11030 f_info = Outside<stream_get_capture_info>::call;
    const PFN_cuUserObjectCreate_v11030 f_object = Outside<user_object_create>::call;
    const PFN_cuUserObjectRelease_v11030 f_object_release = Outside<user_object_release>::call;
    const PFN_cuGraphRetainUserObject_v11030 f_retain = Outside<graph_retain_user_object>::call;
    const PFN_cuStreamGetCtx_v9020 f_context = Outside<stream_get_ctx>::call;
    const PFN_cuEventCreate_v2000 f_event = Outside<event_create>::call;
    const PFN_cuEventDestroy_v4000 f_event_destroy = Outside<event_destroy>::call;
    const PFN_cuEventRecord_v2000 f_record = Outside<event_record>::call;
    const PFN_cuStreamWaitEvent_v3020 f_wait = Outside<stream_wait_event>::call;
    const PFN_cuEventSynchronize_v2000 f_event_synchronize = Outside<event_synchronize>::call;
    const PFN_cuEventQuery_v2000 f_event_query = Outside<event_query>::call;
    const PFN_cuEventElapsedTime_v2000 f_elapsed = Outside<event_elapsed_time>::call;
    const PFN_cuGraphInstantiateWithFlags_v11040 f_instantiate = Outside<graph_instantiate>::call;
    const PFN_cuGraphLaunch_v10000 f_launch = Outside<graph_launch>::call;
    const PFN_cuGraphDestroy_v10000 f_graph_destroy = Outside<graph_destroy>::call;
    const PFN_cuGraphExecDestroy_v10000 f_exec_destroy = Outside<graph_exec_destroy>::call;
    return {{"cuStreamCreate", 2000, reinterpret_cast<void*>(f_create)},
            {"cuStreamDestroy", 4000, reinterpret_cast<void*>(f_destroy)},
            {"cuStreamSynchronize", 2000, reinterpret_cast<void*>(f_synchronize)},
            {"cuStreamQuery", 2000, reinterpret_cast<void*>(f_query)},
            {"cuStreamIsCapturing", 10000, reinterpret_cast<void*>(f_capturing)},
            {"cuThreadExchangeStreamCaptureMode", 10010, reinterpret_cast<void*>(f_mode)},
            {"cuStreamBeginCapture", 10010, reinterpret_cast<void*>(f_begin)},
            {"cuStreamEndCapture", 10000, reinterpret_cast<void*>(f_end)},
            {"cuStreamGetCaptureInfo", 11030, reinterpret_cast<void*>(f_info)},
            {"cuStreamGetCtx", 9020, reinterpret_cast<void*>(f_context)},
            {"cuUserObjectCreate", 11030, reinterpret_cast<void*>(f_object)},
            {"cuUserObjectRelease", 11030, reinterpret_cast<void*>(f_object_release)},
            {"cuGraphRetainUserObject", 11030, reinterpret_cast<void*>(f_retain)},
            {"cuEventCreate", 2000, reinterpret_cast<void*>(f_event)},
            {"cuEventDestroy", 4000, reinterpret_cast<void*>(f_event_destroy)},
            {"cuEventRecord", 2000, reinterpret_cast<void*>(f_record)},
            {"cuStreamWaitEvent", 3020, reinterpret_cast<void*>(f_wait)},
            {"cuEventSynchronize", 2000, reinterpret_cast<void*>(f_event_synchronize)},
            {"cuEventQuery", 2000, reinterpret_cast<void*>(f_event_query)},
            {"cuEventElapsedTime", 2000, reinterpret_cast<void*>(f_elapsed)},
            {"cuGraphInstantiateWithFlags", 11040, reinterpret_cast<void*>(f_instantiate)},
            {"cuGraphLaunch", 10000, reinterpret_cast<void*>(f_launch)},
            {"cuGraphDestroy", 10000, reinterpret_cast<void*>(f_graph_destroy)},
            {"cuGraphExecDestroy", 10000, reinterpret_cast<void*>(f_exec_destroy)}};
}

}  // namespace autotune::fake
