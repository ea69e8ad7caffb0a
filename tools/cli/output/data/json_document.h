#pragma once

#include <cstddef>
#include <ostream>
#include <string>

namespace autotune::cli {

// The one JSON document that a command prints: an object, or an array of several, each printed on a line of its own when it is
// added.
class JsonDocument {
  public:
    explicit JsonDocument(std::ostream& out) : out_(out) {}

    // Before the first object: how many were requested. With more than one the document is an array, even if some of them fail.
    void expect(std::size_t objects) { is_array_ = objects > 1; }
    // REQUIRES: with an array, or for the first object.
    void add(const std::string& object);
    // Ends an array. A requested array is printed even if it is empty.
    void finish();

  private:
    std::ostream& out_;
    bool is_array_ = false;
    std::size_t written_ = 0;
};

}  // namespace autotune::cli
