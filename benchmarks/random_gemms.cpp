// Compares the library's kernels for untuned problems with cublasGemmEx, in a stream (benchmarks/README.md).
#include <time.h>

#include <algorithm>
#include <atomic>
#include <autotune/autotune.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/candidate_text.h"
#include "db/portfolio.h"
#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/legality.h"
#include "src/dispatch/stored/portfolio_choice.h"
#include "src/gpu/library_folders.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "src/records/measuring_method.h"
#include "tuner/fixture/problem_fixture.h"
#include "tuner/measure/meter.h"
#include "tuner/measure/rival_runner.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::random_gemms {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using tuner::ProblemFixture;
using tuner::Runnable;
using tuner::WorkerGpu;

struct Options {
    std::uint64_t seed = 1;
    int problems = 200;
    int threads = 12;
    double seconds = 1e9;  // no problem is begun after this time
    // JSON lines {"family", "config"} of instances to time too, with launch parameters chosen by their families
    std::string instances;
    bool any_launch = false;   // time these also with other launch parameters
    std::size_t offers = 0;    // time this many kernels of the ranking of the portfolio and the defaults
    std::size_t search = 0;    // time this many of the kernels that a tune of the whole spaces would try first
    std::size_t searched = 0;  // do this only for this many problems at the end of the list; 0: for all
    int samples = 5;           // samples of a turn
    // "zero" or "any": draw problems with this beta only, for training. Each layout then has one type, and a third of the
    // problems is not aligned.
    std::string trains;
    std::string shapes;  // read problems as words, one per line, as for `autotune sweep --shapes`; empty: draw random ones
    int n = 0, k = 0;    // the extents of one weight matrix that all problems share, stored along K, in bf16; 0: draw random ones
    bool has_vendor = true;  // cuBLAS is timed
    bool background = true;  // also time first calls under on_miss = background
    std::string database;    // trials are stored in this database
    std::string shipped;     // this database is passed to the library as shipped; empty: none
    std::string cache;       // the folder of the first plans' cubins, which must be empty at the start
    std::string json;        // a line a problem
};

Options parse(int count, char** words) {
    Options options;
    const std::map<std::string, std::function<void(const char*)>> known = {
        {"--seed", [&](const char* word) { options.seed = std::strtoull(word, nullptr, 10); }},
        {"--problems", [&](const char* word) { options.problems = std::atoi(word); }},
        {"--threads", [&](const char* word) { options.threads = std::atoi(word); }},
        {"--seconds", [&](const char* word) { options.seconds = std::atof(word); }},
        {"--instances", [&](const char* word) { options.instances = word; }},
        {"--any-launch", [&](const char* word) { options.any_launch = std::strcmp(word, "1") == 0; }},
        {"--offers", [&](const char* word) { options.offers = std::strtoull(word, nullptr, 10); }},
        {"--search", [&](const char* word) { options.search = std::strtoull(word, nullptr, 10); }},
        {"--searched", [&](const char* word) { options.searched = std::strtoull(word, nullptr, 10); }},
        {"--shapes", [&](const char* word) { options.shapes = word; }},
        {"--samples", [&](const char* word) { options.samples = std::atoi(word); }},
        {"--cache", [&](const char* word) { options.cache = word; }},
        {"--trains", [&](const char* word) { options.trains = word; }},
        {"--weight",
         [&](const char* word) {
             if (std::sscanf(word, "%dx%d", &options.n, &options.k) != 2) throw Error(ErrorCode::usage, "--weight is NxK");
         }},
        {"--vendor", [&](const char* word) { options.has_vendor = std::strcmp(word, "0") != 0; }},
        {"--background", [&](const char* word) { options.background = std::strcmp(word, "0") != 0; }},
        {"--database", [&](const char* word) { options.database = word; }},
        {"--shipped", [&](const char* word) { options.shipped = word; }},
        {"--json", [&](const char* word) { options.json = word; }}};
    for (int i = 1; i < count; i += 2) {
        const auto option = known.find(words[i]);
        if (option == known.end() || i + 1 == count)
            throw Error(ErrorCode::usage, std::string(words[i]) + " is no option with a value of random_gemms");
        option->second(words[i + 1]);
    }
    if (!options.trains.empty() && options.trains != "zero" && options.trains != "any")
        throw Error(ErrorCode::usage, "--trains is zero or any");
    if (options.problems < 1 || options.threads < 1 || options.samples < 1)
        throw Error(ErrorCode::usage, "--problems, --threads and --samples are at least 1");
    return options;
}

// ---- the problems ----

struct Drawn {
    Problem problem;
    GemmProblem asked;  // the problem in the library's form
};

// Draws log-uniform extents, M in 1..16384, N and K in 64..32768. Half of them are multiples of 8, which give rows of whole 16
// bytes.
class Draw {
  public:
    Draw(const Catalogue& catalogue, const Options& options)
        : catalogue_(catalogue), trains_(options.trains), n_(options.n), k_(options.k), random_(options.seed) {}

    // Reads a line such as "96x192x3728 op=hgemm layout=tn beta=zero".
    Drawn read(const std::string& line) const {
        std::istringstream words(line);
        int m = 0, n = 0, k = 0;
        char x = 0;
        words >> m >> x >> n >> x >> k;
        std::map<std::string, std::string> options = {{"op", "hgemm"}, {"layout", "nn"}, {"beta", "zero"}};
        for (std::string word; words >> word;) options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
        const std::string& layout = options["layout"];
        return drawn(m, n, k, {layout[0] == 't', layout[1] == 't', options["op"] == "bgemm", options["beta"] == "zero"}, false);
    }
    Drawn next() {
        if (n_ > 0) return drawn(extent(1, 8192, false), n_, k_, {false, true, true, trains_ != "any"}, true);
        const bool trains = !trains_.empty();
        const bool is_aligned = chance() < (trains ? 0.67 : 0.5);
        const std::int64_t m = extent(1, 16384, false), n = extent(64, 32768, is_aligned), k = extent(64, 32768, is_aligned);
        const bool trans_a = chance() < 0.5, trans_b = chance() < 0.5;
        const bool is_bf16 = trains ? trans_a != trans_b : chance() < 0.5;
        const bool is_zero = trains ? trains_ == "zero" : chance() < 0.5;
        return drawn(m, n, k, {trans_a, trans_b, is_bf16, is_zero}, is_aligned);
    }

  private:
    struct Kind {
        bool trans_a, trans_b, is_bf16, is_zero;
    };
    Drawn drawn(std::int64_t m, std::int64_t n, std::int64_t k, const Kind& kind, bool is_aligned) const {
        GemmProblem asked(kind.trans_a && is_aligned ? (m + 7) / 8 * 8 : m, n, k);
        asked.ab_type = asked.c_type = kind.is_bf16 ? AUTOTUNE_BF16 : AUTOTUNE_F16;
        asked.trans_a = kind.trans_a ? 1 : 0;
        asked.trans_b = kind.trans_b ? 1 : 0;
        asked.beta = kind.is_zero ? AUTOTUNE_BETA_ZERO : AUTOTUNE_BETA_ANY;
        const std::string shape = std::to_string(asked.m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        const std::string layout = std::string(kind.trans_a ? "t" : "n") + (kind.trans_b ? "t" : "n");
        const std::string beta = kind.is_zero ? "zero" : "any";
        return {catalogue_.problem({kind.is_bf16 ? "bgemm" : "hgemm", shape, {{"layout", layout}, {"beta", beta}}}), asked};
    }
    double chance() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
    std::int64_t extent(double low, double high, bool is_aligned) {
        const auto value = static_cast<std::int64_t>(std::exp(std::log(low) + chance() * std::log(high / low)));
        return is_aligned ? std::max<std::int64_t>(8, (value + 4) / 8 * 8) : value;
    }

    const Catalogue& catalogue_;
    std::string trains_;
    int n_, k_;
    std::mt19937_64 random_;
};

// ---- what is timed ----

std::vector<Candidate> read_instances(const std::string& path) {
    std::vector<Candidate> instances;
    std::ifstream file(path);
    if (!path.empty() && !file) throw Error(ErrorCode::usage, "cannot read " + path);
    for (std::string line; std::getline(file, line);) {
        const auto row = nlohmann::ordered_json::parse(line);
        Candidate candidate{row.at("family").get<std::string>(), {}};
        for (const auto& [name, value] : row.at("config").items()) candidate.config.set(name, value.get<std::int64_t>());
        instances.push_back(std::move(candidate));
    }
    return instances;
}

struct Contestant {
    Candidate candidate;
    std::string compile_key;  // everything that determines the code of a kernel
    std::optional<double> predicted_us, us;
};

// Wall time, and processor time of the calling thread. The difference is waiting.
struct HostCost {
    double us = 0, processor_us = 0;
};

double now_us(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

struct Item {
    Drawn drawn;
    std::vector<Contestant> contestants;  // the first one is the library's
    std::string origin;
    double plan_ms = 0;
    std::optional<HostCost> background;  // the cost of its first call with on_miss = background
    std::optional<double> cublas_us;
};

// Some legal launch parameters other than the family's choice, as data for fitting a cost model.
std::vector<Config> other_launches(const Config& chosen, const SearchSpace& rules, std::mt19937_64& random) {
    std::vector<Config> others;
    for (int tries = 0; tries < 24 && others.size() < 2; ++tries) {
        Config config = chosen;
        for (const Parameter& parameter : rules.parameters) {
            const bool matters = parameter.name == "split_k" || parameter.name == "group" || parameter.name == "raster";
            if (parameter.kind == ParameterKind::launch && matters && random() % 2 == 0)
                config.set(parameter.name, parameter.values[random() % parameter.values.size()]);
        }
        if (config != chosen && rules.contains(config)) others.push_back(std::move(config));
    }
    return others;
}

class Bench {
  public:
    explicit Bench(const Options& options)
        : options_(options),
          driver_(gpu::Driver::load()),
          gpu_{driver_, gpu::Context(driver_, 0), gpu::Stream(driver_), driver_->device(0), gpu::library_folders(variable)} {
        const char* path = variable("AUTOTUNE_NVRTC");
        nvrtc_ = gpu::Nvrtc::load({path == nullptr ? "" : path, gpu_.library_folders, 0});
        const auto rendered = jit::render_harness(catalogue_, target());
        harness_library_ = load(compile(rendered));
        harness_.emplace(driver_, harness_library_, gpu_.stream);
        meter_.emplace(gpu_, harness_library_);
        if (options_.has_vendor) vendor_.emplace(gpu_);
    }
    void run();

  private:
    static const char* variable(const char* name) { return std::getenv(name); }
    jit::Target target() const { return {gpu_.device.arch(), nvrtc_->version()}; }
    jit::Compiled compile(const jit::Rendered& rendered) const {
        jit::CompileResult result = jit::compile(*nvrtc_, jit::CubinCache(options_.cache), rendered);
        if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure);
        return std::move(*result.compiled);
    }
    std::shared_ptr<const gpu::Library> load(const jit::Compiled& compiled) const {
        return std::make_shared<const gpu::Library>(driver_, compiled.cubin);
    }
    // Runs body(i) for each i, on `threads` threads that use the context.
    void on_threads(std::size_t count, const std::function<void(std::size_t)>& body) const {
        std::atomic<std::size_t> next{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < options_.threads; ++t) {
            threads.emplace_back([&] {
                gpu_.context.make_current();
                for (std::size_t i = next++; i < count; i = next++) body(i);
            });
        }
        for (std::thread& thread : threads) thread.join();
    }

    void plan_all();
    void call_in_background();
    void add_contestants();
    std::vector<Candidate> ranked_offers(const Problem& problem, std::mt19937_64& random) const;
    void compile_all();
    void time_all();
    void time_item(Item& item, db::Store* store);
    void report() const;
    double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

    Clock::time_point begun_ = Clock::now();
    Options options_;
    std::shared_ptr<const gpu::Driver> driver_;
    WorkerGpu gpu_;
    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    std::shared_ptr<const gpu::Library> harness_library_;
    std::optional<tuner::Harness> harness_;
    std::optional<tuner::Meter> meter_;
    std::optional<tuner::RivalRunner> vendor_;
    std::vector<Item> items_;
    struct Code {
        jit::Rendered rendered;
        std::size_t first_item = 0;                // the first item that needs this kernel
        std::optional<jit::Compiled> compiled;     // empty if it failed
        std::atomic<bool> is_done{false};          // compiled or failed
        std::optional<ProblemFixture::Code> code;  // once it is loaded
    };
    std::map<std::string, Code> codes_;  // by compile key
    std::vector<db::Portfolio> portfolios_;
    std::atomic<bool> is_over_{false};  // nothing more is compiled
};

// Lets the library make all plans, on many threads at once and from a cold cache, like a server's first calls.
void Bench::plan_all() {
    autotune::Options settings;
    settings.database = "";
    settings.cache_folder = options_.cache.c_str();
    settings.shipped = options_.shipped.c_str();
    const Handle handle(settings);
    Draw draw(catalogue_, options_);
    std::ifstream shapes(options_.shapes);
    if (!options_.shapes.empty() && !shapes) throw Error(ErrorCode::usage, "cannot read " + options_.shapes);
    for (std::string line; std::getline(shapes, line);) items_.push_back({draw.read(line), {}, "", 0, {}, {}});
    for (int i = 0; i < options_.problems && options_.shapes.empty(); ++i) items_.push_back({draw.next(), {}, "", 0, {}, {}});
    const double begun = seconds();
    on_threads(items_.size(), [&](std::size_t i) {
        Item& item = items_[i];
        const auto from = Clock::now();
        const GemmPlan plan(handle, item.drawn.asked);
        item.plan_ms = 1e3 * std::chrono::duration<double>(Clock::now() - from).count();
        item.origin = autotune_origin_string(plan.origin());
        item.contestants.push_back({candidate_of(plan.candidate()), "", {}, {}});
    });
    std::vector<double> ms;
    for (const Item& item : items_) ms.push_back(item.plan_ms);
    std::sort(ms.begin(), ms.end());
    std::printf("%zu first plans on %d threads: %.1f s; one takes %.1f ms in the median, %.1f ms at most\n", ms.size(),
                options_.threads, seconds() - begun, ms[ms.size() / 2], ms.back());
    std::vector<double> again;
    for (const Item& item : items_) {
        const auto from = Clock::now();
        const GemmPlan plan(handle, item.drawn.asked);
        again.push_back(1e6 * std::chrono::duration<double>(Clock::now() - from).count());
    }
    std::printf("a plan that is known: %.2f us in the median\n", stats::median(again));
}

// Makes first calls under on_miss = background, of which none waits for a compiler.
void Bench::call_in_background() {
    autotune::Options settings;
    settings.database = "";
    settings.cache_folder = "";
    settings.shipped = options_.shipped.c_str();
    settings.on_miss = AUTOTUNE_ON_MISS_BACKGROUND;
    const double begun = seconds();
    const Handle handle(settings);
    const double created = seconds();
    constexpr std::size_t kRoom = std::size_t{1} << 30;  // the space for A and B together, and the same for C
    const gpu::Buffer inputs(driver_, kRoom), output(driver_, kRoom);
    const auto address = [](const gpu::Buffer& buffer, std::size_t offset) {
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.address() + offset));
    };
    std::vector<double> us;
    std::size_t refused = 0;
    for (Item& item : items_) {
        const GemmProblem& asked = item.drawn.asked;
        const auto bytes = [](std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns) * 2; };
        const std::size_t of_a = bytes(asked.m, asked.k), of_b = bytes(asked.k, asked.n);
        const std::size_t aligned = (of_a + 255) / 256 * 256;
        if (aligned + of_b > kRoom || bytes(asked.m, asked.n) > kRoom) continue;
        const float alpha = 1, beta = asked.beta == AUTOTUNE_BETA_ZERO ? 0.0F : 1.0F;
        const double from_us = now_us(CLOCK_MONOTONIC), from_processor_us = now_us(CLOCK_THREAD_CPUTIME_ID);
        const autotune_status status =
            autotune_tuned_gemm(handle.get(), &asked, &alpha, address(inputs, 0), address(inputs, aligned), &beta,
                                address(output, 0), gpu_.stream.handle());
        item.background = {now_us(CLOCK_MONOTONIC) - from_us, now_us(CLOCK_THREAD_CPUTIME_ID) - from_processor_us};
        us.push_back(item.background->us);
        refused += status == AUTOTUNE_NOT_PLANNED ? 1 : 0;
        gpu_.stream.synchronize();
    }
    std::sort(us.begin(), us.end());
    if (us.empty()) return;
    std::printf(
        "on_miss background: created in %.1f s; %zu first calls take %.0f us in the median, %.0f us at the 99th percentile, "
        "%.0f us at most; %zu had no kernel yet\n",
        created - begun, us.size(), us[us.size() / 2], us[us.size() * 99 / 100], us.back(), refused);
}

// The candidate that the library would choose from the portfolio and the families' defaults, and some others predicted within
// three times of it, with which the choice is compared.
std::vector<Candidate> Bench::ranked_offers(const Problem& problem, std::mt19937_64& random) const {
    std::vector<Candidate> offers;
    if (const db::Portfolio* known = dispatch::portfolio_for(portfolios_, problem.class_key(), gpu_.device.arch()))
        offers = known->candidates;
    for (Candidate& each : family_defaults(catalogue_, problem, gpu_.device).candidates) offers.push_back(std::move(each));
    std::vector<OfferRanking::Ranked> ranked = OfferRanking(catalogue_, problem, gpu_.device).best(offers, offers.size());
    const auto is_far = [&](const OfferRanking::Ranked& each) { return each.predicted_us > 3 * ranked.front().predicted_us; };
    ranked.erase(std::find_if(ranked.begin(), ranked.end(), is_far), ranked.end());
    // If rows are not aligned, each problem has its own kernels, and only half as many can be compiled.
    const std::size_t wanted = problem.class_key().ends_with("align=16,16,16") ? options_.offers : (options_.offers + 1) / 2;
    const std::size_t first = std::min(wanted, ranked.size());
    std::shuffle(ranked.begin() + static_cast<std::ptrdiff_t>(first), ranked.end(), random);
    ranked.resize(std::min(ranked.size(), wanted + wanted / 2));
    std::vector<Candidate> chosen;
    for (OfferRanking::Ranked& each : ranked) chosen.push_back(std::move(each.candidate));
    return chosen;
}

void Bench::add_contestants() {
    const std::vector<Candidate> instances = read_instances(options_.instances);
    if (options_.offers > 0) {
        const auto fail = [](const std::string& text) { throw Error(ErrorCode::database, text); };
        portfolios_ = db::read_portfolios(db::portfolio_path(options_.shipped), fail);
    }
    std::mutex mutex;
    on_threads(items_.size(), [&](std::size_t i) {
        Item& item = items_[i];
        const Problem& problem = item.drawn.problem;
        std::mt19937_64 random(options_.seed * 1000 + i);
        std::map<std::string, SearchSpace> rules;
        std::map<std::string, Relauncher> relaunch;
        const auto add = [&](const std::string& family, const Config& config) {
            Candidate candidate{family, rules.at(family).canonical(config)};
            const bool is_new = std::none_of(item.contestants.begin(), item.contestants.end(),
                                             [&](const Contestant& known) { return known.candidate == candidate; });
            if (is_new && rules.at(family).contains(candidate.config)) item.contestants.push_back({candidate, "", {}, {}});
        };
        std::map<std::string, std::pair<double, Config>> defaults;
        double least_us = std::numeric_limits<double>::infinity();
        for (const Family* family : catalogue_.families_of(problem.op)) {
            if (family->refuses(problem, gpu_.device)) continue;
            const std::string name(family->name());
            rules.emplace(name, family->rules(problem, gpu_.device));
            relaunch.emplace(name, family->relauncher(problem, gpu_.device));
            if (instances.empty()) continue;
            const Config config = family->default_config(problem, gpu_.device);
            const double us = family->predict_us(problem, config, gpu_.device).value_or(0);
            least_us = std::min(least_us, us);
            defaults.emplace(name, std::pair{us, config});
        }
        // Kernels that are predicted far behind take long and give no information.
        for (const auto& [name, each] : defaults)
            if (each.first < 2.5 * least_us) add(name, each.second);
        const bool is_aligned = item.drawn.problem.class_key().ends_with("align=16,16,16");
        std::size_t position = 0;
        for (const Candidate& instance : instances) {
            ++position;
            if (!rules.contains(instance.family)) continue;
            if (!is_aligned && (position + i) % 6 != 0) continue;  // each of these needs a compilation of its own
            const Config chosen = relaunch.at(instance.family)(instance.config).of(instance.config);
            add(instance.family, chosen);
            if (!options_.any_launch || !is_aligned) continue;
            for (const Config& other : other_launches(chosen, rules.at(instance.family), random)) add(instance.family, other);
        }
        const bool is_searched = options_.searched == 0 || i + options_.searched >= items_.size();
        if (options_.offers > 0 && is_searched)
            for (const Candidate& each : ranked_offers(problem, random)) add(each.family, each.config);
        if (options_.search > 0 && is_searched) {
            tuner::Candidates candidates(catalogue_, problem, gpu_.device, {});
            candidates.predict_all();
            std::vector<std::size_t> first = candidates.all_seeds({});
            const auto us = [&](std::size_t point) { return candidates.predict_us(point).value_or(0); };
            std::stable_sort(first.begin(), first.end(), [&](std::size_t a, std::size_t b) { return us(a) < us(b); });
            for (std::size_t j = 0; j < std::min(first.size(), options_.search); ++j) {
                const Candidate each = candidates.at(first[j]);
                add(each.family, each.config);
            }
        }
        for (Contestant& contestant : item.contestants) {
            const Family& family = *catalogue_.find_family(contestant.candidate.family);
            contestant.predicted_us = family.predict_us(problem, contestant.candidate.config, gpu_.device);
            const SearchSpace& space = rules.at(contestant.candidate.family);
            jit::Rendered rendered = jit::render(catalogue_, family, problem, space, contestant.candidate.config, target());
            contestant.compile_key = rendered.identity;
            const std::lock_guard lock(mutex);
            const auto [entry, is_new] = codes_.try_emplace(contestant.compile_key);
            Code& code = entry->second;
            code.first_item = is_new ? i : std::min(code.first_item, i);
            if (is_new) code.rendered = std::move(rendered);
        }
    });
}

// Compiles in the order of timing, which runs at the same time.
void Bench::compile_all() {
    std::vector<Code*> all;
    for (auto& [key, code] : codes_) all.push_back(&code);
    std::stable_sort(all.begin(), all.end(), [](const Code* a, const Code* b) { return a->first_item < b->first_item; });
    const double begun = seconds();
    std::atomic<int> failed{0}, left_out{0};
    on_threads(all.size(), [&](std::size_t i) {
        Code& code = *all[i];
        try {
            if (is_over_ || seconds() > options_.seconds)
                ++left_out;
            else
                code.compiled = compile(code.rendered);
        } catch (const Error& error) {
            ++failed;
        }
        code.rendered.source.clear();
        code.is_done = true;
        code.is_done.notify_all();
    });
    std::printf("%zu kernels compiled in %.1f s, %d failed\n", all.size() - static_cast<std::size_t>(left_out), seconds() - begun,
                failed.load());
}

// Times all contestants twice, in turn, and the vendor each time. The lower median counts.
void Bench::time_item(Item& item, db::Store* store) {
    ProblemFixture bench(gpu_, *harness_, catalogue_.op_of(item.drawn.problem), item.drawn.problem, ProblemFixture::Options{});
    Runnable cublas;
    const bool has_vendor = vendor_ && vendor_->prepare("cublas", bench, *meter_, cublas).empty();
    std::vector<std::optional<Runnable>> runnables;
    for (Contestant& contestant : item.contestants) {
        runnables.emplace_back();
        Code& code = codes_.at(contestant.compile_key);
        if (!code.compiled) continue;
        if (!code.code) code.code = ProblemFixture::Code{load(*code.compiled), code.rendered.symbol};
        const Family& family = *catalogue_.find_family(contestant.candidate.family);
        try {
            runnables.back().emplace(
                bench.bind(*code.code, family.plan(item.drawn.problem, contestant.candidate.config, gpu_.device)));
        } catch (const gpu::DriverError& error) {
            if (error.severity() != gpu::Severity::refused) throw;
        }
    }
    const auto time = [&](Runnable& runnable, std::optional<double>& best) {
        const double us = stats::median(meter_->sample(bench, runnable, {.samples = options_.samples}));
        best = std::min(best.value_or(us), us);
    };
    for (int turn = 0; turn < 2; ++turn) {
        if (has_vendor) time(cublas, item.cublas_us);
        for (std::size_t i = 0; i < runnables.size(); ++i)
            if (runnables[i]) time(*runnables[i], item.contestants[i].us);
    }
    if (store == nullptr) return;
    for (const Contestant& contestant : item.contestants) {
        if (!contestant.us) continue;
        const Family& family = *catalogue_.find_family(contestant.candidate.family);
        StoredTrial row;
        row.trial.candidate = contestant.candidate;
        row.trial.timing = Timing{*contestant.us, *contestant.us, *contestant.us, *contestant.us, 2 * options_.samples};
        row.template_identity = catalogue_.template_identity(family);
        row.nvrtc = nvrtc_->version();
        row.method = MeasuringMethod{}.text();
        store->record(item.drawn.problem, gpu_.device.identity, row);
    }
}

void Bench::time_all() {
    std::optional<db::Store> store;
    if (!options_.database.empty()) store = db::Store::open({.path = options_.database});
    std::ofstream json(options_.json);
    for (Item& item : items_) {
        for (const Contestant& each : item.contestants) codes_.at(each.compile_key).is_done.wait(false);
        if (seconds() > options_.seconds) break;
        time_item(item, store ? &*store : nullptr);
        Json line{{"problem", item.drawn.problem.key()}, {"origin", item.origin}, {"plan_ms", item.plan_ms}};
        line["device"] = {{"name", gpu_.device.identity.name}, {"bus_bits", gpu_.device.identity.bus_bits}};
        line["cublas_us"] = item.cublas_us ? Json(*item.cublas_us) : Json();
        if (item.background) {
            line["background_us"] = item.background->us;
            line["background_processor_us"] = item.background->processor_us;
        }
        for (const Contestant& each : item.contestants) {
            line["contestants"].push_back({{"candidate", each.candidate.to_string()},
                                           {"predicted_us", each.predicted_us ? Json(*each.predicted_us) : Json()},
                                           {"us", each.us ? Json(*each.us) : Json()}});
        }
        if (json.is_open()) json << line.dump() << std::endl;
    }
}

struct Ratios {
    std::vector<double> of_vendor, regrets;
    std::string worst;
    double worst_ratio = 1e9;

    void add(const Item& item) {
        if (!item.contestants.front().us || !item.cublas_us) return;
        const double own = *item.contestants.front().us, ratio = *item.cublas_us / own;
        of_vendor.push_back(ratio);
        if (ratio < worst_ratio) worst_ratio = ratio, worst = item.drawn.problem.key();
        double best = own;
        for (const Contestant& each : item.contestants) best = std::min(best, each.us.value_or(own));
        regrets.push_back(own / best - 1);
    }
    void print(const std::string& name) const {
        if (of_vendor.empty()) return;
        double logs = 0;
        for (const double ratio : of_vendor) logs += std::log(ratio);
        std::vector<double> sorted = of_vendor;
        std::sort(sorted.begin(), sorted.end());
        std::printf("%-24s %8zu %8.3f %8.3f %8.3f %8.1f %8.1f\n", name.c_str(), sorted.size(),
                    std::exp(logs / static_cast<double>(sorted.size())), sorted.front(), sorted[sorted.size() / 10],
                    100 * stats::median(regrets), 100 * *std::max_element(regrets.begin(), regrets.end()));
    }
};

void Bench::report() const {
    std::map<std::string, Ratios> groups;
    Ratios all;
    for (const Item& item : items_) {
        const std::string key = item.drawn.problem.class_key();
        const bool is_aligned = key.ends_with("align=16,16,16");
        all.add(item);
        groups[is_aligned ? "rows of 16 bytes" : "other rows"].add(item);
        groups["origin " + item.origin].add(item);
        groups["layout " + item.drawn.problem.word("layout")].add(item);
        const std::int64_t m = item.drawn.problem.extent("m");
        groups[m <= 64 ? "M to 64" : m <= 1024 ? "M to 1024" : "M above 1024"].add(item);
    }
    std::printf("\n%-24s %8s %8s %8s %8s %8s %8s\n", "cublasGemmEx / library", "problems", "geomean", "least", "p10", "regret%",
                "most%");
    for (const auto& [name, ratios] : groups) ratios.print(name);
    all.print("all");
    std::set<std::string> taken;
    for (const Item& item : items_) taken.insert(item.contestants.front().compile_key);
    std::printf("%zu different kernels serve the %zu problems\n", taken.size(), items_.size());
    std::printf("least: %s; seed %llu, %.0f s\n", all.worst.c_str(), static_cast<unsigned long long>(options_.seed), seconds());
}

void Bench::run() {
    plan_all();
    if (options_.background) call_in_background();
    add_contestants();
    std::thread compiler([this] { compile_all(); });
    try {
        time_all();
    } catch (...) {
        is_over_ = true;
        compiler.join();
        throw;
    }
    compiler.join();
    report();
}

}  // namespace
}  // namespace autotune::random_gemms

int main(int count, char** words) {
    try {
        autotune::random_gemms::Bench(autotune::random_gemms::parse(count, words)).run();
        return 0;
    } catch (const autotune::Error& error) {
        std::fprintf(stderr, "random_gemms: %s\n", error.what());
        return error.code() == autotune::ErrorCode::usage ? 2 : error.code() == autotune::ErrorCode::no_gpu ? 3 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "random_gemms: %s\n", error.what());
        return 1;
    }
}
