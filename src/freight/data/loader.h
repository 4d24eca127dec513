// Loader: batches of a data set, shuffled, augmented and prepared ahead by worker threads.
//   Loader loader(train, {.batch_size = 64, .shuffle = true});
//   for (auto& batch : loader.epoch(0)) step(batch.images, batch.labels);
// The sequence of batches depends on the seed and the epoch only, never on the number of workers. Buffers are reused: a
// batch lives until the next one is asked for; arrays that the caller still holds then are left alone and replaced.
// Samples in memory and images in files go the same way; workers share a batch, so memory is bounded by the batches
// ahead, whatever their number. A shuffled loader prepares the next epoch's first batches while one ends.
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
  bool shuffle = false;     // another order in every epoch
  uint64_t seed = 0;        // of order and augmentation
  bool drop_last = false;   // leave a short last batch out
  int workers = -1;         // threads; 0: the caller's own; -1: a core each for images, 0 for cheap batches, else 1
  int prefetch = 2;         // batches ready ahead of the caller, at most
  int64_t prefetch_bytes = int64_t{1} << 30;  // all batches together: fewer ahead where they are large, but one
  int64_t epochs = 0;          // how many are coming, from number 0 on: none is prepared beyond; 0: no end
  Augment augment = {};        // random changes of samples
  int64_t views = 0;           // the changes of an epoch are those of its number modulo this; 0: its own
  Mix mix = {};                // labels become f32 (N, classes)
  bool channels_last = false;  // images become (N, H, W, C)
  BadSamples bad = {};         // a batch that one is left out of is shorter
  Share share = {};  // of the batches that this loader makes; of others it reads no sample. A batch of it may be empty
};

// How batches come about, for who makes them elsewhere: samples of a set in memory, as their draws (augment.h) and a
// scale say. Every batch of an epoch has the same size.
struct BatchRecipe {
  Array samples;                                      // u8 or f32 (M, ...), M samples, channels on axis 1
  Array targets;                                      // (M) or (M, K)
  std::vector<float> scale, bias;                     // per channel: a stored value x becomes x * scale + bias
  bool moves = false, flips = false, erases = false;  // which of the draws occur
  int64_t batch_size = 0, batches = 0;                // of an epoch
};

// A batch; its arrays are used again when the next one is asked for.
struct Batch {
  Array images;       // f32 (N, C, H, W), or (N, H, W, C) with channels_last, or (N, ...) as the samples are
  Array labels;       // i64 (N), or f32 as the targets are, or f32 (N, classes) where samples are mixed
  int64_t count = 0;  // N; smaller than batch_size in a short last batch, or where bad images are left out
  int64_t first = 0;  // position of the first sample within the epoch
  int64_t index = 0;  // number of the batch, or of the piece of one, within the epoch
};

// Makes batches of a data set; see the top of this file.
class Loader {
 public:
  class Epoch;
  // Throws Error(usage) for options that cannot work.
  explicit Loader(Dataset set, const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const;        // as given
  const LoaderOptions& options() const;  // workers resolved
  int64_t batches_per_epoch() const;     // the short last one too, unless drop_last
  int64_t samples_per_epoch() const;     // in those batches

  // Starts an epoch, at any batch of it (resume). A running epoch is dropped.
  Epoch epoch(int64_t epoch, int64_t first_batch = 0);
  // The next batch of the running epoch, or null at its end. What went wrong in a worker is thrown here.
  Batch* next();
  // Seconds that `next` has spent waiting for data (workers = 0: making it), over the loader's life.
  double wait_seconds() const;
  // Sample numbers of an epoch, in order.
  std::vector<int64_t> order(int64_t epoch) const;
  // Nothing, and `why`, where batches are made in a way that a recipe does not tell.
  std::optional<BatchRecipe> recipe(std::string& why) const;
  // The draws of an epoch, i32 (batches, batch size, kDrawNumbers): those of recipe().
  Array draws(int64_t epoch) const;
  // Makes one batch into memory of the caller, in the caller's thread: images of batch count * sample floats and
  // labels. Returns the count. For callers that own staging buffers.
  int64_t fill(int64_t epoch, int64_t batch, float* images, void* labels);

 private:
  // Counts the calls of epoch(); need_run refuses where that is no longer `run`.
  int64_t runs() const;
  void need_run(int64_t run) const;
  struct State;
  std::unique_ptr<State> state_;
};

// The range that `for (auto& batch : loader.epoch(e))` walks over; single pass.
class Loader::Epoch {
 public:
  struct End {};  // behind the last batch
  // Stands at a batch.
  class Iterator {
   public:
    // Asks for the first batch.
    explicit Iterator(Loader* loader) : loader_(loader), run_(loader->runs()), batch_(loader->next()) {}
    Batch& operator*() const { return *batch_; }  // the batch
    Batch* operator->() const { return batch_; }  // the batch
    // Asks for the next batch. Throws Error(usage) where another epoch of the loader began meanwhile, which drops this.
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
  End end() const { return {}; }                        // behind the last one

 private:
  friend class Loader;
  explicit Epoch(Loader* loader) : loader_(loader) {}
  Loader* loader_;
};

}  // namespace freight::data
