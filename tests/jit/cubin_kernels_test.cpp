#include "src/jit/cubin_kernels.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace autotune::jit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Section {
    std::string name, content;
};

// An ELF file of these sections, as a cubin is.
std::vector<std::byte> elf_of(std::vector<Section> sections) {
    std::string names(1, '\0');
    sections.push_back({".shstrtab", ""});
    std::vector<Elf64_Shdr> headers(1);
    for (const Section& section : sections) {
        Elf64_Shdr& header = headers.emplace_back();
        header.sh_name = static_cast<Elf64_Word>(names.size());
        header.sh_type = SHT_PROGBITS;
        names += section.name + '\0';
    }
    sections.back().content = names;
    std::string bytes(sizeof(Elf64_Ehdr), '\0');
    for (std::size_t i = 0; i < sections.size(); ++i) {
        headers[i + 1].sh_offset = bytes.size();
        headers[i + 1].sh_size = sections[i].content.size();
        bytes += sections[i].content;
    }
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_shoff = bytes.size();
    header.e_shnum = static_cast<Elf64_Half>(headers.size());
    header.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.append(reinterpret_cast<const char*>(headers.data()), headers.size() * sizeof(Elf64_Shdr));
    const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
    return {first, first + bytes.size()};
}

// One record of .nv.info: a parameter's ordinal and size.
std::string parameter(std::uint16_t ordinal, std::uint32_t size) {
    std::string record("\x04\x17\x0c\x00\x00\x00\x00\x00", 8);
    const std::uint16_t offset = 0;
    const std::uint32_t packed = size << 18 | 0x1f000;
    record.append(reinterpret_cast<const char*>(&ordinal), 2);
    record.append(reinterpret_cast<const char*>(&offset), 2);
    record.append(reinterpret_cast<const char*>(&packed), 4);
    return record;
}

TEST(CubinKernels, HaveParameterSizesInOrder) {
    const std::string other("\x03\x1b\xff\x00", 4);
    const auto kernels =
        kernels_of_cubin(elf_of({{".text.k", "code"}, {".nv.info.k", parameter(1, 4) + other + parameter(0, 8)}}));
    ASSERT_EQ(kernels.size(), 1U);
    EXPECT_THAT(kernels.at("k").parameter_bytes, ElementsAre(8U, 4U));
}

TEST(CubinKernels, CodeIsTheSameWhateverLiesBesideIt) {
    const auto plain = kernels_of_cubin(elf_of({{".text.k", "code"}}));
    const auto beside = kernels_of_cubin(elf_of({{".nv.shared.k", "1024 bytes"}, {".text.k", "code"}, {".text.other", "more"}}));
    EXPECT_EQ(plain.at("k").code, beside.at("k").code) << "another kernel's shared memory is no code of this one";
    EXPECT_NE(beside.at("k").code, beside.at("other").code);
}

TEST(CubinKernels, OfOtherBytesThereAreNone) {
    EXPECT_THAT(kernels_of_cubin({}), IsEmpty());
    std::vector<std::byte> broken = elf_of({{".text.k", "code"}});
    broken.resize(broken.size() / 2);
    EXPECT_THAT(kernels_of_cubin(broken), IsEmpty());
    EXPECT_THAT(kernels_of_cubin(std::vector<std::byte>(200, std::byte{0x7f})), IsEmpty());
}

}  // namespace
}  // namespace autotune::jit
