#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/system/file_descriptor.h"
#include "tuner/worker/protocol/protocol.h"

namespace autotune::tuner {

// A worker's end of the pipes. Takes over standard input and output; from then on, prints of libraries go to standard error.
class WorkerChannel {
  public:
    WorkerChannel();
    // Blocks for the next message; nullopt when the coordinator has closed its end or sent a broken stream.
    std::optional<Message> receive();
    // A complete message, if one has arrived; else nullopt. Ends the process if the coordinator is gone or sent a broken stream.
    std::optional<Message> receive_now();
    int read_fd() const { return in_.get(); }
    // Blocks until written. Ends the process if the coordinator is gone.
    void send(const Message& message);

  private:
    FileDescriptor in_;
    FileDescriptor out_;
    Decoder decoder_;
};

// A worker's message about an unknown request, before it ends: its peer is a different program than expected.
std::string unknown_request(const std::string& kind, const std::string& what);

// The first steps of every worker: it dies with its parent, leaves no core file, and closes the parent's descriptors unless they
// are kept. Exits if the parent is no longer `parent_pid`.
enum class Descriptors { closed, kept };
void become_worker(int parent_pid, Descriptors descriptors);

// Sets limits for a process that runs a compiler on text: low priority, no files, bounded memory.
void limit_compiler_process();
// Keeps what a compile frees for the next one. By default glibc returns it, and each compile of a small kernel faults in 3,400
// pages again.
void keep_freed_memory();
// Allows this much processor time from now on; beyond it the kernel kills the process.
void allow_cpu_seconds(int seconds);

}  // namespace autotune::tuner
