#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "src/gpu/driver/driver.h"

namespace autotune::test {

// The only gate of tests that need a GPU: without a GPU they are skipped, with a broken one they fail, and with
// AUTOTUNE_REQUIRE_GPU=1 they also fail without one.

struct GpuFacts {
    bool driver_installed = false;
    bool device_node = false;  // the kernel module provides a device file: /dev/nvidia0..., or WSL's /dev/dxg
    std::string load_error{};  // empty: the driver starts and sees a device
    bool required = false;
};

enum class Gate { open, skip, fail };

inline Gate gate_of(const GpuFacts& facts) {
    if (facts.driver_installed && facts.load_error.empty()) return Gate::open;
    const bool is_present = facts.device_node;
    return is_present || facts.required ? Gate::fail : Gate::skip;
}

inline bool has_device_node() {
    std::error_code ignored;
    for (int card = 0; card < 16; ++card) {
        if (std::filesystem::exists("/dev/nvidia" + std::to_string(card), ignored)) return true;
    }
    return std::filesystem::exists("/dev/dxg", ignored);
}

inline GpuFacts gpu_facts(std::shared_ptr<const gpu::Driver>& driver) {
    GpuFacts facts;
    const char* required = std::getenv("AUTOTUNE_REQUIRE_GPU");
    facts.required = required != nullptr && std::string(required) == "1";
    facts.driver_installed = gpu::Driver::installed();
    facts.device_node = has_device_node();
    try {
        driver = gpu::Driver::load();
    } catch (const Error& error) {
        facts.load_error = error.what();
    }
    return facts;
}

// Base of GPU tests: device 0 with its context current, or the gate skips or fails the test.
class GpuTest : public ::testing::Test {
  protected:
    void SetUp() override {
        const GpuFacts facts = gpu_facts(driver_);
        switch (gate_of(facts)) {
            case Gate::skip:
                GTEST_SKIP() << "no GPU: " << facts.load_error;
            case Gate::fail:
                FAIL() << "a GPU is present or required, but cannot be used: " << facts.load_error;
            case Gate::open:
                break;
        }
        device_ = driver_->device(0);
        context_.emplace(driver_, 0);
    }
    void TearDown() override { context_.reset(); }

    const std::shared_ptr<const gpu::Driver>& driver() const { return driver_; }
    const Device& device() const { return device_; }

  private:
    std::shared_ptr<const gpu::Driver> driver_;
    Device device_;
    std::optional<gpu::Context> context_;
};

}  // namespace autotune::test
