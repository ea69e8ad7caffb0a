#pragma once

#include <unistd.h>

#include <utility>

namespace autotune {

// Owns an open file; -1 is none.
class FileDescriptor {
  public:
    explicit FileDescriptor(int raw) : raw_(raw) {}
    FileDescriptor(FileDescriptor&& other) noexcept : raw_(std::exchange(other.raw_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&&) = delete;
    ~FileDescriptor() {
        if (raw_ >= 0) ::close(raw_);
    }

    int get() const { return raw_; }
    bool open() const { return raw_ >= 0; }
    // Closes now; false if the system reports that what was written may be lost.
    bool close() { return ::close(std::exchange(raw_, -1)) == 0; }

  private:
    int raw_;
};

}  // namespace autotune
