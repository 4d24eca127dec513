// Loader: batches of a dataset, shuffled, augmented and prepared in advance by worker threads.
//   Loader loader(train, {.batch_size = 64, .shuffle = true});
//   for (auto& batch : loader.epoch(0)) step(batch.images, batch.labels);
// The sequence of batches depends only on the seed and the epoch, never on the number of workers. Buffers are reused: a
// batch is valid until the next one is requested; arrays that the caller still holds then are replaced, not
// overwritten. Workers share the work on a batch, so memory is bounded by the number of batches in advance, not by the
// number of workers. A shuffled loader prepares the first batches of the next epoch while one ends.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/data/augment.h"
#include "freight/data/dataset.h"
#include "freight/data/mix.h"
#include "freight/data/share.h"

namespace freight::data {

// Settings of a Loader.
struct LoaderOptions {
  int64_t batch_size = 64;  // samples per batch
  bool shuffle = false;     // a different order in every epoch
  bool by_class = false;    // with shuffle: an epoch draws its samples so that all classes are equally frequent
  uint64_t seed = 0;        // of order and augmentation
  bool drop_last = false;   // skip a short last batch
  int workers = -1;         // threads; 0: the caller's; -1: one per core for images, 0 for cheap batches, else 1
  int prefetch = 2;         // the maximum number of batches in advance
  int64_t prefetch_bytes = int64_t{1} << 30;  // limits the bytes of these batches, but allows at least one
  int64_t epochs = 0;          // the number of epochs of the run, beyond which nothing is prepared; 0: unlimited
  Augment augment = {};        // random changes of samples
  int64_t views = 0;           // the changes of an epoch are those of its number modulo this; 0: its own
  Mix mix = {};                // labels become f32 (N, classes)
  bool channels_last = false;  // images become (N, H, W, C)
  BadSamples bad = {};         // a skipped sample makes its batch shorter
  Share share = {};  // the part of the batches that this loader makes; it reads no other samples. Batches may be empty
};

// The recipe by which batches can be made elsewhere, such as on a device: samples in memory, their random numbers
// (augment.h) and a scale. Every batch of an epoch has the same size.
struct BatchRecipe {
  Array samples;                                      // u8 or f32 (M, ...), M samples, channels on axis 1
  Array targets;                                      // (M) or (M, K)
  std::vector<float> scale, bias;                     // per channel: a stored value x becomes x * scale + bias
  bool moves = false, flips = false, erases = false;  // the kinds of changes that occur
  int64_t batch_size = 0, batches = 0;                // of an epoch
};

// A batch; its arrays are reused when the next one is requested.
struct Batch {
  Array images;       // f32 (N, C, H, W), or (N, H, W, C) with channels_last, or (N, ...) like the samples
  Array labels;       // i64 (N), or f32 like the targets, or f32 (N, classes) if samples are mixed
  int64_t count = 0;  // N; below batch_size in a short last batch, or if bad images are skipped
  int64_t first = 0;  // position of the first sample within the epoch
  int64_t index = 0;  // number of the batch, or of the piece of one, within the epoch
};

// Makes batches of a dataset; see the top of this file.
class Loader {
 public:
  class Epoch;
  // Throws Error(usage) for options that do not suit the dataset.
  explicit Loader(Dataset set, const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const;        // as given
  const LoaderOptions& options() const;  // with the resolved number of workers
  int64_t batches_per_epoch() const;     // includes a short last batch, unless drop_last
  int64_t samples_per_epoch() const;     // in those batches

  // Starts an epoch at any of its batches (for resuming), and drops a running one.
  Epoch epoch(int64_t epoch, int64_t first_batch = 0);
  // Returns the next batch of the running epoch, or null at its end. Throws the errors of the workers.
  Batch* next();
  // The seconds that `next` has spent waiting for data (workers = 0: making it) so far.
  double wait_seconds() const;
  // The indices of the samples of an epoch, in order.
  std::vector<int64_t> order(int64_t epoch) const;
  // The recipe of the batches; empty, with the reason in `why`, if a recipe cannot describe them.
  std::optional<BatchRecipe> recipe(std::string& why) const;
  // The random numbers of an epoch for recipe(), i32 (batches, batch size, kDrawNumbers).
  Array draws(int64_t epoch) const;
  // Makes one batch in the caller's thread and memory (count * sample floats, and labels), for callers with staging
  // buffers. Returns the count.
  int64_t fill(int64_t epoch, int64_t batch, float* images, void* labels);

 private:
  // The number of calls of epoch(). need_run throws if it is not `run` any more.
  int64_t runs() const;
  void need_run(int64_t run) const;
  struct State;
  std::unique_ptr<State> state_;
};

// The range that `for (auto& batch : loader.epoch(e))` walks over; single pass.
class Loader::Epoch {
 public:
  struct End {};  // the position after the last batch
  // A position at a batch.
  class Iterator {
   public:
    // Requests the first batch.
    explicit Iterator(Loader* loader) : loader_(loader), run_(loader->runs()), batch_(loader->next()) {}
    Batch& operator*() const { return *batch_; }  // the batch
    Batch* operator->() const { return batch_; }  // the batch
    // Requests the next batch. Throws Error(usage) if another epoch was started, which has dropped this one.
    Iterator& operator++() {
      loader_->need_run(run_);
      batch_ = loader_->next();
      return *this;
    }
    bool operator==(End) const { return batch_ == nullptr; }  // no batch is left

   private:
    Loader* loader_;
    int64_t run_;
    Batch* batch_;
  };
  Iterator begin() const { return Iterator(loader_); }  // at the first batch
  End end() const { return {}; }                        // after the last batch

 private:
  friend class Loader;
  explicit Epoch(Loader* loader) : loader_(loader) {}
  Loader* loader_;
};

}  // namespace freight::data
