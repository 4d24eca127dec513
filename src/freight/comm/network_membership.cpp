// See membership.h. Each process of the job has a gate at which the others meet it (gate_internal.h), and knows where
// those of the others are. Whoever was first in the last meeting calls the next one; where it does not answer, the
// next in the order of ranks does, if it may (ask_before_leading). It waits for those that were there, as long as they
// live, lets in who knocked meanwhile, and tells all of them the new order and the port of a meeting of network_comm.h.
//
// A rank that another cannot reach may be cut off alone, with who knows whom else. So the one that leads holds
// something of which there is one, the run's lock: of two parts of a job one goes on.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "freight/base/clock.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/version.h"
#include "freight/comm/gate_internal.h"
#include "freight/comm/join_internal.h"
#include "freight/comm/membership_internal.h"
#include "freight/comm/missing_ranks_internal.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/network_comm.h"

namespace freight::comm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPause = 0.05;       // seconds between two tries
constexpr double kAnswer = 1;         // for a host to take a connection, and for a gate to greet
constexpr double kSilence = 3;        // so long a process says nothing that is given up: its gate speaks once a second
constexpr double kNoAnswer = 1.5;     // the same where it does not even greet, as its gate does at once
constexpr double kNotLeading = 2;     // so long a process is awaited that does not lead yet
constexpr double kComeTogether = 10;  // for those who were told of a meeting
constexpr int kVainMeetings = 5;      // in a row that broke before anybody had settled

struct GateAddress {
  std::string host;
  int port = 0;
};

struct Doors {
  int least = 1;
  std::vector<GateAddress> gates;  // by number
};

Doors doors_in(const std::string& text) {
  Doors d;
  const std::vector<std::string> words = split(text.substr(std::strlen(kDoors)), ' ');
  const auto number = [](const std::string& w, int& to) {
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), to);
    return error == std::errc() && end == w.data() + w.size() && to > 0;
  };
  bool sound = words.size() >= 2 && words.size() <= kMostNumbers + 1 && number(words[0], d.least);
  for (size_t i = 1; sound && i < words.size(); ++i) {
    const size_t colon = words[i].rfind(':');
    GateAddress a;
    sound = colon != std::string::npos && colon > 0 && number(words[i].substr(colon + 1), a.port) && a.port < 65536;
    if (sound) a.host = words[i].substr(0, colon);
    d.gates.push_back(a);
  }
  if (!sound) refuse_inherited("FREIGHT_ELASTIC", text);
  return d;
}

bool is_closed(int socket) {
  char byte = 0;
  const ssize_t n = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

// The first word of whoever listens; empty where there is none for too long, or none of ours.
std::optional<Challenge> challenge_of(int socket, double seconds) {
  send_at_once(socket);
  std::string inbox;
  const auto start = Clock::now();
  while (receive_some(socket, inbox, sizeof(Challenge)) && inbox.size() < sizeof(Challenge)) {
    const double left = seconds - seconds_since(start);
    if (left <= 0) break;
    pollfd p = {.fd = socket, .events = POLLIN, .revents = 0};
    ::poll(&p, 1, static_cast<int>(left * 1e3) + 1);
  }
  if (inbox.size() < sizeof(Challenge)) return std::nullopt;
  Challenge c;
  std::memcpy(&c, inbox.data(), sizeof(c));
  return c.magic == kMagic ? std::optional(c) : std::nullopt;
}

class NetworkMembership final : public Membership {
 public:
  NetworkMembership(const Launch& launch, const JobOptions& options, Doors doors);

  int number() const override { return launch_.rank; }
  int most() const override { return launch_.world; }
  void need_same(uint64_t identity) override { identity_ = identity; }
  std::unique_ptr<Comm> meet(double timeout) override;
  void settle() override;
  bool called() const override { return leads() && gate_.newcomer_waits(); }
  bool began() const override { return began_; }
  void begin() override { began_ = true; }
  void end_job(const std::string& why) override { gate_.close(why, Gate::Over::job); }
  void failed(const std::string& why) override;

 private:
  using Guests = std::vector<Gate::Guest>;
  // The outcome of knocking at another's gate.
  struct Visit {
    std::unique_ptr<Comm> comm = {};
    bool answered = false;    // it lives, and is of this job
    int first = -1;           // that is to be met instead
    uint64_t generation = 0;  // of its last meeting
  };

  // A stop counts here as long as it has not met the others yet: then it is agreed on between steps.
  bool is_asked_to_end() const { return generation_ == 0 && options_.called_off && options_.called_off(); }
  bool leads() const { return !order_.empty() && order_[0] == number(); }
  int numbers() const { return static_cast<int>(doors_.gates.size()); }
  const GateAddress& gate_of(int n) const { return doors_.gates[static_cast<size_t>(n)]; }
  NetworkPlan plan_of(int n) const;
  std::unique_ptr<Comm> try_to_meet();
  std::vector<int> to_be_asked() const;
  Descriptor reach(int n, double seconds, int& error) const;
  Visit visit(int n);
  enum class Whom : int32_t { next = 0, first = 1 };
  Visit ask(int n, Whom whom = Whom::next);
  Descriptor knock_at(int n, Whom whom, double seconds, Nonce& nonce);
  std::optional<GateWord> next_word(int socket, const Nonce& nonce, double seconds) const;
  std::unique_ptr<Comm> join_as(int n, const GateWord& word, const Descriptor& line);

  std::unique_ptr<Comm> lead();
  bool all_are_known();
  bool is_lost(int n, const Knock* knock);
  std::unique_ptr<Comm> lead_those_who_came();
  void refuse_others(Guests& guests);
  std::vector<int> order_with(const Guests& guests);
  [[noreturn]] void end_with_too_few(const Guests& guests, bool at_first);
  std::unique_ptr<Comm> join(const NetworkPlan& plan);
  std::string missing() const;
  [[noreturn]] void give_up(const std::string& why);
  void adopt(uint64_t generation, std::vector<int> order);
  std::string where() const { return cat("rank ", number(), ", host ", host_name()); }

  const Launch launch_;
  const JobOptions options_;
  const Doors doors_;
  const std::string token_;
  Gate gate_;
  uint64_t identity_ = 0, generation_ = 0;
  std::vector<int> order_;  // numbers of the members of the last meeting, by rank
  bool began_ = false;
  int vain_ = 0;
  double timeout_ = 120;
  Clock::time_point start_;  // of the wait for a meeting; later where somebody answered since
  std::string why_;          // the last reason that there is none
  int error_ = 0;            // why the last gate could not be reached: an errno; 0: it was

  // These are of a process that gathers the others.
  std::vector<Clock::time_point> alive_, probed_;  // by number: the last sign of life, the last look for one
  std::vector<std::string> lost_;                  // by number: how it was lost; "": it was not
};

NetworkPlan plan_for_gate(const Launch& launch, const JobOptions& options, const Doors& doors) {
  NetworkPlan plan = network_plan(launch, options);
  const GateAddress& own = doors.gates.at(static_cast<size_t>(launch.rank));
  plan.host = own.host;
  plan.port = own.port;
  plan.on_host_of_rank_zero = true;
  return plan;
}

NetworkMembership::NetworkMembership(const Launch& launch, const JobOptions& options, Doors doors)
    : launch_(launch),
      options_(options),
      doors_(std::move(doors)),
      token_(token_of(launch, options)),
      gate_(plan_for_gate(launch, options, doors_), token_, launch.rank),
      alive_(doors_.gates.size()),
      probed_(doors_.gates.size()),
      lost_(doors_.gates.size()) {}

// The plan of a meeting at number n's host.
NetworkPlan NetworkMembership::plan_of(int n) const {
  NetworkPlan plan = network_plan(launch_, options_);
  plan.host = gate_of(n).host;
  plan.port = 0;
  plan.on_host_of_rank_zero = plan.host == gate_of(number()).host;
  plan.token = token_;
  plan.timeout = timeout_;
  plan.world = static_cast<int>(order_.size());
  plan.rank = static_cast<int>(std::find(order_.begin(), order_.end(), number()) - order_.begin());
  return plan;
}

void NetworkMembership::settle() {
  vain_ = 0;
  events_.clear();
}

// The others leave the last meeting by now, and ask at this gate why; it stays until they have, but not for long.
void NetworkMembership::failed(const std::string& why) {
  if (launch_.source == "freight" || generation_ == 0) return;  // whoever started it sees that it fails; nobody waits
  constexpr double kTell = 3;                                   // seconds
  gate_.close(cat("rank ", number(), " failed: ", why), Gate::Over::job);
  const auto start = Clock::now();
  while (gate_.refused() + 1 < static_cast<int>(order_.size()) && seconds_since(start) < kTell) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
  }
}

void NetworkMembership::adopt(uint64_t generation, std::vector<int> order) {
  began_ = began_ || generation_ > 0 || generation > 1;
  generation_ = generation;
  order_ = std::move(order);
  gate_.stand(generation_, order_[0]);
}

std::unique_ptr<Comm> NetworkMembership::meet(double timeout) {
  timeout_ = timeout;
  start_ = Clock::now();
  why_ = "nobody answered";
  const bool first_of_all = generation_ == 0 && number() == 0;
  gate_.stand(generation_, leads() || first_of_all ? number() : -1);
  for (;;) {
    if (std::unique_ptr<Comm> comm = try_to_meet()) return comm;
    if (is_asked_to_end()) {
      throw Error(ErrorKind::peer_lost, "elastic", "it was asked to end before it had met the others", where());
    }
    if (vain_ >= kVainMeetings) give_up(cat(vain_, " meetings in a row broke: ", why_));
    if (seconds_since(start_) > timeout_) give_up(cat("no meeting came about within ", timeout_, " s: ", why_));
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
  }
}

// The gates at which this process asks before it leads: those of members before it, and of everybody where it was at no
// meeting yet.
std::vector<int> NetworkMembership::to_be_asked() const {
  std::vector<int> all;
  if (generation_ > 0) {
    all.assign(order_.begin(), std::find(order_.begin(), order_.end(), number()));
    return all;
  }
  for (int n = 0; n < numbers(); ++n) {
    if (n != number()) all.push_back(n);
  }
  return all;
}

std::unique_ptr<Comm> NetworkMembership::try_to_meet() {
  uint64_t newest = 0;
  const auto asked = to_be_asked();
  for (const int n : asked) {
    Visit v = visit(n);
    if (v.comm) return std::move(v.comm);
    // One that lives goes before this process, though nothing came of it this time; but not another process of that
    // number, which has been at no meeting.
    if (v.answered && generation_ > 0 && v.generation >= generation_) return nullptr;
    newest = std::max(newest, v.generation);
  }
  if (generation_ == 0 && (number() != 0 || newest > 0)) return nullptr;
  if (generation_ > 0 && !leads() && !may_lead()) {
    why_ = cat("rank ", order_[0], " at ", gate_of(order_[0]).host, " does not answer, and has the run still");
    for (int n = 0; n < numbers(); ++n) {  // one that came later may lead by now
      if (n == number() || std::find(asked.begin(), asked.end(), n) != asked.end()) continue;
      Visit v = ask(n, Whom::first);
      if (v.first >= 0 && v.first != number()) v = visit(v.first);
      if (v.comm) return std::move(v.comm);
    }
    return nullptr;
  }
  return lead();
}

Descriptor NetworkMembership::reach(int n, double seconds, int& error) const {
  const GateAddress& to = gate_of(n);
  error = EHOSTUNREACH;
  Descriptor line;
  const std::string& interface = options_.interface.empty() ? env::get("FREIGHT_INTERFACE") : options_.interface;
  for (const SocketAddress& a : resolve_host(to.host, to.port).all) {
    line = connected_to(a, interface, seconds, error);
    if (error == 0) break;
  }
  return line;
}

// Empty where the other says nothing for too long, is gone, or is none of this job.
std::optional<GateWord> NetworkMembership::next_word(int socket, const Nonce& nonce, double seconds) const {
  std::string inbox;
  const auto start = Clock::now();
  for (;;) {
    if (!receive_some(socket, inbox, sizeof(GateWord))) return std::nullopt;
    if (inbox.size() == sizeof(GateWord)) break;
    const double left = seconds - seconds_since(start);
    if (left <= 0) return std::nullopt;
    pollfd p = {.fd = socket, .events = POLLIN, .revents = 0};
    ::poll(&p, 1, static_cast<int>(left * 1e3) + 1);
  }
  GateWord w;
  std::memcpy(&w, inbox.data(), sizeof(w));
  const bool sound =
      proves(w, "", token_, kGateSays, nonce) && w.count >= 0 && w.count <= kMostNumbers && w.first < numbers() &&
      std::all_of(w.members.begin(), w.members.end(), [&](int32_t m) { return m >= 0 && m < numbers(); });
  return sound ? std::optional(w) : std::nullopt;
}

// Goes where number n sends it, too.
NetworkMembership::Visit NetworkMembership::visit(int n) {
  Visit v = ask(n);
  if (v.comm || v.first < 0 || v.first == number() || v.first == n) return v;
  Visit second = ask(v.first);
  second.answered = true;
  second.generation = std::max(second.generation, v.generation);
  return second;
}

// Knocks at the gate of number n: a connection on which that answers, or an empty one.
Descriptor NetworkMembership::knock_at(int n, Whom whom, double seconds, Nonce& nonce) {
  const auto why_not = [&](const char* why) {
    why_ = cat("rank ", n, " at ", gate_of(n).host, ", port ", gate_of(n).port, ": ", why);
    return Descriptor();
  };
  Descriptor line = reach(n, seconds, error_);
  if (error_ != 0) return why_not(std::strerror(error_));
  const std::optional<Challenge> challenge = challenge_of(line.get(), seconds);
  if (!challenge) return why_not("it says nothing");
  Knock knock{.number = number(),
              .process = ::getpid(),
              .whom = static_cast<int32_t>(whom),
              .generation = generation_,
              .identity = identity_};
  put_text(knock.version, version());
  put_text(knock.host, host_name());
  knock.nonce = nonce = new_nonce();
  prove(knock, "", token_, kKnockSays, challenge->nonce);
  if (!send_bytes(line.get(), bytes_in(knock), seconds)) return why_not("it is gone");
  return line;
}

// Knocks, and waits as long as it is told to.
NetworkMembership::Visit NetworkMembership::ask(int n, Whom whom) {
  Visit v;
  Nonce nonce{};
  const auto asked = Clock::now();
  const Descriptor line = knock_at(n, whom, kAnswer, nonce);
  if (line.get() < 0) return v;
  while (const std::optional<GateWord> word = next_word(line.get(), nonce, kSilence)) {
    using Kind = GateWord::Kind;
    v.answered = true;
    v.generation = std::max(v.generation, word->generation);
    if (word->kind == Kind::waits) {
      // It may still wait for one before it, who waits for this process.
      if (word->first != n && seconds_since(asked) > kNotLeading) return v;
      start_ = Clock::now();  // it is known, and its time is the other's to count
      if (is_asked_to_end()) return v;
      if (seconds_since(asked) > 2 * timeout_) give_up(cat("rank ", n, " lives, and calls no meeting"));
      continue;
    }
    if (word->kind == Kind::fails && word->error == static_cast<int32_t>(ErrorKind::usage)) {
      throw Error(ErrorKind::usage, "elastic", text_in(word->text), where());
    }
    if (word->kind == Kind::fails || word->kind == Kind::ends) give_up(text_in(word->text));
    if (word->kind == Kind::other) v.first = word->first;
    if (word->kind == Kind::meets) v.comm = join_as(n, *word, line);
    return v;
  }
  return v;
}

std::unique_ptr<Comm> NetworkMembership::join_as(int n, const GateWord& word, const Descriptor& line) {
  std::vector<int> order(word.members.begin(), word.members.begin() + word.count);
  if (std::find(order.begin(), order.end(), number()) == order.end()) return nullptr;
  adopt(word.generation, std::move(order));
  events_ = text_in(word.text);
  NetworkPlan plan = plan_of(n);
  plan.port = word.port;
  const auto start = Clock::now();
  plan.called_off = [&] { return is_closed(line.get()) || seconds_since(start) > kComeTogether; };
  return join(plan);
}

// Null where somebody was lost meanwhile.
std::unique_ptr<Comm> NetworkMembership::join(const NetworkPlan& plan) {
  try {
    return join_gloo(plan);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::peer_lost) throw;
    why_ = e.what();
    ++vain_;
    return nullptr;
  }
}

// Gathers the others, and meets them. Null where nothing has come of it yet.
std::unique_ptr<Comm> NetworkMembership::lead() {
  gate_.stand(generation_, number());
  std::fill(alive_.begin(), alive_.end(), Clock::now());
  std::fill(probed_.begin(), probed_.end(), Clock::time_point());
  std::fill(lost_.begin(), lost_.end(), "");
  const auto begun = Clock::now();
  while (!all_are_known()) {
    if (generation_ == 0 && seconds_since(start_) > timeout_) break;
    // It asks the others now and then, as long as it was in no meeting, whether there was one without it.
    constexpr double kAskAgain = 0.5;
    if (generation_ == 0 && seconds_since(begun) > kAskAgain) return nullptr;
    if (generation_ > 0 && seconds_since(begun) > timeout_) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause / 5));
  }
  return lead_those_who_came();
}

// True where all that are expected wait, or are lost.
bool NetworkMembership::all_are_known() {
  const std::vector<Knock> waiting = gate_.waiting();
  const auto knock_of = [&](int n) -> const Knock* {
    const auto at = std::find_if(waiting.begin(), waiting.end(), [&](const Knock& k) { return k.number == n; });
    return at == waiting.end() ? nullptr : &*at;
  };
  bool all = true;
  if (generation_ == 0) {
    for (int n = 0; n < numbers(); ++n) all = all && (n == number() || knock_of(n));
    return all;
  }
  for (const int n : order_) {
    if (n == number()) continue;
    const Knock* const knock = knock_of(n);
    const bool came = knock && knock->generation == generation_;
    if (!came && !is_lost(n, knock)) all = false;
  }
  return all;
}

// Looks after a member that has not come to its meeting.
bool NetworkMembership::is_lost(int n, const Knock* knock) {
  constexpr double kProbe = 0.2, kProbeAgain = 0.1;
  constexpr const char* kEnded = "ended or was killed";
  std::string& lost = lost_[static_cast<size_t>(n)];
  if (!lost.empty()) return true;
  if (knock) {  // another process of that number, or one that was too slow for a meeting before
    lost = knock->generation == 0 ? kEnded : "was lost";
    return true;
  }
  Clock::time_point &probed = probed_[static_cast<size_t>(n)], &alive = alive_[static_cast<size_t>(n)];
  if (seconds_since(probed) < kProbeAgain) return false;
  probed = Clock::now();
  Nonce nonce{};
  const Descriptor line = knock_at(n, Whom::first, kProbe, nonce);
  const auto word = line.get() < 0 ? std::nullopt : next_word(line.get(), nonce, kProbe);
  if (word && word->kind == GateWord::Kind::ends) give_up(text_in(word->text));
  if (word && word->generation >= generation_) alive = Clock::now();
  if (error_ == ECONNREFUSED || (word && word->generation < generation_)) {
    lost = kEnded;
  } else if (seconds_since(alive) >= kNoAnswer) {
    lost = error_ == 0 ? "is stopped or hangs" : "does not answer, nor does its host";
  }
  return !lost.empty();
}

std::string NetworkMembership::missing() const {
  std::vector<bool> came(doors_.gates.size());
  for (const int n : order_) came[static_cast<size_t>(n)] = true;
  return missing_ranks(came, timeout_);
}

// Sends those away that were prepared for something else.
void NetworkMembership::refuse_others(Guests& guests) {
  std::erase_if(guests, [&](const Gate::Guest& g) {
    if (g.said.identity == identity_) return false;
    GateWord w{.kind = GateWord::Kind::fails, .error = static_cast<int32_t>(ErrorKind::usage)};
    put_text(w.text, cat("rank ", g.rank, " has another program, data or settings than those that it joins"));
    gate_.tell(g, w);
    return true;
  });
}

// The numbers of a meeting by the order of their ranks: this process, who was at the last one, who comes. Notes who
// left and who came.
std::vector<int> NetworkMembership::order_with(const Guests& guests) {
  const auto came = [&](int n, bool before) {
    return std::any_of(guests.begin(), guests.end(), [&](const Gate::Guest& g) {
      return g.rank == n && (generation_ > 0 && g.said.generation == generation_) == before;
    });
  };
  const auto note = [&](int n, const std::string& what) {
    events_ += cat(events_.empty() ? "" : ", ", "rank ", n, " ", what);
  };
  std::vector<int> order = {number()};
  for (const int n : order_) {
    if (n == number()) continue;
    const std::string& how = lost_[static_cast<size_t>(n)];
    if (came(n, true)) {
      order.push_back(n);
    } else {
      note(n, how.empty() ? "did not come to a meeting" : how);
    }
  }
  for (int n = 0; n < numbers(); ++n) {
    if (!came(n, false)) continue;
    order.push_back(n);
    if (generation_ > 0) note(n, "is back");
  }
  return order;
}

void NetworkMembership::end_with_too_few(const Guests& guests, bool at_first) {
  const size_t left = order_.size();
  const std::string why =
      at_first ? missing() : cat(events_, "; ", left, left == 1 ? " is left" : " are left", ", need ", doors_.least);
  for (const Gate::Guest& g : guests) {
    GateWord w{.kind = GateWord::Kind::fails, .error = static_cast<int32_t>(ErrorKind::peer_lost)};
    put_text(w.text, why);
    gate_.tell(g, w);
  }
  give_up(why);
}

std::unique_ptr<Comm> NetworkMembership::lead_those_who_came() {
  Guests guests = gate_.take();
  refuse_others(guests);
  const bool at_first = generation_ == 0;
  adopt(generation_ + 1, order_with(guests));
  if (static_cast<int>(order_.size()) < doors_.least) end_with_too_few(guests, at_first);
  NetworkPlan plan = plan_of(number());
  plan.listening = [&](const std::string&, int port) {
    GateWord w{.kind = GateWord::Kind::meets,
               .first = number(),
               .count = static_cast<int32_t>(order_.size()),
               .port = port,
               .generation = generation_};
    std::copy(order_.begin(), order_.end(), w.members.begin());
    put_text(w.text, events_);
    for (const Gate::Guest& g : guests) gate_.tell(g, w);
  };
  const auto start = Clock::now();
  plan.called_off = [&] {
    const auto left = [](const Gate::Guest& g) { return is_closed(g.socket.get()); };
    return seconds_since(start) > kComeTogether || std::any_of(guests.begin(), guests.end(), left);
  };
  return join(plan);
}

// The job is over, for all that come yet.
void NetworkMembership::give_up(const std::string& why) {
  gate_.close(why);
  throw Error(ErrorKind::peer_lost, "elastic", why, where());
}

}  // namespace

std::unique_ptr<Membership> network_membership(const Launch& launch, const JobOptions& options,
                                               const std::string& text) {
  Doors doors = doors_in(text);
  if (static_cast<int>(doors.gates.size()) != launch.world) refuse_inherited("FREIGHT_ELASTIC", text);
  return std::make_unique<NetworkMembership>(launch, options, std::move(doors));
}

}  // namespace freight::comm
