#pragma once

#include <cstdint>
#include <string>

namespace autotune::dispatch {

// Detects that files have changed without opening one, because closing a database's file would drop SQLite's locks on it.
class FileState {
  public:
    // The state of a database and of the files that SQLite keeps next to it.
    static FileState of_database(const std::string& path);
    // The state of all files below a folder.
    static FileState of_folder(const std::string& path);

    // Whether certainly nothing was written between the two. False if that is unknown: file times have steps, and a file that was
    // written just before the first state may have been written again within the same step.
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
