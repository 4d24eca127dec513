// One HTTP connection: its socket, the limits on what it receives, and the state of the current request. httplib parses
// requests, unpacks bodies and formats responses; framing_internal.h decides where a head and a body end. http.cpp
// accepts connections, lists them, and ends the server.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define CPPHTTPLIB_ZLIB_SUPPORT
#include "../../../third_party/cpp-httplib/httplib.h"
#include "freight/serve/framing_internal.h"
#include "freight/serve/http.h"

namespace freight::serve {

// The part that all connections of a server share.
struct HttpShared {
  HttpOptions options;
  HttpServer::Callbacks callbacks;
  HttpMetrics& metrics;
  std::atomic<bool> draining{false};
  std::atomic<size_t> held{0};  // of all bodies together
};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket& operator=(Socket&&) = delete;
  int fd() const { return fd_; }
  // Releases the descriptor without closing it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class HttpConnection : private httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;
  // Called between requests: `waits` before each, which returns false if the server ends; `begins` when its first byte
  // has arrived, or none will.
  struct RequestHooks {
    std::function<bool()> waits;
    std::function<void()> begins;
  };

  HttpConnection(Socket socket, HttpShared& shared);
  ~HttpConnection() override = default;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Serves requests one after the other until the client, an error or the server ends the connection. True if the
  // client may have sent bytes that were not read.
  bool serve(const RequestHooks& hooks);
  // Sends a refusal without reading a request.
  void refuse(int status, const std::string& text);
  // Other threads may call these: the first lets no further request be read, the second interrupts the current one.
  void stop_reading();
  void break_off();
  // Closing a socket with unread bytes resets it, and the response may be lost; so the rest is read for this time
  // first.
  void close_gently(std::chrono::milliseconds time);
  // Gives away the socket, which is then not closed with the connection.
  Socket release() { return std::move(socket_); }

 private:
  enum class Fault { none, header_too_large, body_too_large, too_late, closed, bad_line, bad_chunk };
  // httplib's part of a connection. Its handlers get no stream, so each connection has its own.
  struct Http : httplib::Server {
    using httplib::Server::process_request;
  };

  // Reading and writing for httplib: buffered in both directions, counted and timed per request.
  bool is_readable() const override { return true; }
  bool is_writable() const override { return fault_ != Fault::closed; }
  ssize_t read(char* ptr, size_t size) override;
  ssize_t write(const char* ptr, size_t size) override;
  // The addresses are not used, and asking the system costs as much as reading the request.
  void get_remote_ip_and_port(std::string& ip, int& port) const override { no_address(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { no_address(ip, port); }
  static void no_address(std::string& ip, int& port);
  // httplib refuses numbers that are too large for select(), which is not used here.
  socket_t socket() const override { return 0; }

  // Waits for the first byte of the next request; false if none arrives.
  bool begin_request();
  // Starts the body. A chunked one is larger than its content, whose size is limited where it is assembled.
  void begin_body(bool chunked);
  // True if the whole body was read.
  bool body_ended() const { return !chunks_ || chunks_->state() == ChunkDecoder::State::done; }
  bool flush();
  ssize_t give_up(Fault why);
  // Reads more bytes into in_; false at the end of the connection or after an error.
  bool more();
  bool fill();
  bool count(size_t bytes);
  // Appends a part of the head; false if a line does not end with CR LF, or contains CR or NUL. httplib would wait for
  // more bytes, or take the next request for a part of this one.
  bool take_head(std::string_view part);
  // Reads the body's content without the framing of its chunks: 0 after the last one.
  ssize_t read_chunks(char* ptr, size_t size);

  // Sets the functions that httplib calls for each request.
  void set_handlers();
  void set_answers();
  // Called when httplib has parsed the head: decides whether the request is refused before its body is read.
  void check_head(httplib::Request& request);
  void admit(const httplib::Request& request);
  bool has_body(const httplib::Request& request) const;
  Reply read_body(const httplib::Request& request, const httplib::ContentReader& reader);
  // The reason why this server does not serve a request, or "".
  std::string host_fault(const httplib::Request& request) const;

  Reply error(int status, const std::string& text) const;
  Reply body_too_large() const;
  // The reply to an error of the connection; status 0 if the error needs none.
  Reply fault_reply() const;
  void write(const Reply& reply, httplib::Response& response) const;
  // Writes a status line and body for a request that httplib could not parse.
  void write_raw(const Reply& reply);

  Socket socket_;
  HttpShared& shared_;
  const HttpOptions& options_;
  Http http_;
  std::vector<char> in_;
  std::string out_;
  size_t at_ = 0, end_ = 0;  // the unread part of in_

  // The state of the current request.
  Fault fault_ = Fault::none;
  std::optional<Reply> refusal_;  // a reply that was decided before httplib routes the request
  bool headers_read_ = false;     // httplib parsed the request's head
  bool broken_ = false;           // the beginning of the next request is unknown
  bool keep_open_ = false;        // the request was read completely
  bool in_body_ = false;
  size_t taken_ = 0, limit_ = 0;  // bytes of the head or body
  std::string head_;              // as it was sent
  std::string path_;
  std::optional<ChunkDecoder> chunks_;
  Clock::time_point deadline_;
};

}  // namespace freight::serve
