// See http.h. Accepting connections is ours, since httplib's ends the server if accept() fails once.
// http_connection_internal.h has a connection, and what httplib does for it.
#include "freight/serve/http.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#include "freight/base/error.h"
#include "freight/serve/http_connection_internal.h"

namespace freight::serve {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 512;

std::string address(const HttpOptions& o) { return cat(o.host, ":", o.port); }

// A listening socket bound to the address; `port` becomes the port that was chosen.
int bind_listener(const HttpOptions& o, int& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int error = ::getaddrinfo(o.host.c_str(), std::to_string(o.port).c_str(), &hints, &found); error != 0) {
    fail(ErrorKind::runtime, address(o), "there is no such address: ", ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* a = found; a; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) {
      error = errno;
      continue;
    }
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (::bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                               : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
      return fd;
    }
    error = errno;
    ::close(fd);
  }
  fail(ErrorKind::runtime, address(o), "cannot listen on this address: ", std::strerror(error),
       "; --port 0 selects a free port");
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& o, Callbacks callbacks, HttpMetrics& metrics)
      : shared_{.options = o, .callbacks = std::move(callbacks), .metrics = metrics},
        listener_(bind_listener(o, port_)) {}
  ~Impl() { drain(0); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int port() const { return port_; }
  void start() {
    if (::listen(listener_.fd(), kBacklog) != 0) {
      fail(ErrorKind::runtime, address(shared_.options), std::strerror(errno));
    }
    accepting_ = std::thread([this] { accept_all(); });
  }
  bool drain(double seconds) {
    if (!accepting_.joinable()) return true;
    {
      const std::lock_guard lock(mutex_);
      shared_.draining = true;
      for (const Listed& c : connections_) {
        if (c.idle) c.connection->stop_reading();
      }
    }
    ::shutdown(listener_.fd(), SHUT_RDWR);  // makes accept() return
    accepting_.join();
    std::unique_lock lock(mutex_);
    const auto gone = [&] { return shared_.metrics.connections == 0; };
    const bool whole = connection_ended_.wait_for(lock, std::chrono::duration<double>(seconds), gone);
    for (const Listed& c : connections_) c.connection->break_off();
    connection_ended_.wait(lock, gone);
    return whole;
  }

 private:
  struct Listed {
    HttpConnection* connection = nullptr;
    bool idle = false;    // waits for its client's next request
    bool ending = false;  // it is ended to make room for another one
  };

  void accept_all() {
    Leaving leaving;
    while (!shared_.draining) {
      pollfd wait{listener_.fd(), POLLIN, 0};
      if (::poll(&wait, 1, leaving.empty() ? -1 : 20) == 0) {
        leaving.look();
        continue;
      }
      Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      leaving.look();
      if (socket.fd() < 0) {
        // There are no descriptors or no memory left, or the client gave up: the next accept may succeed.
        if (!shared_.draining) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else if (!has_room() || !take(socket)) {
        ++shared_.metrics.refused;
        try {
          HttpConnection c(std::move(socket), shared_);
          c.refuse(503, cat("the server has its ", shared_.options.max_connections, " connections; try again later"));
          leaving.add(c.release());
        } catch (const std::bad_alloc&) {  // the connection is closed without a response
        }
      }
    }
  }

  // Refused connections whose clients may not have read the reason yet: they close once it is read, or after a moment.
  class Leaving {
   public:
    bool empty() const { return leaving_.empty(); }
    void add(Socket socket) {
      ::shutdown(socket.fd(), SHUT_WR);
      leaving_.push_back({std::move(socket), Clock::now() + std::chrono::milliseconds(200)});
      if (leaving_.size() > kMost) leaving_.pop_front();
    }
    void look() {
      const auto now = Clock::now();
      std::array<char, 4096> rest;
      leaving_.remove_if([&](const Left& l) {
        ssize_t n = 0;
        for (int times = 0; times < 16 && (n = ::recv(l.socket.fd(), rest.data(), rest.size(), MSG_DONTWAIT)) > 0;
             ++times) {
        }
        return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) || now > l.until;
      });
    }

   private:
    static constexpr size_t kMost = 256;
    struct Left {
      Socket socket;
      Clock::time_point until;
    };
    std::list<Left> leaving_;
  };

  // True if another connection may begin. At the limit, the longest idle connection is ended to make room. Connections
  // that were told to end no longer count, even if their threads had no time yet: otherwise each new connection would
  // end another one, until none is idle.
  bool has_room() {
    const std::lock_guard lock(mutex_);
    if (shared_.metrics.connections - ending_ < shared_.options.max_connections) return true;
    if (ending_ == kMostEnding) return false;
    const auto at = std::find_if(connections_.begin(), connections_.end(), [](const Listed& c) { return c.idle; });
    if (at == connections_.end()) return false;
    at->idle = false;
    at->ending = true;
    ++ending_;
    at->connection->stop_reading();
    return true;
  }

  // Starts a thread for the connection; a pool's threads would all touch their stacks in turn. False if the system
  // cannot start a thread; the caller then still owns the socket.
  bool take(Socket& socket) {
    ++shared_.metrics.connections;
    try {
      std::thread([this, fd = socket.fd()] { converse(Socket(fd)); }).detach();
    } catch (const std::system_error&) {
      --shared_.metrics.connections;
      return false;
    }
    socket.release();  // owned by the thread now
    ++shared_.metrics.accepted;
    return true;
  }

  using Place = std::list<Listed>::iterator;
  // Removes a connection from the list at the end of a scope.
  struct Unlisted {
    Impl* server;
    Place place;
    bool& ending;
    ~Unlisted() {
      const std::lock_guard lock(server->mutex_);
      ending = place->ending;
      server->connections_.erase(place);
    }
  };

  // Serves a connection from its beginning to its end.
  void converse(Socket socket) {
    bool ending = false;
    try {
      HttpConnection c(std::move(socket), shared_);
      if (serve(c, ending)) c.close_gently(std::chrono::milliseconds(500));
    } catch (const std::bad_alloc&) {  // memory is exhausted: this connection ends, the others continue
    }
    // Holds the lock, so that drain() returns only when this thread no longer touches the server.
    const std::lock_guard lock(mutex_);
    --shared_.metrics.connections;
    if (ending) --ending_;
    connection_ended_.notify_all();
  }

  // Keeps the connection listed while it serves requests. True if the client may have sent bytes that were not read;
  // sets `ending` if it was ended to make room.
  bool serve(HttpConnection& c, bool& ending) {
    Place place;
    {
      const std::lock_guard lock(mutex_);
      place = connections_.insert(connections_.end(), {.connection = &c});
    }
    const Unlisted unlisted{this, place, ending};
    return c.serve({.waits = [this, place] { return waits(place); },
                    .begins =
                        [this, place] {
                          const std::lock_guard lock(mutex_);
                          place->idle = false;
                        }});
  }

  // Marks the connection as idle, so that it may be ended to make room; false if the server ends.
  bool waits(Place place) {
    const std::lock_guard lock(mutex_);
    if (shared_.draining) return false;
    place->idle = !place->ending;
    connections_.splice(connections_.end(), connections_, place);  // the longest idle ones come first
    return true;
  }

  // In addition to max_connections; each is a thread that has nothing left to do.
  static constexpr int kMostEnding = 64;

  HttpShared shared_;
  int port_ = -1;
  Socket listener_;
  std::thread accepting_;
  int ending_ = 0;
  std::mutex mutex_;  // protects connections_, which of them are idle, and ending_
  std::condition_variable connection_ended_;
  std::list<Listed> connections_;
};

HttpServer::HttpServer(const HttpOptions& options, Callbacks callbacks, HttpMetrics& metrics)
    : impl_(std::make_unique<Impl>(options, std::move(callbacks), metrics)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }
void HttpServer::start() { impl_->start(); }
bool HttpServer::drain(double seconds) { return impl_->drain(seconds); }

}  // namespace freight::serve
