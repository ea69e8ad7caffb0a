#include "src/jit/cubin_kernels.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "src/gpu/kernel_names.h"

namespace autotune::jit {
namespace {

constexpr std::uint8_t kSizedRecord = 4, kParameterRecord = 0x17;  // Constants of .nv.info: EIFMT_SVAL and EIATTR_KPARAM_INFO.

// The record at an offset; false if it extends beyond the end of the bytes.
template <class Record>
bool read_at(std::string_view bytes, std::size_t at, Record& record) {
    if (at > bytes.size() || bytes.size() - at < sizeof(Record)) return false;
    std::memcpy(&record, bytes.data() + at, sizeof(Record));
    return true;
}

std::string_view part(std::string_view bytes, std::uint64_t at, std::uint64_t size) {
    return at > bytes.size() || bytes.size() - at < size ? std::string_view{} : bytes.substr(at, size);
}

// A record has an index, an ordinal, an offset, and a word whose upper 14 bits are the size.
std::vector<std::size_t> parameters_of(std::string_view info) {
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at + 4 <= info.size();) {
        std::uint16_t size = 0;
        if (static_cast<std::uint8_t>(info[at]) != kSizedRecord) {
            at += 4;
            continue;
        }
        if (!read_at(info, at + 2, size)) break;
        std::uint16_t ordinal = 0;
        std::uint32_t packed = 0;
        if (static_cast<std::uint8_t>(info[at + 1]) == kParameterRecord && read_at(info, at + 8, ordinal) &&
            read_at(info, at + 12, packed) && ordinal < 4096) {
            if (sizes.size() <= ordinal) sizes.resize(std::size_t{ordinal} + 1);
            sizes[ordinal] = packed >> 18;
        }
        at += 4 + std::size_t{size};
    }
    return sizes;
}

}  // namespace

std::map<std::string, std::size_t> variables_of_cubin(std::span<const std::byte> cubin) {
    std::map<std::string, std::size_t> variables;
    const std::string_view image(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    Elf64_Ehdr header{};
    if (!read_at(image, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return variables;
    const auto section_at = [&](std::size_t index, Elf64_Shdr& section) {
        return read_at(image, header.e_shoff + index * sizeof(Elf64_Shdr), section);
    };
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr symbols{}, names{};
        if (!section_at(i, symbols) || symbols.sh_type != SHT_SYMTAB || !section_at(symbols.sh_link, names)) continue;
        const std::string_view table = part(image, symbols.sh_offset, symbols.sh_size);
        const std::string_view texts = part(image, names.sh_offset, names.sh_size);
        for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol{};
            if (!read_at(table, at, symbol) || ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_name >= texts.size())
                continue;
            const std::string_view rest = texts.substr(symbol.st_name);
            variables[std::string(rest.substr(0, rest.find('\0')))] = symbol.st_size;
        }
    }
    return variables;
}

std::map<std::string, CubinKernel> kernels_of_cubin(std::span<const std::byte> cubin) {
    std::map<std::string, CubinKernel> kernels;
    const std::string_view image(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    Elf64_Ehdr header{};
    if (!read_at(image, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return kernels;
    const auto section_at = [&](std::size_t index, Elf64_Shdr& section) {
        return read_at(image, header.e_shoff + index * sizeof(Elf64_Shdr), section);
    };
    Elf64_Shdr names{};
    if (!section_at(header.e_shstrndx, names)) return kernels;
    const std::string_view texts = part(image, names.sh_offset, names.sh_size);
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section{};
        if (!section_at(i, section) || section.sh_name >= texts.size()) continue;
        const std::string_view rest = texts.substr(section.sh_name);
        const std::string name(rest.substr(0, rest.find('\0')));
        const std::string_view content =
            section.sh_type == SHT_NOBITS ? std::string_view{} : part(image, section.sh_offset, section.sh_size);
        for (const std::string_view prefix : {".text.", ".nv.info."}) {
            if (!name.starts_with(prefix)) continue;
            CubinKernel& kernel = kernels[name.substr(prefix.size())];
            if (prefix == ".nv.info.") {
                kernel.parameter_bytes = parameters_of(content);
            } else {
                kernel.code = std::string(content);
            }
        }
    }
    std::erase_if(kernels, [](const auto& each) { return each.second.code.empty(); });
    for (const auto& [name, in_image] : gpu::kernel_names_of(cubin)) {
        const auto found = kernels.find(in_image);
        if (found != kernels.end()) kernels[name] = found->second;
    }
    return kernels;
}

}  // namespace autotune::jit
