// See nccl.h. The communicator does not block: a call returns at once, and is asked for until it is done, so that a
// rank that is lost is found meanwhile. https://docs.nvidia.com/deeplearning/nccl says what is meant.
#include "freight/backend/gpu/cuda/nccl.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "freight/backend/gpu/cuda/memory.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"

namespace freight::cuda {

namespace {

using namespace nccl;
using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(50);
// A call that is not done is asked again at once for so long, in seconds, then after sleeping.
constexpr double kAskOften = 100e-6;
constexpr auto kAskAgain = std::chrono::microseconds(50);

struct LoadedNccl {
  NcclFunctions functions;
  Library library;
};

const LoadedNccl& loaded_nccl() {
  static const LoadedNccl kLoaded = [] {
    LoadedNccl l;
    l.library = load_library({"libnccl.so.2"}, "the Python package nvidia-nccl-cu13 (nvidia-nccl-cu12 for CUDA 12)",
                             "nccl", {FREIGHT_NCCL_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions,
                             "older than 2.14, whose communicators need not block; install a newer one");
    int version = 0;
    if (l.library.why.empty() && l.functions.GetVersion(&version) == 0) {
      l.library.version = static_cast<size_t>(version);
    }
    return l;
  }();
  return kLoaded;
}

int type_of(const char* op, DType dtype) {
  switch (dtype) {
    case DType::f32: return kF32;
    case DType::f64: return kF64;
    case DType::i64: return kI64;
    case DType::u8: return kU8;
    default: break;
  }
  fail(ErrorKind::usage, op, "devices sum f32, f64 and i64, and move these and u8: got ", dtype);
}

size_t elements(int64_t count) { return static_cast<size_t>(count); }

int summed_type_of(const char* op, DType dtype) {
  if (dtype == DType::u8) fail(ErrorKind::usage, op, "devices sum f32, f64 and i64: got ", dtype);
  return type_of(op, dtype);
}

class Nccl final : public DeviceCollectives {
 public:
  Nccl(std::shared_ptr<Memory> memory, NcclJob job);
  ~Nccl() override;
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  std::string name() const override { return nccl_name(); }
  const std::shared_ptr<DeviceMemory>& memory() const override { return as_memory_; }
  void together(const std::function<void()>& calls) override { give(calls, memory_->stream()); }
  void beside(const std::function<void()>& calls) override;
  void join() override;
  void enqueued() override;
  void abort(const std::string& why) override {
    const std::lock_guard lock(guard_);
    end(why);
  }
  void all_reduce(void* data, int64_t count, DType dtype) override {
    const int type = summed_type_of("all_reduce", dtype);
    call([&](Stream s) { return f().AllReduce(data, data, elements(count), type, kSum, communicator_, s); });
  }
  void all_gather(const void* from, void* to, int64_t count, DType dtype) override {
    const int type = type_of("all_gather", dtype);
    call([&](Stream s) { return f().AllGather(from, to, elements(count), type, communicator_, s); });
  }
  void broadcast(void* data, int64_t count, DType dtype, int root) override {
    const int type = type_of("broadcast", dtype);
    call([&](Stream s) { return f().Broadcast(data, data, elements(count), type, root, communicator_, s); });
  }

 private:
  static const NcclFunctions& f() { return loaded_nccl().functions; }
  template <class F>
  void call(F make);
  void give(const std::function<void()>& calls, Stream to);
  void mark_given(Stream on);
  void abort_lost(std::unique_lock<std::mutex>& lock);
  void close();
  void watch();
  std::string fault(double waited) const;
  bool is_waiting() const;
  void need(int status, const char* what);
  void settle(const char* what);
  void end(const std::string& why);
  [[noreturn]] void end_and_throw(const std::string& why) {
    end(why);
    fail(ErrorKind::peer_lost, "NCCL", why);
  }

  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<DeviceMemory> as_memory_ = memory_;
  const NcclJob job_;
  Stream beside_ = nullptr;  // works beside the kernels' stream
  // Events behind the last piece of work, and of the two streams when one of them waits for the other.
  Event done_ = nullptr, fork_ = nullptr, join_ = nullptr;
  bool forked_ = false;        // the kernels' stream does not know yet when the other one is done
  Stream given_to_ = nullptr;  // within a piece: its stream

  std::mutex guard_;              // of all below
  void* communicator_ = nullptr;  // null once it has ended
  void* lost_ = nullptr;          // the one that has ended, until the watcher aborts it
  std::string why_ended_ = {};
  Clock::time_point given_;  // when the last piece was
  bool leaves_ = false;
  std::condition_variable changed_;
  std::thread watcher_;
};

Nccl::Nccl(std::shared_ptr<Memory> memory, NcclJob job) : memory_(std::move(memory)), job_(std::move(job)) {
  FREIGHT_CHECK(job_.id.size() == sizeof(UniqueId), "the identity of a rendezvous has ", job_.id.size(), " bytes");
  UniqueId id;
  std::memcpy(id.bytes, job_.id.data(), sizeof id);
  const auto entered = memory_->enter();
  const Driver& d = memory_->driver();
  try {
    for (Event* e : {&done_, &fork_, &join_}) check(d, d.event_create(e, kEventWithoutTiming), "cannot make an event");
    check(d, d.stream_create(&beside_, kNonBlockingStream), "cannot make a stream");
    const std::lock_guard lock(guard_);
    Config config;
    const int status = f().CommInitRankConfig(&communicator_, job_.world, id, job_.rank, &config);
    need(status, "cannot connect to the other devices");
    settle("cannot connect to the other devices");
  } catch (...) {
    if (lost_) f().CommAbort(lost_);
    close();
    throw;
  }
  watcher_ = std::thread([this] { watch(); });
}

void Nccl::close() {
  const Driver& d = memory_->driver();
  if (beside_) {
    d.stream_wait(beside_);
    d.stream_destroy(beside_);
  }
  for (const Event e : {done_, fork_, join_}) {
    if (e) d.event_destroy(e);
  }
  if (!why_ended_.empty()) memory_->recover();  // for the next communicator, of those that are left
}

// The devices' work ends before the communicator does, unless somebody is lost: the watcher still looks meanwhile.
Nccl::~Nccl() {
  bool well = std::uncaught_exceptions() == 0;
  try {
    if (well && !leaving()) {
      join();
      memory_->wait();
    }
  } catch (const std::exception&) {  // somebody was lost, which others have told
    well = false;
  }
  {
    const std::lock_guard lock(guard_);
    leaves_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  if (leaving()) return;
  const auto entered = memory_->enter();
  try {
    if (communicator_ && well) {
      need(f().CommFinalize(communicator_), "cannot end");
      settle("cannot end");
      f().CommDestroy(std::exchange(communicator_, nullptr));
    }
  } catch (const std::exception&) {  // as above
  }
  if (void* const left = communicator_ ? communicator_ : lost_) f().CommAbort(left);
  close();
}

// Ends the communicator. Called with the guard held, by whichever thread finds that somebody is lost; what waits in the
// queues is ended by the watcher alone. NCCL's abort returns when the recordings that have calls of the communicator
// are gone, and it is the other thread that lets go of them.
void Nccl::end(const std::string& why) {
  if (!communicator_) return;
  why_ended_ = why;
  memory_->give_up(why);  // before a wait can return
  lost_ = std::exchange(communicator_, nullptr);
  changed_.notify_all();
}

void Nccl::abort_lost(std::unique_lock<std::mutex>& lock) {
  void* const lost = std::exchange(lost_, nullptr);
  if (!lost) return;
  lock.unlock();
  f().CommAbort(lost);
  lock.lock();
}

// True while the device has not done all that it was given.
bool Nccl::is_waiting() const { return memory_->driver().event_query(done_) == kNotReady; }

// Says why the ranks, of which some wait for so many seconds, will not come together; "" while they may.
std::string Nccl::fault(double waited) const {
  std::string lost = job_.lost ? job_.lost() : std::string();
  if (!lost.empty() || waited < job_.timeout) return lost;
  return cat("not all devices reached the collective operation within ", job_.timeout, " s",
             job_.others ? cat("; ", job_.others()) : std::string());
}

void Nccl::need(int status, const char* what) {
  if (status == 0 || status == kInProgress) return;
  const char* const last = f().GetLastError(communicator_);
  const std::string why = cat(f().GetErrorString(status), last && *last ? ": " : "", last ? last : "");
  end(why);
  fail(ErrorKind::device, "NCCL", what, ": ", why);
}

// Returns when the library has taken what it was given. Called with the guard held.
void Nccl::settle(const char* what) {
  const auto start = Clock::now();
  auto looked = start;
  for (;;) {
    int status = 0;
    need(f().CommGetAsyncError(communicator_, &status), what);
    need(status, what);
    if (status == 0) return;
    if (Clock::now() - looked > kLook) {
      looked = Clock::now();
      if (const std::string why = fault(seconds_since(start)); !why.empty()) end_and_throw(why);
    }
    if (seconds_since(start) < kAskOften) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kAskAgain);
    }
  }
}

// Makes one piece of the calls, in that stream.
void Nccl::give(const std::function<void()>& calls, Stream to) {
  const auto entered = memory_->enter();
  const std::lock_guard lock(guard_);
  if (!communicator_) fail(ErrorKind::peer_lost, "NCCL", why_ended_);
  constexpr const char* kWhat = "cannot reduce or move";
  need(f().GroupStart(), kWhat);
  given_to_ = to;
  try {
    calls();
  } catch (...) {
    given_to_ = nullptr;
    f().GroupEnd();
    throw;
  }
  given_to_ = nullptr;
  need(f().GroupEnd(), kWhat);
  settle(kWhat);
  if (!memory_->recording()) mark_given(to);
}

// Called with the guard held. The watcher asks for this event, which none of a recording may be.
void Nccl::mark_given(Stream on) {
  given_ = Clock::now();
  check(memory_->driver(), memory_->driver().event_record(done_, on), "an event");
}

void Nccl::beside(const std::function<void()>& calls) {
  const auto entered = memory_->enter();
  const Driver& d = memory_->driver();
  check(d, d.event_record(fork_, memory_->stream()), "an event");
  check(d, d.stream_wait_event(beside_, fork_, 0), "an event");
  forked_ = true;
  give(calls, beside_);
}

void Nccl::join() {
  const auto entered = memory_->enter();
  if (!std::exchange(forked_, false)) return;
  const Driver& d = memory_->driver();
  check(d, d.event_record(join_, beside_), "an event");
  check(d, d.stream_wait_event(memory_->stream(), join_, 0), "an event");
}

void Nccl::enqueued() {
  const auto entered = memory_->enter();
  const std::lock_guard lock(guard_);
  mark_given(memory_->stream());
}

template <class F>
void Nccl::call(F make) {
  const auto make_it = [&] { need(make(given_to_), "cannot reduce or move"); };
  if (given_to_) {
    make_it();
  } else {
    together(make_it);
  }
}

// Runs in a thread of its own.
void Nccl::watch() {
  memory_->look_in();
  for (std::unique_lock lock(guard_);;) {
    changed_.wait_for(lock, kLook, [this] { return leaves_ || lost_; });
    abort_lost(lock);
    if (leaves_ || !communicator_) return;
    int status = 0;
    if (f().CommGetAsyncError(communicator_, &status) != 0 || (status != 0 && status != kInProgress)) {
      const char* const last = f().GetLastError(communicator_);
      end(cat("NCCL: ", f().GetErrorString(status), last && *last ? ": " : "", last ? last : ""));
    } else if (is_waiting()) {
      if (const std::string why = fault(seconds_since(given_)); !why.empty()) end(why);
    }
  }
}

}  // namespace

const Library& find_nccl() { return loaded_nccl().library; }
std::string nccl_name() {
  const size_t v = loaded_nccl().library.version;
  return cat("NCCL ", v / 10000, ".", v % 10000 / 100, ".", v % 100);
}
const NcclFunctions& nccl_functions() { return loaded_nccl().functions; }

std::string new_nccl_id() {
  const LoadedNccl& l = loaded_nccl();
  if (!l.library.why.empty()) fail(ErrorKind::device, "NCCL", l.library.why);
  UniqueId id;
  if (const int status = l.functions.GetUniqueId(&id); status != 0) {
    fail(ErrorKind::device, "NCCL", "cannot begin: ", l.functions.GetErrorString(status), ": ",
         l.functions.GetLastError(nullptr));
  }
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<DeviceCollectives> join_nccl(const std::shared_ptr<DeviceMemory>& memory, const NcclJob& job) {
  const LoadedNccl& l = loaded_nccl();
  if (!l.library.why.empty()) fail(ErrorKind::device, "NCCL", l.library.why);
  auto own = std::dynamic_pointer_cast<Memory>(memory);
  FREIGHT_CHECK(own, "NCCL is for memory of CUDA devices");
  return std::make_unique<Nccl>(std::move(own), job);
}

}  // namespace freight::cuda
