#include "tests/support/postgres/postgres_server.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace autotune::test {
namespace {

namespace fs = std::filesystem;

// The newest version that Debian's packages install.
std::string programs() {
    std::string best;
    std::error_code ignored;
    int newest = 0;
    for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", ignored)) {
        const int version = std::atoi(entry.path().filename().c_str());
        if (version > newest && fs::exists(entry.path() / "bin/initdb")) {
            newest = version;
            best = (entry.path() / "bin").string();
        }
    }
    return best;
}

}  // namespace

std::string PostgresServer::why_missing() {
    if (!programs().empty()) return "";
    const std::string why = "PostgreSQL's server is not installed (Debian: postgresql-15)";
    if (std::getenv("AUTOTUNE_REQUIRE_POSTGRES") != nullptr) {
        std::cerr << why << ", and AUTOTUNE_REQUIRE_POSTGRES is set\n";
        std::exit(1);
    }
    return why;
}

PostgresServer& PostgresServer::shared() {
    static PostgresServer server;
    return server;
}

PostgresServer::PostgresServer() : bin_(programs()) {
    std::string pattern = (fs::temp_directory_path() / "autotune-pg-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    if (folder_.size() > 80) {  // a socket's path has at most 107 bytes
        fs::remove(folder_);
        pattern = "/tmp/autotune-pg-XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
    }
    uid_ = ::geteuid();
    gid_ = ::getegid();
    if (uid_ == 0) {
        const passwd* user = ::getpwnam("postgres");
        if (user == nullptr) user = ::getpwnam("nobody");
        uid_ = user->pw_uid;
        gid_ = user->pw_gid;
        if (::chown(folder_.c_str(), uid_, gid_) != 0) throw std::runtime_error("chown " + folder_);
    }
    run("initdb", {"-D", folder_ + "/data", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"});
    start();
}

PostgresServer::~PostgresServer() {
    if (pid_ > 0) {
        ::kill(pid_, SIGQUIT);
        ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

pid_t PostgresServer::spawn(const std::string& program, const std::vector<std::string>& arguments, int in, int out) const {
    std::vector<std::string> words = {bin_ + "/" + program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& each : words) argv.push_back(each.data());
    argv.push_back(nullptr);
    const std::string host = "PGHOST=" + folder_;
    std::vector<const char*> environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "PGUSER=postgres", host.c_str(), nullptr};
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(gid_) != 0 || ::setuid(uid_) != 0)) ::_exit(126);
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (::getppid() != parent || ::chdir(folder_.c_str()) != 0) ::_exit(126);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execve(argv[0], argv.data(), const_cast<char* const*>(environment.data()));
    ::_exit(127);
}

std::string PostgresServer::run(const std::string& program, const std::vector<std::string>& arguments,
                                const std::string& input) const {
    std::string in_name = "/tmp/autotune-pg-in-XXXXXX", out_name = "/tmp/autotune-pg-out-XXXXXX";
    const int in = ::mkstemp(in_name.data()), out = ::mkstemp(out_name.data());
    std::ofstream(in_name) << input;
    const pid_t pid = spawn(program, arguments, in, out);
    int status = 0;
    ::waitpid(pid, &status, 0);
    std::ostringstream text;
    text << std::ifstream(out_name).rdbuf();
    ::close(in);
    ::close(out);
    ::unlink(in_name.c_str());
    ::unlink(out_name.c_str());
    if (status != 0) throw std::runtime_error(program + " fails: " + text.str());
    return text.str();
}

std::string PostgresServer::sql(const std::string& database, const std::string& text) const {
    return run("psql", {"-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", database}, text);
}

void PostgresServer::start() {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int log = ::open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_ =
        spawn("postgres",
              {"-D", folder_ + "/data", "-k", folder_, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off",
               "-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "restart_after_crash=on"},
              nothing, log);
    ::close(nothing);
    ::close(log);
    for (int i = 0; i < 600; ++i) {
        try {
            sql("postgres", "SELECT 1");
            return;
        } catch (const std::runtime_error&) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    }
    throw std::runtime_error("PostgreSQL does not start; its log is " + folder_ + "/log");
}

// SIGQUIT is an immediate stop: no checkpoint, all connections cut.
void PostgresServer::kill() {
    ::kill(pid_, SIGQUIT);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void PostgresServer::kill_a_backend() {
    std::ifstream children("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
    std::vector<pid_t> pids;
    for (pid_t each = 0; children >> each;) pids.push_back(each);
    if (pids.empty()) return;
    static std::minstd_rand random{7};
    ::kill(pids[random() % pids.size()], SIGKILL);
}

std::string PostgresServer::new_database() {
    const std::string name = "fleet" + std::to_string(++databases_);
    sql("postgres", "CREATE DATABASE " + name);
    return name;
}

std::string PostgresServer::address(const std::string& database, const std::string& role) const {
    return "host=" + folder_ + " dbname=" + database + " user=" + role;
}

}  // namespace autotune::test
