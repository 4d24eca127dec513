// See network_rendezvous.h. Rank 0 sends a challenge to each connection. A rank answers with a greeting, whose proof
// covers the challenge and the rest of the greeting. Rank 0's welcome, sent when all ranks have connected, proves that
// it knows the token, too.
#include "freight/comm/network_rendezvous.h"

#include <fcntl.h>
#include <poll.h>
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
#include "freight/base/log.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/base/version.h"
#include "freight/comm/acceptor_internal.h"
#include "freight/comm/joined_ranks_internal.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/proof_internal.h"
#include "freight/comm/rendezvous_cancel_internal.h"

namespace freight::comm {

namespace {

using Clock = std::chrono::steady_clock;

// Seconds that a connection has to send its greeting: it may not come from a rank.
constexpr double kGreetingSeconds = 10;

struct Greeting {
  std::array<char, 8> magic = kMagic;
  std::array<char, 32> version{};
  int32_t rank = 0, world = 0, process = 0, endpoint_bytes = 0;
  std::array<char, 64> host{};
  Nonce nonce{};
  Proof proof{};
};  // the endpoints for `world` ranks follow, with zeros in its own place
struct Welcome {
  int32_t kind = 0;              // 0, or an ErrorKind
  std::array<char, 504> text{};  // of the error
  Proof proof{};
};  // unless there is an error, `world` entries and the endpoints for the rank follow
struct RosterEntry {
  std::array<char, 64> host{}, address{};
  int32_t process = 0;
};

// The roles of the senders in their proofs.
constexpr const char *kRoleOfRank = "rank", *kRoleOfRankZero = "host";

std::string joined_endpoints(const std::vector<std::string>& endpoints, int rank) {
  size_t size = 0;
  for (const std::string& c : endpoints) size = std::max(size, c.size());
  std::string all;
  for (int r = 0; r < static_cast<int>(endpoints.size()); ++r) {
    const std::string& endpoint = endpoints[static_cast<size_t>(r)];
    FREIGHT_CHECK(r == rank || (endpoint.size() == size && size > 0 && size <= kMostEndpointBytes));
    all += r == rank ? std::string(size, '\0') : endpoint;
  }
  return all;
}

[[noreturn]] void refuse_loopback(const NetworkPlan& plan, const SocketAddress& address) {
  fail(ErrorKind::usage, "rendezvous", "the job has several hosts, and on host ", host_name(), " the name '",
       excerpt(plan.host), "' of rank 0's host leads to ", address.text(),
       ", which no other host reaches: fix /etc/hosts there, or set MASTER_ADDR to an address of its network");
}

// The only address on which rank 0 listens.
SocketAddress place_of(const NetworkPlan& plan) {
  SocketAddress a;
  if (!plan.interface.empty()) {
    a = interface_address(plan.interface);
    if (a.is_loopback() && plan.several_hosts) {
      fail(ErrorKind::usage, "--interface", "got '", excerpt(plan.interface), "' (", a.text(),
           "), which no other host reaches, and the job has several: use an address of their network");
    }
  } else {
    const Resolved found = resolve_host(plan.host, plan.port);
    if (found.all.empty()) {
      fail(ErrorKind::usage, "rendezvous", "host ", host_name(), " cannot find the address of '", excerpt(plan.host),
           "', where rank 0 is to listen: ", found.why);
    }
    a = found.all[0];
    if (a.is_loopback() && plan.several_hosts) refuse_loopback(plan, a);
  }
  a.set_port(plan.port);
  return a;
}

struct TcpJoiningRank {
  Descriptor socket;
  std::string address, inbox;
  Nonce challenge{};
  Clock::time_point connected_at = Clock::now();
  int rank = -1;  // -1: it has not sent its rank yet
  Greeting greeting{};
  std::string endpoints;
};

// Rank 0: collects the other ranks.
class TcpRankZero {
 public:
  TcpRankZero(const NetworkPlan& plan, const MakeEndpoints& make_endpoints) : plan_(plan) {
    listen();
    endpoints_ = joined_endpoints(make_endpoints(address_.text()), 0);
    joined_ = JoinedRanks({.rank = 0,
                           .world = plan.world,
                           .version = version(),
                           .layout_size = static_cast<uint64_t>(endpoint_bytes()),
                           .process = cat("process ", ::getpid(), " on host ", host_name())});
  }

  NetworkRendezvous run() {
    const auto start = Clock::now();
    while (!joined_->complete()) {
      const double left = plan_.timeout - seconds_since(start);
      if (left <= 0) refuse(ErrorKind::peer_lost, missing());
      if (is_cancelled(plan_)) refuse(ErrorKind::peer_lost, kCancelled);
      look(std::min(left, plan_.cancelled ? kCancelCheckSeconds : 1.0));
    }
    NetworkRendezvous rendezvous;
    rendezvous.sockets.resize(ranks());
    rendezvous.peers.resize(ranks());
    rendezvous.peers[0] = {.host = host_name(), .address = address_.text(), .process = ::getpid(), .endpoint = {}};
    const std::string roster = roster_of_all();
    for (TcpJoiningRank& joining : joining_) {
      if (joining.rank < 0) continue;
      welcome(joining, roster);
      const auto r = static_cast<size_t>(joining.rank);
      rendezvous.peers[r] = {.host = text_in(joining.greeting.host),
                             .address = joining.address,
                             .process = joining.greeting.process,
                             .endpoint = endpoint_of(joining.endpoints, endpoint_bytes(), 0)};
      rendezvous.sockets[r] = std::move(joining.socket);
    }
    return rendezvous;
  }

 private:
  size_t ranks() const { return static_cast<size_t>(plan_.world); }

  void listen() {
    address_ = place_of(plan_);
    acceptor_.open(tcp_socket(address_.family()));
    const int on = 1;
    ::setsockopt(acceptor_.listener(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const std::string where = cat("port ", plan_.port, " of ", address_.text(), " on host ", host_name());
    if (::bind(acceptor_.listener(), address_.raw(), address_.length) != 0) refuse_place(where, errno);
    if (::listen(acceptor_.listener(), kMostNetworkRanks) != 0) refuse_place(where, errno);
    address_ = own_end(acceptor_.listener());
  }

  [[noreturn]] void refuse_place(const std::string& where, int error) const {
    if (error == EADDRINUSE) {
      fail(ErrorKind::usage, "rendezvous", where, " is in use: another job or program listens there; use another ",
           "MASTER_PORT");
    }
    if (error == EADDRNOTAVAIL) {
      fail(ErrorKind::usage, "rendezvous", "'", excerpt(plan_.host), "' leads to ", address_.text(), ", which host ",
           host_name(),
           " does not have, though rank 0 runs there: expected the name or address of rank 0's own host in ",
           "MASTER_ADDR");
    }
    fail(error == EACCES ? ErrorKind::usage : ErrorKind::runtime, "rendezvous", "cannot listen on ", where, ": ",
         std::strerror(error));
  }

  void look(double seconds) {
    std::vector<pollfd> all = {acceptor_.entry()};
    for (const TcpJoiningRank& joining : joining_)
      all.push_back({.fd = joining.socket.get(), .events = POLLIN, .revents = 0});
    ::poll(all.data(), all.size(), acceptor_.patience(seconds));
    for (size_t i = 1; i < all.size(); ++i) {
      TcpJoiningRank& joining = joining_[i - 1];
      if (all[i].revents != 0) receive_greeting(joining);
      if (joining.rank < 0 && seconds_since(joining.connected_at) > kGreetingSeconds) joining.socket = Descriptor();
    }
    std::erase_if(joining_, [](const TcpJoiningRank& joining) { return joining.socket.get() < 0; });
    if (all[0].revents != 0) accept_connection();
  }

  void accept_connection() {
    TcpJoiningRank joining;
    joining.socket = acceptor_.accept_connection(joining_, SOCK_NONBLOCK);
    if (joining.socket.get() < 0) return;
    send_at_once(joining.socket.get());
    joining.address = other_end(joining.socket.get()).text();
    joining.challenge = new_nonce();
    if (send_bytes(joining.socket.get(), bytes_in(Challenge{.nonce = joining.challenge}), 0))
      joining_.push_back(std::move(joining));
  }

  // Receives a greeting, possibly in parts. A connection that sends anything else, or does not know the token, is
  // closed without delaying the others.
  void receive_greeting(TcpJoiningRank& joining) {
    if (joining.rank > 0) {  // a rank sends nothing more: its connection was closed
      char byte = 0;
      const ssize_t n = ::recv(joining.socket.get(), &byte, 1, 0);
      if (n >= 0 || (errno != EAGAIN && errno != EINTR)) lost(joining);
      return;
    }
    bool there = receive_some(joining.socket.get(), joining.inbox, sizeof(Greeting));
    if (there && joining.inbox.size() < sizeof(Greeting)) return;
    size_t whole = 0;
    if (there) {
      std::memcpy(&joining.greeting, joining.inbox.data(), sizeof(Greeting));
      there = joining.greeting.magic == kMagic && joining.greeting.world >= 1 &&
              joining.greeting.world <= kMostNetworkRanks && joining.greeting.endpoint_bytes >= 1 &&
              joining.greeting.endpoint_bytes <= static_cast<int>(kMostEndpointBytes);
      whole = sizeof(Greeting) +
              static_cast<size_t>(joining.greeting.world) * static_cast<size_t>(joining.greeting.endpoint_bytes);
    }
    there = there && receive_some(joining.socket.get(), joining.inbox, whole);
    if (there && joining.inbox.size() < whole) return;
    if (!there) {
      joining.socket = Descriptor();
      return;
    }
    joining.endpoints = joining.inbox.substr(sizeof(Greeting));
    if (proves(joining.greeting, joining.endpoints, plan_.token, kRoleOfRank, joining.challenge))
      return accept_rank(joining);
    if (wrong_token_.empty()) {  // warns once, since the process may retry
      wrong_token_ = joining.address;
      logging::warn(
          cat("rendezvous: a process on ", joining.address, " does not have the token of this job and was rejected"));
    }
    answer(joining, ErrorKind::usage,
           "it was given a different token: expected the same FREIGHT_TOKEN or --token-file for all ranks");
    joining.socket = Descriptor();
  }

  // Accepts a rank that knows the token.
  void accept_rank(TcpJoiningRank& joining) {
    const std::string why = joined_->add(
        {.rank = joining.greeting.rank,
         .world = joining.greeting.world,
         .version = text_in(joining.greeting.version),
         .layout_size = static_cast<uint64_t>(joining.greeting.endpoint_bytes),
         .process = cat("process ", joining.greeting.process, " on host ", text_in(joining.greeting.host))});
    if (!why.empty()) refuse(ErrorKind::usage, why);
    joining.rank = joining.greeting.rank;
  }

  int endpoint_bytes() const { return static_cast<int>(endpoints_.size() / ranks()); }

  static std::string endpoint_of(const std::string& endpoints, int endpoint_bytes, int rank) {
    return endpoints.substr(static_cast<size_t>(rank) * static_cast<size_t>(endpoint_bytes),
                            static_cast<size_t>(endpoint_bytes));
  }

  std::string roster_of_all() const {
    std::vector<RosterEntry> all(ranks());
    put_text(all[0].host, host_name());
    put_text(all[0].address, address_.text());
    all[0].process = ::getpid();
    for (const TcpJoiningRank& joining : joining_) {
      if (joining.rank < 0) continue;
      RosterEntry& e = all[static_cast<size_t>(joining.rank)];
      e.host = joining.greeting.host;
      put_text(e.address, joining.address);
      e.process = joining.greeting.process;
    }
    std::string text;
    for (const RosterEntry& e : all) text += bytes_in(e);
    return text;
  }

  // Sends a rank the list of ranks and the endpoints that they made for it.
  void welcome(const TcpJoiningRank& joining, const std::string& roster) {
    std::vector<std::string> endpoints(ranks());
    endpoints[0] = endpoint_of(endpoints_, endpoint_bytes(), joining.rank);
    for (const TcpJoiningRank& other : joining_) {
      if (other.rank >= 0)
        endpoints[static_cast<size_t>(other.rank)] = endpoint_of(other.endpoints, endpoint_bytes(), joining.rank);
    }
    std::string rest = roster;
    for (const std::string& c : endpoints) rest += c;
    Welcome w;
    prove(w, rest, plan_.token, kRoleOfRankZero, joining.greeting.nonce);
    if (!send_bytes(joining.socket.get(), bytes_in(w) + rest, kGreetingSeconds)) lost(joining);
  }

  void answer(const TcpJoiningRank& joining, ErrorKind kind, const std::string& text) const {
    Welcome w;
    w.kind = static_cast<int32_t>(kind);
    put_text(w.text, text);
    prove(w, "", plan_.token, kRoleOfRankZero, joining.greeting.nonce);
    send_bytes(joining.socket.get(), bytes_in(w), 1);
  }

  [[noreturn]] void lost(const TcpJoiningRank& joining) {
    refuse(ErrorKind::peer_lost, cat("rank ", joining.rank, " (process ", joining.greeting.process, " on host ",
                                     text_in(joining.greeting.host), ") ended before all ranks had joined"));
  }

  std::string missing() const {
    std::string text = cat(joined_->missing(plan_.timeout), " to host ", host_name(), " (", address_.text(), "), port ",
                           address_.port());
    if (!wrong_token_.empty()) text += cat("; a process on ", wrong_token_, " has another token");
    return text + acceptor_.shortage();
  }

  // Sends the error to all ranks that have connected, and throws it.
  [[noreturn]] void refuse(ErrorKind kind, const std::string& text) {
    for (const TcpJoiningRank& joining : joining_) {
      if (!joining.endpoints.empty()) answer(joining, kind, text);
    }
    throw Error(kind, "rendezvous", text, cat("rank 0 of ", plan_.world, ", host ", host_name()));
  }

  const NetworkPlan& plan_;
  std::optional<JoinedRanks> joined_;  // empty until it listens
  std::string wrong_token_;            // the address of the first process that did not know the token
  SocketAddress address_;
  Acceptor acceptor_;
  std::string endpoints_;  // rank 0's endpoints for the others
  std::vector<TcpJoiningRank> joining_;
};

// Each other rank: greets and waits for the welcome.
class TcpOtherRank {
 public:
  TcpOtherRank(const NetworkPlan& plan, const MakeEndpoints& make_endpoints)
      : plan_(plan), make_endpoints_(make_endpoints), start_(Clock::now()) {}

  NetworkRendezvous run() {
    for (;;) {
      connect();
      if (endpoints_.empty()) endpoints_ = joined_endpoints(make_endpoints_(own_end(socket_.get()).text()), plan_.rank);
      if (std::optional<NetworkRendezvous> met = greet()) return std::move(*met);
      // Rank 0 has ended, or closed the connection to make room when many programs connected; in that case it still
      // listens.
      disconnected_ = true;
    }
  }

 private:
  // Rank 0 knows which ranks are missing, so its answer may come a little after its own timeout.
  static constexpr double kPatience = 1;
  static constexpr double kTry = 3;  // seconds to try one address
  static constexpr const char* kNobodyListens = "its host responds, but no process listens there";

  static ErrorKind kind_of(const Welcome& w) {
    constexpr int kLast = static_cast<int>(ErrorKind::verification);
    return w.kind >= 1 && w.kind <= kLast ? static_cast<ErrorKind>(w.kind) : ErrorKind::runtime;
  }

  // Empty if rank 0 closed the connection.
  std::optional<NetworkRendezvous> greet() {
    const auto challenge = receive_struct<Challenge>();
    if (!challenge) return std::nullopt;
    if (challenge->magic != kMagic) refuse_listener();
    Greeting g;
    put_text(g.version, version());
    g.rank = plan_.rank;
    g.world = plan_.world;
    g.process = ::getpid();
    g.endpoint_bytes = static_cast<int32_t>(endpoint_bytes());
    put_text(g.host, host_name());
    g.nonce = new_nonce();
    prove(g, endpoints_, plan_.token, kRoleOfRank, challenge->nonce);
    if (!send_bytes(socket_.get(), bytes_in(g) + endpoints_, plan_.timeout)) return std::nullopt;
    const auto w = receive_struct<Welcome>();
    if (!w) return std::nullopt;
    if (w->kind != 0) throw Error(kind_of(*w), "rendezvous", text_in(w->text), where());
    const auto rest = receive(ranks() * (sizeof(RosterEntry) + endpoint_bytes()));
    if (!rest) return std::nullopt;
    if (!proves(*w, *rest, plan_.token, kRoleOfRankZero, g.nonce)) refuse_listener();
    return rendezvous_of(*rest);
  }

  NetworkRendezvous rendezvous_of(const std::string& roster_and_endpoints) {
    NetworkRendezvous rendezvous;
    for (size_t r = 0; r < ranks(); ++r) {
      RosterEntry e;
      std::memcpy(&e, roster_and_endpoints.data() + r * sizeof(e), sizeof(e));
      rendezvous.peers.push_back(
          {.host = text_in(e.host),
           .address = text_in(e.address),
           .process = e.process,
           .endpoint = roster_and_endpoints.substr(ranks() * sizeof(e) + r * endpoint_bytes(), endpoint_bytes())});
    }
    rendezvous.sockets.push_back(std::move(socket_));
    return rendezvous;
  }

  size_t ranks() const { return static_cast<size_t>(plan_.world); }
  size_t endpoint_bytes() const { return endpoints_.size() / ranks(); }

  std::string place() const {
    return cat("'", excerpt(plan_.host), "'", tried_.empty() ? "" : cat(" (", tried_, ")"), ", port ", plan_.port);
  }
  std::string rank_zero() const { return "rank 0 at " + place(); }

  // Retries everything, since rank 0 may start later than this rank, and its name may resolve only later (Kubernetes).
  void connect() {
    constexpr auto kAgain = std::chrono::milliseconds(50);
    std::string why;
    if (disconnected_) std::this_thread::sleep_for(kAgain);
    while (!try_all(why)) {
      if (disconnected_ && why == kNobodyListens) ended();
      if (is_cancelled(plan_)) throw_lost(kCancelled);
      if (seconds_since(start_) > plan_.timeout) {
        throw_lost(
            cat(rank_zero(), " does not respond: host ", host_name(), " tried it for ", plan_.timeout, " s: ", why));
      }
      std::this_thread::sleep_for(kAgain);
    }
    if (disconnected_ && seconds_since(start_) > plan_.timeout) ended();
    send_at_once(socket_.get());
  }

  bool try_all(std::string& why) {
    Resolved found = resolve_host(plan_.host, plan_.port);
    if (found.all.empty()) {
      why = cat("the name has no address: ", found.why);
      return false;
    }
    for (SocketAddress& a : found.all) {
      if (a.is_loopback() && plan_.several_hosts) {
        // On rank 0's own host its name may resolve to a loopback address, while rank 0 listens on the named interface.
        if (!plan_.on_host_of_rank_zero || plan_.interface.empty()) refuse_loopback(plan_, a);
        a = interface_address(plan_.interface);
        a.set_port(plan_.port);
      }
      tried_ = a.text();
      if (try_one(a, why)) return true;
    }
    return false;
  }

  bool try_one(const SocketAddress& address, std::string& why) {
    const double left = std::max(0.0, std::min(kTry, plan_.timeout - seconds_since(start_)));
    int error = 0;
    socket_ = connected_to(address, plan_.interface, left, error);
    why = error == ECONNREFUSED ? kNobodyListens : std::strerror(error);
    return error == 0;
  }

  template <class T>
  std::optional<T> receive_struct() {
    const auto bytes = receive(sizeof(T));
    if (!bytes) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
  }

  // Empty if rank 0 closed the connection first.
  std::optional<std::string> receive(size_t bytes) {
    std::string inbox;
    for (;;) {
      if (!receive_some(socket_.get(), inbox, bytes)) return std::nullopt;
      if (inbox.size() == bytes) return inbox;
      const double left = plan_.timeout + kPatience - seconds_since(start_);
      if (left <= 0) throw_lost(cat(rank_zero(), " did not respond within ", plan_.timeout, " s"));
      if (is_cancelled(plan_)) throw_lost(kCancelled);
      pollfd p = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
      ::poll(&p, 1, static_cast<int>(std::min(left, plan_.cancelled ? kCancelCheckSeconds : 3600.0) * 1e3) + 1);
    }
  }

  std::string where() const { return cat("rank ", plan_.rank, " of ", plan_.world, ", host ", host_name()); }
  [[noreturn]] void throw_lost(const std::string& text) const {
    throw Error(ErrorKind::peer_lost, "rendezvous", text, where());
  }
  [[noreturn]] void ended() const { throw_lost(cat(rank_zero(), " ended before all ranks had joined")); }
  [[noreturn]] void refuse_listener() const {
    throw Error(ErrorKind::usage, "rendezvous",
                cat("the process that listens at ", place(), " does not know the token of this job: expected the same ",
                    "FREIGHT_TOKEN or --token-file for all ranks, and another MASTER_PORT where it is another program"),
                where());
  }

  const NetworkPlan& plan_;
  const MakeEndpoints& make_endpoints_;
  const Clock::time_point start_;
  std::string tried_;      // the last address that was tried
  std::string endpoints_;  // this rank's endpoints for the others
  bool disconnected_ = false;
  Descriptor socket_;
};

}  // namespace

NetworkRendezvous rendezvous_on_network(const NetworkPlan& plan, const MakeEndpoints& make_endpoints) {
  need_between("rendezvous", "ranks", plan.world, 1, kMostNetworkRanks);
  FREIGHT_CHECK(plan.rank >= 0 && plan.rank < plan.world && !plan.token.empty());
  return plan.rank == 0 ? TcpRankZero(plan, make_endpoints).run() : TcpOtherRank(plan, make_endpoints).run();
}

std::string listening_address(const NetworkPlan& plan) { return place_of(plan).text(); }

}  // namespace freight::comm
