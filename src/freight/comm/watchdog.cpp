// See watchdog.h. All messages have one size, so that a reader needs no framing.
#include "freight/comm/watchdog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "freight/base/log.h"
#include "freight/comm/call_internal.h"
#include "freight/comm/descriptor_internal.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/signal_guards_internal.h"

namespace freight::comm {

namespace {

constexpr double kTick = 0.25;        // seconds
constexpr int kTicksOfBeat = 4;       // one heartbeat a second
constexpr int kTicksOfSilence = 10;   // a rank is lost after this time without a message
constexpr double kSlow = 5;           // seconds that others wait before a rank is called slow
constexpr double kSendSeconds = 0.2;  // a message of 512 bytes blocks only if its reader has stopped
constexpr double kSettleSeconds = 1;  // seconds that rank 0 has to announce the job's fault

enum class MessageKind : int32_t { beat = 1, fault = 2, left = 3 };

// True if the system at the other end still acknowledges what is sent, although the process is silent.
bool system_answers(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_unacked == 0;
}

}  // namespace

struct Watchdog::Connection {
  Descriptor socket;
  std::string inbox;
  int silent = 0;  // ticks
  bool open = true;
};

struct Watchdog::Message {
  MessageKind kind = MessageKind::beat;
  int32_t error = 0;  // an ErrorKind
  int64_t step = 0;
  uint64_t call = 0;
  uint32_t calls = 0, inside = 0;
  std::array<char, 480> text{};
};

Watchdog::Watchdog(int rank, NetworkRendezvous& rendezvous, std::function<void()> on_fault)
    : rank_(rank),
      peers_(rendezvous.peers),
      on_fault_(std::move(on_fault)),
      states_(rendezvous.peers.size()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (Descriptor& socket : rendezvous.sockets) {
    const bool open = socket.get() >= 0;
    if (open) send_at_once(socket.get());
    connections_.push_back({.socket = std::move(socket), .inbox = {}, .open = open});
  }
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!is_over()) {
    for (size_t i = 0; i < connections_.size(); ++i) send({.kind = MessageKind::left}, static_cast<int>(i));
  }
  stop_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void Watchdog::publish(const RankState& own) {
  const std::lock_guard lock(guard_);
  states_[static_cast<size_t>(rank_)] = own;
}

void Watchdog::saw(int other, const RankState& theirs) {
  const std::lock_guard lock(guard_);
  RankState& known = states_[static_cast<size_t>(other)];
  if (static_cast<int32_t>(theirs.calls - known.calls) >= 0) known = theirs;
}

std::string Watchdog::process_of(int rank) const {
  const NetworkPeer& p = peers_[static_cast<size_t>(rank)];
  return process_text(p.process, p.host);
}

std::string Watchdog::last_seen(int rank) const {
  const std::lock_guard lock(guard_);
  const RankState& s = states_[static_cast<size_t>(rank)];
  const Call call(s.call);
  return position_of(rank, s.calls == 0 ? nullptr : &call, s.step);
}

std::optional<JobFault> Watchdog::fault_within(double seconds) {
  std::unique_lock lock(guard_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return fault_.has_value(); });
  return fault_;
}

void Watchdog::end(const JobFault& fault) noexcept {
  try {
    if (rank_ != 0) propose(fault);
    adopt(fault);
  } catch (...) {  // there is no memory for the text: the others will notice that this rank is missing
  }
}

// Reports a fault to rank 0 without waiting.
void Watchdog::propose(const JobFault& fault) {
  if (rank_ == 0) {
    adopt(fault);
  } else {
    send(message_of(fault), 0);
  }
}

JobFault Watchdog::settle(const JobFault& fault) {
  propose(fault);
  if (const std::optional<JobFault> known = fault_within(kSettleSeconds)) return *known;
  adopt(fault);
  return fault_within(0).value_or(fault);
}

// False if another fault came first.
bool Watchdog::adopt(const JobFault& fault) {
  {
    const std::lock_guard lock(guard_);
    if (fault_) return false;
    fault_ = fault;
  }
  // The others are told before this rank ends itself.
  if (rank_ == 0) {
    for (size_t i = 1; i < connections_.size(); ++i) send(message_of(fault), static_cast<int>(i));
  }
  over_.store(true, std::memory_order_release);
  changed_.notify_all();
  on_fault_();
  return true;
}

Watchdog::Message Watchdog::message_of(const JobFault& fault) const {
  Message m = {.kind = MessageKind::fault, .error = static_cast<int32_t>(fault.kind)};
  std::strncpy(m.text.data(), fault.text.c_str(), m.text.size() - 1);
  return m;
}

void Watchdog::send(const Message& message, int to) {
  const std::lock_guard lock(sending_);
  const Connection& connection = connections_[static_cast<size_t>(to)];
  if (connection.socket.get() < 0) return;
  send_bytes(connection.socket.get(), std::string(reinterpret_cast<const char*>(&message), sizeof(message)),
             kSendSeconds);
}

void Watchdog::watch() {
  auto next = std::chrono::steady_clock::now();
  while (!stop_) {
    std::vector<pollfd> all = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections_) {
      all.push_back({.fd = connection.open ? connection.socket.get() : -1, .events = POLLIN, .revents = 0});
    }
    const auto left = std::chrono::duration<double>(next - std::chrono::steady_clock::now()).count();
    ::poll(all.data(), all.size(), left > 0 ? static_cast<int>(left * 1e3) + 1 : 0);
    read_all();
    if (std::chrono::steady_clock::now() < next) continue;
    // A late tick counts only once: if this process was stopped, it cannot tell whether the others were.
    next = std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(kTick));
    tick();
  }
}

// Reads what has arrived. If a connection closes before its rank has sent that it leaves, that rank has died.
void Watchdog::read_all() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    while (connection.open) {
      const bool there = receive_some(connection.socket.get(), connection.inbox, sizeof(Message));
      if (connection.inbox.size() < sizeof(Message)) {
        if (there) break;
        connection.open = false;
        declare_lost(rank_of(i), "ended or was killed");
        break;
      }
      Message m;
      std::memcpy(&m, connection.inbox.data(), sizeof(m));
      connection.inbox.clear();
      connection.silent = 0;
      m.text.back() = 0;
      if (m.kind == MessageKind::left) {
        connection.open = false;  // a rank that still waits for it learns so from the transport
      } else {
        handle_message(rank_of(i), m);
      }
    }
  }
}

void Watchdog::handle_message(int other, const Message& message) {
  if (message.kind == MessageKind::fault) {
    constexpr int kLast = static_cast<int>(ErrorKind::verification);
    const bool known = message.error >= 1 && message.error <= kLast;
    adopt({known ? static_cast<ErrorKind>(message.error) : ErrorKind::runtime, message.text.data()});
    return;
  }
  saw(other, {.calls = message.calls, .call = message.call, .step = message.step, .inside = message.inside != 0});
}

void Watchdog::tick() {
  ++ticks_;
  if (is_over()) return;
  if (ticks_ % kTicksOfBeat == 1) {
    beat();
    if (rank_ == 0) look_for_slow_ranks();
  }
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (!connection.open || ++connection.silent < kTicksOfSilence) continue;
    connection.open = false;
    declare_lost(rank_of(i), cat("sent no heartbeat for ", kTicksOfSilence * kTick, " s, ",
                                 system_answers(connection.socket.get())
                                     ? "though its host responds: it is stopped or hung"
                                     : "and its host does not respond: it is down, or the network is cut"));
  }
}

void Watchdog::declare_lost(int other, const std::string& how) {
  adopt({ErrorKind::peer_lost, failure_of(other, process_of(other), how, last_seen(other))});
}

void Watchdog::beat() {
  Message m;
  {
    const std::lock_guard lock(guard_);
    const RankState& own = states_[static_cast<size_t>(rank_)];
    m = {.kind = MessageKind::beat, .step = own.step, .call = own.call, .calls = own.calls, .inside = own.inside};
  }
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].open) send(m, static_cast<int>(i));
  }
}

// Called once a second. Ranks in the newest collective wait for the ranks that have not entered it.
void Watchdog::look_for_slow_ranks() {
  std::vector<RankState> states;
  {
    const std::lock_guard lock(guard_);
    states = states_;
  }
  const auto newer = [](const RankState& a, const RankState& b) { return static_cast<int32_t>(a.calls - b.calls) < 0; };
  const auto first = std::max_element(states.begin(), states.end(), newer);
  const auto slow = std::min_element(states.begin(), states.end(), newer);
  const bool same = first->calls == stalled_call_;
  stalled_call_ = first->calls;
  if (!same || !first->inside || slow->calls == first->calls) {
    stalled_ = reported_ = 0;
    return;
  }
  stalled_ += kTick * kTicksOfBeat;
  if (stalled_ < std::max(kSlow, 2 * reported_)) return;
  reported_ = stalled_;
  const auto waiting = static_cast<int>(first - states.begin()), late = static_cast<int>(slow - states.begin());
  logging::warn(cat("rank ", late, " on host ", host(late), " is slow: rank ", waiting, " waits for it in ",
                    Call(first->call), " at step ", first->step, " for ", stalled_, " s; its heartbeats arrive, and ",
                    last_seen(late)));
}

}  // namespace freight::comm
