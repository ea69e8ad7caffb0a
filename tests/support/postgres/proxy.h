#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace autotune::test {

// A TCP proxy on 127.0.0.1 in front of a Unix socket. It can stop passing bytes on, or reset its connections.
class Proxy {
  public:
    explicit Proxy(std::string target);
    ~Proxy();
    Proxy(const Proxy&) = delete;
    Proxy& operator=(const Proxy&) = delete;
    int port() const { return port_; }
    // While it stalls, no bytes are passed on in either direction, and new connections are accepted but not served.
    void stall(bool on) { stalls_ = on; }
    // Ends every connection with a reset, and refuses others while `on`.
    void cut(bool on) { cuts_ = on; }

  private:
    void run();
    struct Pair {
        int client = -1, server = -1;
    };
    std::string target_;
    int listener_ = -1, port_ = 0;
    std::atomic<bool> stalls_{false}, cuts_{false}, ends_{false};
    std::vector<Pair> pairs_;
    std::thread thread_;
};

}  // namespace autotune::test
