#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/system/file_descriptor.h"
#include "tuner/worker/protocol/protocol.h"

namespace autotune::tuner {

// A worker's end of the pipes. Takes over standard input and output: what libraries print goes to standard error from then on.
class WorkerChannel {
  public:
    WorkerChannel();
    // Blocks for the next message; nullopt when the coordinator has closed its end or is not to be understood.
    std::optional<Message> receive();
    // A message that has come whole; nullopt while there is none. Ends the process if the coordinator is gone, or not to be
    // understood.
    std::optional<Message> receive_now();
    int read_fd() const { return in_.get(); }
    // Blocks until written. Ends the process if the coordinator is gone: nobody is left to work for.
    void send(const Message& message);

  private:
    FileDescriptor in_;
    FileDescriptor out_;
    Decoder decoder_;
};

// What a worker says of a request that it does not know, before it ends: its peer is another program than it takes it for.
std::string unknown_request(const std::string& kind, const std::string& what);

// What every worker does first: dies with its parent, leaves no core, holds no descriptor of the parent's unless they are kept.
// Exits if the parent is already another than `parent_pid`.
enum class Descriptors { closed, kept };
void become_worker(int parent_pid, Descriptors descriptors);

// Limits of a process that runs a compiler on text: polite, no files, bounded memory.
void limit_compiler_process();
// Allows so much processor time from now on; beyond it the kernel ends the process.
void allow_cpu_seconds(int seconds);

}  // namespace autotune::tuner
