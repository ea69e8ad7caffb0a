#include "src/core/system/npy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "src/core/error.h"
#include "src/core/spelling.h"
#include "src/core/system/file_descriptor.h"
#include "src/core/text.h"

namespace autotune {
namespace {

constexpr std::size_t kMostHeader = 64 << 10;

// "<f4" and the like. Types that numpy lacks are stored as integers of their size.
std::vector<std::string> npy_types_of(DType type) {
    switch (type) {
        case DType::f16:
            return {"<f2"};
        case DType::bf16:
            return {"<u2", "<V2", "|V2"};
        case DType::f32:
            return {"<f4"};
        case DType::f64:
            return {"<f8"};
        case DType::e4m3:
        case DType::e5m2:
            return {"|u1", "<u1", "|V1"};
        case DType::i8:
            return {"|i1", "<i1"};
        case DType::u8:
            return {"|u1", "<u1", "|b1"};
        case DType::i16:
            return {"<i2"};
        case DType::u16:
            return {"<u2"};
        case DType::i32:
            return {"<i4"};
        case DType::u32:
            return {"<u4"};
        case DType::i64:
            return {"<i8"};
        case DType::u64:
            return {"<u8"};
    }
    return {};
}

struct NpyHeader {
    std::string type;
    bool is_fortran = false;
    std::vector<std::int64_t> shape;
    std::size_t begin = 0;  // of the elements
};

bool read_exactly(int file, void* to, std::size_t bytes, std::size_t at) {
    auto* out = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = ::pread(file, out, bytes, static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        out += got;
        at += static_cast<std::size_t>(got);
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

// The text behind a key of the header, which is a dictionary of Python.
std::string_view value_behind(std::string_view header, std::string_view key) {
    const std::size_t at = header.find(key);
    const std::size_t colon = at == std::string_view::npos ? at : header.find(':', at);
    return colon == std::string_view::npos ? std::string_view{} : trimmed(header.substr(colon + 1));
}

std::optional<NpyHeader> parsed_header(int file) {
    unsigned char start[12] = {};
    constexpr std::string_view kMagic = "\x93NUMPY";
    if (!read_exactly(file, start, 10, 0) || std::memcmp(start, kMagic.data(), kMagic.size()) != 0) return std::nullopt;
    const bool is_long = start[6] >= 2;
    if (start[6] < 1 || start[6] > 3 || (is_long && !read_exactly(file, start, 12, 0))) return std::nullopt;
    std::size_t length = start[8] | std::size_t{start[9]} << 8;
    if (is_long) length |= std::size_t{start[10]} << 16 | std::size_t{start[11]} << 24;
    if (length > kMostHeader) return std::nullopt;
    NpyHeader header;
    header.begin = (is_long ? 12 : 10) + length;
    std::string text(length, ' ');
    if (!read_exactly(file, text.data(), length, header.begin - length)) return std::nullopt;
    std::string_view type = value_behind(text, "'descr'");
    if (!type.starts_with('\'')) return std::nullopt;
    type = type.substr(1, type.find('\'', 1) - 1);
    header.type = type;
    header.is_fortran = value_behind(text, "'fortran_order'").starts_with("True");
    std::string_view shape = value_behind(text, "'shape'");
    if (!shape.starts_with('(') || shape.find(')') == std::string_view::npos) return std::nullopt;
    shape = shape.substr(1, shape.find(')') - 1);
    for (const std::string& part : split(std::string(shape), ',')) {
        const std::string_view digits = trimmed(part);
        if (digits.empty()) continue;
        std::int64_t extent = 0;
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
        if (code != std::errc{} || end != digits.data() + digits.size() || extent < 0) return std::nullopt;
        header.shape.push_back(extent);
    }
    return header;
}

std::string text_of_shape(const std::vector<std::int64_t>& extents) {
    std::vector<std::string> parts;
    for (const std::int64_t extent : extents) parts.push_back(std::to_string(extent));
    return "[" + join(parts) + "]";
}

// Opens the file and compares its header with the tensor.
std::string opened(const std::string& path, const Tensor& tensor, FileDescriptor& file, NpyHeader& header) {
    file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0) return "the file " + path + " cannot be read: " + std::strerror(errno);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return path + " is no regular file";
    const auto found = parsed_header(file.get());
    if (!found) return path + " is no .npy file";
    header = *found;
    const std::vector<std::string> types = npy_types_of(tensor.dtype);
    if (std::find(types.begin(), types.end(), header.type) == types.end())
        return path + " holds elements of numpy's type '" + header.type + "', and tensor " + tensor.name + " is " +
               std::string(to_string(tensor.dtype)) + " ('" + types.front() + "')";
    std::vector<std::int64_t> extents;
    for (const Dim& dim : tensor.dims) extents.push_back(dim.extent);
    if (header.shape != extents)
        return path + " has the shape " + text_of_shape(header.shape) + ", and tensor " + tensor.name + " has " +
               text_of_shape(extents);
    if (header.is_fortran && extents.size() > 1) return path + " is in Fortran's order; store it with numpy.ascontiguousarray";
    const auto bytes = static_cast<std::uint64_t>(tensor.elements()) * size_bytes(tensor.dtype);
    if (static_cast<std::uint64_t>(status.st_size) < header.begin + bytes) return path + " ends before its last element";
    return "";
}

}  // namespace

std::string npy_mismatch(const std::string& path, const Tensor& tensor) {
    FileDescriptor file;
    NpyHeader header;
    return opened(path, tensor, file, header);
}

std::vector<std::byte> read_npy(const std::string& path, const Tensor& tensor) {
    FileDescriptor file;
    NpyHeader header;
    if (const std::string wrong = opened(path, tensor, file, header); !wrong.empty()) throw Error(ErrorCode::usage, wrong);
    std::vector<std::byte> content(static_cast<std::size_t>(tensor.elements()) * size_bytes(tensor.dtype));
    if (!read_exactly(file.get(), content.data(), content.size(), header.begin))
        throw Error(ErrorCode::usage, "the file " + path + " could not be read to its end");
    return content;
}

}  // namespace autotune
