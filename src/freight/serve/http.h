// HTTP over sockets. httplib routes and writes the messages; these files add what it lacks: strict framing
// (framing_internal.h), limits on header, body and time, pipelining, and closing after an error
// (http_connection_internal.h), a limit on connections, and a graceful end (http.cpp). routes.h defines what the paths
// mean. Nothing of httplib is visible here.
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

// A request as a handler sees it, valid during the call.
class Request {
 public:
  virtual ~Request() = default;
  virtual const std::string& method() const = 0;
  virtual const std::string& path() const = 0;  // the decoded path, without the query
  // The value of a header (in any case) or of the query; "" if it is missing.
  virtual std::string header(const char* name) const = 0;
  virtual std::string query(const char* name) const = 0;
  virtual const std::string& body() const = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  // A further connection replaces the one that has been idle longest; if all are busy, it is refused (503).
  int64_t max_connections = 256;
  // The names by which clients may call the server, besides numeric addresses, localhost and `host`; "*": any.
  std::vector<std::string> allowed_hosts = {};
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_body_bytes = size_t{32} << 20;
  // Of all bodies together, unpacked; beyond it a request is refused with 503.
  size_t max_held_bytes = size_t{256} << 20;
  // A request must arrive within this time (checked before each receive, which waits at most as long: a stalled client
  // is cut off after twice this), each send of a response must end within it, and a connection may be idle for as long.
  double timeout_seconds = 30;
};

class HttpServer {
 public:
  // `admit` sees a request before its body is read; if it returns a reply, that ends the request. `answer` replies to
  // admitted requests, and `error_body` gives the text for requests that httplib itself refuses. Many threads call them
  // at once.
  struct Callbacks {
    std::function<std::optional<Reply>(const Request&)> admit;
    std::function<Reply(const Request&)> answer;
    std::function<std::string(const std::string& text)> error_body;
  };
  // Binds the address; connections are refused until start(). Throws Error(runtime) if the address cannot be bound.
  HttpServer(const HttpOptions& options, Callbacks callbacks, HttpMetrics& metrics);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Serves on its own threads until drain().
  void start();
  // Accepts no new connection, closes idle ones, completes requests that have begun and closes their connections. False
  // if some had to be closed after `seconds` before they were complete.
  bool drain(double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace freight::serve
