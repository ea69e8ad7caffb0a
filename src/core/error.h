#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace autotune {

// The classes of errors that a caller can react to. The command's exit codes and the library's statuses are made from these.
enum class ErrorCode {
    internal,         // a bug in autotune; it carries a source location
    usage,            // the caller's mistake, found before any GPU work
    no_gpu,           // no driver, no device, or no device that autotune supports
    no_valid_config,  // no family or config can compute the problem
    database,         // the store cannot be opened, read or written
    verification,     // a kernel's answer is wrong
    gpu_unhealthy,    // the device fails a known-good kernel, or cannot be reclaimed
    compile_failed,   // NVRTC refused a source
    no_compiler,      // no NVRTC that can be used
    driver,           // a CUDA driver call failed
    interrupted,      // the user asked to stop; measurements so far are kept
    gpu_in_use,       // other processes hold the device, or its MPS server is gone: the device is healthy but cannot be used now
    gpu_memory,       // too little of the device's memory is free for one problem; others may fit
    system,           // the operating system refuses a process, a thread, memory or a file
};

// The message is one or two sentences for a person: what happened, which input caused it, what to do.
class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ErrorCode code() const { return code_; }

  private:
    ErrorCode code_;
};

// Throws Error{internal} naming the caller's file and line. For our own invariants, never for input.
[[noreturn]] inline void internal_error(const std::string& what, std::source_location at = std::source_location::current()) {
    throw Error(ErrorCode::internal, "internal error: " + what + " (" + at.file_name() + ":" + std::to_string(at.line()) + ")");
}

// Throws the same error unless `holds`. If the message is costly to make and the path is taken often, call internal_error()
// instead.
inline void check(bool holds, const std::string& what, std::source_location at = std::source_location::current()) {
    if (!holds) internal_error(what, at);
}

}  // namespace autotune
