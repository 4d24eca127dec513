// Feed: batches of one part of a data set, whatever its kind, as training and evaluation read them: inputs for the net,
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

// A batch as a step takes it; its arrays live until the next one is asked for.
struct FeedBatch {
  Array inputs;       // f32 (N, ...), or tokens i32 (N, T)
  Array targets;      // i64 (N) classes, f32 values or mixed classes, or tokens i32 (N, T), -1 where nothing is asked
  int64_t count = 0;  // of targets that are asked: N, or the tokens among them that are not padding
};

// Batches, epoch by epoch; see the top of this file.
class Feed {
 public:
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // Short ones too. The learning rates of a run are planned for as many; one more is not asked for, and a feed that
  // ends before ends the epoch.
  virtual int64_t batches_per_epoch() const = 0;
  // Sum of the batches' counts over an epoch, where nothing is left out.
  virtual int64_t count_per_epoch() const = 0;
  // From any batch of the epoch on. A running epoch is dropped. The batches depend on the seed and the epoch alone.
  virtual void start(int64_t epoch, int64_t first_batch = 0) = 0;
  // The next batch, or null at the epoch's end; it lives until the next call.
  virtual FeedBatch* next() = 0;
  // How its batches come about, for who makes them elsewhere, and the draws of an epoch (loader.h). Nothing, and `why`,
  // where they cannot be made elsewhere.
  virtual std::optional<BatchRecipe> recipe(std::string& why) const {
    why = "its batches, of text or of the program's own, have no recipe";
    return std::nullopt;
  }
  virtual Array draws(int64_t /*epoch*/) const { return {}; }  // i32 (batches, batch size, kDrawNumbers)
  // The name that messages give to the sample in a row of the last batch.
  virtual std::string sample_name(int64_t row) const { return "row " + std::to_string(row) + " of the batch"; }
  // Seconds spent in `next` waiting for data, or making it.
  virtual double wait_seconds() const = 0;

 protected:
  Feed() = default;
};

// A sample that a program makes: input and target without the batch axis, all of one type each.
struct MadeSample {
  Array input, target;  // without the batch axis
};
struct MadeFeedOptions {
  int64_t count = 0;        // samples of an epoch
  int64_t batch_size = 64;  // samples per batch
  bool drop_last = false;   // leave a short last batch out
};
// The batches of samples that `make` gives by epoch and number within it, from 0. Equal arguments must give equal
// samples: a run that is resumed in the midst of an epoch then goes on as if it had never stopped. `make` is called in
// the thread that asks for the batch. Throws Error(usage) for no samples, and for one whose type is not the first's.
std::unique_ptr<Feed> made_feed(std::function<MadeSample(int64_t epoch, int64_t number)> make,
                                const MadeFeedOptions& options);

// The share of a feed's batches (loader.h), which are made whole before they are cut: for such as cost little. Its
// batches_per_epoch and start() count whole batches all the same. Empty pieces are given, too, so that every reader
// gets as many. A Loader, which reads no sample of others, has LoaderOptions::share.
std::unique_ptr<Feed> share_of(std::unique_ptr<Feed> whole, const Share& share);

// The batches of a Loader.
std::unique_ptr<Feed> loader_feed(Dataset set, const LoaderOptions& options);

}  // namespace freight::data
