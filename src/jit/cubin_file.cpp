#include "src/jit/cubin_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "src/catalogue/hash.h"

namespace autotune::jit {
namespace {

constexpr std::string_view kMagic = "ATCUBIN\n";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kChecksumBytes = std::tuple_size_v<Hash::Digest>;

Hash::Digest checksum(std::span<const std::byte> bytes) {
    Hash hash;
    hash.field(bytes);
    return hash.digest();
}

class Writer {
  public:
    void number(std::uint64_t value) {
        for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
    }
    void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    void text(std::string_view value) {
        number(value.size());
        raw(std::as_bytes(std::span(value.data(), value.size())));
    }
    std::vector<std::byte>& bytes() { return bytes_; }

  private:
    std::vector<std::byte> bytes_;
};

// Reads what Writer wrote. After the end of the data it returns zeros and reports failure.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

    std::span<const std::byte> raw(std::uint64_t count) {
        if (count > left_.size()) broken_ = true;
        if (broken_) return {};
        const auto taken = left_.first(count);
        left_ = left_.subspan(count);
        return taken;
    }
    std::uint64_t number() {
        const auto bytes = raw(8);
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
        return value;
    }
    std::string text() {
        const auto bytes = raw(number());
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    bool complete() const { return !broken_ && left_.empty(); }

  private:
    std::span<const std::byte> left_;
    bool broken_ = false;
};

void write_report(Writer& writer, const CompileReport& report) {
    writer.number(static_cast<std::uint64_t>(static_cast<std::int64_t>(report.registers)));
    writer.number(static_cast<std::uint64_t>(static_cast<std::int64_t>(report.spill_bytes)));
    writer.number(static_cast<std::uint64_t>(static_cast<std::int64_t>(report.static_smem_bytes)));
    writer.number((report.wgmma_serialised ? 1U : 0U) | (report.setmaxnreg_ignored ? 2U : 0U));
    writer.number(std::bit_cast<std::uint64_t>(report.compile_ms));
}

CompileReport read_report(Reader& reader) {
    CompileReport report;
    report.registers = static_cast<int>(static_cast<std::int64_t>(reader.number()));
    report.spill_bytes = static_cast<int>(static_cast<std::int64_t>(reader.number()));
    report.static_smem_bytes = static_cast<int>(static_cast<std::int64_t>(reader.number()));
    const std::uint64_t flags = reader.number();
    report.wgmma_serialised = (flags & 1) != 0;
    report.setmaxnreg_ignored = (flags & 2) != 0;
    report.compile_ms = std::bit_cast<double>(reader.number());
    report.from_cache = true;
    return report;
}

}  // namespace

std::vector<std::byte> encode_cubin_file(const Compiled& compiled) {
    Writer writer;
    writer.raw(std::as_bytes(std::span(kMagic.data(), kMagic.size())));
    writer.number(kVersion);
    writer.text(compiled.symbol);
    writer.text(compiled.identity);
    write_report(writer, compiled.report);
    writer.number(compiled.cubin.size());
    writer.raw(compiled.cubin);
    const Hash::Digest sum = checksum(writer.bytes());
    writer.raw(std::as_bytes(std::span(sum)));
    return std::move(writer.bytes());
}

std::optional<Compiled> decode_cubin_file(std::span<const std::byte> bytes, const std::string& identity) {
    if (bytes.size() < kMagic.size() + kChecksumBytes) return std::nullopt;
    const auto body = bytes.first(bytes.size() - kChecksumBytes);
    const Hash::Digest sum = checksum(body);
    if (!std::ranges::equal(std::as_bytes(std::span(sum)), bytes.last(kChecksumBytes))) return std::nullopt;

    Reader reader(body);
    const auto magic = reader.raw(kMagic.size());
    if (!std::ranges::equal(magic, std::as_bytes(std::span(kMagic.data(), kMagic.size())))) return std::nullopt;
    if (reader.number() != kVersion) return std::nullopt;
    Compiled compiled;
    compiled.symbol = reader.text();
    compiled.identity = reader.text();
    compiled.report = read_report(reader);
    const auto cubin = reader.raw(reader.number());
    if (!reader.complete() || compiled.identity != identity || cubin.empty()) return std::nullopt;
    compiled.cubin.assign(cubin.begin(), cubin.end());
    compiled.report.cubin_bytes = compiled.cubin.size();
    return compiled;
}

}  // namespace autotune::jit
