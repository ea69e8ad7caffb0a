#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include "db/sqlite/sqlite_handle.h"

namespace autotune::db::test {

// Runs `act` in a child process; the exit status is its result.
inline pid_t start_child(const std::function<bool()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
        bool held = false;
        try {
            held = act();
        } catch (...) {
        }
        ::_exit(held ? 0 : 1);
    }
    return child;
}

inline bool succeeded(pid_t child) {
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

// A child that holds the write lock until it is killed.
class LockHolder {
  public:
    explicit LockHolder(const std::string& path, const char* begin) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe");
        child_ = start_child([&] {
            Connection connection({.path = path});
            connection.run(begin);
            return ::write(ends[1], "x", 1) == 1 && ::pause() == 0;
        });
        char ready = 0;
        if (::read(ends[0], &ready, 1) != 1) throw std::runtime_error("the holder did not get its lock");
        ::close(ends[0]);
        ::close(ends[1]);
    }
    ~LockHolder() {
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
    }
    LockHolder(const LockHolder&) = delete;
    LockHolder& operator=(const LockHolder&) = delete;

  private:
    pid_t child_ = 0;
};

// Kills a writer in the middle of a transaction, which leaves a hot journal.
inline void kill_a_writer_half_way(const std::string& path) {
    const LockHolder killed(path,
                            "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE; UPDATE winner SET median_us = 1e9");
}

inline bool has_hot_journal(const std::string& path) {
    const std::string journal = path + "-journal";
    return std::filesystem::exists(journal) && std::filesystem::file_size(journal) > 512;
}

}  // namespace autotune::db::test
