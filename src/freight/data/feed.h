// Feed: the batches of one split of any kind of data, as training and evaluation read them: inputs for the network,
// targets for the loss. N samples, T tokens.
//   feed.start(epoch);
//   while (FeedBatch* b = feed.next()) step(b->inputs, b->targets);
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "freight/data/loader.h"

namespace freight::data {

// A batch for a step; its arrays are valid until the next one is requested.
struct FeedBatch {
  Array inputs;       // f32 (N, ...), or tokens i32 (N, T)
  Array targets;      // i64 (N) classes, f32 values or mixed classes, or tokens i32 (N, T), -1 for ignored ones
  int64_t count = 0;  // targets that count in the loss: counted(targets)
};
// True for i32 (N, T, ...), tokens or classes at places, each of which counts unless it is ignored, below 0.
bool at_places(const Array& targets);
int64_t counted(const Array& targets);  // those that count; one per sample of other targets

// Batches, epoch by epoch; see the top of this file.
class Feed {
 public:
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // The number of batches, with short ones. The learning rate schedule is made for as many: no further batch is
  // requested, and a feed that ends earlier ends the epoch.
  virtual int64_t batches_per_epoch() const = 0;
  // The sum of the batches' counts over an epoch, if no sample is skipped.
  virtual int64_t count_per_epoch() const = 0;
  // Starts an epoch at any of its batches, and drops a running one. The batches depend only on the seed and the epoch.
  virtual void start(int64_t epoch, int64_t first_batch = 0) = 0;
  // Returns the next batch, valid until the next call, or null at the end of the epoch.
  virtual FeedBatch* next() = 0;
  // The recipe by which a device can make the same batches, with the random numbers of an epoch (loader.h). Empty, with
  // the reason in `why`, if that is not possible.
  virtual std::optional<BatchRecipe> recipe(std::string& why) const {
    why = "its batches, of text or of the program's own, have no recipe";
    return std::nullopt;
  }
  virtual Array draws(int64_t /*epoch*/) const { return {}; }  // i32 (batches, batch size, kDrawNumbers)
  // The name of the sample in a row of the last batch, for messages.
  virtual std::string sample_name(int64_t row) const { return "row " + std::to_string(row) + " of the batch"; }
  // The seconds that `next` has spent waiting for data, or making it.
  virtual double wait_seconds() const = 0;

 protected:
  Feed() = default;
};

// A sample that a program makes. All inputs have one type, and so have all targets.
struct MadeSample {
  Array input, target;  // without the batch axis
};
struct MadeFeedOptions {
  int64_t count = 0;        // samples of an epoch
  int64_t batch_size = 64;  // samples per batch
  bool drop_last = false;   // skips a short last batch
};
// A feed of the samples that `make` returns for an epoch and a number within it, from 0. Equal arguments must return
// equal samples, so that a run that is resumed within an epoch continues as if it had never stopped. `make` is called
// in the thread that requests the batch. Throws Error(usage) for no samples, or a sample whose type differs from the
// first one's.
std::unique_ptr<Feed> made_feed(std::function<MadeSample(int64_t epoch, int64_t number)> make,
                                const MadeFeedOptions& options);

// One reader's share of a feed's batches (share.h). Whole batches are made and then cut, which suits cheap ones;
// a Loader has LoaderOptions::share instead, and reads no sample of other readers. batches_per_epoch and start() still
// count whole batches. Empty pieces are returned, too, so that every reader gets as many.
std::unique_ptr<Feed> share_of(std::unique_ptr<Feed> whole, const Share& share);

// A feed of a Loader's batches.
std::unique_ptr<Feed> loader_feed(Dataset set, const LoaderOptions& options);

}  // namespace freight::data
