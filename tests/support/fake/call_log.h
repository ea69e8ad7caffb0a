#pragma once

#include <string>
#include <vector>

namespace autotune::fake {

// Logs the calls of the scripted libraries, one line per call: "PID cuMemAlloc 4096". The file is named by AUTOTUNE_FAKE_LOG;
// without it nothing is written. Lines of all processes go to one file in the order of the calls.
//
// The file is mapped, not written: compile workers run with RLIMIT_FSIZE 0, under which a write() would kill them. So it must
// have its size before they start, which create_call_log() ensures.
void log_call(const std::string& line);

constexpr std::size_t kCallLogBytes = std::size_t{32} << 20;
// Creates an empty log of full size (sparse) at `path`.
void create_call_log(const std::string& path);
std::vector<std::string> read_call_log(const std::string& path);

}  // namespace autotune::fake
