#include "db/store/store.h"

#include <gmock/gmock.h>

#include "db/sqlite/schema.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Store, TreatsQuotesInAClassAsData) {
    Store store = memory_store();
    EXPECT_EQ(store.count({.op = "gemm' OR 1=1 --"}), 0);
    EXPECT_THAT(store.list({.class_key = "x'; DROP TABLE winner; --"}), IsEmpty());
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST(Store, SaysWhatIsWrongWithARowThatItDoesNotTake) {
    Store store = memory_store();
    Winner bad = sample_winner();
    bad.extents[0].value = -1;
    EXPECT_EQ(database_error_of([&] { store.put(bad); }),
              "database :memory: cannot take a winner (extent m is -1, outside 0 to 2^40); internal error: invalid row, nothing "
              "was stored");
    StoredTrial trial = sample_trial(1);
    trial.template_identity = "";
    EXPECT_EQ(database_error_of([&] { store.record(sample_problem(), sample_device(), trial); }),
              "database :memory: cannot take a trial (the template's identity is missing or too long); internal error: invalid "
              "row, nothing was stored");
}

TEST(Store, CommitsBufferedTrialsWhenItCloses) {
    const TempFolder folder;
    {
        Store store = Store::open({.path = folder / "a.db"});
        for (std::int64_t at = 0; at < 10; ++at) store.record(sample_problem(), sample_device(), sample_trial(at));
    }
    const Store store = Store::open({.path = folder / "a.db", .read_only = true});
    EXPECT_THAT(store.trials(sample_problem(), sample_device()), SizeIs(10));
}

TEST(Store, CommitsATrialAtOnceWhenTrialsComeSlowly) {
    const TempFolder folder;
    Store store = Store::open({.path = folder / "a.db"});
    store.record(sample_problem(), sample_device(), sample_trial(1));
    const Store reader = Store::open({.path = folder / "a.db", .read_only = true});
    EXPECT_THAT(reader.trials(sample_problem(), sample_device()), SizeIs(1));
}

TEST(Store, DescribesItself) {
    Store store = memory_store();
    store.put(sample_winner());
    EXPECT_THAT(store.describe(), HasSubstr("schema " + std::to_string(schema_version())));
    EXPECT_THAT(store.describe(), HasSubstr(" KiB"));
}

TEST(Store, ReadsTheSameDatabaseReadOnly) {
    const TempFolder folder;
    Store::open({.path = folder / "a.db"}).put(sample_winner());
    Store store = Store::open({.path = folder / "a.db", .read_only = true});
    EXPECT_THAT(store.find(sample_problem(), sample_device()), SizeIs(1));
    EXPECT_THAT(database_error_of([&] { store.put(sample_winner()); }), HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace autotune::db
