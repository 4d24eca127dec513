// Servers of small models in this process, and a client of plain sockets that may say what no sound client says.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "freight/base/strings.h"
#include "freight/serve/server.h"
#include "freight/store/bundle.h"
#include "tests/support/files.h"

namespace freight::serve {

// A lenet with fresh weights.
inline void save_digits_model(const std::string& path) {
  store::Bundle b;
  b.model = models::create("lenet");
  b.preprocessing = {.input = {1, 28, 28}, .mean = {0.5f}, .std = {0.25f}, .arrays = {.values = data::Values::bytes}};
  store::save_bundle(path, b);
}

// A bag of words with fresh weights that takes up to 32 tokens.
inline void save_text_model(const std::string& path) {
  store::Bundle b;
  const std::vector<std::string> texts = {"the film is a joy", "the film is a bore", "a joy and a bore"};
  const std::shared_ptr<const data::Tokenizer> tokenizer =
      data::learn_tokenizer(texts, {.kind = data::TokenizerKind::word, .limit = 0});
  b.model = models::create("text_bow", {.classes = 2, .vocabulary = tokenizer->size(), .length = 32});
  b.preprocessing = {.input = {32}, .mean = {}, .std = {}, .tokenizer = tokenizer, .lengths = {16, 32}};
  b.classes = {"bad", "good"};
  store::save_bundle(path, b);
}

// A model file by `save`, served on a free port until the end of the scope.
class RunningServer {
 public:
  explicit RunningServer(ServerOptions options = {}) {
    save_digits_model(dir_ / "digits.safetensors");
    save_text_model(dir_ / "text.safetensors");
    options.port = 0;
    options.deterministic = true;
    if (options.max_batch > 4) options.max_batch = 4;  // few plans, made quickly
    server_ = std::make_unique<Server>(
        std::vector<ModelFile>{{"digits", dir_ / "digits.safetensors"}, {"text", dir_ / "text.safetensors"}}, options);
    server_->start();
  }
  int port() const { return server_->port(); }
  std::string url() const { return cat("http://127.0.0.1:", port()); }
  Server& operator*() { return *server_; }
  const testing::TemporaryDir& dir() const { return dir_; }

 private:
  testing::TemporaryDir dir_;
  std::unique_ptr<Server> server_;
};

struct Answer {
  int status = 0;
  std::string head, body;
};

// A connection that sends what it is told.
class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval patience{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  // False where the server has closed the connection.
  bool send(const std::string& text) const {
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  // The next whole answer; status 0 where the connection ends before.
  Answer receive() {
    for (;;) {
      const size_t end = in_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const size_t at = in_.find("Content-Length: ");
        const size_t length = at < end ? std::strtoull(in_.c_str() + at + 16, nullptr, 10) : 0;
        if (in_.size() >= end + 4 + length) {
          Answer a{std::atoi(in_.c_str() + 9), in_.substr(0, end), in_.substr(end + 4, length)};
          in_.erase(0, end + 4 + length);
          return a;
        }
      }
      if (!fill()) return {};
    }
  }
  // Whether the server ends the connection, within the client's patience.
  bool closed() {
    while (fill()) {
    }
    return errno != EAGAIN && errno != EWOULDBLOCK;
  }
  void finish_sending() const { ::shutdown(fd_, SHUT_WR); }
  Answer ask(const std::string& text) {
    send(text);
    return receive();
  }

 private:
  bool fill() {
    char buffer[1 << 16];
    errno = 0;
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0) in_.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }
  int fd_;
  bool connected_ = false;
  std::string in_;
};

inline std::string get(const std::string& path, const std::string& headers = {}) {
  return cat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}
inline std::string post(const std::string& path, const std::string& body, const std::string& headers = {}) {
  return cat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "Content-Length: ", body.size(), "\r\n\r\n",
             body);
}

}  // namespace freight::serve
