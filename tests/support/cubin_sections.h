#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <regex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

// The parts of a cubin that a GPU uses, for comparing the kernels of two cubins.
namespace autotune::test {

// A copy of the record at an offset. Throws if the file is too short.
template <class Record>
Record record_at(std::string_view image, std::size_t at) {
    if (at > image.size() || image.size() - at < sizeof(Record)) throw std::runtime_error("the cubin ends early");
    Record record;
    std::memcpy(&record, image.data() + at, sizeof record);
    return record;
}

// The machine code by section: code, registers and barriers (in sh_info and sh_flags), .nv.info, constants and shared memory.
// Names of entities that are local to a source contain a hash of it, which is left out.
inline std::map<std::string, std::string> machine_code(std::span<const std::byte> cubin) {
    static const std::regex hash_of_source("_cu_[0-9a-f]{8}|_[0-9a-f]{8}_");
    const std::string_view image(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    const auto header = record_at<Elf64_Ehdr>(image, 0);
    const auto section_at = [&](std::size_t index) {
        return record_at<Elf64_Shdr>(image, header.e_shoff + index * sizeof(Elf64_Shdr));
    };
    const Elf64_Shdr names = section_at(header.e_shstrndx);
    std::map<std::string, std::string> sections;
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        const Elf64_Shdr section = section_at(i);
        const std::string raw(image.substr(names.sh_offset + section.sh_name).data());
        const std::string name = std::regex_replace(raw, hash_of_source, "_");
        const bool is_code = name.starts_with(".text.");
        const bool is_compared = is_code || name.starts_with(".nv.info") || name.starts_with(".nv.constant0.") ||
                                 name.starts_with(".nv.constant2") || name.starts_with(".nv.constant3") ||
                                 name.starts_with(".nv.shared.");
        if (!is_compared) continue;
        std::string value = std::to_string(section.sh_size) + ":";
        if (section.sh_type != SHT_NOBITS) value += image.substr(section.sh_offset, section.sh_size);
        if (is_code) value += ":" + std::to_string(section.sh_info >> 24) + ":" + std::to_string(section.sh_flags);
        sections[name] = value;
    }
    return sections;
}

}  // namespace autotune::test
