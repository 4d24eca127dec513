// See http.h. httplib parses requests and writes answers (Server::process_request); accepting, the loop of a connection
// and its Stream are ours: httplib's have no limit on a head's or a chunked body's size or on a request's time, lose
// pipelined requests, and end the server where accept() fails once.
#include "freight/serve/http.h"

#include <netinet/tcp.h>
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

#include <httplib.h>

#include "freight/base/error.h"

namespace freight::serve {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxPath = 2048;
constexpr int kBacklog = 512;

enum class Fault { none, header_too_large, body_too_large, too_late, closed };

const char* reason(int status) {
  switch (status) {
    case 400: return "Bad Request";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Error";
  }
}

timeval interval(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  return {whole, static_cast<suseconds_t>((seconds - static_cast<double>(whole)) * 1e6)};
}

// One connection, as httplib reads and writes it: buffered both ways, counted and timed per request.
class Connection : public httplib::Stream {
 public:
  Connection(int fd, const HttpOptions& options) : fd_(fd), options_(options), in_(size_t{64} << 10) {
    const timeval limit = interval(options.timeout_seconds);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  // Waits for the first byte of the next request; false where none comes.
  bool begin_request() {
    taken_ = 0;
    in_body_ = false;
    limit_ = options_.max_header_bytes;
    refusal.reset();
    headers_read = keep_open = false;
    fault = Fault::none;
    if (at_ == end_ && !fill()) return false;
    deadline_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
    return true;
  }
  // A chunked body is larger than what it carries; that is limited where it is put together.
  void begin_body() {
    headers_read = in_body_ = true;
    taken_ = 0;
    limit_ = 2 * options_.max_body_bytes + (size_t{64} << 10);
  }
  bool flush() {
    size_t done = 0;
    while (done < out_.size() && fault != Fault::closed) {
      const ssize_t n = ::send(fd_, out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
      if (n > 0) {
        done += static_cast<size_t>(n);
      } else if (n == 0 || errno != EINTR) {
        fault = Fault::closed;
      }
    }
    out_.clear();
    return fault != Fault::closed;
  }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return fault != Fault::closed; }
  ssize_t read(char* ptr, size_t size) override {
    if (fault != Fault::none) return -1;
    if (at_ == end_) {
      if (!out_.empty() && !flush()) return -1;  // "100 Continue"
      if (Clock::now() > deadline_) return give_up(Fault::too_late);
      if (!fill()) return fault == Fault::none ? 0 : -1;
    }
    const size_t n = std::min(size, end_ - at_);
    taken_ += n;
    if (taken_ > limit_) return give_up(in_body_ ? Fault::body_too_large : Fault::header_too_large);
    std::memcpy(ptr, in_.data() + at_, n);
    at_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* ptr, size_t size) override {
    out_.append(ptr, size);
    if (out_.size() > (size_t{1} << 20) && !flush()) return -1;
    return static_cast<ssize_t>(size);
  }
  // Nobody asks for addresses; asking the system costs as much as reading the request.
  void get_remote_ip_and_port(std::string& ip, int& port) const override { no_address(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { no_address(ip, port); }
  // httplib refuses numbers that select() could not take; there is no select here.
  socket_t socket() const override { return 0; }

  Fault fault = Fault::none;
  std::optional<Reply> refusal;  // decided before httplib asks
  bool headers_read = false;     // httplib understood the request's head
  bool keep_open = false;        // the request was read to its end
  std::list<Connection*>::iterator place;
  bool idle = false;
  int fd() const { return fd_; }

 private:
  static void no_address(std::string& ip, int& port) {
    ip = "-";
    port = 0;
  }
  ssize_t give_up(Fault why) {
    fault = why;
    return -1;
  }
  bool fill() {
    for (;;) {
      const ssize_t n = ::recv(fd_, in_.data(), in_.size(), 0);
      if (n > 0) {
        at_ = 0;
        end_ = static_cast<size_t>(n);
        return true;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fault = errno == EAGAIN || errno == EWOULDBLOCK ? Fault::too_late : Fault::closed;
      return false;
    }
  }

  int fd_;
  const HttpOptions& options_;
  std::vector<char> in_;
  std::string out_;
  size_t at_ = 0, end_ = 0, taken_ = 0, limit_ = 0;
  bool in_body_ = false;
  Clock::time_point deadline_;
};

thread_local Connection* t_connection = nullptr;

class RequestView : public Request {
 public:
  RequestView(const httplib::Request& request, const std::string& body) : request_(request), body_(body) {}
  const std::string& method() const override { return request_.method; }
  const std::string& path() const override { return request_.path; }
  std::string header(const char* name) const override { return request_.get_header_value(name); }
  std::string query(const char* name) const override { return request_.get_param_value(name); }
  const std::string& body() const override { return body_; }

 private:
  const httplib::Request& request_;
  const std::string& body_;
};

std::string address(const HttpOptions& o) { return cat(o.host, ":", o.port); }

// A socket bound to the address; `port` becomes the one that was chosen.
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
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (fd >= 0 && ::bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                               : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
      return fd;
    }
    error = errno;
    if (fd >= 0) ::close(fd);
  }
  fail(ErrorKind::runtime, address(o), "cannot listen there: ", std::strerror(error), "; --port 0 takes a free port");
}

bool has_body(const httplib::Request& r) {
  return r.has_header("Transfer-Encoding") ||
         (r.has_header("Content-Length") && r.get_header_value("Content-Length") != "0");
}

// A coding of the body that httplib does not unpack, or "".
std::string unknown_coding(const httplib::Request& r) {
  const std::string coding = r.get_header_value("Content-Encoding");
  if (r.get_header_value_count("Content-Encoding") > 1) return "several at once";
  for (const char* known : {"", "gzip", "deflate", "br"}) {
    if (coding == known) return "";
  }
  return coding;
}

// What makes the end of a body unclear, or "": such a request is not read on.
std::string framing_fault(const httplib::Request& r) {
  const size_t lengths = r.get_header_value_count("Content-Length");
  const std::string coding = lower(r.get_header_value("Transfer-Encoding"));
  if (lengths > 1 || (lengths == 1 && !coding.empty())) return "a body has one length: Content-Length or chunks";
  if (!coding.empty() && coding != "chunked") return cat("Transfer-Encoding: got ", coding, ", need chunked");
  const std::string length = r.get_header_value("Content-Length");
  if (lengths == 1 &&
      (length.empty() || length.size() > 18 || length.find_first_not_of("0123456789") != std::string::npos)) {
    return "Content-Length must be a number";
  }
  return "";
}

}  // namespace

class HttpServer::Impl : public httplib::Server {
 public:
  Impl(const HttpOptions& o, Callbacks callbacks, HttpMetrics& metrics)
      : options_(o), callbacks_(std::move(callbacks)), metrics_(metrics) {
    set_keep_alive_timeout(static_cast<time_t>(std::max(1.0, o.timeout_seconds)));
    set_keep_alive_max_count(1'000'000);                         // told to clients, not kept
    set_payload_max_length(std::numeric_limits<size_t>::max());  // kept in read_body
    set_expect_100_continue_handler([this](const httplib::Request& request, httplib::Response& response) {
      Connection& c = *t_connection;
      const std::string none;
      if (!c.refusal) c.refusal = callbacks_.admit(RequestView(request, none));
      if (!c.refusal) return 100;
      write(*c.refusal, response);
      return c.refusal->status;
    });
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      Connection& c = *t_connection;
      const std::string none;
      if (!c.refusal) c.refusal = callbacks_.admit(RequestView(request, none));
      const bool body = has_body(request);
      c.keep_open = !body;
      if (!c.refusal && (request.method == "POST" && (body || request.has_header("Content-Length")))) {
        return HandlerResponse::Unhandled;
      }
      write(c.refusal ? *c.refusal : callbacks_.answer(RequestView(request, none)), response);
      return HandlerResponse::Handled;
    });
    const HandlerWithContentReader read = [this](const httplib::Request& request, httplib::Response& response,
                                                 const httplib::ContentReader& reader) {
      write(read_body(request, reader), response);
    };
    Post(R"([\s\S]*)", read);
    set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      Connection& c = *t_connection;
      if (!c.headers_read || c.fault != Fault::none) c.keep_open = false;
      if (const Reply reply = fault_reply(c.fault); reply.status != 0) {
        write(reply, response);
      } else if (response.body.empty()) {
        write({.status = response.status,
               .body = callbacks_.error_body(
                   cat(reason(response.status), ": no sound HTTP/1.1, or a header line longer than 8192 bytes"))},
              response);
      }
      if (!c.keep_open) response.set_header("Connection", "close");
    });
    // httplib and the handlers above each say that the connection closes: once is enough.
    set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.has_header("Connection")) return;
      response.headers.erase("Connection");
      response.headers.erase("Keep-Alive");
      response.set_header("Connection", "close");
    });
    set_logger([this](const httplib::Request&, const httplib::Response& response) {
      ++metrics_.responses[static_cast<size_t>(std::clamp(response.status, 0, HttpMetrics::kStatuses - 1))];
    });
    set_exception_handler([this](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      write({.status = 500, .body = callbacks_.error_body("the server failed")}, response);
    });

    listener_ = bind_listener(o, port_);
  }
  ~Impl() override {
    drain(0);
    ::close(listener_);
  }

  int port() const { return port_; }
  void start() {
    if (::listen(listener_, kBacklog) != 0) fail(ErrorKind::runtime, address(options_), std::strerror(errno));
    accepting_ = std::thread([this] { accept_all(); });
  }
  bool drain(double seconds) {
    if (!accepting_.joinable()) return true;
    {
      const std::lock_guard lock(mutex_);
      draining_ = true;
      for (const Connection* c : connections_) {
        if (c->idle) ::shutdown(c->fd(), SHUT_RD);
      }
    }
    ::shutdown(listener_, SHUT_RDWR);  // accept() returns
    accepting_.join();
    std::unique_lock lock(mutex_);
    const auto gone = [&] { return metrics_.connections == 0; };
    const bool whole = left_.wait_for(lock, std::chrono::duration<double>(seconds), gone);
    for (const Connection* c : connections_) ::shutdown(c->fd(), SHUT_RDWR);
    left_.wait(lock, gone);
    return whole;
  }

 private:
  void accept_all() {
    while (!draining_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) {
        // No descriptors or memory left, or the client gave up: the next one may have more luck.
        if (!draining_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else if (metrics_.connections >= options_.max_connections || !take(fd)) {
        ++metrics_.refused;
        try {
          Connection c(fd, options_);
          write_raw(c,
                    error(503, cat("the server has its ", options_.max_connections, " connections; try again later")));
        } catch (const std::bad_alloc&) {  // without an answer then
        }
        close_gently(fd, 20);
      }
    }
  }

  // A thread per connection, made when it comes: of a pool, ever other threads would take turns and fill their stacks.
  // False where the system has no thread to give.
  bool take(int fd) {
    ++metrics_.connections;
    try {
      std::thread([this, fd] { converse(fd); }).detach();
    } catch (const std::system_error&) {
      --metrics_.connections;
      return false;
    }
    ++metrics_.accepted;
    return true;
  }

  void write(const Reply& reply, httplib::Response& response) const {
    response.status = reply.status;
    if (draining_) response.set_header("Connection", "close");
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    response.set_content(reply.body, reply.type);
  }

  Reply error(int status, const std::string& text) const {
    return {.status = status, .body = callbacks_.error_body(text)};
  }
  // Status 0: no fault that has an answer.
  Reply fault_reply(Fault fault) const {
    switch (fault) {
      case Fault::header_too_large:
        return error(431, cat("the request's head is larger than ", options_.max_header_bytes, " bytes"));
      case Fault::body_too_large: return body_too_large();
      case Fault::too_late:
        return error(408, cat("the request did not come within ", options_.timeout_seconds, " seconds"));
      default: return {.status = 0};
    }
  }
  Reply body_too_large() const {
    return error(413, cat("the body is larger than the server's limit of ", options_.max_body_bytes,
                          " bytes (freight serve --max-body-mb)"));
  }

  Reply read_body(const httplib::Request& request, const httplib::ContentReader& reader) {
    Connection& c = *t_connection;
    if (request.is_multipart_form_data()) {  // httplib gives those to another kind of reader
      c.keep_open = false;
      return error(415, "a form is no input: send the file's bytes as the body (curl --data-binary @FILE)");
    }
    std::string body;
    bool large = false;
    const bool whole = reader([&](const char* data, size_t size) {
      large = body.size() + size > options_.max_body_bytes;
      if (!large) body.append(data, size);
      return !large;
    });
    c.keep_open = whole;
    if (large) return body_too_large();
    if (const Reply reply = fault_reply(c.fault); reply.status != 0) return reply;
    if (!whole) return error(400, "the body broke off or is damaged");
    return callbacks_.answer(RequestView(request, body));
  }

  void understood(httplib::Request& request) {
    Connection& c = *t_connection;
    c.begin_body();
    // Answers are small and made to be read by programs: always whole, and as they are.
    request.headers.erase("Accept-Encoding");
    request.ranges.clear();
    if (lower(request.get_header_value("Content-Encoding")) == "identity") request.headers.erase("Content-Encoding");
    if (const std::string fault = framing_fault(request); !fault.empty()) {
      c.refusal = error(400, fault);
    } else if (request.path.size() > kMaxPath) {
      c.refusal = error(414, cat("the path is longer than ", kMaxPath, " bytes"));
    } else if (std::strtoull(request.get_header_value("Content-Length").c_str(), nullptr, 10) >
               options_.max_body_bytes) {
      c.refusal = body_too_large();
    } else if (const std::string coding = unknown_coding(request); !coding.empty()) {
      c.refusal = error(415, cat("Content-Encoding: got ", coding.substr(0, 80), ", need gzip, deflate, br or none"));
    }
  }

  // A status line and body for a request that httplib never understood.
  void write_raw(Connection& c, const Reply& reply) const {
    const std::string text =
        cat("HTTP/1.1 ", reply.status, " ", reason(reply.status), "\r\nContent-Type: ", reply.type,
            "\r\nContent-Length: ", reply.body.size(), "\r\nConnection: close\r\n\r\n", reply.body);
    c.write(text.data(), text.size());
    c.flush();
    ++metrics_.responses[static_cast<size_t>(reply.status)];
  }

  // Closing a socket with unread bytes resets it, and the answer may be lost: the rest is read for a moment.
  static void close_gently(int fd, int milliseconds) {
    ::shutdown(fd, SHUT_WR);
    std::array<char, 4096> rest;
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    pollfd wait{fd, POLLIN, 0};
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left < 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) break;
      if (::recv(fd, rest.data(), rest.size(), MSG_DONTWAIT) <= 0) break;
    }
    ::close(fd);
  }

  // Takes a connection off the list at the end of a scope.
  struct Listed {
    Impl* server;
    Connection* connection;
    ~Listed() {
      const std::lock_guard lock(server->mutex_);
      server->connections_.erase(connection->place);
    }
  };

  // The life of a connection.
  void converse(int fd) {
    bool unread = false;
    try {
      Connection c(fd, options_);
      t_connection = &c;
      {
        const std::lock_guard lock(mutex_);
        c.place = connections_.insert(connections_.end(), &c);
      }
      const Listed listed{this, &c};
      unread = serve(c);
    } catch (const std::bad_alloc&) {  // no memory for so little: this connection ends, the others go on
    }
    t_connection = nullptr;
    if (unread) {
      close_gently(fd, 500);
    } else {
      ::close(fd);
    }
    // Under the lock, so that drain() returns only when this thread touches nothing of the server any more.
    const std::lock_guard lock(mutex_);
    --metrics_.connections;
    left_.notify_all();
  }

  // Requests one after the other; true where bytes of the client may be unread.
  bool serve(Connection& c) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (draining_) return false;
        c.idle = true;
      }
      const bool more = c.begin_request();
      {
        const std::lock_guard lock(mutex_);
        c.idle = false;
      }
      if (!more) return false;
      bool closes = draining_;
      const bool written = process_request(c, draining_, closes, [this](httplib::Request& r) { understood(r); });
      if (!c.headers_read && c.fault != Fault::closed && !written) {
        if (const Reply reply = fault_reply(c.fault); reply.status != 0) write_raw(c, reply);
      }
      if (!c.flush()) return false;
      if (!c.keep_open) return true;
      if (closes) return false;
    }
  }

  HttpOptions options_;
  Callbacks callbacks_;
  HttpMetrics& metrics_;
  int listener_ = -1, port_ = 0;
  std::thread accepting_;
  std::mutex mutex_;  // of connections_ and what is idle among them
  std::condition_variable left_;
  std::atomic<bool> draining_{false};
  std::list<Connection*> connections_;
};

HttpServer::HttpServer(const HttpOptions& options, Callbacks callbacks, HttpMetrics& metrics)
    : impl_(std::make_unique<Impl>(options, std::move(callbacks), metrics)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }
void HttpServer::start() { impl_->start(); }
bool HttpServer::drain(double seconds) { return impl_->drain(seconds); }

}  // namespace freight::serve
