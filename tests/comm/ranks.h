// Runs a function in processes of their own, the ranks of a job on this host. A rank reports by text: an empty one says
// that all was well.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/comm/join.h"
#include "freight/comm/shared_memory.h"

namespace freight::test {

// Counts across processes.
class SharedCounter {
 public:
  SharedCounter()
      : at_(static_cast<std::atomic<int>*>(
            ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedCounter() { ::munmap(at_, sizeof(*at_)); }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  void add() { at_->fetch_add(1); }
  // False where it is not there within 30 seconds.
  bool reaches(int count) const {
    const auto start = std::chrono::steady_clock::now();
    while (at_->load() < count && seconds_since(start) < 30) ::usleep(1000);
    return at_->load() >= count;
  }

 private:
  std::atomic<int>* at_;
};

// A port that nothing listens on.
inline int free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  socklen_t length = sizeof(a);
  EXPECT_EQ(::bind(s, reinterpret_cast<const sockaddr*>(&a), length), 0);
  ::getsockname(s, reinterpret_cast<sockaddr*>(&a), &length);
  ::close(s);
  return ntohs(a.sin_port);
}

// The name ends with a port for transports that meet on one.
inline std::string new_job() {
  static std::atomic<int> counter{0};
  return cat("test-", static_cast<int64_t>(::getpid()), "-", counter++, "-", free_port());
}

inline comm::Launch launch_of(const std::string& job, int rank, int world) {
  comm::Launch l = {.rank = rank, .world = world, .local_rank = rank, .local_world = world, .job = job};
  l.master_address = "127.0.0.1";
  if (const size_t dash = job.rfind('-'); dash != std::string::npos) l.master_port = std::stoi(job.substr(dash + 1));
  return l;
}

// All tests of transports that meet over a network have one secret.
inline std::unique_ptr<comm::Comm> join_by(comm::Transport transport, const comm::Launch& launch, double timeout = 60) {
  ::setenv("FREIGHT_TOKEN", "the secret of the tests", 1);
  return comm::join_job(launch, {.timeout = timeout, .transport = transport});
}

struct RankEnd {
  std::string report;  // what the function returned, or "error KIND: TEXT" of what it threw
  int status = 0;      // of waitpid
};

// Processes that run until the end of the scope at the latest.
class Ranks {
 public:
  using Body = std::function<std::string(int rank)>;

  Ranks(int world, const Body& body) {
    for (int r = 0; r < world; ++r) {
      std::array<int, 2> ends{};
      EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      const pid_t child = ::fork();
      if (child == 0) {
        ::close(ends[0]);
        std::string report;
        try {
          report = body(r);
        } catch (const Error& e) {
          report = cat("error ", e.exit_code(), ": ", e.what());
        }
        [[maybe_unused]] const ssize_t n = ::write(ends[1], report.data(), report.size());
        ::_exit(0);
      }
      ::close(ends[1]);
      processes_.push_back(child);
      pipes_.push_back(ends[0]);
    }
  }
  ~Ranks() {
    for (const pid_t p : processes_) {
      ::kill(p, SIGKILL);
      ::waitpid(p, nullptr, 0);
    }
    for (const int fd : pipes_) ::close(fd);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  pid_t process(int rank) const { return processes_[static_cast<size_t>(rank)]; }

  // Waits for its report and its end, `seconds` at most: what hangs is killed, and its report says so.
  RankEnd finish_one(int rank, double seconds) {
    const auto r = static_cast<size_t>(rank);
    RankEnd end;
    pollfd p = {.fd = pipes_[r], .events = POLLIN, .revents = 0};
    if (::poll(&p, 1, static_cast<int>(std::max(seconds, 0.0) * 1e3)) != 1) {
      end.report = "hangs";
      ::kill(processes_[r], SIGKILL);
    }
    std::array<char, 4096> part{};
    for (ssize_t n = 0; end.report != "hangs" && (n = ::read(pipes_[r], part.data(), part.size())) > 0;) {
      end.report.append(part.data(), static_cast<size_t>(n));
    }
    ::waitpid(processes_[r], &end.status, 0);
    return end;
  }
  // All but `except`, within `seconds` together.
  std::vector<RankEnd> finish(double seconds = 60, int except = -1) {
    std::vector<RankEnd> all(processes_.size());
    const auto start = std::chrono::steady_clock::now();
    for (int r = 0; r < static_cast<int>(all.size()); ++r) {
      if (r != except) all[static_cast<size_t>(r)] = finish_one(r, seconds - seconds_since(start));
    }
    return all;
  }

 private:
  std::vector<pid_t> processes_;
  std::vector<int> pipes_;
};

// Runs body(comm) in `world` ranks that met, and returns their reports.
inline std::vector<std::string> reports_of(int world, const std::function<std::string(comm::Comm&)>& body,
                                           double timeout = 60,
                                           comm::Transport transport = comm::Transport::shared_memory) {
  const std::string job = new_job();
  Ranks ranks(world, [&](int r) {
    const auto c = join_by(transport, launch_of(job, r, world), timeout);
    return body(*c);
  });
  std::vector<std::string> reports;
  for (const RankEnd& e : ranks.finish(timeout + 30)) reports.push_back(e.report);
  return reports;
}

inline void expect_well(const std::vector<std::string>& reports) {
  for (size_t r = 0; r < reports.size(); ++r) EXPECT_EQ(reports[r], "") << "rank " << r;
}

}  // namespace freight::test
