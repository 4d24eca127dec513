// See host_rendezvous.h. There is one message in each direction: a rank sends its number, and rank 0 answers when all
// ranks have connected, with the memory file or with an error.
#include "freight/comm/host_rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/base/version.h"
#include "freight/comm/acceptor_internal.h"
#include "freight/comm/joined_ranks_internal.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/rendezvous_cancel_internal.h"

namespace freight::comm {

namespace {

using Clock = std::chrono::steady_clock;

struct Hello {
  std::array<char, 32> version;
  int32_t rank, world;
  uint64_t bytes;
};

struct Answer {
  int32_t kind;                // 0, or an ErrorKind
  std::array<char, 500> text;  // of the error
};

constexpr int kMostRanks = 1024;  // on one host

// The seconds, of `left`, until the next check.
double until_asked(const HostRendezvousPlan& plan, double left) {
  return plan.cancelled ? std::min(left, kCancelCheckSeconds) : left;
}

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
};

// The address of an abstract socket: its name begins with a zero byte, has no file, and vanishes with the socket.
Address address_of(const std::string& job) {
  const std::string text = cat("freight-", static_cast<int64_t>(::geteuid()), "-", job);
  Address a;
  a.name.sun_family = AF_UNIX;
  if (text.size() + 1 > sizeof(a.name.sun_path)) {
    fail(ErrorKind::usage, "rendezvous", "the job's name has ", job.size(), " characters, expected fewer than 80");
  }
  std::memcpy(a.name.sun_path + 1, text.data(), text.size());
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return a;
}

Descriptor socket_of_messages() {
  Descriptor s(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (s.get() < 0) fail(ErrorKind::runtime, "rendezvous", "cannot make a socket: ", std::strerror(errno));
  return s;
}

Descriptor memory_file(size_t bytes) {
  Descriptor file(::memfd_create("freight-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail(ErrorKind::runtime, "rendezvous", "cannot make ", bytes, " bytes of shared memory: ", std::strerror(errno));
  }
  return file;
}

// The process and user at the other end, as the kernel reports them.
ucred user_of(int socket) {
  ucred who{};
  socklen_t length = sizeof(who);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) {
    fail(ErrorKind::runtime, "rendezvous", "cannot identify the other end of a socket: ", std::strerror(errno));
  }
  return who;
}

Hello hello_of(const HostRendezvousPlan& plan) {
  Hello h{};
  std::strncpy(h.version.data(), version(), h.version.size() - 1);
  h.rank = plan.rank;
  h.world = plan.world;
  h.bytes = plan.bytes;
  return h;
}

RankIdentity identity_of(const Hello& h, pid_t process) {
  return {.rank = h.rank,
          .world = h.world,
          .version = std::string(h.version.data(), ::strnlen(h.version.data(), h.version.size())),
          .layout_size = h.bytes,
          .process = cat("process ", process)};
}

// Sends the answer to a rank, with the memory file and the process numbers unless it is an error.
bool send_answer(int socket, const Answer& answer, const std::vector<int>& processes, int file) {
  std::array<iovec, 2> parts = {
      {{.iov_base = const_cast<Answer*>(&answer), .iov_len = sizeof(answer)},
       {.iov_base = const_cast<int*>(processes.data()), .iov_len = processes.size() * sizeof(int)}}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr m{};
  m.msg_iov = parts.data();
  m.msg_iovlen = parts.size();
  if (file >= 0) {
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &file, sizeof(int));
  }
  return ::sendmsg(socket, &m, MSG_NOSIGNAL) > 0;
}

struct JoiningRank {
  Descriptor socket;
  ucred who{};
  Clock::time_point connected_at = Clock::now();
  int rank = -1;  // -1: it has not sent its rank yet
};

// Rank 0: collects the other ranks.
class RankZero {
 public:
  explicit RankZero(const HostRendezvousPlan& plan)
      : plan_(plan), joined_(identity_of(hello_of(plan), ::getpid())), processes_(static_cast<size_t>(plan.world)) {
    processes_[0] = ::getpid();
  }

  HostRendezvous run() {
    if (plan_.world > 1) listen();
    const auto start = Clock::now();
    while (!joined_.complete()) {
      const double left = plan_.timeout - seconds_since(start);
      if (left <= 0) refuse(ErrorKind::peer_lost, joined_.missing(plan_.timeout) + acceptor_.shortage());
      if (is_cancelled(plan_)) refuse(ErrorKind::peer_lost, kCancelled);
      look(until_asked(plan_, left));
    }
    // Unidentified and waiting connections must not hold file descriptors that the job needs.
    std::erase_if(joining_, [](const JoiningRank& joining) { return joining.rank < 0; });
    acceptor_.close();
    Descriptor file = memory_file(plan_.bytes);
    for (const JoiningRank& joining : joining_) {
      if (!send_answer(joining.socket.get(), Answer{}, processes_, file.get())) lost(joining);
    }
    return {.file = file.release(), .processes = processes_};
  }

 private:
  void listen() {
    const Address a = address_of(plan_.job);
    acceptor_.open(socket_of_messages());
    if (::bind(acceptor_.listener(), reinterpret_cast<const sockaddr*>(&a.name), a.length) != 0) {
      if (errno == EADDRINUSE) {
        fail(ErrorKind::usage, "rendezvous", "another job of this user uses the rendezvous name '", plan_.job,
             "' on host ", host_name(), ", or rank 0 was started twice: use another MASTER_PORT per job");
      }
      fail(ErrorKind::runtime, "rendezvous", "cannot bind a socket: ", std::strerror(errno));
    }
    if (::listen(acceptor_.listener(), kMostRanks) != 0) {
      fail(ErrorKind::runtime, "rendezvous", "cannot listen: ", std::strerror(errno));
    }
  }

  void look(double seconds) {
    std::vector<pollfd> all = {acceptor_.entry()};
    for (const JoiningRank& joining : joining_)
      all.push_back({.fd = joining.socket.get(), .events = POLLIN, .revents = 0});
    if (::poll(all.data(), all.size(), acceptor_.patience(seconds)) <= 0) return;
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i].revents != 0) receive_hello(joining_[i - 1]);
    }
    std::erase_if(joining_, [](const JoiningRank& joining) { return joining.socket.get() < 0; });
    if (all[0].revents != 0) accept_connection();
  }

  void accept_connection() {
    JoiningRank joining;
    joining.socket = acceptor_.accept_connection(joining_, 0);
    if (joining.socket.get() < 0) return;
    joining.who = user_of(joining.socket.get());
    if (joining.who.uid == ::geteuid()) joining_.push_back(std::move(joining));
  }

  void receive_hello(JoiningRank& joining) {
    Hello h{};
    const ssize_t n = ::recv(joining.socket.get(), &h, sizeof(h), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (joining.rank > 0) lost(joining);         // a rank sends nothing more: its connection was closed
    if (n != static_cast<ssize_t>(sizeof(h))) {  // it ended before it sent its rank, or is not a process of ours
      joining.socket = Descriptor();
      return;
    }
    if (const std::string why = joined_.add(identity_of(h, joining.who.pid)); !why.empty())
      refuse(ErrorKind::usage, why);
    joining.rank = h.rank;
    processes_[static_cast<size_t>(h.rank)] = joining.who.pid;
  }

  [[noreturn]] void lost(const JoiningRank& joining) {
    refuse(ErrorKind::peer_lost,
           cat("rank ", joining.rank, " (process ", joining.who.pid, ") ended before all ranks had joined"));
  }

  // Sends the error to all ranks that have connected, and throws it.
  [[noreturn]] void refuse(ErrorKind kind, const std::string& text) {
    Answer a{};
    a.kind = static_cast<int32_t>(kind);
    std::strncpy(a.text.data(), text.c_str(), a.text.size() - 1);
    for (const JoiningRank& joining : joining_) send_answer(joining.socket.get(), a, {}, -1);
    throw Error(kind, "rendezvous", text, cat("rank 0 of ", plan_.world, ", host ", host_name()));
  }

  const HostRendezvousPlan& plan_;
  Acceptor acceptor_;
  std::vector<JoiningRank> joining_;
  JoinedRanks joined_;
  std::vector<int> processes_;  // process numbers by rank
};

// Each other rank: sends its number and waits for the answer.
class OtherRank {
 public:
  explicit OtherRank(const HostRendezvousPlan& plan) : plan_(plan), start_(Clock::now()) {}

  HostRendezvous run() {
    connect();
    const Hello h = hello_of(plan_);
    if (::send(socket_.get(), &h, sizeof(h), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(h))) ended();
    pollfd p = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    int ready = 0;
    do {
      // Rank 0 knows which ranks are missing, so its answer may come a little after its own timeout.
      const double left = plan_.timeout + kGrace - seconds_since(start_);
      const double wait = std::min(until_asked(plan_, left), 3600.0);
      ready = left > 0 ? ::poll(&p, 1, static_cast<int>(wait * 1e3) + 1) : 0;
      if (left <= 0) throw_lost(cat("rank 0 did not respond within ", plan_.timeout, " s"));
      if (ready <= 0 && is_cancelled(plan_)) throw_lost(kCancelled);
    } while (ready <= 0);
    return receive();
  }

 private:
  static constexpr double kGrace = 1;

  // Retries, since rank 0 may start later than this rank.
  void connect() {
    const Address a = address_of(plan_.job);
    constexpr auto kAgain = std::chrono::milliseconds(5);
    for (;;) {
      socket_ = socket_of_messages();
      if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&a.name), a.length) == 0) {
        if (user_of(socket_.get()).uid == ::geteuid()) return;
        fail(ErrorKind::usage, "rendezvous", "a process of another user listens under the name of this job, '",
             plan_.job, "': use another MASTER_PORT");
      }
      if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
        fail(ErrorKind::runtime, "rendezvous", "cannot reach rank 0: ", std::strerror(errno));
      }
      if (seconds_since(start_) > plan_.timeout) {
        throw_lost(cat("rank 0 did not respond within ", plan_.timeout, " s in the rendezvous '", plan_.job, "'"));
      }
      if (is_cancelled(plan_)) throw_lost(kCancelled);
      std::this_thread::sleep_for(kAgain);
    }
  }

  HostRendezvous receive() {
    Answer a{};
    HostRendezvous rendezvous;
    rendezvous.processes.resize(static_cast<size_t>(plan_.world));
    std::array<iovec, 2> parts = {
        {{.iov_base = &a, .iov_len = sizeof(a)},
         {.iov_base = rendezvous.processes.data(), .iov_len = rendezvous.processes.size() * sizeof(int)}}};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr m{};
    m.msg_iov = parts.data();
    m.msg_iovlen = parts.size();
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket_.get(), &m, MSG_CMSG_CLOEXEC);
    if (n < static_cast<ssize_t>(sizeof(a))) ended();
    if (a.kind != 0) {
      a.text.back() = 0;
      throw Error(static_cast<ErrorKind>(a.kind), "rendezvous", a.text.data(), where());
    }
    const cmsghdr* const c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_type != SCM_RIGHTS) ended();
    std::memcpy(&rendezvous.file, CMSG_DATA(c), sizeof(int));
    return rendezvous;
  }

  std::string where() const { return cat("rank ", plan_.rank, " of ", plan_.world, ", host ", host_name()); }
  [[noreturn]] void throw_lost(const std::string& text) const {
    throw Error(ErrorKind::peer_lost, "rendezvous", text, where());
  }
  [[noreturn]] void ended() const { throw_lost("rank 0 ended before all ranks had joined"); }

  const HostRendezvousPlan& plan_;
  const Clock::time_point start_;
  Descriptor socket_;
};

}  // namespace

HostRendezvous rendezvous_on_host(const HostRendezvousPlan& plan) {
  need_between("rendezvous", "ranks on one host", plan.world, 1, kMostRanks);
  FREIGHT_CHECK(plan.rank >= 0 && plan.rank < plan.world);
  return plan.rank == 0 ? RankZero(plan).run() : OtherRank(plan).run();
}

}  // namespace freight::comm
