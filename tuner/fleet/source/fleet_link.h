#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tuner/fleet/store/fleet_store.h"

namespace autotune::fleet {

// A worker's connection to its store, on a thread of its own: the one connection of a host. While the store cannot be reached,
// messages wait here. No function that the worker's own thread calls waits for the network.
class FleetLink {
  public:
    struct Lane {
        std::string gpu;  // UUID
        std::string device_key;
    };
    struct Options {
        Connection::Options store;
        std::string host, tool;
        std::vector<Lane> lanes;
        std::vector<std::string> catalogues;  // that this worker has
    };
    // Connects, so that a wrong address or role is seen at once. Throws StoreError.
    explicit FleetLink(Options options);
    ~FleetLink();  // unsent results are lost, and their leases end
    FleetLink(const FleetLink&) = delete;
    FleetLink& operator=(const FleetLink&) = delete;

    // The item that was claimed for the lane; if there is none yet, one is claimed from now on.
    std::optional<Claim> take(std::size_t lane);
    // The lane takes no item for now: an item that was claimed for it goes back to the store.
    void give_back(std::size_t lane);
    void complete(const Claim& claim, std::string line);
    void fail(const Claim& claim, Loss loss, std::string why);
    // Gives back items that no lane has taken, and claims no more.
    void stop_claiming();
    // Messages for the user, since the last call.
    std::vector<std::string> remarks();
    // Sends unsent messages for at most this time. Returns the number of results that remain unsent.
    std::size_t close(std::chrono::seconds limit);

  private:
    using Clock = std::chrono::steady_clock;
    struct LaneState {
        bool asks = false;
        Clock::time_point not_before{};
        std::optional<Claim> stock;
    };
    struct Held {
        Claim claim;
        std::size_t lane = 0;
    };
    struct Report {
        Claim claim;
        std::optional<std::string> line;  // of a result; else a loss
        Loss loss = Loss::released;
        std::string why;
    };

    void run();
    bool work_once();
    void connect();
    void send_report();
    void beat();
    bool claim_for_a_lane();
    void lose_connection(const std::string& why);
    void forget(std::int64_t id);
    void say(const std::string& text);
    double jitter();

    Options options_;
    std::string worker_;
    std::unique_ptr<FleetStore> store_;  // once the thread runs, only the thread uses it
    FleetStore::Terms terms_;
    Clock::time_point beat_at_{}, retry_at_{};
    double retry_s_ = 1;
    bool is_away_ = false;

    std::mutex mutex_;  // guards the rest
    std::condition_variable changed_;
    std::vector<LaneState> lanes_;
    std::vector<Held> held_;  // leases that are held until the store has recorded their end
    std::deque<Report> reports_;
    std::vector<std::string> remarks_;
    bool claims_ = true, ends_ = false;
    std::thread thread_;
};

}  // namespace autotune::fleet
