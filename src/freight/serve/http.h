// HTTP over sockets: httplib routes and writes the messages, and these files hold what it leaves open: strict framing
// (framing_internal.h), limits on header, body and time, pipelining and the end after a fault
// (http_connection_internal.h), a limit on connections and a graceful end (http.cpp). What the paths mean is
// routes.h's. Shows nothing of httplib.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/serve/metrics.h"

namespace freight::serve {

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// A handler sees this of a request, which is valid during the call.
class Request {
 public:
  virtual ~Request() = default;
  virtual const std::string& method() const = 0;
  virtual const std::string& path() const = 0;  // decoded, without the query
  // The value of a header (any case) or of the query; "" where there is none.
  virtual std::string header(const char* name) const = 0;
  virtual std::string query(const char* name) const = 0;
  virtual const std::string& body() const = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  // A connection beyond these takes the place of the one that is idle longest; where all are at work it is refused
  // (503).
  int64_t max_connections = 256;
  // Names by which clients may call the server beside addresses in numbers, localhost and `host`; "*": any.
  std::vector<std::string> allowed_hosts = {};
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_body_bytes = size_t{32} << 20;
  size_t max_held_bytes = size_t{256} << 20;  // of all bodies at once, unpacked; beyond it a request is answered 503
  // A request must have come within this time of its first byte (looked at whenever bytes come, and at most once more
  // so long after), a reader must take its answer, and a connection may be idle so long.
  double timeout_seconds = 30;
};

class HttpServer {
 public:
  // `admit` looks at a request before its body is read: a reply ends it there. `answer` gives the reply to the rest,
  // and to what httplib itself refuses the text of `error_body`. Called by many threads at once.
  struct Callbacks {
    std::function<std::optional<Reply>(const Request&)> admit;
    std::function<Reply(const Request&)> answer;
    std::function<std::string(const std::string& text)> error_body;
  };
  // Takes the address; connections are refused until start(). Throws Error(runtime) where it cannot be had.
  HttpServer(const HttpOptions& options, Callbacks callbacks, HttpMetrics& metrics);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Answers on threads of its own until drain().
  void start();
  // Takes no new connection, closes idle ones, finishes the requests that have begun and closes their connections.
  // False where some had to be broken off after `seconds`.
  bool drain(double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace freight::serve
