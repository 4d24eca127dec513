// See gate_internal.h.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/version.h"
#include "freight/comm/gate_internal.h"
#include "freight/comm/network_address_internal.h"

namespace freight::comm {

namespace {
constexpr double kGateLooks = 0.25;      // seconds
constexpr double kGateReminds = 1;       // those who wait, so often, in seconds
constexpr double kStrangerSeconds = 10;  // that somebody has to say who it is
}  // namespace

Gate::Gate(const NetworkPlan& where, const std::string& token, int number)
    : token_(token), number_(number), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  listen(where);
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { watch(); });
}

Gate::~Gate() {
  stop_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void Gate::listen(const NetworkPlan& where) {
  const Resolved found = resolve_host(listening_address(where), where.port);
  FREIGHT_CHECK(!found.all.empty(), "a numeric address is one");
  const SocketAddress& a = found.all[0];
  door_.open(tcp_socket(a.family()));
  const int on = 1;
  ::setsockopt(door_.listener(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(door_.listener(), a.raw(), a.length) == 0 && ::listen(door_.listener(), SOMAXCONN) == 0) return;
  fail(errno == EADDRINUSE ? ErrorKind::usage : ErrorKind::runtime, "--elastic", "rank ", number_,
       " is to be met at port ", where.port, " of ", a.text(), " on host ", host_name(), ": ", std::strerror(errno));
}

void Gate::stand(uint64_t generation, int first) {
  const std::lock_guard lock(guard_);
  generation_ = generation;
  first_ = first;
  std::erase_if(guests_, [&](const Guest& g) {
    if (g.rank < 0) return false;
    const GateWord word = answer_to(g.said);
    if (word.kind == GateWord::Kind::waits) return false;
    tell(g, word);
    return true;
  });
  count_newcomers();
}

void Gate::close(const std::string& why, Over what) {
  const std::lock_guard lock(guard_);
  closed_ = why;
  over_ = what;
  for (const Guest& g : guests_) {
    if (g.rank >= 0 && tell(g, answer_to(g.said))) ++refused_;
  }
  guests_.clear();
  count_newcomers();
}

std::vector<Knock> Gate::waiting() {
  const std::lock_guard lock(guard_);
  std::vector<Knock> all;
  for (const Guest& g : guests_) {
    if (g.rank >= 0) all.push_back(g.said);
  }
  return all;
}

std::vector<Gate::Guest> Gate::take() {
  const std::lock_guard lock(guard_);
  std::vector<Guest> all;
  for (Guest& g : guests_) {
    if (g.rank >= 0) all.push_back(std::move(g));
  }
  std::erase_if(guests_, [](const Guest& g) { return g.socket.get() < 0; });
  count_newcomers();
  return all;
}

bool Gate::tell(const Guest& guest, GateWord word) const {
  prove(word, "", token_, kGateSays, guest.said.nonce);
  constexpr double kSeconds = 0.2;
  return send_bytes(guest.socket.get(), bytes_in(word), kSeconds);
}

// A fellow of the last meeting may believe that this process is the next first one, and may be right. Others are let in
// by the first alone; before the first meeting nobody is who was at one.
bool Gate::lets_in(const Knock& k) const {
  if (first_ == number_) return generation_ > 0 || k.generation == 0;
  return generation_ > 0 && k.generation == generation_ && k.whom == 0;
}

GateWord Gate::answer_to(const Knock& k) const {
  using Kind = GateWord::Kind;
  GateWord w{.kind = Kind::waits, .first = first_, .generation = generation_};
  if (!closed_.empty()) {
    w.kind = over_ == Over::job ? Kind::ends : Kind::fails;
    w.error = static_cast<int32_t>(ErrorKind::peer_lost);
    put_text(w.text, closed_);
  } else if (text_in(k.version) != version()) {
    w.kind = Kind::fails;
    w.error = static_cast<int32_t>(ErrorKind::usage);
    put_text(w.text, cat("rank ", k.number, " on host ", text_in(k.host), " runs Freight ", text_in(k.version),
                         ", rank ", number_, " runs ", version(), ": need the same program for all ranks"));
  } else if (!lets_in(k)) {
    w.kind = first_ < 0 || first_ == number_ ? Kind::none : Kind::other;
  }
  return w;
}

void Gate::count_newcomers() {
  int count = 0;
  for (const Guest& g : guests_) count += g.rank >= 0 && g.said.generation != generation_ ? 1 : 0;
  newcomers_.store(count, std::memory_order_relaxed);
}

void Gate::watch() {
  while (!stop_) {
    std::vector<pollfd> all = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    {
      const std::lock_guard lock(guard_);
      all.push_back(door_.entry());
      for (const Guest& g : guests_) all.push_back({.fd = g.socket.get(), .events = POLLIN, .revents = 0});
    }
    ::poll(all.data(), all.size(), static_cast<int>(kGateLooks * 1e3));
    const std::lock_guard lock(guard_);
    for (Guest& g : guests_) hear(g);
    std::erase_if(guests_, [](const Guest& g) { return g.socket.get() < 0; });
    if (all[1].revents != 0) let_in();
    remind();
    count_newcomers();
  }
}

void Gate::let_in() {
  Guest g;
  g.socket = door_.let_in(guests_, SOCK_NONBLOCK);
  if (g.socket.get() < 0) return;
  send_at_once(g.socket.get());
  g.challenge = new_nonce();
  if (send_bytes(g.socket.get(), bytes_in(Challenge{.nonce = g.challenge}), 0)) guests_.push_back(std::move(g));
}

void Gate::hear(Guest& g) {
  if (g.rank >= 0) {  // it says only one thing: more is its end
    char byte = 0;
    const ssize_t n = ::recv(g.socket.get(), &byte, 1, 0);
    if (n >= 0 || (errno != EAGAIN && errno != EINTR)) g.socket = Descriptor();
    return;
  }
  receive(g);
  if (g.rank < 0 && seconds_since(g.came) > kStrangerSeconds) g.socket = Descriptor();
}

void Gate::receive(Guest& g) {
  const bool there = receive_some(g.socket.get(), g.inbox, sizeof(Knock));
  if (there && g.inbox.size() < sizeof(Knock)) return;
  bool sound = there;
  if (sound) {
    std::memcpy(&g.said, g.inbox.data(), sizeof(Knock));
    sound = g.said.magic == kMagic && g.said.number >= 0 && g.said.number < kMostNumbers && g.said.number != number_ &&
            proves(g.said, "", token_, kKnockSays, g.challenge);
  }
  if (!sound) {
    g.socket = Descriptor();
    return;
  }
  const GateWord word = answer_to(g.said);
  const bool told = tell(g, word);
  if (!told || word.kind != GateWord::Kind::waits) {
    if (told && !closed_.empty()) ++refused_;
    g.socket = Descriptor();
    return;
  }
  // It knocks anew where it lost patience, or has ended and come back.
  for (Guest& other : guests_) {
    if (other.rank == g.said.number) other.socket = Descriptor();
  }
  g.rank = g.said.number;
}

// Tells those who wait that the process lives.
void Gate::remind() {
  if (seconds_since(reminded_) < kGateReminds) return;
  reminded_ = std::chrono::steady_clock::now();
  for (const Guest& g : guests_) {
    if (g.rank >= 0) tell(g, {.kind = GateWord::Kind::waits, .first = first_, .generation = generation_});
  }
}

}  // namespace freight::comm
