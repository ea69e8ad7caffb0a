#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/core/system/clock.h"
#include "src/core/system/file_descriptor.h"
#include "tuner/worker/protocol/protocol.h"

namespace autotune::tuner {

// A child process that exchanges frames over its standard input and output. Ends with its owner: the destructor kills and reaps
// it.
class WorkerProcess {
  public:
    enum class Environment { cleaned, whole };
    // Starts `binary arguments...` in a process group of its own: with a cleaned environment unless the whole is requested, no
    // signal blocked or ignored, standard error to /dev/null, and none of our descriptors. `variables` ("NAME=value") replace
    // those of the environment. Throws Error{system} with the system's reason if it cannot be started.
    WorkerProcess(const std::string& binary, const std::vector<std::string>& arguments,
                  Environment environment = Environment::cleaned, std::vector<std::string> variables = {});
    ~WorkerProcess();
    WorkerProcess(WorkerProcess&&) = delete;
    WorkerProcess& operator=(WorkerProcess&&) = delete;

    pid_t pid() const { return pid_; }
    int read_fd() const { return from_.get(); }
    int write_fd() const { return to_.get(); }
    bool wants_write() const { return sent_ < outgoing_.size(); }
    // Queues a message and writes as much as the pipe accepts; flush() writes more when poll() allows it.
    void send(const Message& message);
    void flush();
    // Reads what is available and returns the complete messages.
    std::vector<Message> receive();
    // End of file, a broken stream, or a failed write: nothing more will come.
    bool closed() const { return closed_; }
    // How the process ended, as text: "ended by signal 11 (Segmentation fault)", "exited with 3", "sent a frame with a bad
    // checksum".
    std::string how_it_ended();
    // Whether something else killed it: the kernel for lack of memory, a limit that it was started under, a person. REQUIRES:
    // how_it_ended() was called.
    bool was_ended_by_others() const;
    // Processor time that it has used, over all threads.
    double cpu_seconds() const;
    // How long its main thread was ready to run while other processes had the processors; nullopt if the kernel does not report
    // it.
    std::optional<double> waited_for_processor_s() const;

    void pause();
    void resume();
    void kill();
    // Waits after kill() until the process is gone, at most for `limit`; false if it is still there (stuck in the kernel).
    bool reap(std::chrono::milliseconds limit);
    // Gives up a process that cannot be reaped: the destructor will not wait for it.
    void abandon() { pid_ = -1; }

  private:
    bool try_reap();

    pid_t pid_ = -1;
    FileDescriptor to_, from_;
    std::vector<std::byte> outgoing_;
    std::size_t sent_ = 0;
    Decoder decoder_;
    bool closed_ = false;
    bool paused_ = false;
    std::optional<int> wait_status_;
    double cpu_s_at_end_ = 0;
};

}  // namespace autotune::tuner
