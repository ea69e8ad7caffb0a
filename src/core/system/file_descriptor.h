#pragma once

#include <unistd.h>

#include <utility>

namespace autotune {

// Owns an open file; -1: none.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int raw) : raw_(raw) {}
    FileDescriptor(FileDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        if (this != &other) {
            (void)close();
            raw_ = std::exchange(other.raw_, -1);
        }
        return *this;
    }
    ~FileDescriptor() { (void)close(); }

    int get() const { return raw_; }
    bool open() const { return raw_ >= 0; }
    // Closes the file now, if it is open; false if the system reports that written data may be lost.
    bool close() noexcept { return raw_ < 0 || ::close(std::exchange(raw_, -1)) == 0; }

  private:
    int raw_ = -1;
};

}  // namespace autotune
