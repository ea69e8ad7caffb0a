// Faults of the machine around a tune: compiler, disk, database, cache, driver, other processes, card. Numbered as in README.md.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <set>

#include "db/sqlite/sqlite_handle.h"
#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "tests/db/sample.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tests/tuner/session/fake_tune.h"
#include "tuner/session/tune.h"

namespace autotune::machine_faults_fake_test {
namespace {

namespace fs = std::filesystem;
using db::test::read_file;
using db::test::write_file;
using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using fake::Use;
using test::Json;
using test::result_of;
using testing::AnyOf;
using testing::HasSubstr;

// ---- F6: compilers ----

std::string first_block_of_simt() {
    const Catalogue& embedded = test::embedded_catalogue();
    std::string head = embedded.text(*embedded.find_family("gemm/simt"));
    head.resize(head.find("// ---- end of parameters ----"));
    return head + "// ---- end of parameters ----\n";
}

// A source with gemm/simt's parameters. Depending on vec it has 2^30 templates, 2^30 words by macros, 200,000 parentheses (which
// NVRTC accepts), or an endless log.
std::string bombs() {
    std::string head = first_block_of_simt();
    const std::string vec = "constexpr int vec = ${vec};";
    head.replace(head.find(vec), vec.size(), "#define WHICH ${vec}");
    std::string body =
        "#if WHICH == 1\n"
        "template <int depth, long path> struct Bomb {\n"
        "    static constexpr long value = Bomb<depth - 1, 2 * path>::value + Bomb<depth - 1, 2 * path + 1>::value;\n};\n"
        "template <long path> struct Bomb<0, path> { static constexpr long value = path; };\n"
        "constexpr long bomb = Bomb<30, 1>::value;\n"
        "#elif WHICH == 2\n#define LAUGH0 +1\n";
    for (int i = 1; i <= 30; ++i) {
        const std::string before = "LAUGH" + std::to_string(i - 1);
        body += "#define LAUGH" + std::to_string(i) + " " + before + " " + before + "\n";
    }
    body += "constexpr int laughs = LAUGH30;\n#elif WHICH == 4\nconstexpr int deep = ";
    body += std::string(200'000, '(') + "1" + std::string(200'000, ')') + ";\n#else\n";
    for (int line = 0; line < 5000; ++line) body += "#warning this log has no end, and says the same again and again and again\n";
    return head + body + "#endif\nextern \"C\" __global__ void AUTOTUNE_ENTRY()(const In*, const In*, Out*) {}\n";
}

fs::path write_template(const Sandbox& sandbox, const std::string& text) {
    fs::create_directories(sandbox.folder() / "templates/gemm/simt");
    write_file(sandbox.folder() / "templates/gemm/simt/kernel.cuh", text);
    return sandbox.folder() / "templates";
}

TEST(Faults, F6ATemplateCannotIncludeWhatIsNotItsOwn) {
    const Sandbox sandbox;
    const std::string fifo = sandbox.folder() / "fifo";  // a compiler that opened the FIFO would wait forever
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    const fs::path templates = write_template(sandbox, first_block_of_simt() + "#include \"" + fifo + "\"\n");
    const Outcome said = sandbox.autotune({"compile", "--op", "hgemm", "--shape", "64x64x64", "--arch", "sm_90a", "--family",
                                           "gemm/simt", "--templates", templates.string()},
                                          {.driver = Use::none, .nvrtc = Use::real, .timeout_s = 20});
    EXPECT_EQ(said.exit_code, 1) << said.err;
    EXPECT_THAT(said.err, HasSubstr("there is no header"));
}

TEST(Faults, F6ACompilerThatNeverEndsCostsOneCandidate) {
    const Sandbox sandbox;
    const fs::path templates = write_template(sandbox, bombs());
    const Catalogue catalogue = Catalogue::from_directory(templates);
    tuner::TuneServices services{catalogue, nullptr, *reference_device("sm_90a"), "", {}, {}, nullptr, nullptr};
    services.workers.binary = fake::autotune_binary();
    services.workers.templates_folder = templates;
    const gpu::Nvrtc::Search compiler = autotune::test::nvrtc_search();
    services.workers.nvrtc_path = compiler.explicit_path;
    services.workers.library_folders = compiler.folders;
    services.workers.compile_cpu_s = 2;
    tuner::CompileOptions options;
    options.choice.families = {"gemm/simt"};
    options.choice.pins = {{"smem", 1},     {"block_m", 64}, {"block_n", 64}, {"thread_m", 4}, {"thread_n", 4}, {"block_k", 16},
                           {"smem_pad", 0}, {"packed", 0},   {"bcf", 0},      {"stages", 1},   {"cp_async", 0}};
    std::string why;
    if (autotune::test::nvrtc_or_skip(why) == nullptr) GTEST_SKIP() << why;
    const auto rows = tuner::compile_ranked(catalogue.problem({"hgemm", "256x256x256", {}}), options, services);
    ASSERT_EQ(rows.size(), 4U);
    for (const tuner::CompiledRow& row : rows) {
        const bool is_bomb = row.candidate.config["vec"] <= 2;
        EXPECT_EQ(to_string(row.status), is_bomb ? "compile_failed" : "ok") << row.candidate.to_string() << row.detail;
        EXPECT_LT(row.detail.size(), std::size_t{70'000});
    }
}

// A binary that the machine cannot run, or that is not autotune.
TEST(Faults, F6CompileWorkersThatExitDuringStartUpEndTheCommand) {
    const Catalogue catalogue = Catalogue::embedded();
    tuner::TuneServices services{catalogue, nullptr, *reference_device("sm_90a"), "", {}, {}, nullptr, nullptr};
    services.workers.binary = "/bin/false";
    tuner::CompileOptions options;
    options.choice.families = {"gemm/simt"};
    try {
        tuner::compile_ranked(catalogue.problem({"hgemm", "256x256x256", {}}), options, services);
        ADD_FAILURE() << "workers of /bin/false compiled";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::system);
        EXPECT_STREQ(error.what(), "compile workers exit during start-up: the compiler process exited with 1");
    }
}

// ---- F7: a full disk ----

TEST(Faults, F7AFullDiskIsExit5AndLosesNothing) {
    Sandbox sandbox;
    result_of(sandbox.autotune(test::small_tune("6s")));
    // No file may exceed 4 KiB, so the database can be read but cannot grow, as on a full disk.
    const Outcome full =
        sandbox.run({"/bin/bash", "-c", "ulimit -f 4; exec \"$0\" --op hgemm --shape 64x64x64 --family gemm/simt --budget 5s,2t",
                     fake::autotune_binary()});
    EXPECT_EQ(full.exit_code, 5) << full.err;
    EXPECT_THAT(full.err, HasSubstr("autotune.db"));
    EXPECT_THAT(full.out, HasSubstr("winner     gemm/simt")) << "a found winner is printed";
    EXPECT_THAT(full.err, HasSubstr("autotune import")) << "and can be stored later";
    EXPECT_EQ(sandbox.autotune({"verify", "--database-only"}).exit_code, 0);
    EXPECT_FALSE(result_of(sandbox.autotune(test::small_tune("6s"))).at("tuned"));
}

// ---- F8: broken databases ----

struct Breakage {
    std::string name;
    std::function<void(const std::string& path)> act;
    int exit_code;
    std::string words;  // on standard error
};

void change(const std::string& path, const char* sql) {
    db::Connection(db::ConnectionOptions{.path = path}).run(sql);
}

void scribble(const std::string& path) {
    std::string content = read_file(path);
    for (std::size_t at = 4096; at < content.size(); ++at) content[at] = static_cast<char>(at * 2654435761U >> 13U);
    write_file(path, content);
}

const std::vector<Breakage> kBreakages = {
    {"zero bytes", [](const auto& path) { write_file(path, ""); }, 5, "is empty"},
    {"truncated", [](const auto& path) { fs::resize_file(path, fs::file_size(path) * 3 / 4 + 77); }, 5, "damaged"},
    {"random pages", scribble, 5, "damaged"},
    {"text", [](const auto& path) { write_file(path, std::string(9000, 'x')); }, 5, "is not a"},
    {"foreign", [](const auto& path) { change(path, "PRAGMA application_id = 77"); }, 5, "belongs to another program"},
    {"newer", [](const auto& path) { change(path, "PRAGMA user_version = 99"); }, 5, "newer autotune"},
    {"dropped column", [](const auto& path) { change(path, "ALTER TABLE winner DROP COLUMN min_us"); }, 5, "tables and columns"},
    {"wrong values", [](const auto& path) { change(path, "UPDATE winner SET config = 'block_m=1;}evil'"); }, 0, ""},
    {"symbolic link",
     [](const auto& path) {
         fs::rename(path, path + ".moved");
         fs::create_symlink(path + ".moved", path);
     },
     0, ""},
    {"world-writable", [](const auto& path) { fs::permissions(path, fs::perms(0666)); }, 0, ""},
    {"another user's", [](const auto& path) { [[maybe_unused]] const int only_root_may = ::chown(path.c_str(), 65534, 65534); },
     0, ""},
    {"a pipe",
     [](const auto& path) {
         fs::remove(path);
         ::mkfifo(path.c_str(), 0600);
     },
     5, "not a regular file"}};

TEST(Faults, F8ABrokenDatabaseIsExit5AndLeftAlone) {
    const Sandbox sandbox;
    for (const Breakage& breakage : kBreakages) {
        const db::test::TempFolder folder;
        const std::string path = folder / "a.db";
        db::Store::open({.path = path}).put(db::test::sample_winner());
        breakage.act(path);
        const bool is_file = fs::is_regular_file(path);
        const std::string before = is_file ? read_file(path) : "";
        const Outcome shown = sandbox.autotune({"show", "--db", path}, {.timeout_s = 20});
        EXPECT_EQ(shown.exit_code, breakage.exit_code) << breakage.name << shown.err;
        EXPECT_THAT(shown.err, HasSubstr(breakage.words)) << breakage.name;
        EXPECT_TRUE(!is_file || read_file(path) == before) << breakage.name;
    }
}

// ---- F9: a locked database ----

TEST(Faults, F9ALockedDatabaseIsExit5AfterTheTimeout) {
    const Sandbox sandbox;
    const std::string path = sandbox.folder() / "a.db";
    db::Store::open({.path = path}).put(db::test::sample_winner());
    db::Connection holder({.path = path});
    holder.run("BEGIN EXCLUSIVE");
    const Outcome shown = sandbox.autotune({"show", "--db", path}, {.timeout_s = 60});
    EXPECT_EQ(shown.exit_code, 5) << shown.err;
    EXPECT_THAT(shown.err, HasSubstr("locked by another process"));
    holder.run("COMMIT");
    EXPECT_EQ(sandbox.autotune({"show", "--db", path}).exit_code, 0);
}

// ---- F10: broken cubins ----

std::vector<fs::path> cubins_in(const fs::path& folder) {
    std::set<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.path().extension() == ".atcubin") found.insert(entry.path());
    }
    return {found.begin(), found.end()};
}

int served_from_cache(const Outcome& outcome) {
    int count = 0;
    const Json result = result_of(outcome);
    for (const Json& row : result.at("candidates")) {
        EXPECT_EQ(row.at("status"), "ok") << row;
        count += row.at("from_cache") == true ? 1 : 0;
    }
    return count;
}

TEST(Faults, F10ABrokenCubinIsCompiledAgain) {
    const Sandbox sandbox;
    const test::Words compile =
        test::with_words({"compile", "--op", "hgemm", "--shape", "256x256x256", "--arch", "sm_90a", "--json"},
                         {"--family", "gemm/simt", "--param", "block_m=32"});
    const RunOptions no_driver = {.driver = Use::none, .nvml = Use::none};
    EXPECT_EQ(served_from_cache(sandbox.autotune(compile, no_driver)), 0);
    const std::vector<fs::path> cubins = cubins_in(sandbox.folder() / "cache");
    const int all = static_cast<int>(cubins.size());
    ASSERT_GE(all, 6);
    EXPECT_EQ(served_from_cache(sandbox.autotune(compile, no_driver)), all);
    std::string flipped = read_file(cubins[0]);
    flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
    write_file(cubins[0], flipped);
    fs::resize_file(cubins[1], fs::file_size(cubins[1]) / 2);
    const std::string swapped = read_file(cubins[2]);
    write_file(cubins[2], read_file(cubins[3]));
    write_file(cubins[3], swapped);
    fs::rename(cubins[4], cubins[4].string() + ".moved");
    fs::create_symlink(cubins[4].string() + ".moved", cubins[4]);
    fs::permissions(cubins[5], fs::perms(0666));
    EXPECT_EQ(served_from_cache(sandbox.autotune(compile, no_driver)), all - 6);
    EXPECT_EQ(served_from_cache(sandbox.autotune(compile, no_driver)), all);
}

// ---- F11: drivers ----

struct Installation {
    std::string name, script;
    RunOptions options;
    int tune, doctor;
};

TEST(Faults, F11WithoutAUsableGpuTheRestStillWorks) {
    const std::vector<Installation> installations = {
        {"stub driver", "driver init=34\n", {}, 3, 3},
        {"old driver", "driver init=35\n", {}, 3, 3},
        {"no device", "driver init=100\n", {}, 3, 3},
        {"dead device", "driver init=999\n", {}, 3, 3},
        {"no driver", "", {.driver = Use::none}, 0, 0},
        {"no compiler", "", {.nvrtc = Use::none, .environment = {{"AUTOTUNE_NVRTC", "/nowhere/libnvrtc.so"}}}, 1, 1},
        {"vanishes", "rule symbol=^gemm_simt_ nth=2 do=vanish code=999 persist=1\n", {}, 8, 3},
        {"MIG slice", "device name=\"NVIDIA H200 MIG 1g.18gb\" sms=16\n", {}, 0, 0}};
    for (const Installation& machine : installations) {
        const Sandbox sandbox(machine.script);
        const Outcome tuned = sandbox.autotune(test::small_tune("4s,4t"), machine.options);
        EXPECT_EQ(tuned.exit_code, machine.tune) << machine.name << tuned.err;
        const Outcome doctor = sandbox.autotune({"doctor"}, machine.options);
        EXPECT_EQ(doctor.exit_code, machine.doctor) << machine.name << doctor.out;
        for (const std::vector<std::string>& words :
             std::vector<std::vector<std::string>>{{"show"}, {"families", "--op", "add"}}) {
            EXPECT_EQ(sandbox.autotune(words, machine.options).exit_code, 0) << machine.name << words.front();
        }
    }
}

// ---- F14: neighbours ----

TEST(Faults, F14ASecondTuneWaitsForTheGpu) {
    const Sandbox sandbox;
    fake::Running first = sandbox.start_autotune(test::small_tune("6s"));
    for (int i = 0; i < 1000 && sandbox.count_calls("execute gemm_simt") == 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    test::Words other = test::small_tune("6s");
    other[4] = "320x256x256";
    const Outcome second = sandbox.autotune(other);
    EXPECT_EQ(first.wait().exit_code, 0);
    EXPECT_EQ(second.exit_code, 0) << second.err;
    EXPECT_THAT(second.err, HasSubstr("process"));
    std::vector<std::string> turns;  // whose kernels ran
    for (const std::string& call : sandbox.calls()) {
        const std::string process = call.substr(0, call.find(' '));
        if (call.find("execute gemm_simt") != std::string::npos && (turns.empty() || turns.back() != process))
            turns.push_back(process);
    }
    EXPECT_EQ(turns.size(), std::set<std::string>(turns.begin(), turns.end()).size()) << "two tunes took turns on the GPU";
}

// ---- F15: the card's state ----

Json evidence_of(const std::string& script, const RunOptions& options = {}) {
    const Sandbox sandbox(script);
    return result_of(sandbox.autotune(test::small_tune("4s,6t"), options)).at("evidence");
}

TEST(Faults, F15WithoutNvmlConditionsAreUnknown) {
    const Json evidence = evidence_of("", {.nvml = Use::none});
    EXPECT_TRUE(evidence.at("conditions").at("throttle_reasons").is_null()) << evidence;
    EXPECT_GT(evidence.at("rounds"), 0);
}

TEST(Faults, F15ThePowerCapIsRecordedAndNormal) {
    const Json evidence = evidence_of("nvml throttle=4\n");
    EXPECT_EQ(evidence.at("conditions").at("throttle_reasons"), 4) << evidence;
    EXPECT_EQ(evidence.at("decided_by").get<std::string>().find("throttled"), std::string::npos) << evidence;
}

TEST(Faults, F15ThermalSlowdownIsSaidBesideTheWinner) {
    const Json evidence = evidence_of("nvml throttle=64\n");
    EXPECT_THAT(evidence.at("decided_by").get<std::string>(), HasSubstr("throttled")) << evidence;
}

}  // namespace
}  // namespace autotune::machine_faults_fake_test
