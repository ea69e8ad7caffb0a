// The few driver calls that the example needs, found at run time. A program with the CUDA runtime uses cudaMalloc and cudaMemcpy
// instead and needs none of this.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

class CudaDriver {
  public:
    // Opens the driver and makes the primary context of device 0 current. Throws std::runtime_error if that fails.
    CudaDriver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
        if (library_ == nullptr) throw std::runtime_error("libcuda.so.1 cannot be opened");
        check(call<int(unsigned)>("cuInit")(0), "cuInit");
        check(call<int(int*, int)>("cuDeviceGet")(&device_, 0), "cuDeviceGet");
        void* context = nullptr;
        check(call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device_), "cuDevicePrimaryCtxRetain");
        check(call<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    }

    void* allocate(std::size_t bytes) {
        std::uint64_t address = 0;
        check(call<int(std::uint64_t*, std::size_t)>("cuMemAlloc")(&address, bytes), "cuMemAlloc");
        return reinterpret_cast<void*>(address);
    }
    void release(void* memory) { call<int(std::uint64_t)>("cuMemFree")(reinterpret_cast<std::uint64_t>(memory)); }
    void upload(void* to, const void* from, std::size_t bytes) {
        check(
            call<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD")(reinterpret_cast<std::uint64_t>(to), from, bytes),
            "cuMemcpyHtoD");
    }
    void download(void* to, const void* from, std::size_t bytes) {
        check(call<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH")(to, reinterpret_cast<std::uint64_t>(from), bytes),
              "cuMemcpyDtoH");
    }
    void synchronize() { check(call<int()>("cuCtxSynchronize")(), "cuCtxSynchronize"); }

  private:
    // The entry point as CUDA 12.0 defines it.
    template <typename Signature>
    Signature* call(const char* name) {
        using GetProcAddress = int(const char*, void**, int, std::uint64_t, int*);
        auto* const get = reinterpret_cast<GetProcAddress*>(dlsym(library_, "cuGetProcAddress_v2"));
        void* found = nullptr;
        if (get == nullptr || get(name, &found, 12000, 0, nullptr) != 0 || found == nullptr)
            throw std::runtime_error(std::string("the driver has no ") + name);
        return reinterpret_cast<Signature*>(found);
    }
    static void check(int code, const char* what) {
        if (code != 0) throw std::runtime_error(std::string(what) + " failed with code " + std::to_string(code));
    }

    void* library_;
    int device_ = 0;
};
