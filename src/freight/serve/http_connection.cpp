// See http_connection_internal.h. httplib routes requests, unpacks bodies and writes responses
// (Server::process_request). The loop of a connection and its Stream are ours: httplib's do not limit the size of a
// head or of a chunked body or the time of a request, and lose pipelined requests. Only framing.cpp decides where a
// head and a body end: httplib skips lines that it does not understand, and accepts any chunk size that strtoul() does.
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/serve/http_connection_internal.h"

namespace freight::serve {

namespace {

constexpr size_t kMaxPath = 2048;

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

class RequestView : public Request {
 public:
  RequestView(const httplib::Request& request, const std::string& path, const std::string& body)
      : request_(request), path_(path), body_(body) {}
  const std::string& method() const override { return request_.method; }
  const std::string& path() const override { return path_; }
  std::string header(const char* name) const override { return request_.get_header_value(name); }
  std::string query(const char* name) const override { return request_.get_param_value(name); }
  const std::string& body() const override { return body_; }

 private:
  const httplib::Request& request_;
  const std::string& path_;
  const std::string& body_;
};

// A content coding of the body that httplib does not unpack, or "".
std::string unknown_coding(const httplib::Request& r) {
  const std::string coding = r.get_header_value("Content-Encoding");
  if (r.get_header_value_count("Content-Encoding") > 1) return "several at once";
  for (const char* known : {"", "gzip", "deflate"}) {
    if (coding == known) return "";
  }
  return coding;
}

// The memory that a body holds, out of the limit for all requests; packed bodies count as they are unpacked.
struct Held {
  std::atomic<size_t>& all;
  size_t own = 0;
  ~Held() { all -= own; }
  bool more(size_t bytes, size_t most) {
    own += bytes;
    return all.fetch_add(bytes) + bytes <= most;
  }
};

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

HttpConnection::HttpConnection(Socket socket, HttpShared& shared)
    : socket_(std::move(socket)), shared_(shared), options_(shared.options), in_(size_t{64} << 10) {
  const timeval limit = interval(options_.timeout_seconds);
  ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const int on = 1;
  ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void HttpConnection::stop_reading() { ::shutdown(socket_.fd(), SHUT_RD); }
void HttpConnection::break_off() { ::shutdown(socket_.fd(), SHUT_RDWR); }
void HttpConnection::close_gently(std::chrono::milliseconds time) {
  const Socket socket = release();
  ::shutdown(socket.fd(), SHUT_WR);
  std::array<char, 4096> rest;
  const auto end = Clock::now() + time;
  pollfd wait{socket.fd(), POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left < 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) break;
    if (::recv(socket.fd(), rest.data(), rest.size(), MSG_DONTWAIT) <= 0) break;
  }
}
void HttpConnection::refuse(int status, const std::string& text) { write_raw(error(status, text)); }

bool HttpConnection::serve(const RequestHooks& hooks) {
  set_handlers();
  set_answers();
  for (;;) {
    if (!hooks.waits()) return false;
    const bool more = begin_request();
    hooks.begins();
    if (!more) return false;
    bool closes = shared_.draining;
    const bool written =
        http_.process_request(*this, shared_.draining, closes, [this](httplib::Request& r) { check_head(r); });
    if (!headers_read_ && fault_ != Fault::closed && !written) {
      if (const Reply reply = fault_reply(); reply.status != 0) write_raw(reply);
    }
    // Marks the connection idle before the response is sent: its client may open another one as soon as it has read it.
    closes = closes || (keep_open_ && !hooks.waits());
    if (!flush()) return false;
    if (!keep_open_) return true;
    if (closes) return false;
  }
}

// --- bytes ---

void HttpConnection::no_address(std::string& ip, int& port) {
  ip = "-";
  port = 0;
}

bool HttpConnection::begin_request() {
  taken_ = 0;
  in_body_ = false;
  limit_ = options_.max_header_bytes;
  refusal_.reset();
  headers_read_ = keep_open_ = broken_ = false;
  fault_ = Fault::none;
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

void HttpConnection::begin_body(bool chunked) {
  headers_read_ = in_body_ = true;
  taken_ = 0;
  limit_ = 2 * options_.max_body_bytes + (size_t{64} << 10);
  if (chunked) chunks_.emplace();
}

bool HttpConnection::flush() {
  size_t done = 0;
  while (done < out_.size() && fault_ != Fault::closed) {
    const ssize_t n = ::send(socket_.fd(), out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      fault_ = Fault::closed;
    }
  }
  out_.clear();
  return fault_ != Fault::closed;
}

ssize_t HttpConnection::read(char* ptr, size_t size) {
  if (fault_ != Fault::none) return -1;
  if (chunks_) return read_chunks(ptr, size);
  if (at_ == end_ && !more()) return fault_ == Fault::none ? 0 : -1;
  const size_t n = std::min(size, end_ - at_);
  if (!count(n)) return -1;
  if (!in_body_ && !take_head({in_.data() + at_, n})) return give_up(Fault::bad_line);
  std::memcpy(ptr, in_.data() + at_, n);
  at_ += n;
  return static_cast<ssize_t>(n);
}

ssize_t HttpConnection::write(const char* ptr, size_t size) {
  out_.append(ptr, size);
  if (out_.size() > (size_t{1} << 20) && !flush()) return -1;
  return static_cast<ssize_t>(size);
}

ssize_t HttpConnection::give_up(Fault why) {
  fault_ = why;
  return -1;
}

bool HttpConnection::more() {
  if (!out_.empty() && !flush()) return false;  // sends "100 Continue"
  if (Clock::now() > deadline_) {
    fault_ = Fault::too_late;
    return false;
  }
  return fill();
}

bool HttpConnection::fill() {
  for (;;) {
    const ssize_t n = ::recv(socket_.fd(), in_.data(), in_.size(), 0);
    if (n > 0) {
      at_ = 0;
      end_ = static_cast<size_t>(n);
      return true;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fault_ = errno == EAGAIN || errno == EWOULDBLOCK ? Fault::too_late : Fault::closed;
    return false;
  }
}

bool HttpConnection::count(size_t bytes) {
  taken_ += bytes;
  if (taken_ <= limit_) return true;
  fault_ = in_body_ ? Fault::body_too_large : Fault::header_too_large;
  return false;
}

bool HttpConnection::take_head(std::string_view part) {
  for (const char c : part) {
    const bool after_return = !head_.empty() && head_.back() == '\r';
    if (after_return != (c == '\n') || c == '\0') return false;
    head_ += c;
  }
  return true;
}

ssize_t HttpConnection::read_chunks(char* ptr, size_t size) {
  using State = ChunkDecoder::State;
  for (;;) {
    if (chunks_->state() == State::done) return 0;
    if (chunks_->state() == State::broken) return give_up(Fault::bad_chunk);
    if (at_ == end_ && !more()) return fault_ == Fault::none ? give_up(Fault::closed) : -1;
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

// --- requests ---

void HttpConnection::set_handlers() {
  http_.set_keep_alive_timeout(static_cast<time_t>(std::max(1.0, options_.timeout_seconds)));
  http_.set_keep_alive_max_count(1'000'000);  // clients are told this number, but it is not enforced
  http_.set_payload_max_length(std::numeric_limits<size_t>::max());  // enforced in read_body instead
  http_.set_expect_100_continue_handler([this](const httplib::Request& request, httplib::Response& response) {
    admit(request);
    if (!refusal_) return 100;
    write(*refusal_, response);
    return refusal_->status;
  });
  http_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    admit(request);
    const bool body = has_body(request);
    keep_open_ = !body && !broken_;
    if (!refusal_ && (request.method == "POST" && (body || request.has_header("Content-Length")))) {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    const std::string none;
    write(refusal_ ? *refusal_ : shared_.callbacks.answer(RequestView(request, path_, none)), response);
    return httplib::Server::HandlerResponse::Handled;
  });
  const httplib::Server::HandlerWithContentReader read =
      [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
        write(read_body(request, reader), response);
      };
  http_.Post("/", read);  // check_head() has set every path to "/"
}

void HttpConnection::set_answers() {
  http_.set_error_handler([this](const httplib::Request&, httplib::Response& response) {
    if (!headers_read_ || fault_ != Fault::none) keep_open_ = false;
    if (const Reply reply = fault_reply(); reply.status != 0) {
      write(reply, response);
    } else if (response.body.empty()) {
      write(error(response.status,
                  cat(reason(response.status), ": malformed HTTP/1.1, or a header line longer than 8192 bytes")),
            response);
    }
    if (!keep_open_) response.set_header("Connection", "close");
  });
  // Both httplib and the handlers above announce that the connection closes; this removes the duplicate.
  http_.set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.has_header("Connection")) return;
    response.headers.erase("Connection");
    response.headers.erase("Keep-Alive");
    response.set_header("Connection", "close");
  });
  http_.set_logger([this](const httplib::Request&, const httplib::Response& response) {
    ++shared_.metrics.responses[static_cast<size_t>(std::clamp(response.status, 0, HttpMetrics::kStatuses - 1))];
  });
  http_.set_exception_handler([this](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
    write(error(500, "the server failed"), response);
  });
}

void HttpConnection::admit(const httplib::Request& request) {
  const std::string none;
  if (!refusal_) refusal_ = shared_.callbacks.admit(RequestView(request, path_, none));
}

bool HttpConnection::has_body(const httplib::Request& r) const {
  return chunks_.has_value() || (r.has_header("Content-Length") && r.get_header_value("Content-Length") != "0");
}

Reply HttpConnection::read_body(const httplib::Request& request, const httplib::ContentReader& reader) {
  if (request.is_multipart_form_data()) {  // httplib reads these with another type of reader
    keep_open_ = false;
    return error(415, "a form is not an input: send the file's bytes as the body (curl --data-binary @FILE)");
  }
  std::string body;
  Held held{shared_.held};
  bool large = false, full = false;
  const bool whole = reader([&](const char* data, size_t size) {
    large = body.size() + size > options_.max_body_bytes;
    full = !large && !held.more(size, std::max(options_.max_held_bytes, options_.max_body_bytes));
    if (!large && !full) body.append(data, size);
    return !large && !full;
  });
  keep_open_ = whole && body_ended();
  if (large) return body_too_large();
  if (full) {
    Reply reply = error(503, "other requests use the server's memory for bodies: try again later");
    reply.headers.emplace_back("Retry-After", "1");
    return reply;
  }
  if (const Reply reply = fault_reply(); reply.status != 0) return reply;
  if (!whole) return error(400, "the body broke off or is damaged");
  return shared_.callbacks.answer(RequestView(request, path_, body));
}

std::string HttpConnection::host_fault(const httplib::Request& request) const {
  for (const char* name : {"Host", "Origin"}) {
    if (!request.has_header(name)) continue;
    const std::string value = request.get_header_value(name);
    if (host_allowed(host_of(value), options_.host, options_.allowed_hosts)) continue;
    return cat(name, ": this server does not accept ", value.substr(0, 80), " (freight serve --allow-host NAME)");
  }
  return "";
}

void HttpConnection::check_head(httplib::Request& request) {
  const Head head = parse_head(head_);
  begin_body(head.fault.empty() && head.chunked);
  // httplib matches paths by regular expressions, whose time depends on what a client sends. Routes are found
  // elsewhere.
  path_ = std::exchange(request.path, "/");
  // Uses the headers as they were sent: httplib decodes what looks percent-encoded, and omits empty ones.
  request.headers.clear();
  for (const auto& [name, value] : head.fields) request.headers.emplace(name, value);
  request.headers.erase("Transfer-Encoding");  // the connection decodes the chunks, and httplib reads their content
  // Responses are small and for programs: they are always sent whole and uncompressed.
  request.headers.erase("Accept-Encoding");
  request.ranges.clear();
  if (lower(request.get_header_value("Content-Encoding")) == "identity") request.headers.erase("Content-Encoding");
  if (!head.fault.empty()) {
    broken_ = true;
    refusal_ = error(400, head.fault);
  } else if (const std::string fault = host_fault(request); !fault.empty()) {
    refusal_ = error(403, fault);
  } else if (path_.size() > kMaxPath) {
    refusal_ = error(414, cat("the path is longer than ", kMaxPath, " bytes"));
  } else if (parse_number<uint64_t>(request.get_header_value("Content-Length")).value_or(0) > options_.max_body_bytes) {
    refusal_ = body_too_large();
  } else if (const std::string coding = unknown_coding(request); !coding.empty()) {
    refusal_ = error(415, cat("Content-Encoding: expected gzip, deflate or none, got ", coding.substr(0, 80)));
  }
}

// --- answers ---

Reply HttpConnection::error(int status, const std::string& text) const {
  return {.status = status, .body = shared_.callbacks.error_body(text)};
}

Reply HttpConnection::body_too_large() const {
  return error(413, cat("the body is larger than the server's limit of ", options_.max_body_bytes,
                        " bytes (freight serve --max-body-mb)"));
}

Reply HttpConnection::fault_reply() const {
  switch (fault_) {
    case Fault::header_too_large:
      return error(431, cat("the request's head is larger than ", options_.max_header_bytes, " bytes"));
    case Fault::body_too_large: return body_too_large();
    case Fault::bad_line: return error(400, "every header line of a request ends with CR LF and contains no CR or NUL");
    case Fault::bad_chunk: return error(400, "the chunks of the body are not those of RFC 9112");
    case Fault::too_late:
      return error(408, cat("the request did not arrive within ", options_.timeout_seconds, " seconds"));
    default: return {.status = 0};
  }
}

void HttpConnection::write(const Reply& reply, httplib::Response& response) const {
  response.status = reply.status;
  if (shared_.draining) response.set_header("Connection", "close");
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  response.set_content(reply.body, reply.type);
}

void HttpConnection::write_raw(const Reply& reply) {
  const std::string text = cat("HTTP/1.1 ", reply.status, " ", reason(reply.status), "\r\nContent-Type: ", reply.type,
                               "\r\nContent-Length: ", reply.body.size(), "\r\nConnection: close\r\n\r\n", reply.body);
  write(text.data(), text.size());
  flush();
  ++shared_.metrics.responses[static_cast<size_t>(reply.status)];
}

}  // namespace freight::serve
