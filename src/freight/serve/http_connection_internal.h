// One HTTP connection: the socket, the limits on what comes through it, and the state of the request that is being read
// or answered. httplib parses requests, unpacks bodies and formats answers; framing_internal.h decides where a head and
// a body end. Accepting, the list of connections and ending the server are http.cpp's.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <httplib.h>

#include "freight/serve/framing_internal.h"
#include "freight/serve/http.h"

namespace freight::serve {

// What all connections of a server share.
struct HttpShared {
  HttpOptions options;
  HttpServer::Callbacks callbacks;
  HttpMetrics& metrics;
  std::atomic<bool> draining{false};
  std::atomic<size_t> held{0};  // bytes of all bodies
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
  // Gives it up without closing it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class HttpConnection : private httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;
  // Called between requests: `waits` before each, false where the server ends; `begins` once its first byte is there,
  // or none will come.
  struct Turns {
    std::function<bool()> waits;
    std::function<void()> begins;
  };

  HttpConnection(Socket socket, HttpShared& shared);
  ~HttpConnection() override = default;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Answers requests one after the other until the client, a fault or the server ends it. True where bytes of the
  // client may be unread.
  bool serve(const Turns& turns);
  // Answers without reading a request.
  void refuse(int status, const std::string& text);
  // Other threads may call these: no further request is read; the request that is running is broken off.
  void stop_reading();
  void break_off();
  // Closing a socket with unread bytes resets it, and the answer may be lost: the rest is read for so long first.
  void close_gently(std::chrono::milliseconds time);
  // Takes the socket, which is then no longer closed with the connection.
  Socket release() { return std::move(socket_); }

 private:
  enum class Fault { none, header_too_large, body_too_large, too_late, closed, bad_line, bad_chunk };
  // httplib's part of a connection. Its handlers are given no stream, so each connection has its own.
  struct Http : httplib::Server {
    using httplib::Server::process_request;
  };

  // Reading and writing, for httplib: buffered both ways, counted and timed per request.
  bool is_readable() const override { return true; }
  bool is_writable() const override { return fault_ != Fault::closed; }
  ssize_t read(char* ptr, size_t size) override;
  ssize_t write(const char* ptr, size_t size) override;
  // Nobody asks for addresses; asking the system costs as much as reading the request.
  void get_remote_ip_and_port(std::string& ip, int& port) const override { no_address(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { no_address(ip, port); }
  static void no_address(std::string& ip, int& port);
  // httplib refuses numbers that select() could not take; there is no select here.
  socket_t socket() const override { return 0; }

  // Waits for the first byte of the next request; false where none comes.
  bool begin_request();
  // The body is next. A chunked one is larger than what it carries; that is limited where it is put together.
  void begin_body(bool chunked);
  // True where nothing of the body is left.
  bool body_ended() const { return !chunks_ || chunks_->state() == ChunkDecoder::State::done; }
  bool flush();
  ssize_t give_up(Fault why);
  // More bytes in in_; false at the end, or where there is a fault.
  bool more();
  bool fill();
  bool count(size_t bytes);
  // Keeps a part of the head; false where a line does not end with CR LF, or CR or NUL stands within one. httplib would
  // wait for more, or take the next request for a part of this one.
  bool take_head(std::string_view part);
  // The body without its chunks' frames: 0 behind the last one.
  ssize_t read_chunks(char* ptr, size_t size);

  // Sets what httplib calls for each request.
  void set_handlers();
  void set_answers();
  // httplib has parsed the head: decides whether the request is refused before its body is read.
  void understood(httplib::Request& request);
  void admit(const httplib::Request& request);
  bool has_body(const httplib::Request& request) const;
  Reply read_body(const httplib::Request& request, const httplib::ContentReader& reader);
  // Why a request is not for this server, or "".
  std::string stranger(const httplib::Request& request) const;

  Reply error(int status, const std::string& text) const;
  Reply body_too_large() const;
  // Status 0: no fault that has an answer.
  Reply fault_reply() const;
  void write(const Reply& reply, httplib::Response& response) const;
  // A status line and body for a request that httplib never understood.
  void write_raw(const Reply& reply);

  Socket socket_;
  HttpShared& shared_;
  const HttpOptions& options_;
  Http http_;
  std::vector<char> in_;
  std::string out_;
  size_t at_ = 0, end_ = 0;  // of what is in in_

  // Of the request.
  Fault fault_ = Fault::none;
  std::optional<Reply> refusal_;  // decided before httplib asks
  bool headers_read_ = false;     // httplib understood the request's head
  bool broken_ = false;           // nobody can tell where the next request begins
  bool keep_open_ = false;        // the request was read to its end
  bool in_body_ = false;
  size_t taken_ = 0, limit_ = 0;  // bytes of the head or body
  std::string head_;              // as it came
  std::optional<ChunkDecoder> chunks_;
  Clock::time_point deadline_;
};

}  // namespace freight::serve
