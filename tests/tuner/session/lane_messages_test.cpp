#include "tuner/session/lanes/lane_messages.h"

#include <gtest/gtest.h>

namespace autotune::tuner::lane_messages_test {
namespace {

TEST(LaneMessages, WhatALaneIsToldArrivesAsItWasSent) {
    LaneBegin begin;
    begin.each.budget = {.seconds = 3, .trials = 4, .patience = 5, .target_gain = 0.25, .target_us = 6, .trusts_learning = true};
    begin.each.choice = {.families = {"gemm/simt"}, .pins = {{"block_m", 64}}, .named = "some_name"};
    begin.each.seed = 7;
    begin.each.strategy = "random";
    begin.each.finalists = 9;
    begin.each.tie_gap = 0.125;
    begin.each.retune = true;
    begin.each.learning = false;
    begin.each.method = {.l2_warm = true, .streams = 2};
    begin.each.keep_folder = "/kept";
    begin.device = *reference_device("sm_90a");
    begin.uuid = "GPU-1";
    begin.provenance = {.driver = "580.1", .nvrtc = "13.0", .device_name = "NVIDIA H200", .power_limit_w = 700};
    begin.note = "a note";
    begin.workers.cache_folder = "/cache";
    begin.workers.lock_folder = "/locks";
    begin.workers.host_lock_folder = "/host";
    begin.workers.driver_major = 13;
    begin.workers.library_folders = {"/a", "/b"};
    begin.store = {.path = "/db", .create = false, .shipped = {"/shipped"}, .or_read_only = true};
    begin.needs_quiet = true;
    begin.proves_first = false;
    begin.compilers = 11;
    // Reading and writing it again gives the same text.
    const Json sent = write(begin);
    EXPECT_EQ(write(read_begin(Json::parse(sent.dump()))).dump(), sent.dump());
    const LaneBegin read = read_begin(sent);
    EXPECT_EQ(read.each.budget.target_gain, 0.25);
    EXPECT_TRUE(read.each.budget.trusts_learning);
    EXPECT_EQ(read.each.budget.target_us, 6);
    EXPECT_EQ(read.each.choice.pins, begin.each.choice.pins);
    EXPECT_FALSE(read.each.learning);
    EXPECT_EQ(read.device.identity.key(), begin.device.identity.key());
    EXPECT_EQ(read.provenance.device_name, "NVIDIA H200");
    EXPECT_EQ(read.store.path, "/db");
    EXPECT_TRUE(read.store.or_read_only);
}

TEST(LaneMessages, AResultArrivesAsItWasSent) {
    SweepItem item;
    item.problem.op = "add";
    item.state = SweepItem::State::failed;
    item.detail = "no config works";
    item.seconds = 1.5;
    const SweepItem read = read_result(Json::parse(write_result(item).dump()), item.problem);
    EXPECT_EQ(read.state, item.state);
    EXPECT_EQ(read.detail, item.detail);
    EXPECT_EQ(read.seconds, 1.5);
    EXPECT_FALSE(read.result.has_value());
}

}  // namespace
}  // namespace autotune::tuner::lane_messages_test
