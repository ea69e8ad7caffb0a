#pragma once

#include <cstdint>
#include <string>

namespace autotune::dispatch {

// What tells that files have changed, without opening one: closing a database's file would drop SQLite's locks on it.
class FileState {
  public:
    // Of a database with what SQLite keeps beside it.
    static FileState of_database(const std::string& path);
    // Of all files of a folder and below.
    static FileState of_folder(const std::string& path);

    // Whether nothing was written between the two. False too where it cannot be told: the system counts time in steps, and a file
    // that was written just before the first may have been written again within the same one.
    bool is_surely_as(const FileState& before) const { return digest_ == before.digest_ && !before.is_fresh_; }
    // Whether the database is the same file.
    bool is_same_file(const FileState& before) const { return device_ == before.device_ && inode_ == before.inode_; }

  private:
    void add(const std::string& path);

    std::uint64_t device_ = 0, inode_ = 0;  // of the database
    std::uint64_t digest_ = 0;
    bool is_fresh_ = false;
};

}  // namespace autotune::dispatch
