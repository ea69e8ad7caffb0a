#include "tuner/worker/protocol/protocol.h"

#include <cstring>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

constexpr std::uint32_t kMagic = 0x31465441;  // "ATF1"
constexpr std::uint32_t kVersion = 1;

struct FrameHeader {
    std::uint32_t magic = kMagic;
    std::uint32_t version = kVersion;
    std::uint32_t body_bytes = 0;
    std::uint32_t payload_bytes = 0;
    std::uint64_t checksum = 0;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

// FNV-1a over 8-byte words and then the rest. A pipe corrupts nothing, but a worker that writes through a wild pointer may.
std::uint64_t checksum(std::uint64_t hash, std::span<const std::byte> bytes) {
    constexpr std::uint64_t kPrime = 0x100000001b3;
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + i, 8);
        hash = (hash ^ word) * kPrime;
        hash ^= hash >> 32;
    }
    for (; i < bytes.size(); ++i) hash = (hash ^ std::to_integer<std::uint64_t>(bytes[i])) * kPrime;
    return hash;
}

constexpr std::uint64_t kChecksumSeed = 0xcbf29ce484222325;

std::uint64_t checksum_of(std::span<const std::byte> body, std::span<const std::byte> payload) {
    return checksum(checksum(kChecksumSeed ^ body.size(), body), payload);
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
    const std::string body = message.body.dump(-1, ' ', false, Json::error_handler_t::replace);
    check(body.size() <= kMaxBodyBytes && message.payload.size() <= kMaxPayloadBytes, "message too long for the protocol");
    FrameHeader header;
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    header.payload_bytes = static_cast<std::uint32_t>(message.payload.size());
    header.checksum = checksum_of(std::as_bytes(std::span(body)), message.payload);
    std::vector<std::byte> frame(sizeof header + body.size() + message.payload.size());
    std::memcpy(frame.data(), &header, sizeof header);
    std::memcpy(frame.data() + sizeof header, body.data(), body.size());
    if (!message.payload.empty()) {
        std::memcpy(frame.data() + sizeof header + body.size(), message.payload.data(), message.payload.size());
    }
    return frame;
}

void Decoder::feed(std::span<const std::byte> bytes) {
    if (!broken_.empty()) return;
    if (taken_ > 0) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
        taken_ = 0;
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

std::optional<Message> Decoder::next() {
    const auto available = std::span<const std::byte>(buffer_).subspan(taken_);
    if (!broken_.empty() || available.size() < sizeof(FrameHeader)) return std::nullopt;
    FrameHeader header;
    std::memcpy(&header, available.data(), sizeof header);
    if (header.magic != kMagic) return fail("not a frame");
    if (header.version != kVersion) return fail("a frame of version " + std::to_string(header.version));
    if (header.body_bytes > kMaxBodyBytes || header.payload_bytes > kMaxPayloadBytes) return fail("a frame that is too long");
    const std::size_t total = sizeof header + header.body_bytes + header.payload_bytes;
    if (available.size() < total) return std::nullopt;
    const auto body = available.subspan(sizeof header, header.body_bytes);
    const auto payload = available.subspan(sizeof header + header.body_bytes, header.payload_bytes);
    if (checksum_of(body, payload) != header.checksum) return fail("a frame with a bad checksum");
    Message message;
    const char* text = reinterpret_cast<const char*>(body.data());
    message.body = Json::parse(text, text + body.size(), nullptr, false);
    if (!message.body.is_object()) return fail("a frame whose body is not a JSON object");
    message.payload.assign(payload.begin(), payload.end());
    taken_ += total;
    return message;
}

std::optional<Message> Decoder::fail(const std::string& why) {
    broken_ = why;
    buffer_.clear();
    taken_ = 0;
    return std::nullopt;
}

}  // namespace autotune::tuner
