#include "tuner/fleet/source/fleet_link.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

namespace autotune::fleet {
namespace {

using std::chrono::milliseconds;

// With the jitter 30 s: a lease of 45 s is renewed in time while the store answers heartbeats alone.
constexpr double kMostRetry_s = 20;

std::string random_uuid() {
    std::random_device device;
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
    for (char& each : text)
        if (each == 'x') each = digits[device() % 16];
    return text;
}

milliseconds from_seconds(double seconds) {
    return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

FleetLink::FleetLink(Options options) : options_(std::move(options)), worker_(random_uuid()), lanes_(options_.lanes.size()) {
    store_ = std::make_unique<FleetStore>(options_.store);
    terms_ = store_->enlist(worker_, options_.host, options_.tool);
    beat_at_ = Clock::now();
    thread_ = std::thread([this] { run(); });
}

FleetLink::~FleetLink() {
    close(std::chrono::seconds(0));
}

double FleetLink::jitter() {
    thread_local std::minstd_rand random{std::random_device{}()};
    return std::uniform_real_distribution<double>(0.5, 1.5)(random);
}

void FleetLink::say(const std::string& text) {
    const std::lock_guard lock(mutex_);
    remarks_.push_back(text);
}

std::vector<std::string> FleetLink::remarks() {
    const std::lock_guard lock(mutex_);
    return std::exchange(remarks_, {});
}

std::optional<Claim> FleetLink::take(std::size_t lane) {
    const std::lock_guard lock(mutex_);
    LaneState& state = lanes_.at(lane);
    if (state.stock) return std::exchange(state.stock, std::nullopt);
    if (!state.asks && claims_) {
        state.asks = true;
        changed_.notify_one();
    }
    return std::nullopt;
}

void FleetLink::give_back(std::size_t lane) {
    const std::lock_guard lock(mutex_);
    LaneState& state = lanes_.at(lane);
    state.asks = false;
    if (!state.stock) return;
    reports_.push_back({*std::exchange(state.stock, std::nullopt), std::nullopt, Loss::released, ""});
    changed_.notify_one();
}

void FleetLink::complete(const Claim& claim, std::string line) {
    const std::lock_guard lock(mutex_);
    reports_.push_back({claim, std::move(line), Loss::released, ""});
    changed_.notify_one();
}

void FleetLink::fail(const Claim& claim, Loss loss, std::string why) {
    const std::lock_guard lock(mutex_);
    reports_.push_back({claim, std::nullopt, loss, std::move(why)});
    changed_.notify_one();
}

void FleetLink::stop_claiming() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(claims_, false)) return;
    for (LaneState& each : lanes_) {
        if (each.stock) reports_.push_back({*std::exchange(each.stock, std::nullopt), std::nullopt, Loss::released, ""});
        each.asks = false;
    }
    changed_.notify_one();
}

std::size_t FleetLink::close(std::chrono::seconds limit) {
    stop_claiming();
    {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, limit, [&] { return reports_.empty(); });
        ends_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    return static_cast<std::size_t>(
        std::count_if(reports_.begin(), reports_.end(), [](const Report& each) { return each.line.has_value(); }));
}

void FleetLink::forget(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [&](const Held& each) { return each.claim.id == id; });
}

void FleetLink::lose_connection(const std::string& why) {
    store_.reset();
    if (!std::exchange(is_away_, true))
        say(why + "; work goes on, winners are kept in the local database and are sent when the store is back");
    retry_at_ = Clock::now() + from_seconds(retry_s_ * jitter());
    retry_s_ = std::min(2 * retry_s_, kMostRetry_s);
}

void FleetLink::connect() {
    store_ = std::make_unique<FleetStore>(options_.store);
    terms_ = store_->enlist(worker_, options_.host, options_.tool);
    beat_at_ = Clock::now();
    if (std::exchange(is_away_, false)) say("the store is back");
}

// The report stays queued until the store has it, so a lost reply repeats it.
void FleetLink::send_report() {
    Report report;
    {
        const std::lock_guard lock(mutex_);
        report = reports_.front();
    }
    std::string refusal;
    try {
        if (!report.line) {
            store_->fail(worker_, report.claim, report.loss, report.why);
        } else if (store_->complete(worker_, report.claim, *report.line) == "late") {
            say("the result of " + report.claim.class_key + " " + report.claim.shape +
                " came after its lease had ended, and is kept as evidence");
        }
    } catch (const StoreError& error) {
        if (error.lost()) throw;
        refusal = error.what();
    }
    {
        const std::lock_guard lock(mutex_);
        reports_.pop_front();
        // An item whose result is refused would stay leased until its lease ends.
        if (!refusal.empty() && report.line) reports_.push_front({report.claim, std::nullopt, Loss::failed, refusal});
        if (refusal.empty() || !report.line)
            std::erase_if(held_, [&](const Held& each) { return each.claim.id == report.claim.id; });
        if (reports_.empty()) changed_.notify_all();
    }
    if (!refusal.empty()) say(refusal + " (" + report.claim.class_key + " " + report.claim.shape + ")");
}

void FleetLink::beat() {
    std::vector<Claim> held;
    {
        const std::lock_guard lock(mutex_);
        for (const Held& each : held_) held.push_back(each.claim);
    }
    beat_at_ = Clock::now() + from_seconds(terms_.lease_s / 4);
    for (const std::int64_t id : store_->beat(worker_, held)) {
        const auto lost = std::find_if(held.begin(), held.end(), [&](const Claim& each) { return each.id == id; });
        forget(id);
        if (lost != held.end())
            say("the lease of " + lost->class_key + " " + lost->shape + " has ended; another worker may tune it too");
    }
    store_->reap();
}

bool FleetLink::claim_for_a_lane() {
    std::size_t lane = 0;
    std::vector<std::int64_t> has;
    {
        const std::lock_guard lock(mutex_);
        const auto now = Clock::now();
        while (lane < lanes_.size() && !(lanes_[lane].asks && lanes_[lane].not_before <= now)) ++lane;
        if (lane == lanes_.size()) return false;
        // Items whose report is unsent are still held.
        for (const Held& each : held_) has.push_back(each.claim.id);
    }
    const FleetLink::Lane& at = options_.lanes[lane];
    std::vector<Claim> claims = store_->claim(worker_, at.gpu, at.device_key, options_.catalogues, has);
    const std::lock_guard lock(mutex_);
    lanes_[lane].not_before = Clock::now();
    if (claims.empty()) lanes_[lane].not_before += from_seconds(terms_.poll_s * jitter());
    for (Claim& each : claims) {
        held_.push_back({each, lane});
        // During the claim, the lane may have become busy, or the worker may have been stopped.
        if (claims_ && lanes_[lane].asks && !lanes_[lane].stock) {
            lanes_[lane].stock = std::move(each);
            lanes_[lane].asks = false;
        } else {
            reports_.push_back({std::move(each), std::nullopt, Loss::released, ""});
        }
    }
    return true;
}

// Does the most urgent task. Returns false if there is nothing to do now.
bool FleetLink::work_once() {
    if (!store_) {
        if (Clock::now() < retry_at_) return false;
        connect();
        return true;
    }
    bool has_reports = false;
    {
        const std::lock_guard lock(mutex_);
        has_reports = !reports_.empty();
    }
    // First, because a store whose disk is full refuses results for a long time and renews leases.
    if (Clock::now() >= beat_at_) {
        beat();
        if (has_reports) return true;  // the next turn sees whether the store is well
    } else if (has_reports) {
        send_report();
    } else if (!claim_for_a_lane()) {
        return false;
    }
    retry_s_ = 1;
    return true;
}

void FleetLink::run() {
    while (true) {
        {
            const std::lock_guard lock(mutex_);
            if (ends_) return;
        }
        bool has_worked = false;
        try {
            has_worked = work_once();
        } catch (const std::exception& error) {
            lose_connection(error.what());
        }
        if (has_worked) continue;
        std::unique_lock lock(mutex_);
        // A short wait, because lanes and lease terms decide what is due next.
        if (!ends_) changed_.wait_for(lock, milliseconds(50));
    }
}

}  // namespace autotune::fleet
