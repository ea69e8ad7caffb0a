#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autotune::tuner {

using Json = nlohmann::ordered_json;

// A message between coordinator and worker: a JSON object and, separately, bytes that JSON cannot carry well (a cubin).
struct Message {
    Json body;
    std::vector<std::byte> payload;
};

// A frame: magic, version, body length, payload length, checksum of both; then body and payload. Little-endian.
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::size_t kMaxBodyBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxPayloadBytes = std::size_t{64} << 20;

// Text that is not UTF-8 (a compiler's log) is replaced, never refused. Throws Error{internal} above the limits.
std::vector<std::byte> encode(const Message& message);

// Turns a stream of bytes, split anywhere, into messages. After a malformed frame it returns nothing more: the peer cannot be
// trusted and must be killed.
class Decoder {
  public:
    void feed(std::span<const std::byte> bytes);
    // The next whole message; nullopt if there is none yet, and always once broken() is set.
    std::optional<Message> next();
    // What was wrong with the stream; empty while it is valid.
    const std::string& broken() const { return broken_; }
    // Whether bytes of an incomplete message are buffered; at end of file this means that a message was cut short.
    bool mid_message() const { return buffer_.size() > taken_; }

  private:
    std::optional<Message> fail(const std::string& why);

    std::vector<std::byte> buffer_;
    std::size_t taken_ = 0;
    std::string broken_;
};

}  // namespace autotune::tuner
