// An HTTP server on the loopback interface for tests of downloads: it can break off, ignore Range, redirect and answer
// with errors. Requests are answered one after the other.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "freight/base/strings.h"

namespace freight::testing {

class LoopbackServer {
 public:
  struct Answer {
    std::string body = {};
    int status = 200;
    std::string location = {};  // of a redirect
    size_t break_after = 0;     // the first answer to this path stops after so many bytes
  };
  // The answer to each path, "/file.bin"; a path that is not among them gets 404.
  explicit LoopbackServer(std::map<std::string, Answer> answers = {}) : answers_(std::move(answers)) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(fd_, 8);
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LoopbackServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string url(const std::string& path = {}) const { return cat("http://127.0.0.1:", port_, path); }
  void put(const std::string& path, Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_[path] = std::move(answer);
  }
  // Set before the first request.
  bool honours_range = true;
  // The heads of all requests; with `path` those of one.
  std::vector<std::string> requests(const std::string& path = {}) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const std::string& r : requests_) {
      if (path.empty() || starts_with(r, cat("GET ", path, " "))) found.push_back(r);
    }
    return found;
  }

 private:
  std::string answer_to(const std::string& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    const size_t begin = request.find(' ') + 1;
    const std::string path = request.substr(begin, request.find(' ', begin) - begin);
    const auto it = answers_.find(path);
    if (it == answers_.end()) return "HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    Answer& a = it->second;
    std::string head = cat("HTTP/1.1 ", a.status, " Answer\r\nConnection: close\r\n");
    if (!a.location.empty()) head += cat("Location: ", a.location, "\r\n");
    size_t first = 0;
    if (const size_t at = request.find("Range: bytes="); at != std::string::npos && honours_range && a.status == 200) {
      first = std::min(std::stoul(request.substr(at + 13)), a.body.size());
      head = cat("HTTP/1.1 206 Partial\r\nConnection: close\r\nContent-Range: bytes ", first, "-", a.body.size() - 1,
                 "/", a.body.size(), "\r\n");
    }
    std::string body = a.body.substr(first);
    head += cat("Content-Length: ", body.size(), "\r\n\r\n");
    if (a.break_after > 0) body.resize(std::min(body.size(), a.break_after));
    a.break_after = 0;
    return head + body;
  }
  void serve() {
    for (;;) {
      const int c = ::accept(fd_, nullptr, nullptr);
      if (c < 0) return;
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = ::read(c, buffer, sizeof buffer);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      const std::string answer = answer_to(request);
      for (size_t done = 0; done < answer.size();) {
        const ssize_t n = ::send(c, answer.data() + done, answer.size() - done, MSG_NOSIGNAL);
        if (n <= 0) break;
        done += static_cast<size_t>(n);
      }
      ::close(c);
    }
  }

  std::map<std::string, Answer> answers_;
  int fd_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

}  // namespace freight::testing
