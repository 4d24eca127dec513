// See shared_memory.h. Every collective is a sequence of rounds, each of which is a barrier: a rank writes its input
// into its slot, announces that in its status, waits until all ranks have done so, and reads the inputs of the others.
// shared_layout_internal.h explains why two halves of a slot are enough.
#include "freight/comm/shared_memory.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/comm/call_internal.h"
#include "freight/comm/descriptor_internal.h"
#include "freight/comm/futex_internal.h"
#include "freight/comm/host_rendezvous.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/process_watch_internal.h"
#include "freight/comm/shared_layout_internal.h"
#include "freight/comm/streaming_stores_internal.h"
#include "freight/comm/tree_sum.h"

namespace freight::comm {

namespace {

using Clock = std::chrono::steady_clock;

// Up to this size every rank adds the whole array: a second round costs more than slices would save.
constexpr int64_t kWholeBytes = 4 << 10;
// A waiting rank checks the others at this interval, in seconds.
constexpr double kLook = 0.05;
// Waiting begins with spinning, in seconds. The maximum is longer than it takes to wake a process, 50 to 100
// microseconds in a virtual machine: otherwise two ranks that sleep once would find each other asleep forever, since
// each is late by its own wake-up time. After the first microseconds it is checked whether spinning can help at all.
constexpr double kSpin = 200e-6, kSpinLeast = 20e-6, kSpinFirst = 2e-6;
// A wait of this many seconds is not explained by the time to wake a process.
constexpr double kLongWait = 1e-3;
// Seconds that a rank waits for the text of an error that another one is writing.
constexpr double kWrite = 0.1;

void pause_a_little() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

class SharedMemory final : public Comm {
 public:
  SharedMemory(const Launch& launch, const HostRendezvous& rendezvous, const SharedMemoryOptions& options);
  ~SharedMemory() override;

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  bool over_network() const override { return false; }
  void all_reduce(void* data, int64_t count, DType dtype) override;
  void all_gather(const void* from, void* to, int64_t count, DType dtype) override;
  void broadcast(void* data, int64_t count, DType dtype, int root) override;
  void barrier() override;
  void abort(const std::string& reason) noexcept override;
  void at_step(int64_t step) override { status(rank_).step.store(step, std::memory_order_relaxed); }
  std::vector<double> waited() const override { return waited_; }
  std::string lost() const override;
  std::string whereabouts() const override;

 private:
  RankStatus& status(int r) const { return reinterpret_cast<RankStatus*>(memory_ + statuses_at())[r]; }
  SharedError& shared_error() const { return reinterpret_cast<SharedHead*>(memory_)->shared_error; }
  // Rank r's input and result of the next round (`ahead` 1) or of the last one (0) are stored here.
  char* input(int r, uint32_t ahead) const { return half(r, ahead) + place_; }
  char* result(int r, uint32_t ahead) const { return half(r, ahead) + kInputBytes + place_ / 2; }
  char* half(int r, uint32_t ahead) const {
    return memory_ + slots_at(world_) + (static_cast<size_t>(r) * 2 + ((rounds_ + ahead) & 1)) * kHalfBytes;
  }

  void begin(const Call& call);
  void move_on(size_t bytes);
  void run_round();
  void compare_calls();
  bool processors_are_shared() const;
  void wait_for(int other);
  void check_ranks(int awaited, double waited);
  void sum_whole(char* data, int64_t count, DType dtype);
  void sum_slices(char* data, int64_t count, DType dtype);
  std::string last_seen(int r) const;
  std::string loss_of(int r, bool left) const;
  std::string written_error() const;
  bool report_error(ErrorKind kind, const std::string& text) noexcept;
  [[noreturn]] void throw_shared_error() const;
  [[noreturn]] void give_up(ErrorKind kind, const std::string& text) {
    report_error(kind, text);
    throw_shared_error();
  }

  int rank_, world_;
  double timeout_, spin_ = kSpin;  // seconds
  std::vector<int> processes_;
  std::vector<Descriptor> watched_;  // by rank; this rank's is empty
  char* memory_;
  size_t place_ = 0, next_ = 0;     // bytes of a half before this collective, and before the next one
  uint32_t rounds_ = 0;             // of this rank so far
  bool compared_ = true;            // whether the calls of this collective were compared
  Call call_ = Call(0);             // the last call
  std::vector<const void*> parts_;  // the operands of a sum, by rank
  std::vector<double> waited_;      // seconds, by rank
};

SharedMemory::SharedMemory(const Launch& launch, const HostRendezvous& rendezvous, const SharedMemoryOptions& options)
    : rank_(launch.rank), world_(launch.world), timeout_(options.timeout), processes_(rendezvous.processes) {
  watched_.resize(static_cast<size_t>(world_));
  parts_.resize(static_cast<size_t>(world_));
  waited_.resize(static_cast<size_t>(world_));
  for (int r = 0; r < world_; ++r) {
    if (r != rank_) watched_[static_cast<size_t>(r)] = watch_process(processes_[static_cast<size_t>(r)]);
  }
  void* const p = ::mmap(nullptr, shared_bytes(world_), PROT_READ | PROT_WRITE, MAP_SHARED, rendezvous.file, 0);
  if (p == MAP_FAILED) {
    fail(ErrorKind::runtime, "mmap", "cannot map ", shared_bytes(world_), " bytes: ", std::strerror(errno));
  }
  memory_ = static_cast<char*>(p);
}

SharedMemory::~SharedMemory() {
  status(rank_).left.store(1, std::memory_order_release);
  wake_all(status(rank_).arrived);
  ::munmap(memory_, shared_bytes(world_));
}

std::string SharedMemory::last_seen(int r) const {
  const RankStatus& s = status(r);
  const uint32_t n = s.call_count.load(std::memory_order_acquire);
  const Call call(s.calls[n % 2].load());
  return position_of(r, n == 0 ? nullptr : &call, s.step.load());
}

std::string SharedMemory::loss_of(int r, bool left) const {
  return failure_of(r, process_text(processes_[static_cast<size_t>(r)], host_name()),
                    left ? "left the job" : "ended or was killed", last_seen(r));
}

std::string SharedMemory::lost() const {
  if (shared_error().state.load(std::memory_order_acquire) != SharedError::kNone) return written_error();
  for (int r = 0; r < world_; ++r) {
    if (r == rank_ || status(r).left.load(std::memory_order_acquire) == 1) continue;
    if (has_ended(watched_[static_cast<size_t>(r)])) return loss_of(r, false);
  }
  return {};
}

std::string SharedMemory::whereabouts() const {
  std::vector<std::string> all;
  for (int r = 0; r < world_; ++r) {
    const int process = processes_[static_cast<size_t>(r)];
    if (r == rank_) continue;
    all.push_back(cat(last_seen(r), ", its process ", process, " on host ", host_name(), " ",
                      process > 0 ? state_of(process) : "is in another namespace"));
  }
  return join(all, "; ");
}

// False if another error was reported first.
bool SharedMemory::report_error(ErrorKind kind, const std::string& text) noexcept {
  SharedError& v = shared_error();
  uint32_t none = SharedError::kNone;
  if (!v.state.compare_exchange_strong(none, SharedError::kBeingWritten)) return false;
  v.kind = static_cast<int32_t>(kind);
  const size_t n = std::min(text.size(), v.text.size() - 1);
  std::memcpy(v.text.data(), text.data(), n);
  v.text[n] = 0;
  v.state.store(SharedError::kWritten, std::memory_order_release);
  for (int r = 0; r < world_; ++r) wake_all(status(r).arrived);
  return true;
}

// Waits briefly for the rank that is writing the text.
std::string SharedMemory::written_error() const {
  const SharedError& v = shared_error();
  const auto start = Clock::now();
  while (v.state.load(std::memory_order_acquire) != SharedError::kWritten && seconds_since(start) < kWrite) {
    pause_a_little();
  }
  const bool known = v.state.load(std::memory_order_acquire) == SharedError::kWritten;
  return known ? v.text.data() : "a rank failed while it wrote its error";
}

void SharedMemory::throw_shared_error() const {
  const std::string text = written_error();
  const SharedError& v = shared_error();
  const bool known = v.state.load(std::memory_order_acquire) == SharedError::kWritten;
  throw Error(known ? static_cast<ErrorKind>(v.kind) : ErrorKind::peer_lost, to_string(call_.which), text,
              cat("rank ", rank_, " of ", world_, ", step ", status(rank_).step.load(), ", host ", host_name()));
}

void SharedMemory::begin(const Call& call) {
  check_call(call, world_);
  call_ = call;
  if (shared_error().state.load(std::memory_order_acquire) != SharedError::kNone) throw_shared_error();
  RankStatus& s = status(rank_);
  const uint32_t n = s.call_count.load(std::memory_order_relaxed) + 1;
  s.calls[n % 2].store(call.packed(), std::memory_order_relaxed);
  s.call_count.store(n, std::memory_order_release);
  compared_ = false;
  place_ = 0;
}

// Consecutive collectives use consecutive parts of a half: cache lines that others read recently are slower to write
// than those that have left their caches, by a fifth for an all-reduce of 64 kB.
void SharedMemory::move_on(size_t bytes) {
  constexpr size_t kLines = 128;  // two: the result begins at half the bytes
  const size_t used = (bytes + kLines - 1) / kLines * kLines;
  if (used > kInputBytes) return;  // the call takes several chunks, each of which fills a half
  place_ = next_ + used <= kInputBytes ? next_ : 0;
  next_ = place_ + used;
}

void SharedMemory::compare_calls() {
  compared_ = true;
  const uint32_t n = status(rank_).call_count.load(std::memory_order_relaxed);
  for (int r = 0; r < world_; ++r) {
    const uint64_t theirs = status(r).calls[n % 2].load(std::memory_order_relaxed);
    if (theirs == call_.packed()) continue;
    give_up(ErrorKind::usage, cat("ranks call different collectives: rank ", rank_, " calls ", call_, ", rank ", r,
                                  " calls ", Call(theirs)));
  }
}

void SharedMemory::run_round() {
  RankStatus& mine = status(rank_);
  ++rounds_;
  mine.processor.store(::sched_getcpu(), std::memory_order_relaxed);
  stores_done();
  // Either this rank sees the sleeper here, or the sleeper sees the new number before it sleeps: both sides write
  // first, then read.
  mine.arrived.store(rounds_, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) > 0) wake_all(mine.arrived);
  for (int i = 1; i < world_; ++i) {
    const int other = (rank_ + i) % world_;
    if (static_cast<int32_t>(status(other).arrived.load(std::memory_order_acquire) - rounds_) < 0) wait_for(other);
  }
  if (!compared_) compare_calls();
}

// True where two ranks ran on one processor in their last rounds: a rank that spins then delays the others.
bool SharedMemory::processors_are_shared() const {
  std::array<uint64_t, 64> seen{};  // a bit per processor
  for (int r = 0; r < world_; ++r) {
    const auto processor = static_cast<uint32_t>(status(r).processor.load(std::memory_order_relaxed)) % 4096;
    const uint64_t bit = uint64_t{1} << processor % 64;
    if (seen[processor / 64] & bit) return true;
    seen[processor / 64] |= bit;
  }
  return false;
}

// Spins, then sleeps. Spinning pays off if the other rank computes on another core and is nearly done. If other
// programs use the cores, the wait is long in any case, and spinning takes time from the very rank that is awaited: so
// each long wait halves the next spin, and a short one restores it.
void SharedMemory::wait_for(int other) {
  RankStatus& s = status(other);
  const auto missing = [&] { return static_cast<int32_t>(s.arrived.load(std::memory_order_acquire) - rounds_) < 0; };
  const auto start = Clock::now();
  const auto spin_until = [&](double seconds) {
    do {
      for (int i = 0; i < 32; ++i) {
        if (!missing()) return true;
        pause_a_little();
      }
    } while (seconds_since(start) < seconds);
    return false;
  };
  if (spin_until(kSpinFirst)) return;
  double& waited = waited_[static_cast<size_t>(other)];
  if (!processors_are_shared() && spin_until(spin_)) {
    waited += seconds_since(start);
    return;
  }
  while (missing()) {
    s.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t now = s.arrived.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(now - rounds_) < 0) sleep_while(s.arrived, now, kLook);
    s.sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (missing()) check_ranks(other, seconds_since(start));
  }
  const double seconds = seconds_since(start);
  waited += seconds;
  spin_ = seconds < kLongWait ? kSpin : std::max(spin_ / 2, kSpinLeast);
}

// Throws if the job is over: another rank reported an error, a rank ended, or the awaited rank exceeded the timeout.
void SharedMemory::check_ranks(int awaited, double waited) {
  if (shared_error().state.load(std::memory_order_acquire) != SharedError::kNone) throw_shared_error();
  for (int r = 0; r < world_; ++r) {
    const RankStatus& s = status(r);
    const auto came = [&] { return static_cast<int32_t>(s.arrived.load(std::memory_order_acquire) - rounds_) >= 0; };
    const bool ended = has_ended(watched_[static_cast<size_t>(r)]);
    // A rank that has left in good order is missed only by ranks that wait for it.
    const bool left = s.left.load(std::memory_order_acquire) == 1;
    if (r == rank_ || came()) {
      if (!ended || left) continue;
    } else if (!ended && !left) {
      continue;
    }
    // A rank that found the loss of another one reports it before it ends itself.
    if (shared_error().state.load(std::memory_order_acquire) != SharedError::kNone) throw_shared_error();
    give_up(ErrorKind::peer_lost, loss_of(r, left));
  }
  if (waited < timeout_) return;
  const int process = processes_[static_cast<size_t>(awaited)];
  give_up(ErrorKind::peer_lost,
          cat("rank ", awaited, " did not respond within ", timeout_, " s: its process ", process, " on host ",
              host_name(), " ", process > 0 ? state_of(process) : "is in another namespace", "; ", last_seen(awaited)));
}

// Sums the whole array in one round: every rank adds all inputs.
void SharedMemory::sum_whole(char* data, int64_t count, DType dtype) {
  copy_bytes(input(rank_, 1), data, count * bytes_of(dtype));
  run_round();
  for (int r = 0; r < world_; ++r) parts_[static_cast<size_t>(r)] = r == rank_ ? data : input(r, 0);
  tree_sum(parts_.data(), world_, data, count, dtype);
}

// Each rank adds its slice of a chunk and passes it to the others. One round announces two things: that the sums of
// this chunk can be read, and that the next chunk can be added.
void SharedMemory::sum_slices(char* data, int64_t count, DType dtype) {
  const int64_t size = bytes_of(dtype), most = static_cast<int64_t>(kInputBytes) / size;
  const auto bring = [&](int64_t at) {
    const int64_t n = std::min(most, count - at);
    for (int r = 0; r < world_; ++r) {
      const Slice s = slice_of(n, r, world_, size);
      if (r != rank_) stream_bytes(input(rank_, 1) + s.begin * size, data + (at + s.begin) * size, s.count * size);
    }
  };
  bring(0);
  run_round();
  for (int64_t at = 0; at < count; at += most) {
    const int64_t n = std::min(most, count - at);
    const Slice mine = slice_of(n, rank_, world_, size);
    char* const own = data + (at + mine.begin) * size;
    for (int r = 0; r < world_; ++r) {
      parts_[static_cast<size_t>(r)] = r == rank_ ? own : input(r, 0) + mine.begin * size;
    }
    tree_sum(parts_.data(), world_, own, mine.count, dtype);
    stream_bytes(result(rank_, 1), own, mine.count * size);
    if (at + most < count) bring(at + most);
    run_round();
    for (int i = 1; i < world_; ++i) {  // each rank starts with a different one
      const int r = (rank_ + i) % world_;
      const Slice s = slice_of(n, r, world_, size);
      copy_bytes(data + (at + s.begin) * size, result(r, 0), s.count * size);
    }
  }
}

void SharedMemory::all_reduce(void* data, int64_t count, DType dtype) {
  check_summable("all_reduce", dtype);
  begin({Collective::all_reduce, dtype, 0, count});
  if (world_ == 1) return;
  move_on(static_cast<size_t>(count) * size_of(dtype));
  if (count * bytes_of(dtype) <= kWholeBytes) {
    sum_whole(static_cast<char*>(data), count, dtype);
  } else {
    sum_slices(static_cast<char*>(data), count, dtype);
  }
}

void SharedMemory::all_gather(const void* from, void* to, int64_t count, DType dtype) {
  check_movable("all_gather", dtype);
  begin({Collective::all_gather, dtype, 0, count});
  const int64_t size = bytes_of(dtype), most = static_cast<int64_t>(kInputBytes) / size;
  const char* const source = static_cast<const char*>(from);
  char* const target = static_cast<char*>(to);
  int64_t at = 0;
  do {
    const int64_t n = std::min(most, count - at);
    stream_bytes(input(rank_, 1), source + at * size, n * size);
    run_round();
    for (int i = 1; i < world_; ++i) {
      const int r = (rank_ + i) % world_;
      copy_bytes(target + (r * count + at) * size, input(r, 0), n * size);
    }
    at += n;
  } while (at < count);
  if (target + rank_ * count * size != source) copy_bytes(target + rank_ * count * size, source, count * size);
}

void SharedMemory::broadcast(void* data, int64_t count, DType dtype, int root) {
  check_movable("broadcast", dtype);
  begin({Collective::broadcast, dtype, root, count});
  const int64_t size = bytes_of(dtype), most = static_cast<int64_t>(kInputBytes) / size;
  char* const bytes = static_cast<char*>(data);
  int64_t at = 0;
  do {
    const int64_t n = std::min(most, count - at);
    if (rank_ == root) stream_bytes(input(rank_, 1), bytes + at * size, n * size);
    run_round();
    if (rank_ != root) copy_bytes(bytes + at * size, input(root, 0), n * size);
    at += n;
  } while (at < count);
}

void SharedMemory::barrier() {
  begin({Collective::barrier, DType::u8, 0, 0});
  run_round();
}

void SharedMemory::abort(const std::string& reason) noexcept {
  try {
    report_error(ErrorKind::peer_lost,
                 cat("rank ", rank_, " gave up at step ", status(rank_).step.load(), ": ", reason));
  } catch (...) {  // there is no memory for the text
    report_error(ErrorKind::peer_lost, "a rank gave up");
  }
}

}  // namespace

std::unique_ptr<Comm> join_shared_memory(const Launch& launch, const SharedMemoryOptions& options) {
  if (launch.local_world != launch.world) {
    fail(ErrorKind::usage, "shared memory", "joins processes of one host: got ", launch.world, " ranks, of which ",
         launch.local_world, " are on ", host_name());
  }
  const HostRendezvous rendezvous = rendezvous_on_host({.job = launch.job,
                                                        .rank = launch.rank,
                                                        .world = launch.world,
                                                        .bytes = shared_bytes(launch.world),
                                                        .timeout = options.timeout,
                                                        .cancelled = options.cancelled});
  const Descriptor file(rendezvous.file);  // the mapping keeps the memory
  return std::make_unique<SharedMemory>(launch, rendezvous, options);
}

}  // namespace freight::comm
