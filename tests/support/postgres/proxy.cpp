#include "tests/support/postgres/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace autotune::test {
namespace {

void reset(int fd) {
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    ::close(fd);
}

// Passes bytes on; returns false if the connection is over.
bool pass_on(int from, int to) {
    std::array<char, 65536> bytes;
    const ssize_t count = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    for (ssize_t sent = 0; sent < count;) {
        const ssize_t now = ::send(to, bytes.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
        if (now <= 0) return false;
        sent += now;
    }
    return true;
}

}  // namespace

Proxy::Proxy(std::string target) : target_(std::move(target)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
        throw std::runtime_error("the proxy cannot listen");
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
    ends_ = true;
    thread_.join();
    for (const Pair& each : pairs_) {
        ::close(each.client);
        ::close(each.server);
    }
    ::close(listener_);
}

void Proxy::run() {
    while (!ends_) {
        std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
        for (const Pair& each : pairs_) {
            fds.push_back({each.client, POLLIN, 0});
            fds.push_back({each.server, POLLIN, 0});
        }
        if (stalls_) fds.resize(1);
        ::poll(fds.data(), fds.size(), 10);
        if (cuts_) {
            for (const Pair& each : std::exchange(pairs_, {})) {
                reset(each.client);
                ::close(each.server);
            }
        }
        if ((fds[0].revents & POLLIN) != 0) {
            const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_un at = {};
            at.sun_family = AF_UNIX;
            target_.copy(at.sun_path, sizeof(at.sun_path) - 1);
            if (cuts_ || ::connect(server, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
                reset(client);
                ::close(server);
            } else {
                pairs_.push_back({client, server});
            }
        }
        if (stalls_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            continue;
        }
        std::vector<Pair> kept;
        for (const Pair& each : pairs_) {
            if (pass_on(each.client, each.server) && pass_on(each.server, each.client)) {
                kept.push_back(each);
            } else {
                ::close(each.client);
                ::close(each.server);
            }
        }
        pairs_ = std::move(kept);
    }
}

}  // namespace autotune::test
