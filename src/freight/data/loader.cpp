// See loader.h. A ring of slots: batch k of an epoch is made in slot k % slots. A worker claims the next batch number,
// waits until its slot is free, fills it without the lock, and marks it ready; the caller takes the slots in order.
#include "freight/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "freight/base/error.h"
#include "freight/base/philox.h"

namespace freight::data {

namespace {
constexpr uint32_t kShuffleStream = 0x73687566;
// A batch of fewer floats than this is made faster than it is handed from thread to thread.
constexpr int64_t kCheapBatch = 100'000;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Whether anyone but its slot holds the buffer. Dropping the copy is an acquire operation on the count: what a holder
// that has just let go has read lies before what is written next.
bool held_elsewhere(const std::shared_ptr<Storage>& buffer) {
  const std::shared_ptr<Storage> copy = buffer;  // NOLINT(performance-unnecessary-copy-initialization)
  return copy.use_count() > 2;
}
}  // namespace

struct Loader::State {
  State(Dataset data, const LoaderOptions& o)
      : set(std::move(data)), options(o), transform(set, o.augment, o.seed, o.channels_last) {}

  struct Slot {
    Batch batch;
    std::shared_ptr<Storage> images, labels;  // the buffers of a full batch
    bool ready = false;
    std::exception_ptr fault;
  };

  const Dataset set;
  LoaderOptions options;
  const Transform transform;
  Shape sample;            // of an image in a batch
  size_t label_bytes = 0;  // of one target
  int64_t batches = 0;

  // The running epoch. `order` is written only while no worker runs a batch.
  int64_t epoch_number = -1;
  std::vector<int64_t> order;
  std::vector<Slot> slots;
  int64_t taken = 0;     // next batch for the caller
  bool holding = false;  // the caller holds batch taken - 1
  double waited = 0;

  std::mutex mutex;
  std::condition_variable work, ready, idle;
  int64_t claimed = 0;  // next batch for a worker
  int64_t limit = 0;    // batches below this may be claimed: their slots are free
  int busy = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  int64_t count_of(int64_t batch) const {
    const int64_t b = options.batch_size;
    return std::min(b, static_cast<int64_t>(order.size()) - batch * b);
  }
  void write(int64_t epoch, int64_t batch, int64_t n, float* images, uint8_t* labels) const;
  void make(Slot& slot, int64_t batch) const;
  void run_worker();
  void quiesce();
};

void Loader::State::write(int64_t epoch, int64_t batch, int64_t n, float* images, uint8_t* labels) const {
  const int64_t* index = order.data() + batch * options.batch_size;
  const int64_t size = sample.numel();
  const auto* source = static_cast<const uint8_t*>(set.labels.raw());
  for (int64_t i = 0; i < n; ++i) {
    transform.apply(index[i], epoch, images + i * size);
    std::memcpy(labels + static_cast<size_t>(i) * label_bytes, source + static_cast<size_t>(index[i]) * label_bytes,
                label_bytes);
  }
}

void Loader::State::make(Slot& slot, int64_t batch) const {
  slot.fault = nullptr;
  try {
    const int64_t n = count_of(batch), b = options.batch_size;
    slot.batch.images = Array();
    slot.batch.labels = Array();
    // Memory that the caller still holds an array of is left to the caller.
    for (auto* s : {&slot.images, &slot.labels}) {
      if (*s && held_elsewhere(*s)) s->reset();
    }
    if (!slot.images) slot.images = Storage::allocate(static_cast<size_t>(b * sample.numel()) * sizeof(float));
    if (!slot.labels) slot.labels = Storage::allocate(static_cast<size_t>(b) * label_bytes);
    Shape images = sample, labels = set.labels.shape();
    images.insert(0, n);
    labels[0] = n;
    slot.batch.images = Array(DType::f32, images, slot.images);
    slot.batch.labels = Array(set.labels.dtype(), labels, slot.labels);
    slot.batch.count = n;
    slot.batch.first = batch * b;
    slot.batch.index = batch;
    write(epoch_number, batch, n, static_cast<float*>(slot.images->data()), static_cast<uint8_t*>(slot.labels->data()));
  } catch (...) {
    slot.fault = std::current_exception();
  }
}

void Loader::State::run_worker() {
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [&] { return stopping || claimed < limit; });
    if (stopping) return;
    const int64_t batch = claimed++;
    Slot& slot = slots[static_cast<size_t>(batch) % slots.size()];
    ++busy;
    lock.unlock();
    make(slot, batch);
    lock.lock();
    --busy;
    slot.ready = true;
    ready.notify_one();
    if (busy == 0) idle.notify_all();
  }
}

// Waits until no worker touches a slot, and lets none start.
void Loader::State::quiesce() {
  std::unique_lock lock(mutex);
  limit = claimed;
  idle.wait(lock, [&] { return busy == 0; });
}

Loader::Loader(Dataset set, const LoaderOptions& options) {
  const auto& o = options;
  if (o.batch_size < 1) fail(ErrorKind::usage, "loader", "batch size: got ", o.batch_size, ", need 1 or more");
  if (o.workers < -1 || o.workers > 1024) fail(ErrorKind::usage, "loader", "workers: got ", o.workers);
  if (o.prefetch < 1 || o.prefetch > 1024) fail(ErrorKind::usage, "loader", "prefetch: got ", o.prefetch);
  set.validate(set.name, set.name);
  state_ = std::make_unique<State>(std::move(set), o);
  State& s = *state_;
  s.sample = s.set.sample_shape();
  if (o.channels_last && s.sample.rank() == 3) s.sample = {s.sample[1], s.sample[2], s.sample[0]};
  const int64_t n = s.set.count();
  s.label_bytes = s.set.labels.bytes() / static_cast<size_t>(n);
  s.batches = o.drop_last ? n / o.batch_size : (n + o.batch_size - 1) / o.batch_size;
  if (s.batches == 0) {
    fail(ErrorKind::usage, "loader", "no batch at all: ", n, " samples, batch size ", o.batch_size,
         ", and the short last batch is dropped");
  }
  if (o.workers < 0) s.options.workers = o.batch_size * s.sample.numel() < kCheapBatch ? 0 : 1;
  const int workers = s.options.workers;
  s.slots.resize(workers == 0 ? 1 : static_cast<size_t>(std::max(o.prefetch, workers) + 1));
  for (int i = 0; i < workers; ++i) s.threads.emplace_back([&s] { s.run_worker(); });
}

Loader::~Loader() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work.notify_all();
  for (std::thread& t : state_->threads) t.join();
}

const Dataset& Loader::dataset() const { return state_->set; }
const LoaderOptions& Loader::options() const { return state_->options; }
int64_t Loader::batches_per_epoch() const { return state_->batches; }
int64_t Loader::samples_per_epoch() const {
  return std::min(state_->set.count(), state_->batches * state_->options.batch_size);
}
double Loader::wait_seconds() const { return state_->waited; }

std::vector<int64_t> Loader::order(int64_t epoch) const {
  std::vector<int64_t> out(static_cast<size_t>(state_->set.count()));
  std::iota(out.begin(), out.end(), int64_t{0});
  if (!state_->options.shuffle) return out;
  // Fisher-Yates; four words per Philox block.
  uint64_t block = 0;
  int word = 4;
  Philox4 bits{};
  for (size_t i = out.size(); i-- > 1;) {
    if (word == 4) {
      bits = philox(state_->options.seed, block++,
                    static_cast<uint64_t>(kShuffleStream) << 32 ^ static_cast<uint64_t>(epoch));
      word = 0;
    }
    std::swap(out[i], out[static_cast<size_t>(static_cast<uint64_t>(bits.v[word++]) * (i + 1) >> 32)]);
  }
  return out;
}

Loader::Epoch Loader::epoch(int64_t epoch, int64_t first_batch) {
  State& s = *state_;
  if (epoch < 0 || first_batch < 0 || first_batch > s.batches) {
    fail(ErrorKind::usage, "loader", "no such position: epoch ", epoch, ", batch ", first_batch, " of ", s.batches);
  }
  s.quiesce();
  if (epoch != s.epoch_number || s.order.empty()) s.order = order(epoch);
  s.epoch_number = epoch;
  s.holding = false;
  s.taken = first_batch;
  {
    const std::lock_guard lock(s.mutex);
    for (State::Slot& slot : s.slots) slot.ready = false;
    s.claimed = first_batch;
    s.limit = std::min(s.batches, first_batch + static_cast<int64_t>(s.slots.size()));
  }
  s.work.notify_all();
  return Epoch(this);
}

Batch* Loader::next() {
  State& s = *state_;
  const double start = now();
  if (s.taken >= s.batches || s.epoch_number < 0) {
    s.holding = false;
    return nullptr;
  }
  State::Slot& slot = s.slots[static_cast<size_t>(s.taken) % s.slots.size()];
  if (s.threads.empty()) {
    s.make(slot, s.taken);
  } else {
    std::unique_lock lock(s.mutex);
    if (s.holding) {  // the slot of the batch before becomes free
      s.slots[static_cast<size_t>(s.taken - 1) % s.slots.size()].ready = false;
      s.limit = std::min(s.batches, s.taken - 1 + static_cast<int64_t>(s.slots.size()) + 1);
      s.work.notify_one();
    }
    s.ready.wait(lock, [&] { return slot.ready; });
  }
  ++s.taken;
  s.holding = true;
  s.waited += now() - start;
  if (slot.fault) std::rethrow_exception(slot.fault);
  return &slot.batch;
}

int64_t Loader::fill(int64_t epoch, int64_t batch, float* images, void* labels) {
  State& s = *state_;
  if (epoch != s.epoch_number) this->epoch(epoch, s.batches);
  if (batch < 0 || batch >= s.batches) fail(ErrorKind::usage, "loader", "no batch ", batch, " of ", s.batches);
  const double start = now();
  const int64_t n = s.count_of(batch);
  s.write(epoch, batch, n, images, static_cast<uint8_t*>(labels));
  s.waited += now() - start;
  return n;
}

}  // namespace freight::data
