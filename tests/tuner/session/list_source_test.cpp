#include "tuner/session/lanes/list_source.h"

#include <gtest/gtest.h>

namespace autotune::tuner::list_source_test {
namespace {

class ListSourceTest : public ::testing::Test {
  protected:
    ListSourceTest() {
        for (const char* uuid : {"GPU-0", "GPU-1"}) {
            LaneGpu& gpu = gpus_.emplace_back();
            gpu.device = *reference_device("sm_90a");
            gpu.uuid = uuid;
        }
        for (const char* shape : {"64x64x64", "256x64x64", "128x64x64"})
            problems_.push_back(catalogue_.problem({.op = "hgemm", .shape = shape, .options = {}}));
        problems_.push_back(catalogue_.problem({.op = "bgemm", .shape = "192x64x64", .options = {}}));
    }

    // The shape that the lane gets, or "" if it gets none.
    std::string take(ListSource& source, std::size_t lane, bool is_ahead = false) {
        const auto item = source.take({lane, gpus_[lane].uuid, gpus_[lane].device, classes_[lane]}, is_ahead);
        if (!item) return "";
        classes_[lane] = item->problem.class_key();
        ids_[lane] = item->id;
        return item->problem.shape();
    }
    LaneView view(std::size_t lane) const { return {lane, gpus_[lane].uuid, gpus_[lane].device, classes_[lane]}; }
    ListSource source(const SweepOptions& options = {}) { return {problems_, gpus_, options, services_, nullptr}; }

    Catalogue catalogue_ = Catalogue::embedded();
    TuneServices services_{.catalogue = catalogue_, .device = {}, .device_uuid = "", .provenance = {}, .workers = {}};
    std::vector<LaneGpu> gpus_;
    std::vector<Problem> problems_;
    std::string classes_[2];
    std::size_t ids_[2] = {};
};

TEST_F(ListSourceTest, TheLongestComesFirstAndALaneStaysWithItsClass) {
    ListSource list = source();
    EXPECT_EQ(take(list, 0), "256x64x64");
    EXPECT_EQ(take(list, 1), "192x64x64") << "a class that no lane has";
    EXPECT_EQ(take(list, 0), "128x64x64");
    EXPECT_EQ(take(list, 1), "64x64x64") << "nothing of its class is left";
    EXPECT_EQ(take(list, 0), "");
    EXPECT_TRUE(list.is_exhausted());
}

TEST_F(ListSourceTest, WithLimitedTimeTheListsOrderHolds) {
    ListSource list = source({.each = {}, .total_seconds = 3600});
    EXPECT_EQ(take(list, 0), "64x64x64");
    EXPECT_EQ(take(list, 1), "256x64x64");
    EXPECT_EQ(take(list, 1), "128x64x64");
}

TEST_F(ListSourceTest, TheLastItemsAreNotPreparedAhead) {
    ListSource list = source();
    take(list, 0);
    EXPECT_NE(take(list, 0, true), "") << "three wait, for two lanes";
    EXPECT_NE(take(list, 0, true), "") << "two wait";
    EXPECT_EQ(take(list, 0, true), "") << "the last one is for the other lane";
    EXPECT_NE(take(list, 1), "");
}

TEST_F(ListSourceTest, WithoutALaneNothingCanBeTaken) {
    ListSource list = source();
    list.lane_out(view(0));
    EXPECT_FALSE(list.is_exhausted());
    list.lane_out(view(1));
    EXPECT_TRUE(list.is_exhausted());
    EXPECT_FALSE(list.all_settled());
    for (const SweepItem& item : list.finish()) EXPECT_EQ(item.detail, "no GPU of this kind is left");
}

TEST_F(ListSourceTest, AnItemThatEndedTwoLanesHasFailed) {
    ListSource list = source();
    take(list, 0);
    list.failed(ids_[0], WorkSource::Failure::lost_twice, "its process was killed");
    const std::vector<SweepItem> items = list.finish();
    EXPECT_EQ(items[1].state, SweepItem::State::failed);
    EXPECT_EQ(items[1].detail, "two lanes ended in the middle of it, the last one because its process was killed");
}

}  // namespace
}  // namespace autotune::tuner::list_source_test
