#include "tuner/worker/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "tuner/worker/worker_settings.h"

namespace autotune::tuner {
namespace {

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

std::size_t padded(std::size_t bytes) {
    return (bytes + 3) / 4 * 4;
}

// Reads the notes of one segment.
std::string id_in(const unsigned char* notes, std::size_t bytes) {
    std::size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= bytes) {
        ElfW(Nhdr) head;
        std::memcpy(&head, notes + at, sizeof head);
        const std::size_t name = at + sizeof head, content = name + padded(head.n_namesz);
        if (content + head.n_descsz > bytes) break;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0)
            return hexadecimal(notes + content, head.n_descsz);
        at = content + padded(head.n_descsz);
    }
    return "";
}

// Whether an object of the process contains an address.
bool holds(const dl_phdr_info& object, std::uintptr_t address) {
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = object.dlpi_phdr[i];
        const std::uintptr_t from = object.dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && address >= from && address < from + part.p_memsz) return true;
    }
    return false;
}

struct Search {
    std::uintptr_t address;
    std::string found;
};

int look(dl_phdr_info* object, std::size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    if (!holds(*object, search.address)) return 0;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = object->dlpi_phdr[i];
        if (part.p_type != PT_NOTE || !search.found.empty()) continue;
        search.found = id_in(reinterpret_cast<const unsigned char*>(object->dlpi_addr + part.p_vaddr), part.p_memsz);
    }
    return 1;
}

}  // namespace

std::string other_build(const WorkerSettings& settings, const std::string& build) {
    if (settings.build.empty() || settings.build == build) return "";
    return "a worker process is of another build (" + (build.empty() ? "unknown" : build) + ") than this command (" +
           settings.build +
           "): the command was replaced while it ran; what was measured is kept, run the same command again to go on";
}

std::string build_id() {
    Search search{reinterpret_cast<std::uintptr_t>(&build_id), ""};
    ::dl_iterate_phdr(look, &search);
    return search.found;
}

}  // namespace autotune::tuner
