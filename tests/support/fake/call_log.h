#pragma once

#include <string>
#include <vector>

namespace autotune::fake {

// What the fakes were asked, one line a call: "PID cuMemAlloc 4096". The file named by AUTOTUNE_FAKE_LOG; without it nothing is
// written. Lines of all processes end up in one file in the order they were made.
//
// The file is mapped, not written: compile workers run with RLIMIT_FSIZE 0, where a write() would kill them. So it has to have
// its size before they start: create_call_log() makes it.
void log_call(const std::string& line);

constexpr std::size_t kCallLogBytes = std::size_t{32} << 20;
// An empty log of full size (sparse) at `path`.
void create_call_log(const std::string& path);
std::vector<std::string> read_call_log(const std::string& path);

}  // namespace autotune::fake
