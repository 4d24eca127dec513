// See http.h. httplib routes requests, unpacks bodies and writes answers (Server::process_request); accepting, the loop
// of a connection and its Stream are ours: httplib's have no limit on a head's or a chunked body's size or on a
// request's time, lose pipelined requests, and end the server where accept() fails once. Where a head and a body end is
// decided by framing.cpp alone: httplib skips lines that it does not understand, and takes a chunk's size for what
// strtoul() does.
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
#include "freight/base/parse_number.h"
#include "freight/serve/framing_internal.h"

namespace freight::serve {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxPath = 2048;
constexpr int kBacklog = 512;

enum class Fault { none, header_too_large, body_too_large, too_late, closed, bad_line, bad_chunk };

const char* reason(int status) {
  switch (status) {
    case 400: return "Bad Request";
    case 403: return "Forbidden";
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
    headers_read = keep_open = broken = false;
    fault = Fault::none;
    head_.clear();
    chunks_.reset();
    if (at_ == end_ && !fill()) return false;
    if (end_ - at_ >= 2 && in_[at_] == '\r' && in_[at_ + 1] == '\n') {  // an empty line before a request is skipped
      at_ += 2;
      if (at_ == end_ && !fill()) return false;
    }
    deadline_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
    return true;
  }
  // A chunked body is larger than what it carries; that is limited where it is put together.
  void begin_body(bool chunked) {
    headers_read = in_body_ = true;
    taken_ = 0;
    limit_ = 2 * options_.max_body_bytes + (size_t{64} << 10);
    if (chunked) chunks_.emplace();
  }
  // The request's head as it came.
  const std::string& head() const { return head_; }
  bool chunked() const { return chunks_.has_value(); }
  // True where nothing of the body is left.
  bool body_ended() const { return !chunks_ || chunks_->state() == ChunkDecoder::State::done; }
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
    if (chunks_) return read_chunks(ptr, size);
    if (at_ == end_ && !more()) return fault == Fault::none ? 0 : -1;
    const size_t n = std::min(size, end_ - at_);
    if (!count(n)) return -1;
    if (!in_body_ && !take_head({in_.data() + at_, n})) return give_up(Fault::bad_line);
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
  bool broken = false;           // nobody can tell where the next request begins
  bool keep_open = false;        // the request was read to its end
  std::list<Connection*>::iterator place;
  bool idle = false;
  bool ending = false;  // to make room for another one
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
  // More bytes in in_; false at the end, or where there is a fault.
  bool more() {
    if (!out_.empty() && !flush()) return false;  // "100 Continue"
    if (Clock::now() > deadline_) {
      fault = Fault::too_late;
      return false;
    }
    return fill();
  }
  bool count(size_t bytes) {
    taken_ += bytes;
    if (taken_ <= limit_) return true;
    fault = in_body_ ? Fault::body_too_large : Fault::header_too_large;
    return false;
  }
  // Keeps a part of the head; false where a line does not end with CR LF, or CR or NUL stands within one. httplib would
  // wait for more, or take the next request for a part of this one.
  bool take_head(std::string_view part) {
    for (const char c : part) {
      const bool after_return = !head_.empty() && head_.back() == '\r';
      if (after_return != (c == '\n') || c == '\0') return false;
      head_ += c;
    }
    return true;
  }
  // The body without its chunks' frames: 0 behind the last one.
  ssize_t read_chunks(char* ptr, size_t size) {
    using State = ChunkDecoder::State;
    for (;;) {
      if (chunks_->state() == State::done) return 0;
      if (chunks_->state() == State::broken) return give_up(Fault::bad_chunk);
      if (at_ == end_ && !more()) return fault == Fault::none ? give_up(Fault::closed) : -1;
      if (chunks_->state() == State::data) {
        const size_t n = std::min({size, end_ - at_, static_cast<size_t>(chunks_->left())});
        if (!count(n)) return -1;
        std::memcpy(ptr, in_.data() + at_, n);
        at_ += n;
        chunks_->taken(n);
        return static_cast<ssize_t>(n);
      }
      if (!count(1)) return -1;
      chunks_->step(in_[at_++]);
    }
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
  std::string head_;
  std::optional<ChunkDecoder> chunks_;
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
  fail(ErrorKind::runtime, address(o), "cannot listen there: ", std::strerror(error), "; --port 0 selects a free port");
}

bool has_body(const httplib::Request& r, const Connection& c) {
  return c.chunked() || (r.has_header("Content-Length") && r.get_header_value("Content-Length") != "0");
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
      const bool body = has_body(request, c);
      c.keep_open = !body && !c.broken;
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
    Leaving leaving;
    while (!draining_) {
      pollfd wait{listener_, POLLIN, 0};
      if (::poll(&wait, 1, leaving.empty() ? -1 : 20) == 0) {
        leaving.look();
        continue;
      }
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      leaving.look();
      if (fd < 0) {
        // No descriptors or memory left, or the client gave up: the next one may have more luck.
        if (!draining_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else if (!has_room() || !take(fd)) {
        ++metrics_.refused;
        try {
          Connection c(fd, options_);
          write_raw(c,
                    error(503, cat("the server has its ", options_.max_connections, " connections; try again later")));
        } catch (const std::bad_alloc&) {  // without an answer then
        }
        leaving.add(fd);
      }
    }
  }

  // Connections that were refused and whose client may not have read why: they are closed once it has, or after a
  // moment, while others are accepted.
  class Leaving {
   public:
    Leaving() = default;
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;
    ~Leaving() {
      for (const Left& l : left_) ::close(l.fd);
    }
    bool empty() const { return left_.empty(); }
    void add(int fd) {
      ::shutdown(fd, SHUT_WR);
      left_.push_back({fd, Clock::now() + std::chrono::milliseconds(200)});
      if (left_.size() <= kMost) return;
      ::close(left_.front().fd);
      left_.pop_front();
    }
    void look() {
      const auto now = Clock::now();
      std::array<char, 4096> rest;
      left_.remove_if([&](const Left& l) {
        ssize_t n = 0;
        for (int times = 0; times < 16 && (n = ::recv(l.fd, rest.data(), rest.size(), MSG_DONTWAIT)) > 0; ++times) {
        }
        const bool gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) || now > l.until;
        if (gone) ::close(l.fd);
        return gone;
      });
    }

   private:
    static constexpr size_t kMost = 256;
    struct Left {
      int fd;
      Clock::time_point until;
    };
    std::list<Left> left_;
  };

  // Says whether another connection may begin; where there are as many as there may be, the one that waited longest for
  // its client's next request makes room. What was told to end before counts no more, though its thread, on a busy
  // machine, may have had no time to: else each newcomer would end one after the other, until none is idle.
  bool has_room() {
    const std::lock_guard lock(mutex_);
    if (metrics_.connections - ending_ < options_.max_connections) return true;
    if (ending_ == kMostEnding) return false;
    const auto at = std::find_if(connections_.begin(), connections_.end(), [](const Connection* c) { return c->idle; });
    if (at == connections_.end()) return false;
    (*at)->idle = false;
    (*at)->ending = true;
    ++ending_;
    ::shutdown((*at)->fd(), SHUT_RD);
    return true;
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
      case Fault::bad_line:
        return error(400, "every header line of a request ends with CR LF and contains no CR or NUL");
      case Fault::bad_chunk: return error(400, "the chunks of the body are not those of RFC 9112");
      case Fault::too_late:
        return error(408, cat("the request did not arrive within ", options_.timeout_seconds, " seconds"));
      default: return {.status = 0};
    }
  }
  Reply body_too_large() const {
    return error(413, cat("the body is larger than the server's limit of ", options_.max_body_bytes,
                          " bytes (freight serve --max-body-mb)"));
  }

  // A body's share in what all requests hold at once; packed ones count as they are unpacked.
  struct Held {
    std::atomic<size_t>& all;
    size_t own = 0;
    ~Held() { all -= own; }
    bool more(size_t bytes, size_t most) {
      own += bytes;
      return all.fetch_add(bytes) + bytes <= most;
    }
  };

  Reply read_body(const httplib::Request& request, const httplib::ContentReader& reader) {
    Connection& c = *t_connection;
    if (request.is_multipart_form_data()) {  // httplib gives those to another kind of reader
      c.keep_open = false;
      return error(415, "a form is no input: send the file's bytes as the body (curl --data-binary @FILE)");
    }
    std::string body;
    Held held{held_};
    bool large = false, full = false;
    const bool whole = reader([&](const char* data, size_t size) {
      large = body.size() + size > options_.max_body_bytes;
      full = !large && !held.more(size, std::max(options_.max_held_bytes, options_.max_body_bytes));
      if (!large && !full) body.append(data, size);
      return !large && !full;
    });
    c.keep_open = whole && c.body_ended();
    if (large) return body_too_large();
    if (full) {
      Reply reply = error(503, "other requests use the server's memory for bodies: try again later");
      reply.headers.emplace_back("Retry-After", "1");
      return reply;
    }
    if (const Reply reply = fault_reply(c.fault); reply.status != 0) return reply;
    if (!whole) return error(400, "the body broke off or is damaged");
    return callbacks_.answer(RequestView(request, body));
  }

  // Why a request is not for this server, or "".
  std::string stranger(const httplib::Request& request) const {
    for (const char* name : {"Host", "Origin"}) {
      if (!request.has_header(name)) continue;
      const std::string value = request.get_header_value(name);
      if (host_allowed(host_of(value), options_.host, options_.allowed_hosts)) continue;
      return cat(name, ": this server does not accept ", value.substr(0, 80), " (freight serve --allow-host NAME)");
    }
    return "";
  }

  void understood(httplib::Request& request) {
    Connection& c = *t_connection;
    const Head head = parse_head(c.head());
    c.begin_body(head.fault.empty() && head.chunked);
    // As they came: httplib decodes what looks percent-encoded, and leaves out what is empty.
    request.headers.clear();
    for (const auto& [name, value] : head.fields) request.headers.emplace(name, value);
    request.headers.erase("Transfer-Encoding");  // the connection reads chunks, httplib what they carry
    // Answers are small and made to be read by programs: always whole, and as they are.
    request.headers.erase("Accept-Encoding");
    request.ranges.clear();
    if (lower(request.get_header_value("Content-Encoding")) == "identity") request.headers.erase("Content-Encoding");
    if (!head.fault.empty()) {
      c.broken = true;
      c.refusal = error(400, head.fault);
    } else if (const std::string fault = stranger(request); !fault.empty()) {
      c.refusal = error(403, fault);
    } else if (request.path.size() > kMaxPath) {
      c.refusal = error(414, cat("the path is longer than ", kMaxPath, " bytes"));
    } else if (parse_number<uint64_t>(request.get_header_value("Content-Length")).value_or(0) >
               options_.max_body_bytes) {
      c.refusal = body_too_large();
    } else if (const std::string coding = unknown_coding(request); !coding.empty()) {
      c.refusal = error(415, cat("Content-Encoding: expected gzip, deflate, br or none, got ", coding.substr(0, 80)));
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
    bool& ending;
    ~Listed() {
      const std::lock_guard lock(server->mutex_);
      ending = connection->ending;
      server->connections_.erase(connection->place);
    }
  };

  // The life of a connection.
  void converse(int fd) {
    bool unread = false, ending = false;
    try {
      Connection c(fd, options_);
      t_connection = &c;
      {
        const std::lock_guard lock(mutex_);
        c.place = connections_.insert(connections_.end(), &c);
      }
      const Listed listed{this, &c, ending};
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
    if (ending) --ending_;
    left_.notify_all();
  }

  // Requests one after the other; true where bytes of the client may be unread.
  bool serve(Connection& c) {
    for (;;) {
      if (!stays(c)) return false;
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
      // The client may have its answer, and another one connect, before this thread goes on.
      closes = closes || (c.keep_open && !stays(c));
      if (!c.flush()) return false;
      if (!c.keep_open) return true;
      if (closes) return false;
    }
  }

  // The connection waits for its client's next request from now on, and may make room unless it does so already; false
  // where the server ends.
  bool stays(Connection& c) {
    const std::lock_guard lock(mutex_);
    if (draining_) return false;
    c.idle = !c.ending;
    connections_.splice(connections_.end(), connections_, c.place);  // those that wait longest come first
    return true;
  }

  static constexpr int kMostEnding = 64;  // beside max_connections; each is a thread that has nothing left to do

  HttpOptions options_;
  Callbacks callbacks_;
  HttpMetrics& metrics_;
  int listener_ = -1, port_ = 0;
  std::thread accepting_;
  int ending_ = 0;
  std::mutex mutex_;  // of connections_, what is idle among them, and ending_
  std::condition_variable left_;
  std::atomic<bool> draining_{false};
  std::atomic<size_t> held_{0};  // bytes of all bodies
  std::list<Connection*> connections_;
};

HttpServer::HttpServer(const HttpOptions& options, Callbacks callbacks, HttpMetrics& metrics)
    : impl_(std::make_unique<Impl>(options, std::move(callbacks), metrics)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }
void HttpServer::start() { impl_->start(); }
bool HttpServer::drain(double seconds) { return impl_->drain(seconds); }

}  // namespace freight::serve
