#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/fleet/store/libpq.h"

namespace autotune::fleet {

// An item of the queue that this process holds.
struct Claim {
    std::int64_t id = 0, fence = 0;
    std::string class_key, shape;
    std::int64_t calls = 0;
};

// A problem that a program or an operator asked for.
struct Wanted {
    std::string class_key, shape, device_key, catalogue;
    std::int64_t calls = 1;
};
struct WantReport {
    std::int64_t added = 0, raised = 0, known = 0, refused = 0;
};
inline constexpr std::size_t kMostWanted = 1000;  // of one call
inline constexpr int kPriorityOfMisses = 100, kPriorityOfOperators = 400;

struct StoredLine {
    std::int64_t id = 0;  // the id of the result, or the number of the line in its label
    std::string line;
};

// `name` is the label's name, even if the label was requested by a channel.
struct LabelFacts {
    std::string name, digest, note;
    std::int64_t rows = 0;
};

// How a kernel does beside another library's, as the patch of a program found it.
struct PostedVerdict {
    std::string problem, device, rival;
    double in_stream = 0, in_graphs = 0;
    std::string measured;  // UTC, ISO 8601
};
struct VerdictReport {
    std::int64_t added = 0, known = 0, refused = 0;
};

struct StoreVersion {
    int version = 0;  // 0: no schema
    int oldest = 0;
};

enum class Loss { released, failed, crashed, impossible };
std::string_view to_string(Loss loss);

// The functions of a store, on one connection. Members throw StoreError; after a lost connection the caller makes a new object.
// Not thread-safe. Each call that changes something may be repeated after a lost reply.
class FleetStore {
  public:
    // Throws StoreError, also if the store's schema and this program do not fit.
    explicit FleetStore(const Connection::Options& options);
    // Without the check of the schema: for migrate and doctor.
    struct Unchecked {};
    FleetStore(const Connection::Options& options, Unchecked) : connection_(options) {}

    // For workers: their role.
    struct Terms {
        double lease_s = 45, poll_s = 10;
    };
    Terms enlist(const std::string& worker, const std::string& host, const std::string& tool);
    // Items that the store still assigns to this GPU although `has` lacks them; otherwise the best item for it; otherwise none.
    std::vector<Claim> claim(const std::string& worker, const std::string& gpu, const std::string& device_key,
                             const std::vector<std::string>& catalogues, const std::vector<std::int64_t>& has);
    // Renews the leases; returns the ids of items that no longer belong to this worker.
    std::vector<std::int64_t> beat(const std::string& worker, const std::vector<Claim>& held);
    // "done", "late" (another worker has the item, so the result is kept as evidence) or "known".
    std::string complete(const std::string& worker, const Claim& claim, const std::string& line);
    std::string fail(const std::string& worker, const Claim& claim, Loss loss, const std::string& why);
    std::int64_t reap();

    // For clients.
    WantReport want(const std::vector<Wanted>& wanted, int priority);
    // Of one problem, device and rival the store keeps the newest.
    VerdictReport post_verdicts(const std::vector<PostedVerdict>& verdicts);
    std::optional<LabelFacts> label(const std::string& name);
    std::vector<StoredLine> label_lines(const std::string& label, std::int64_t after, int most);

    // For curators.
    std::vector<StoredLine> winners(std::int64_t after, int most);
    // All of them.
    std::vector<PostedVerdict> verdicts();
    // Freezes the lines in their order, in one transaction. A label never changes.
    LabelFacts freeze(const std::string& label, const std::string& note, const std::vector<StoredLine>& lines);
    // Returns the label that the channel showed before.
    std::string publish(const std::string& channel, const std::string& label, const std::string& note);
    // Returns the problem whose result is no longer used.
    std::string withdraw(std::int64_t result, const std::string& why);
    std::int64_t retry();
    // A view of the store: queue, failures, workers, winners, labels, channels.
    Rows table(const std::string& view, const std::vector<std::string>& columns, std::size_t limit);

    // For the owner.
    StoreVersion version();
    // Applies the steps that are missing, each in one transaction, and grants the roles their rights. Returns the names of the
    // steps. `tool`: version of this program.
    std::vector<std::string> migrate(const std::string& tool);

    Connection& connection() { return connection_; }

  private:
    void check_version();
    Connection connection_;
};

// The SQL that `migrate` would run.
std::string migration_text(int from);

}  // namespace autotune::fleet
