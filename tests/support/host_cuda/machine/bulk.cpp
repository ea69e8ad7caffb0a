// cp.async.bulk: boxes of tensors and contiguous bytes, in flight until a barrier or a group is waited for.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/support/host_cuda/machine/block_machine.h"

namespace autotune::test::host_cuda {
namespace {

// The bytes of a box in shared memory.
u32 bytes_of(const BulkCopy& copy) {
    if (copy.map == nullptr) return copy.bytes;
    u32 bytes = copy.map->element_bytes;
    for (int i = 0; i < copy.map->rank; ++i) bytes *= copy.map->boxes[i];
    return bytes;
}

// The address of the box's element in the tensor, or null outside of it.
unsigned char* element_of(const BulkCopy& copy, const u32 (&in_box)[5]) {
    const ::host_cuda::TensorMap& map = *copy.map;
    unsigned char* at = map.base;
    for (int i = 0; i < map.rank; ++i) {
        const std::int64_t place = std::int64_t{copy.at[i]} + in_box[i];
        if (place < 0 || place >= static_cast<std::int64_t>(map.extents[i])) return nullptr;
        at += place * static_cast<std::int64_t>(i == 0 ? map.element_bytes : map.strides[i - 1]);
    }
    return at;
}

// Calls `act` for each element with two addresses: in shared memory, and in the tensor or null.
template <class Act>
void for_each_element(const BulkCopy& copy, unsigned char* shared, const Act& act) {
    const ::host_cuda::TensorMap& map = *copy.map;
    const u32 count = bytes_of(copy) / map.element_bytes;
    u32 in_box[5] = {};
    for (u32 i = 0; i < count; ++i) {
        act(shared + ::host_cuda::swizzled(copy.shared + i * map.element_bytes, map.swizzle_bytes), element_of(copy, in_box));
        for (int dim = 0; dim < map.rank && ++in_box[dim] == map.boxes[dim]; ++dim) in_box[dim] = 0;
    }
}

void add_floats(unsigned char* to, const unsigned char* from, u32 bytes) {
    for (u32 at = 0; at < bytes; at += sizeof(float)) {
        float sum = 0, more = 0;
        std::memcpy(&sum, to + at, sizeof(sum));
        std::memcpy(&more, from + at, sizeof(more));
        sum += more;
        std::memcpy(to + at, &sum, sizeof(sum));
    }
}

// Why the hardware would refuse the copy, or "".
std::string refusal(const BulkCopy& copy) {
    const u32 alignment = copy.map == nullptr ? 16 : 128;
    if (copy.shared % alignment != 0)
        return "copies in bulk at shared memory that is no multiple of " + std::to_string(alignment);
    if (copy.map == nullptr && (copy.bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(copy.global) % 16 != 0))
        return "copies in bulk what is no multiple of 16 bytes";
    if (copy.map == nullptr) return "";
    const ::host_cuda::TensorMap& map = *copy.map;
    if (map.swizzle_bytes != 0 && map.boxes[0] * map.element_bytes > map.swizzle_bytes) return "has a box wider than its swizzle";
    if (reinterpret_cast<std::uintptr_t>(map.base) % 16 != 0) return "has a map of a tensor that is not aligned to 16 bytes";
    for (int i = 0; i + 1 < map.rank; ++i)
        if (map.strides[i] % 16 != 0) return "has a map with a stride that is no multiple of 16 bytes";
    for (int i = 0; i < map.rank; ++i)
        if (map.boxes[i] == 0 || map.boxes[i] > 256) return "has a map with a box of none or more than 256";
    return "";
}

}  // namespace

void BlockMachine::perform(const BulkCopy& copy) const {
    const bool is_load = copy.barrier != nullptr;
    unsigned char* const bytes = shared_ + copy.shared;
    if (copy.map != nullptr) {
        const std::size_t size = copy.map->element_bytes;
        for_each_element(copy, shared_, [&](unsigned char* in_shared, unsigned char* in_tensor) {
            if (is_load && in_tensor == nullptr) {
                std::memset(in_shared, 0, size);
            } else if (is_load) {
                std::memcpy(in_shared, in_tensor, size);
            } else if (in_tensor != nullptr) {
                std::memcpy(in_tensor, in_shared, size);
            }
        });
    } else if (is_load) {
        std::memcpy(bytes, copy.global, copy.bytes);
    } else if (copy.adds) {
        add_floats(copy.global, bytes, copy.bytes);
    } else {
        std::memcpy(copy.global, bytes, copy.bytes);
    }
    if (is_load) copy.barrier->complete(bytes_of(copy));
}

void BlockMachine::perform(const std::vector<BulkCopy>& group) const {
    for (const BulkCopy& copy : group) perform(copy);
}

void BlockMachine::copy_bulk(const BulkCopy& copy) {
    if (const std::string why = refusal(copy); !why.empty()) return fail(why);
    was_progress_ = true;
    if (!schedule_.late_copies) {
        perform(copy);
    } else if (copy.barrier != nullptr) {
        loads_.push_back(copy);
    } else {
        current().open_bulk.push_back(copy);
    }
}

// Performs the load that was issued last. Any order would do, because the order of loads is undefined.
bool BlockMachine::perform_a_load() {
    if (loads_.empty()) return false;
    const BulkCopy copy = loads_.back();
    loads_.pop_back();
    perform(copy);
    was_progress_ = true;
    return wake_polling();
}

void BlockMachine::commit_bulk() {
    current().pending_bulk.push_back(std::move(current().open_bulk));
    current().open_bulk.clear();
}

void BlockMachine::wait_for_bulk(int pending_groups) {
    std::vector<std::vector<BulkCopy>>& pending = current().pending_bulk;
    while (pending.size() > static_cast<std::size_t>(pending_groups)) {
        perform(pending.front());
        pending.erase(pending.begin());
    }
}

}  // namespace autotune::test::host_cuda
