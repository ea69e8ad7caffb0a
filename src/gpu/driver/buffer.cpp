#include <utility>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {
namespace {

void check_range(std::size_t bytes, std::size_t offset, std::size_t length, const char* what) {
    check(offset <= bytes && length <= bytes - offset, std::string(what) + " beyond the end of a device buffer");
}

// Waits for the legacy stream. Copies from pageable memory and memsets may still run there when the call returns, and our streams
// do not wait for it.
void settle(const Driver& driver, StreamHandle stream) {
    throw_if_failed(driver, driver.api().stream_synchronize(stream), "cuStreamSynchronize");
}

}  // namespace

Buffer::Buffer(std::shared_ptr<const Driver> driver, std::size_t bytes) : driver_(std::move(driver)), bytes_(bytes) {
    if (bytes == 0) return;
    CUdeviceptr address = 0;
    throw_if_failed(*driver_, driver_->api().mem_alloc(&address, bytes), "cuMemAlloc");
    address_ = address;
}

Buffer::~Buffer() {
    if (address_ != 0) driver_->api().mem_free(address_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : driver_(std::move(other.driver_)), address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(driver_, taken.driver_);
    std::swap(address_, taken.address_);
    std::swap(bytes_, taken.bytes_);
    return *this;
}

void Buffer::upload(std::span<const std::byte> host, std::size_t offset_bytes) {
    check_range(bytes_, offset_bytes, host.size(), "upload");
    if (host.empty()) return;
    throw_if_failed(*driver_, driver_->api().memcpy_htod(address_ + offset_bytes, host.data(), host.size()), "cuMemcpyHtoD");
    settle(*driver_, nullptr);
}

void Buffer::download(std::span<std::byte> host, std::size_t offset_bytes) const {
    check_range(bytes_, offset_bytes, host.size(), "download");
    if (host.empty()) return;
    throw_if_failed(*driver_, driver_->api().memcpy_dtoh(host.data(), address_ + offset_bytes, host.size()), "cuMemcpyDtoH");
}

int copy_on_device(const Driver& driver, DeviceAddress to, DeviceAddress from, std::size_t bytes, StreamHandle stream) noexcept {
    return driver.api().memcpy_dtod_async(to, from, bytes, stream);
}

void Buffer::fill_bytes(std::uint8_t value, StreamHandle stream) {
    if (bytes_ == 0) return;
    throw_if_failed(*driver_, driver_->api().memset_d8_async(address_, value, bytes_, stream), "cuMemsetD8Async");
    settle(*driver_, stream);
}

}  // namespace autotune::gpu
