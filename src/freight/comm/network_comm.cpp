// See network_comm.h. Every rank is connected with every other one. A collective begins with heads that all ranks
// exchange: they say which collective each rank calls, and carry the data if it is small. Longer data follows only if
// all ranks call the same, since Gloo ends the process if a message is longer than its receiver expects.
#include "freight/comm/network_comm.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/comm/call_internal.h"
#include "freight/comm/gloo_mesh_internal.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/signal_guards_internal.h"
#include "freight/comm/watchdog.h"

namespace freight::comm {

namespace {

using Clock = std::chrono::steady_clock;

// Begins every collective, and is the last message of a rank that leaves.
struct Head {
  uint64_t call = 0;
  int64_t step = 0;
  uint32_t calls = 0;
  uint32_t leaves = 0;
  std::array<uint64_t, 5> unused{};  // so that what follows begins with a cache line
};
static_assert(sizeof(Head) == 64);
// A head and what it carries fit in one Ethernet packet.
constexpr int64_t kHeadBytes = 1408, kCarried = kHeadBytes - static_cast<int64_t>(sizeof(Head));
// Arrays of which a rank sends at most this many bytes in total go whole to every rank: slices would take another round
// trip.
constexpr int64_t kWholeSent = 32 << 10;
// The bytes of a slice that is summed at a time, while the next one is being received.
constexpr int64_t kSliceBytes = 1 << 20, kLeastSliceBytes = 64 << 10, kInboxBytes = 64 << 20;
// Arrays that are moved, not summed, are cut into pieces of this size, each of which has the whole timeout.
constexpr int64_t kPieceBytes = 16 << 20;
constexpr double kSayGoodbye = 5;    // seconds that a leaving rank waits for the others to receive everything
constexpr double kCauseSeconds = 2;  // seconds after a broken connection within which the watchdog knows the cause

struct Transfer {
  std::unique_ptr<GlooMesh::Message> message;
  int peer = 0;
};

class NetworkComm final : public Comm {
 public:
  explicit NetworkComm(const NetworkPlan& plan);
  ~NetworkComm() override;

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  bool over_network() const override { return true; }
  void all_reduce(void* data, int64_t count, DType dtype) override;
  void all_gather(const void* from, void* to, int64_t count, DType dtype) override;
  void broadcast(void* data, int64_t count, DType dtype, int root) override;
  void barrier() override;
  void abort(const std::string& reason) noexcept override;
  void at_step(int64_t step) override { state_.step = step; }
  std::vector<double> waited() const override { return waited_; }
  std::string lost() const override {
    const auto fault = dog_->is_over() ? dog_->fault_within(0) : std::nullopt;
    return fault ? fault->text : std::string();
  }
  std::string whereabouts() const override {
    std::vector<std::string> all;
    for (int r = 0; r < world_; ++r) {
      if (r != rank_) all.push_back(cat(dog_->last_seen(r), ", ", dog_->process_of(r)));
    }
    return join(all, "; ");
  }

 private:
  // Ends the transfers of a call when it is left, also by an exception.
  class Scope;

  void connect_all(const NetworkRendezvous& rendezvous);
  void begin(const Call& call);
  void leave_call();
  void exchange_heads(const void* carried, int64_t bytes);
  void compare_heads();
  Transfer& post(GlooMesh::Direction direction, int peer, void* at, int64_t bytes, uint64_t slot);
  void receive(int peer, void* to, int64_t bytes, uint64_t slot) {
    receives_.push_back(&post(GlooMesh::Direction::receive, peer, to, bytes, slot));
  }
  void send(int peer, const void* from, int64_t bytes, uint64_t slot) {
    // Messages have one type of pointer for both directions.
    sends_.push_back(&post(GlooMesh::Direction::send, peer, const_cast<void*>(from), bytes, slot));
  }
  static bool is_done_within(Transfer& transfer, double seconds, std::string& why);
  void await(Transfer& transfer);
  void await_all(std::vector<Transfer*>& transfers) {
    for (Transfer* t : transfers) await(*t);
    transfers.clear();
  }
  void sum_whole(char* data, int64_t count, DType dtype);
  void sum_slices(char* data, int64_t count, DType dtype);
  void sum_parts(const char* own, const char* others, int64_t stride, char* to, int64_t count, DType dtype);
  char* inbox(int64_t chunk, int peer, int64_t bytes);
  void say_goodbye() noexcept;
  void wake() noexcept;
  void end_transfers();
  char* head_of(int r) { return heads_.data() + r * kHeadBytes; }
  [[noreturn]] void broken(int peer, const std::string& why, double waited);
  [[noreturn]] void give_up(ErrorKind kind, const std::string& text) { throw_fault(dog_->settle({kind, text})); }
  [[noreturn]] void throw_fault(const JobFault& fault);

  const int rank_, world_;
  const double timeout_;
  GlooMesh mesh_;
  RankState state_;
  Call call_ = Call(0);
  uint64_t slot_ = 0;                   // the slot of the next message; all ranks count alike
  std::vector<char> heads_, own_head_;  // by rank, kHeadBytes each
  std::vector<char> inbox_;             // slices from the other ranks, of two chunks
  std::vector<const void*> parts_;      // the operands of a sum, by rank
  std::vector<double> waited_;          // seconds, by rank
  std::vector<Transfer*> receives_, sends_;
  std::mutex guard_;  // protects the next two members, which the watchdog's thread reads
  std::deque<Transfer> transfers_;
  bool connecting_ = true;
  std::unique_ptr<Watchdog> dog_;  // the last member: its thread uses the others
};

class NetworkComm::Scope {
 public:
  explicit Scope(NetworkComm& comm) : comm_(comm) {}
  ~Scope() {
    comm_.end_transfers();
    if (comm_.state_.inside) comm_.leave_call();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  NetworkComm& comm_;
  WithoutSigpipe quiet_;
};

NetworkComm::NetworkComm(const NetworkPlan& plan)
    : rank_(plan.rank),
      world_(plan.world),
      timeout_(plan.timeout),
      mesh_(plan.rank, plan.world, plan.timeout),
      heads_(static_cast<size_t>(plan.world * kHeadBytes)),
      own_head_(static_cast<size_t>(kHeadBytes)),
      parts_(static_cast<size_t>(plan.world)),
      waited_(static_cast<size_t>(plan.world)) {
  const Scope scope(*this);
  NetworkRendezvous rendezvous;
  if (world_ == 1) {
    rendezvous.peers.push_back({.host = host_name(), .address = {}, .process = ::getpid(), .endpoint = {}});
  } else {
    rendezvous =
        rendezvous_on_network(plan, [this](const std::string& address) { return mesh_.make_endpoints(address); });
  }
  dog_ = std::make_unique<Watchdog>(rank_, rendezvous, [this] { wake(); });
  connect_all(rendezvous);
}

void NetworkComm::connect_all(const NetworkRendezvous& rendezvous) {
  for (int r = 0; r < world_; ++r) {
    const NetworkPeer& peer = rendezvous.peers[static_cast<size_t>(r)];
    std::string why;
    try {
      if (r != rank_) mesh_.connect(r, peer.endpoint);
    } catch (const std::exception& e) {
      why = e.what();
    }
    if (const auto fault = dog_->fault_within(why.empty() ? 0 : kCauseSeconds)) throw_fault(*fault);
    if (!why.empty()) {
      give_up(ErrorKind::peer_lost, cat("rank ", rank_, " on host ", host_name(), " cannot reach rank ", r, " on host ",
                                        peer.host, " (", peer.address, ") for data, though both reach rank 0: ", why));
    }
  }
  const std::lock_guard lock(guard_);
  connecting_ = false;
}

NetworkComm::~NetworkComm() {
  if (!dog_->is_over() && world_ > 1) say_goodbye();
  dog_.reset();  // its thread ends before the objects that it would wake
}

// Called by the watchdog when the job is over.
void NetworkComm::wake() noexcept {
  const std::lock_guard lock(guard_);
  for (const Transfer& t : transfers_) t.message->wake();
  if (connecting_) mesh_.close();
}

// After this nothing writes into the arrays of a call any more.
void NetworkComm::end_transfers() {
  receives_.clear();
  sends_.clear();
  const std::lock_guard lock(guard_);
  transfers_.clear();
}

void NetworkComm::throw_fault(const JobFault& fault) {
  end_transfers();
  mesh_.close();  // an abandoned message would keep a thread of Gloo busy
  throw Error(fault.kind, to_string(call_.which), fault.text,
              cat("rank ", rank_, " of ", world_, ", step ", state_.step, ", host ", host_name()));
}

Transfer& NetworkComm::post(GlooMesh::Direction direction, int peer, void* at, int64_t bytes, uint64_t slot) {
  std::string why;
  try {
    Transfer* t = nullptr;
    {
      const std::lock_guard lock(guard_);
      // Either the watchdog sees this transfer, or the check below sees that the job is over.
      t = &transfers_.emplace_back(Transfer{mesh_.message(direction, peer, at, bytes, slot), peer});
    }
    if (!dog_->is_over()) {
      t->message->begin();
      return *t;
    }
  } catch (const std::exception& e) {
    why = e.what();
  }
  broken(peer, why, 0);
}

// False if it is not done after `seconds` or the job is over. If the connection broke, `why` is set.
bool NetworkComm::is_done_within(Transfer& transfer, double seconds, std::string& why) {
  try {
    return transfer.message->is_done_within(seconds);
  } catch (const std::exception& e) {
    why = e.what();
    return false;
  }
}

void NetworkComm::await(Transfer& transfer) {
  const auto start = Clock::now();
  std::string why;
  if (!is_done_within(transfer, timeout_, why)) broken(transfer.peer, why, seconds_since(start));
}

// A broken connection is usually the consequence of a fault that the watchdog is about to name.
void NetworkComm::broken(int peer, const std::string& why, double waited) {
  const bool late = waited >= timeout_;
  if (const auto fault = dog_->fault_within(late ? 0 : kCauseSeconds)) throw_fault(*fault);
  if (late) {
    give_up(ErrorKind::peer_lost, cat("rank ", peer, " did not respond within ", timeout_, " s: ",
                                      dog_->process_of(peer), " is alive, but slow or hung; ", dog_->last_seen(peer)));
  }
  give_up(ErrorKind::peer_lost, cat("rank ", rank_, " on host ", host_name(), " lost its connection to rank ", peer,
                                    ", ", dog_->process_of(peer), ": ", why, "; ", dog_->last_seen(peer)));
}

void NetworkComm::begin(const Call& call) {
  check_call(call, world_);
  call_ = call;
  if (const auto fault = dog_->is_over() ? dog_->fault_within(0) : std::nullopt) throw_fault(*fault);
  ++state_.calls;
  state_.call = call.packed();
  state_.inside = true;
  dog_->publish(state_);
}

void NetworkComm::leave_call() {
  state_.inside = false;
  dog_->publish(state_);
}

// Fills heads_ with the heads of all other ranks, each with the `bytes` that it carries.
void NetworkComm::exchange_heads(const void* carried, int64_t bytes) {
  const Head own = {.call = call_.packed(), .step = state_.step, .calls = state_.calls};
  std::memcpy(own_head_.data(), &own, sizeof(own));
  copy_bytes(own_head_.data() + sizeof(own), carried, bytes);
  for (int i = 1; i < world_; ++i) receive((rank_ + i) % world_, head_of((rank_ + i) % world_), kHeadBytes, slot_);
  for (int i = 1; i < world_; ++i) {
    send((rank_ + i) % world_, own_head_.data(), static_cast<int64_t>(sizeof(own)) + bytes, slot_);
  }
  ++slot_;
  for (Transfer* t : receives_) {
    const auto start = Clock::now();
    await(*t);
    waited_[static_cast<size_t>(t->peer)] += seconds_since(start);
  }
  receives_.clear();
  compare_heads();
  await_all(sends_);
}

void NetworkComm::compare_heads() {
  for (int r = 0; r < world_; ++r) {
    if (r == rank_) continue;
    Head theirs;
    std::memcpy(&theirs, head_of(r), sizeof(theirs));
    if (theirs.leaves != 0) {
      give_up(ErrorKind::peer_lost, failure_of(r, dog_->process_of(r), "left the job", dog_->last_seen(r)));
    }
    dog_->saw(r, {.calls = theirs.calls, .call = theirs.call, .step = theirs.step, .inside = true});
    if (theirs.call == call_.packed()) continue;
    give_up(ErrorKind::usage, cat("ranks call different collectives: rank ", rank_, " calls ", call_, ", rank ", r,
                                  " calls ", Call(theirs.call)));
  }
}

// to (count) = the sum of this rank's `own` and the other ranks' contributions: rank r's is at others + r * stride.
void NetworkComm::sum_parts(const char* own, const char* others, int64_t stride, char* to, int64_t count, DType dtype) {
  for (int r = 0; r < world_; ++r) parts_[static_cast<size_t>(r)] = r == rank_ ? own : others + r * stride;
  tree_sum(parts_.data(), world_, to, count, dtype);
}

// The buffer for the slice of a chunk that `peer` sends, of at most `bytes`.
char* NetworkComm::inbox(int64_t chunk, int peer, int64_t bytes) {
  const auto need = static_cast<size_t>(2 * bytes * world_);
  if (inbox_.size() < need) inbox_.resize(need);
  return inbox_.data() + ((chunk & 1) * world_ + peer) * bytes;
}

int64_t slice_bytes_for(int world) { return std::clamp(kInboxBytes / world, kLeastSliceBytes, kSliceBytes); }

// Every rank receives all arrays and adds them.
void NetworkComm::sum_whole(char* data, int64_t count, DType dtype) {
  const int64_t bytes = count * bytes_of(dtype);
  inbox(0, 0, bytes);  // allocates its full size once
  for (int i = 1; i < world_; ++i) receive((rank_ + i) % world_, inbox(0, (rank_ + i) % world_, bytes), bytes, slot_);
  for (int i = 1; i < world_; ++i) send((rank_ + i) % world_, data, bytes, slot_);
  ++slot_;
  await_all(receives_);
  await_all(sends_);
  sum_parts(data, inbox(0, 0, bytes), bytes, data, count, dtype);
}

// Each rank adds its slice of a chunk and sends the sum to the others. Meanwhile the slices of the next chunk are being
// sent, so that the network is never idle.
void NetworkComm::sum_slices(char* data, int64_t count, DType dtype) {
  const int64_t size = bytes_of(dtype), slice_bytes = slice_bytes_for(world_), most = slice_bytes / size * world_;
  const int64_t chunks = (count + most - 1) / most;
  inbox(0, 0, slice_bytes);
  const auto slice = [&](int64_t chunk, int r) {
    const Slice s = slice_of(std::min(most, count - chunk * most), r, world_, size);
    return Slice{chunk * most + s.begin, s.count};
  };
  std::array<std::vector<Transfer*>, 2> brought;  // by the number of the chunk modulo 2
  const auto bring = [&](int64_t chunk) {
    const Slice mine = slice(chunk, rank_);
    const uint64_t slot = slot_ + 2 * static_cast<uint64_t>(chunk);
    for (int i = 1; i < world_; ++i) {
      const int r = (rank_ + i) % world_;
      if (mine.count > 0) receive(r, inbox(chunk, r, slice_bytes), mine.count * size, slot);
    }
    brought[chunk & 1] = std::move(receives_);
    receives_.clear();
    for (int i = 1; i < world_; ++i) {
      const int r = (rank_ + i) % world_;
      if (const Slice s = slice(chunk, r); s.count > 0) send(r, data + s.begin * size, s.count * size, slot);
    }
  };
  std::vector<Transfer*> sums;
  bring(0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk + 1 < chunks) bring(chunk + 1);
    await_all(brought[chunk & 1]);
    const Slice mine = slice(chunk, rank_);
    char* const own = data + mine.begin * size;
    sum_parts(own, inbox(chunk, 0, slice_bytes), slice_bytes, own, mine.count, dtype);
    const uint64_t slot = slot_ + 2 * static_cast<uint64_t>(chunk) + 1;
    // A slice is overwritten by its sum, which can only be computed after the slice has been received.
    for (int i = 1; i < world_; ++i) {
      const int r = (rank_ + i) % world_;
      if (const Slice s = slice(chunk, r); s.count > 0) receive(r, data + s.begin * size, s.count * size, slot);
    }
    sums.insert(sums.end(), receives_.begin(), receives_.end());
    receives_.clear();
    for (int i = 1; i < world_ && mine.count > 0; ++i) send((rank_ + i) % world_, own, mine.count * size, slot);
  }
  slot_ += 2 * static_cast<uint64_t>(chunks);
  await_all(sums);
  await_all(sends_);
}

void NetworkComm::all_reduce(void* data, int64_t count, DType dtype) {
  check_summable("all_reduce", dtype);
  const Scope scope(*this);
  begin({Collective::all_reduce, dtype, 0, count});
  if (world_ == 1) return;
  const int64_t bytes = count * bytes_of(dtype);
  char* const own = static_cast<char*>(data);
  if (bytes <= kCarried) {
    exchange_heads(data, bytes);
    return sum_parts(own, heads_.data() + sizeof(Head), kHeadBytes, own, count, dtype);
  }
  exchange_heads(nullptr, 0);
  bytes*(world_ - 1) <= kWholeSent ? sum_whole(own, count, dtype) : sum_slices(own, count, dtype);
}

void NetworkComm::all_gather(const void* from, void* to, int64_t count, DType dtype) {
  check_movable("all_gather", dtype);
  const Scope scope(*this);
  begin({Collective::all_gather, dtype, 0, count});
  const int64_t bytes = count * bytes_of(dtype);
  char* const target = static_cast<char*>(to);
  if (bytes <= kCarried) {
    exchange_heads(from, bytes);
    for (int r = 0; r < world_; ++r) {
      if (r != rank_) copy_bytes(target + r * bytes, head_of(r) + sizeof(Head), bytes);
    }
  } else {
    exchange_heads(nullptr, 0);
    for (int64_t at = 0; at < bytes; at += kPieceBytes, ++slot_) {
      const int64_t n = std::min(kPieceBytes, bytes - at);
      for (int i = 1; i < world_; ++i)
        receive((rank_ + i) % world_, target + ((rank_ + i) % world_) * bytes + at, n, slot_);
      for (int i = 1; i < world_; ++i) send((rank_ + i) % world_, static_cast<const char*>(from) + at, n, slot_);
    }
    await_all(receives_);
    await_all(sends_);
  }
  if (target + rank_ * bytes != from) copy_bytes(target + rank_ * bytes, from, bytes);
}

// A large array is cut into slices: the root sends each other rank one, and each passes its slice on, so that no
// connection carries the whole array W - 1 times.
void NetworkComm::broadcast(void* data, int64_t count, DType dtype, int root) {
  check_movable("broadcast", dtype);
  const Scope scope(*this);
  begin({Collective::broadcast, dtype, root, count});
  const int64_t bytes = count * bytes_of(dtype);
  char* const own = static_cast<char*>(data);
  if (bytes <= kCarried) {
    exchange_heads(rank_ == root ? data : nullptr, rank_ == root ? bytes : 0);
    if (rank_ != root) copy_bytes(own, head_of(root) + sizeof(Head), bytes);
    return;
  }
  exchange_heads(nullptr, 0);
  const int64_t most = kPieceBytes * world_;
  for (int64_t at = 0; at < bytes; at += most, slot_ += 2) {
    const auto slice = [&](int r) { return slice_of(std::min(most, bytes - at), r, world_, 1); };
    const auto hand_on = [&](int to) {
      const Slice mine = slice(rank_);
      if (to != rank_ && to != root && mine.count > 0) send(to, own + at + mine.begin, mine.count, slot_ + 1);
    };
    for (int r = 0; r < world_; ++r) {
      const Slice s = slice(r);
      if (s.count == 0) continue;
      if (rank_ == root && r != root) send(r, own + at + s.begin, s.count, slot_);
      if (rank_ == r && r != root) receive(root, own + at + s.begin, s.count, slot_);
    }
    await_all(receives_);
    for (int i = 1; i < world_; ++i) hand_on((rank_ + i) % world_);
    for (int r = 0; r < world_ && rank_ != root; ++r) {
      const Slice s = slice(r);
      if (r != rank_ && s.count > 0) receive(r, own + at + s.begin, s.count, slot_ + 1);
    }
  }
  await_all(receives_);
  await_all(sends_);
}

void NetworkComm::barrier() {
  const Scope scope(*this);
  begin({Collective::barrier, DType::u8, 0, 0});
  exchange_heads(nullptr, 0);
}

void NetworkComm::abort(const std::string& reason) noexcept {
  try {
    dog_->end({ErrorKind::peer_lost, cat("rank ", rank_, " gave up at step ", state_.step, ": ", reason)});
  } catch (...) {  // there is no memory for the text
    dog_->end({ErrorKind::peer_lost, {}});
  }
}

// A rank that leaves waits until the others leave, too: its last messages may still be under way, and would be lost
// when its connections close. A rank that does not leave finds this message where it expects a head.
void NetworkComm::say_goodbye() noexcept {
  try {
    const Scope scope(*this);
    const Head own = {.step = state_.step, .calls = state_.calls, .leaves = 1};
    std::memcpy(own_head_.data(), &own, sizeof(own));
    for (int r = 0; r < world_; ++r) {
      if (r != rank_) receive(r, head_of(r), kHeadBytes, slot_);
    }
    for (int r = 0; r < world_; ++r) {
      if (r != rank_) send(r, own_head_.data(), static_cast<int64_t>(sizeof(own)), slot_);
    }
    const auto start = Clock::now();
    std::string why;
    for (std::vector<Transfer*>* all : {&receives_, &sends_}) {
      for (Transfer* t : *all) {
        if (!is_done_within(*t, std::max(0.001, kSayGoodbye - seconds_since(start)), why)) return;
      }
    }
  } catch (...) {  // a rank is gone already
  }
}

}  // namespace

std::unique_ptr<Comm> join_gloo(const NetworkPlan& plan) { return std::make_unique<NetworkComm>(plan); }

}  // namespace freight::comm
