// See loader.h. A ring of slots: batch k after the start is made in slot k % slots. Workers claim a few samples of the
// batch that is being filled, make them without the lock, and go on to the next batch while its slot is free; who makes
// the last samples of a batch finishes it. The caller takes the slots in order.
#include "freight/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/data/class_draw.h"

namespace freight::data {

namespace {
constexpr uint32_t kShuffleStream = 0x73687566;
// A batch of fewer floats than this is made faster than it is handed from thread to thread.
constexpr int64_t kCheapBatch = 100'000;
// A claim: as many samples in memory as have so many floats; of images, so many.
constexpr int64_t kClaimFloats = 50'000, kClaimImages = 4;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// True if anyone but its slot holds the buffer. Dropping the copy is an acquire operation on the count: what a holder
// that has just let go has read lies before what is written next.
bool held_elsewhere(const std::shared_ptr<Storage>& buffer) {
  const std::shared_ptr<Storage> copy = buffer;  // NOLINT(performance-unnecessary-copy-initialization)
  return copy.use_count() > 2;
}

using Order = std::shared_ptr<const std::vector<int64_t>>;

// The faults of a batch's samples, by their place in it.
struct Faults {
  std::map<int64_t, BadSample> bad;            // left out
  std::map<int64_t, std::exception_ptr> stop;  // the first one is thrown
};
}  // namespace

struct Loader::State {
  State(Dataset data, const LoaderOptions& o)
      : set(std::move(data)), options(o), transform(set, o.augment, o.seed, o.channels_last) {}

  struct BatchSlot {
    Batch batch;
    std::shared_ptr<Storage> images, labels;  // the buffers of a full batch
    Order order;
    int64_t epoch = 0;
    int64_t left = 0;  // samples not made yet
    Faults faults;
    bool ready = false;
  };
  // Samples [first, first + count) of the batch in a slot; none where there is nothing to do.
  struct Claim {
    BatchSlot* slot = nullptr;
    int64_t first = 0, count = 0;
  };

  const Dataset set;
  LoaderOptions options;
  const Transform transform;
  Shape sample;  // of an image in a batch
  Shape target;  // of a label in a batch
  DType target_dtype = DType::i64;
  size_t label_bytes = 0;  // of one target
  int64_t batches = 0;     // per epoch, of all shares
  int64_t units = 0;       // per epoch: the batches or pieces of this share
  int64_t claim_size = 1;
  Transform::Scratch scratch;  // of the caller's thread

  // The caller's side. Batch number k counts from the start: epoch start_epoch, batch start_batch.
  int64_t start_epoch = -1, start_batch = 0;
  int64_t epoch_number = -1;  // of the running epoch
  int64_t runs = 0;           // epochs begun so far
  int64_t taken = 0;          // next batch for the caller
  double waited = 0;
  std::set<int64_t> reported;  // sample numbers

  std::mutex mutex;
  std::condition_variable work, ready, idle;
  std::vector<BatchSlot> slots;
  std::map<int64_t, Order> orders;
  int64_t filling = 0, next_sample = 0;  // the batch that claims are taken from, and where
  int64_t limit = 0;                     // batches below this may be filled: their slots are free
  int64_t end = 0;                       // batches from here on are not wanted
  int busy = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  int64_t view_of(int64_t epoch) const { return options.views > 0 ? epoch % options.views : epoch; }
  int64_t epoch_of(int64_t k) const { return start_epoch + (start_batch + k) / units; }
  int64_t batch_of(int64_t k) const { return options.share.number((start_batch + k) % units); }
  // The position of a batch, or piece of one, within the epoch, and its samples.
  std::pair<int64_t, int64_t> rows_of(int64_t batch) const {
    const Share& share = options.share;
    const int64_t first = (share.cut ? batch / share.of : batch) * options.batch_size;
    const int64_t n = std::min(options.batch_size, set.count() - first);
    if (!share.cut) return {first, n};
    const auto [begin, count] = share.rows(batch % share.of, n);
    return {first + begin, count};
  }
  int64_t first_of(int64_t batch) const { return rows_of(batch).first; }
  int64_t count_of(int64_t batch) const { return rows_of(batch).second; }
  int64_t full_count() const { return options.share.most_rows(options.batch_size); }
  bool shared() const { return options.share.of > 1; }
  std::vector<int64_t> make_order(int64_t epoch) const;
  Order order_of(int64_t epoch);
  void free_below(int64_t k);
  void open(BatchSlot& slot, int64_t k);
  Claim claim();
  std::optional<BadSample> make_sample(int64_t index, int64_t epoch, float* image, uint8_t* label,
                                       Transform::Scratch& buffers) const;
  void make(const Order& order, int64_t epoch, int64_t batch, int64_t first, int64_t count, float* images,
            uint8_t* labels, Faults& faults, Transform::Scratch& buffers) const;
  void mix(const Order& order, int64_t epoch, int64_t batch, int64_t count, float* images, float* labels,
           Transform::Scratch& buffers) const;
  int64_t finish(const Order& order, Faults& faults, int64_t epoch, int64_t batch, int64_t count, float* images,
                 uint8_t* labels, Transform::Scratch& buffers) const;
  void execute(const Claim& c, Transform::Scratch& buffers, std::unique_lock<std::mutex>& lock);
  void run_worker();
  void restart(int64_t epoch, int64_t first_batch);
  void report(const Faults& faults, const Order& order, int64_t batch);
};

std::vector<int64_t> Loader::State::make_order(int64_t epoch) const {
  std::vector<int64_t> out(static_cast<size_t>(set.count()));
  std::iota(out.begin(), out.end(), int64_t{0});
  if (!options.shuffle) return out;
  if (options.by_class) out = draw_by_class({set.labels.data<int64_t>(), out.size()}, options.seed, epoch);
  // Fisher-Yates; four words per Philox block.
  uint64_t block = 0;
  int word = 4;
  Philox4 bits{};
  for (size_t i = out.size(); i-- > 1;) {
    if (word == 4) {
      bits = philox(options.seed, block++, static_cast<uint64_t>(kShuffleStream) << 32 ^ static_cast<uint64_t>(epoch));
      word = 0;
    }
    std::swap(out[i], out[static_cast<size_t>(static_cast<uint64_t>(bits.v[word++]) * (i + 1) >> 32)]);
  }
  return out;
}

Order Loader::State::order_of(int64_t epoch) {
  Order& o = orders[epoch];
  if (!o) o = std::make_shared<const std::vector<int64_t>>(make_order(epoch));
  return o;
}

// The slots of batches below k are free.
void Loader::State::free_below(int64_t k) {
  limit = std::min(end, k + static_cast<int64_t>(slots.size()));
  work.notify_all();
}

// Prepares the slot for batch k: memory that the caller still holds an array of is left to the caller.
void Loader::State::open(BatchSlot& slot, int64_t k) {
  slot.epoch = epoch_of(k);
  slot.faults = {};
  slot.ready = false;
  Batch& b = slot.batch;
  b.images = Array();
  b.labels = Array();
  b.index = batch_of(k);
  std::tie(b.first, b.count) = rows_of(b.index);
  slot.left = b.count;
  for (auto* s : {&slot.images, &slot.labels}) {
    if (*s && held_elsewhere(*s)) s->reset();
  }
  const auto full = static_cast<size_t>(full_count());
  try {
    slot.order = order_of(slot.epoch);
    if (!slot.images) slot.images = Storage::allocate(full * static_cast<size_t>(sample.numel()) * sizeof(float));
    if (!slot.labels) slot.labels = Storage::allocate(full * label_bytes);
  } catch (...) {
    slot.faults.stop[0] = std::current_exception();
  }
}

Loader::State::Claim Loader::State::claim() {
  if (filling >= limit) return {};
  BatchSlot& slot = slots[static_cast<size_t>(filling) % slots.size()];
  if (next_sample == 0) open(slot, filling);
  Claim c{&slot, next_sample, std::min(claim_size, slot.batch.count - next_sample)};
  next_sample += c.count;
  if (next_sample == slot.batch.count) {
    ++filling;
    next_sample = 0;
  }
  return c;
}

// Makes sample number `index` of the set. Returns why it is left out, where it is.
std::optional<BadSample> Loader::State::make_sample(int64_t index, int64_t epoch, float* image, uint8_t* label,
                                                    Transform::Scratch& buffers) const {
  if (options.mix.any()) {
    std::memset(label, 0, label_bytes);
    reinterpret_cast<float*>(label)[set.labels.data<int64_t>()[index]] = 1.0f;
  } else {
    std::memcpy(label, static_cast<const uint8_t*>(set.labels.raw()) + static_cast<size_t>(index) * label_bytes,
                label_bytes);
  }
  try {
    transform.apply(index, view_of(epoch), image, buffers);
  } catch (const Error& e) {
    if (!set.files || e.kind() != ErrorKind::data) throw;
    if (options.bad.on_bad != OnBad::skip) throw Error(e.kind(), e.op(), e.message() + advice_on_bad("images"));
    return BadSample{set.files->paths[static_cast<size_t>(index)], e.message()};
  }
  return std::nullopt;
}

// Makes samples [first, first + count) of a batch that begins at images and labels.
void Loader::State::make(const Order& order, int64_t epoch, int64_t batch, int64_t first, int64_t count, float* images,
                         uint8_t* labels, Faults& faults, Transform::Scratch& buffers) const {
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t index = (*order)[static_cast<size_t>(first_of(batch) + i)];
    try {
      auto bad = make_sample(index, epoch, images + i * sample.numel(), labels + static_cast<size_t>(i) * label_bytes,
                             buffers);
      if (bad) faults.bad[i] = std::move(*bad);
    } catch (...) {
      faults.stop[i] = std::current_exception();
    }
  }
}

// Mixes the samples of a batch, or of a piece of one, by the draws of the whole batch. The neighbor of a piece's first
// sample is another reader's, and is made here once more: every sample has the neighbor that it has in one piece.
// `count` samples were not left out.
void Loader::State::mix(const Order& order, int64_t epoch, int64_t batch, int64_t count, float* images, float* labels,
                        Transform::Scratch& buffers) const {
  const Share& share = options.share;
  const int64_t whole = share.cut ? batch / share.of : batch, start = whole * options.batch_size;
  const int64_t n = std::min(options.batch_size, set.count() - start);
  const auto [first, all] = rows_of(batch);
  const int64_t size = sample.numel(), classes = set.class_count(), last = count - 1;
  std::vector<float> image(images + last * size, images + count * size);
  std::vector<float> label(labels + last * classes, labels + count * classes);
  bool found = false;
  for (int64_t back = 1; back <= n - all && !found; ++back) {
    const int64_t at = start + (first - start + n - back) % n;
    found = !make_sample((*order)[static_cast<size_t>(at)], epoch, image.data(),
                         reinterpret_cast<uint8_t*>(label.data()), buffers);
  }
  if (!found && n > all) {  // the others of the batch are all left out
    std::copy_n(images + last * size, size, image.begin());
    std::copy_n(labels + last * classes, classes, label.begin());
  }
  if (!found && count < 2) return;  // there is no other sample
  mix_samples(options.mix, options.seed, epoch, whole,
              {.count = count,
               .sample = sample,
               .channels_last = options.channels_last,
               .classes = classes,
               .images = images,
               .labels = labels,
               .image_before = image.data(),
               .label_before = label.data()});
}

// Closes the gaps of bad samples and mixes; returns the count.
int64_t Loader::State::finish(const Order& order, Faults& faults, int64_t epoch, int64_t batch, int64_t count,
                              float* images, uint8_t* labels, Transform::Scratch& buffers) const {
  const int64_t size = sample.numel();
  const auto bytes = static_cast<int64_t>(label_bytes);
  int64_t good = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (faults.bad.count(i)) continue;
    if (i != good) {
      std::copy_n(images + i * size, size, images + good * size);
      std::copy_n(labels + i * bytes, bytes, labels + good * bytes);
    }
    ++good;
  }
  if (!options.mix.any() || good == 0) return good;
  try {
    mix(order, epoch, batch, good, images, reinterpret_cast<float*>(labels), buffers);
  } catch (...) {
    faults.stop[count] = std::current_exception();  // behind those of this piece
  }
  return good;
}

void Loader::State::execute(const Claim& c, Transform::Scratch& buffers, std::unique_lock<std::mutex>& lock) {
  BatchSlot& slot = *c.slot;
  Batch& b = slot.batch;
  if (slot.order && slot.images && slot.labels) {
    auto* images = static_cast<float*>(slot.images->data());
    auto* labels = static_cast<uint8_t*>(slot.labels->data());
    Faults faults;
    lock.unlock();
    make(slot.order, slot.epoch, b.index, c.first, c.count, images, labels, faults, buffers);
    lock.lock();
    slot.faults.bad.merge(faults.bad);
    slot.faults.stop.merge(faults.stop);
    if (slot.left == c.count) {
      lock.unlock();
      b.count = finish(slot.order, slot.faults, slot.epoch, b.index, b.count, images, labels, buffers);
      Shape image_shape = sample, label_shape = target;
      image_shape.insert(0, b.count);
      label_shape.insert(0, b.count);
      b.images = Array(DType::f32, image_shape, slot.images);
      b.labels = Array(target_dtype, label_shape, slot.labels);
      lock.lock();
    }
  }
  slot.left -= c.count;
  if (slot.left > 0) return;
  slot.ready = true;
  ready.notify_one();
}

void Loader::State::run_worker() {
  Transform::Scratch buffers;
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [&] { return stopping || filling < limit; });
    if (stopping) return;
    ++busy;
    execute(claim(), buffers, lock);
    if (--busy == 0) idle.notify_all();
  }
}

// Drops what is being made, and begins at another place.
void Loader::State::restart(int64_t epoch, int64_t first_batch) {
  std::unique_lock lock(mutex);
  limit = 0;
  idle.wait(lock, [&] { return busy == 0; });
  for (BatchSlot& slot : slots) slot.ready = false;
  start_epoch = epoch;
  start_batch = first_batch;
  taken = filling = next_sample = 0;
  end = units - first_batch;
  if (options.shuffle) {
    const int64_t more = options.epochs > 0
                             ? std::max<int64_t>(options.epochs - 1 - epoch, 0)
                             : (std::numeric_limits<int64_t>::max() / 2 - end) / std::max<int64_t>(units, 1) - epoch;
    end += std::max<int64_t>(more, 0) * units;
  }
  free_below(0);
}

int64_t Share::count(int64_t batches) const {
  if (cut) return batches * width();
  return batches / of * width() + std::clamp<int64_t>(batches % of - first, 0, width());
}

std::pair<int64_t, int64_t> Share::rows(int64_t piece, int64_t n) const {
  const auto at = [&](int64_t i) {
    return bounds.empty() ? i * n / of : bounds[static_cast<size_t>(i)] * n / bounds.back();
  };
  const int64_t begin = at(piece);
  return {begin, at(piece + 1) - begin};
}

int64_t Share::most_rows(int64_t n) const {
  if (!cut) return n;
  if (bounds.empty()) return (n + of - 1) / of;
  int64_t widest = 0;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
    widest = std::max(widest, bounds[i + 1] - bounds[i]);
  }
  return (widest * n + bounds.back() - 1) / bounds.back();
}

void Loader::State::report(const Faults& faults, const Order& order, int64_t batch) {
  if (!options.bad.report) return;
  for (const auto& [i, bad] : faults.bad) {
    const int64_t index = (*order)[static_cast<size_t>(first_of(batch) + i)];
    if (reported.insert(index).second) options.bad.report(bad);
  }
}

Loader::Loader(Dataset set, const LoaderOptions& options) {
  const auto& o = options;
  need_at_least("loader", "batch size", static_cast<double>(o.batch_size), 1);
  need_between("loader", "workers", o.workers, -1, 1024);
  need_between("loader", "prefetch", o.prefetch, 1, 1024);
  const Share& share = o.share;
  if (share.of < 1 || share.first < 0 || share.first >= share.end || share.end > share.of) {
    fail(ErrorKind::usage, "loader", "shard: got ", share.first, " to ", share.end, " of ", share.of);
  }
  if (!share.bounds.empty() &&
      (static_cast<int64_t>(share.bounds.size()) != share.of + 1 || share.bounds.front() != 0 ||
       share.bounds.back() < 1 || !std::is_sorted(share.bounds.begin(), share.bounds.end()))) {
    fail(ErrorKind::usage, "loader", "shard: expected ", share.of + 1, " ascending from 0, got ", share.bounds.size(),
         " bounds for ", share.of, " pieces");
  }
  for (const double alpha : {o.mix.mixup_alpha, o.mix.cutmix_alpha}) {
    need_between("loader", "mix alpha", alpha, 0, 1000);
  }
  set.validate(set.name, set.name);
  if (o.mix.any() && !set.classification()) {
    fail(ErrorKind::usage, "loader", "mixup and cutmix need class labels: the targets of ", set.name, " are values");
  }
  if (o.mix.cutmix_alpha > 0) need_images("loader", "cutmix", set);
  state_ = std::make_unique<State>(std::move(set), o);
  State& s = *state_;
  s.sample = s.set.sample_shape();
  if (o.channels_last && s.sample.rank() == 3) s.sample = {s.sample[1], s.sample[2], s.sample[0]};
  const int64_t n = s.set.count();
  if (o.mix.any()) {
    s.target = {s.set.class_count()};
    s.target_dtype = DType::f32;
  } else {
    s.target = {s.set.labels.shape().begin() + 1, s.set.labels.shape().end()};
    s.target_dtype = s.set.labels.dtype();
  }
  s.label_bytes = static_cast<size_t>(s.target.numel()) * size_of(s.target_dtype);
  s.batches = o.drop_last ? n / o.batch_size : (n + o.batch_size - 1) / o.batch_size;
  if (s.batches == 0) {
    fail(ErrorKind::usage, "loader", "no batch at all: ", n, " samples, batch size ", o.batch_size,
         ", and the short last batch is dropped");
  }
  s.units = o.share.count(s.batches);
  const int64_t floats = s.full_count() * s.sample.numel();
  if (o.workers < 0) s.options.workers = s.set.files ? thread_count() : floats < kCheapBatch ? 0 : 1;
  s.claim_size = s.set.files ? kClaimImages : std::max<int64_t>(1, kClaimFloats / s.sample.numel());
  const int workers = s.options.workers;
  const int64_t fitting = o.prefetch_bytes / (floats * static_cast<int64_t>(sizeof(float)));
  s.slots.resize(workers == 0 ? 1 : static_cast<size_t>(std::clamp<int64_t>(fitting, 2, o.prefetch + 1)));
  for (int i = 0; i < workers; ++i) {
    try {
      s.threads.emplace_back([&s] { s.run_worker(); });
    } catch (const std::system_error&) {  // no more threads to be had: fewer do
      if (s.threads.empty()) throw;
      break;
    }
  }
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
std::vector<int64_t> Loader::order(int64_t epoch) const { return state_->make_order(epoch); }

std::optional<BatchRecipe> Loader::recipe(std::string& why) const {
  const State& s = *state_;
  const auto& o = s.options;
  why.clear();
  if (s.shared()) {
    why = "other loaders make a part of its batches";
  } else if (s.set.files) {
    why = "its images are read from files";
  } else if (!s.transform.drawn()) {
    why = "its colors are changed";
  } else if (o.mix.any()) {
    why = "its samples are mixed";
  } else if (!o.drop_last && s.batches > 1 && s.set.count() % o.batch_size != 0) {
    why = "the last batch is shorter";
  } else if (s.set.images.numel() > std::numeric_limits<int32_t>::max()) {
    why = "it has more than 2^31 values";
  }
  if (!why.empty()) return std::nullopt;
  return BatchRecipe{.samples = s.set.images,
                     .targets = s.set.labels,
                     .scale = s.transform.scale(),
                     .bias = s.transform.bias(),
                     .moves = std::max(o.augment.shift, o.augment.crop_padding) > 0,
                     .flips = o.augment.flip,
                     .erases = o.augment.random_erase > 0,
                     .batch_size = s.count_of(0),
                     .batches = s.batches};
}

Array Loader::draws(int64_t epoch) const {
  const State& s = *state_;
  const int64_t batch = s.count_of(0);
  const std::vector<int64_t> order = s.make_order(epoch);
  Array out(DType::i32, {s.batches, batch, kDrawNumbers});
  auto* to = out.data<int32_t>();
  parallel_for(s.batches, [&](int64_t k) {
    for (int64_t i = k * batch; i < (k + 1) * batch; ++i) {
      const Draw d = s.transform.draw(order[static_cast<size_t>(i)], s.view_of(epoch));
      std::memcpy(to + i * kDrawNumbers, &d, sizeof d);
    }
  });
  return out;
}

Loader::Epoch Loader::epoch(int64_t epoch, int64_t first_batch) {
  State& s = *state_;
  if (epoch < 0 || first_batch < 0 || first_batch > s.batches) {
    fail(ErrorKind::usage, "loader", "no such position: epoch ", epoch, ", batch ", first_batch, " of ", s.batches);
  }
  const Share& share = s.options.share;
  const int64_t first = share.cut ? first_batch * share.width() : share.count(first_batch);
  // The place where the last epoch ended is already being worked on.
  const bool goes_on = s.epoch_number >= 0 && s.taken < s.end && first < s.units && s.epoch_of(s.taken) == epoch &&
                       (s.start_batch + s.taken) % s.units == first;
  if (!goes_on) s.restart(epoch, first);
  s.epoch_number = epoch;
  ++s.runs;
  {
    const std::lock_guard lock(s.mutex);
    s.orders.erase(s.orders.begin(), s.orders.lower_bound(epoch));
    s.free_below(s.taken);
  }
  return Epoch(this);
}

int64_t Loader::runs() const { return state_->runs; }

void Loader::need_run(int64_t run) const {
  if (run == state_->runs) return;
  fail(ErrorKind::usage, "loader", "another epoch started while this one was iterated, which ended it: use a separate ",
       "Loader for each of two concurrent loops");
}

Batch* Loader::next() {
  State& s = *state_;
  for (;;) {
    if (s.epoch_number < 0) return nullptr;
    std::unique_lock lock(s.mutex);
    s.free_below(s.taken);  // the slot of the batch before too
    if (s.taken >= s.end || s.epoch_of(s.taken) != s.epoch_number) return nullptr;
    State::BatchSlot& slot = s.slots[static_cast<size_t>(s.taken) % s.slots.size()];
    const double start = now();
    if (s.threads.empty()) {
      do s.execute(s.claim(), s.scratch, lock);
      while (!slot.ready);
    } else {
      s.ready.wait(lock, [&] { return slot.ready; });
    }
    // Until it is let go, workers leave the slot alone; its mark must not be taken for that of the batch after.
    slot.ready = false;
    ++s.taken;
    s.waited += now() - start;
    lock.unlock();
    s.report(slot.faults, slot.order, slot.batch.index);
    if (!slot.faults.stop.empty()) std::rethrow_exception(slot.faults.stop.begin()->second);
    if (slot.batch.count > 0 || s.shared()) return &slot.batch;
  }
}

int64_t Loader::fill(int64_t epoch, int64_t batch, float* images, void* labels) {
  State& s = *state_;
  if (s.shared()) fail(ErrorKind::usage, "loader", "fill() makes whole batches: this loader has a shard of them");
  if (epoch < 0 || batch < 0 || batch >= s.batches) {
    fail(ErrorKind::usage, "loader", "no batch ", batch, " of ", s.batches, " in epoch ", epoch);
  }
  const double start = now();
  Order order;
  {
    const std::lock_guard lock(s.mutex);
    order = s.order_of(epoch);
  }
  const int64_t n = s.count_of(batch);
  Faults faults;
  s.make(order, epoch, batch, 0, n, images, static_cast<uint8_t*>(labels), faults, s.scratch);
  s.report(faults, order, batch);
  if (!faults.stop.empty()) std::rethrow_exception(faults.stop.begin()->second);
  const int64_t good = s.finish(order, faults, epoch, batch, n, images, static_cast<uint8_t*>(labels), s.scratch);
  if (!faults.stop.empty()) std::rethrow_exception(faults.stop.begin()->second);
  s.waited += now() - start;
  return good;
}

}  // namespace freight::data
