// Downloads from a server on the loopback interface that can break off, ignore Range and answer with errors.
#include "freight/data/fetch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

// Serves one body under every path; requests are answered one after the other.
class Server {
 public:
  enum class Range { honoured, ignored };
  explicit Server(std::string body) : body_(std::move(body)) {
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
  ~Server() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  std::string url(const std::string& name) const { return cat("http://127.0.0.1:", port_, "/", name); }

  // Set before the first request.
  size_t break_after = 0;  // the first answer stops after this many bytes
  int status = 200;
  Range range = Range::honoured;
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
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
      size_t first = 0;
      if (const size_t at = request.find("Range: bytes="); at != std::string::npos && range == Range::honoured) {
        first = std::stoul(request.substr(at + 13));
      }
      size_t count = 0;
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        count = requests_.size();
      }
      std::string answer = status != 200 ? cat("HTTP/1.1 ", status, " No\r\nContent-Length: 0\r\n")
                           : first > 0
                               ? cat("HTTP/1.1 206 Partial\r\nContent-Range: bytes ", first, "-", body_.size() - 1, "/",
                                     body_.size(), "\r\nContent-Length: ", body_.size() - first, "\r\n")
                               : cat("HTTP/1.1 200 OK\r\nContent-Length: ", body_.size(), "\r\n");
      answer += "Connection: close\r\n\r\n";
      if (status == 200)
        answer += count == 1 && break_after > 0 ? body_.substr(first, break_after) : body_.substr(first);
      for (size_t done = 0; done < answer.size();) {
        const ssize_t n = ::send(c, answer.data() + done, answer.size() - done, MSG_NOSIGNAL);
        if (n <= 0) break;
        done += static_cast<size_t>(n);
      }
      ::close(c);
    }
  }
  std::string body_;
  int fd_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

std::string body() {
  std::string out;
  for (int i = 0; i < 20000; ++i) out += cat(i, " ");
  return out;
}
CatalogFile expected(const TemporaryDir& dir, const std::string& content) {
  io::write_file_atomic(dir / "copy", std::string_view(content));
  return {"file.bin", sha256_of(dir / "copy"), static_cast<int64_t>(content.size())};
}
const FetchOptions kFast{.tries = 2, .retry_seconds = 0.01};

TEST(Fetch, Sha256IsRight) {
  const TemporaryDir dir;
  EXPECT_EQ(expected(dir, "abc").sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Fetch, DownloadsChecksAndReportsProgress) {
  const TemporaryDir dir;
  Server server(body());
  FetchOptions o = kFast;
  int64_t last = 0;
  o.progress = [&](const Progress& p) { last = p.done; };
  fetch_file({server.url("file.bin")}, dir / "file.bin", expected(dir, body()), o);
  EXPECT_EQ(read_text(dir / "file.bin"), body());
  EXPECT_FALSE(io::file_exists(dir / "file.bin.part"));
  EXPECT_EQ(last, static_cast<int64_t>(body().size()));
  // A file that is there already is not fetched again.
  fetch_file({server.url("file.bin")}, dir / "file.bin", expected(dir, body()), o);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Fetch, ContinuesAfterABreak) {
  const TemporaryDir dir;
  Server server(body());
  server.break_after = 30000;
  fetch_file({server.url("file.bin")}, dir / "file.bin", expected(dir, body()), kFast);
  EXPECT_EQ(read_text(dir / "file.bin"), body());
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_NE(server.requests()[1].find("Range: bytes=30000-"), std::string::npos);
}

TEST(Fetch, StartsOverWhereTheServerCannotContinue) {
  const TemporaryDir dir;
  Server server(body());
  server.break_after = 30000;
  server.range = Server::Range::ignored;
  FetchOptions o = kFast;
  o.tries = 3;
  fetch_file({server.url("file.bin")}, dir / "file.bin", expected(dir, body()), o);
  EXPECT_EQ(read_text(dir / "file.bin"), body());
}

TEST(Fetch, AWrongHashIsRefusedAndNothingIsLeft) {
  const TemporaryDir dir;
  Server server(body());
  CatalogFile wrong = expected(dir, body());
  wrong.sha256[0] = wrong.sha256[0] == '0' ? '1' : '0';
  expect_error(ErrorKind::data, {"file.bin", "SHA-256 differs", server.url("file.bin")},
               [&] { fetch_file({server.url("file.bin")}, dir / "file.bin", wrong, kFast); });
  EXPECT_FALSE(io::file_exists(dir / "file.bin"));
  EXPECT_FALSE(io::file_exists(dir / "file.bin.part"));
}

TEST(Fetch, TriesTheNextMirrorAfterA404) {
  const TemporaryDir dir;
  Server missing(""), good(body());
  missing.status = 404;
  fetch_file({missing.url("file.bin"), good.url("file.bin")}, dir / "file.bin", expected(dir, body()), kFast);
  EXPECT_EQ(read_text(dir / "file.bin"), body());
  EXPECT_EQ(missing.requests().size(), 1u);
  expect_error(ErrorKind::data, {"404", "--url"}, [&] {
    fetch_file({missing.url("other")}, dir / "other", {"other", "", 0}, kFast);
  });
}

TEST(Fetch, OfflineIsSaidClearly) {
  const TemporaryDir dir;
  expect_error(ErrorKind::data, {"offline?", "--url", "127.0.0.1:9"}, [&] {
    fetch_file({"http://127.0.0.1:9/f"}, dir / "f", {"f", "", 0}, kFast);
  });
}

TEST(Fetch, ASetGoesToItsFolderAndUnknownSetsAreNamed) {
  const TemporaryDir dir;
  expect_error(ErrorKind::usage, {"mnits", "mnist"}, [] { fetch_set("mnits"); });
  FetchOptions o = kFast;
  o.data_dir = dir.path();
  if (env::get("FREIGHT_DATA_URL").empty()) {
    expect_error(ErrorKind::data, {"cifar10", "--url", dir / "cifar10"}, [&] { fetch_set("cifar10", o); });
  }
}

}  // namespace
}  // namespace freight::data
