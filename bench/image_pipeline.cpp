// The image pipeline (read, decode, crop, resize, flip, normalize, into batches) on its own, for
// bench/compare_images.py. usage: image_pipeline DIR train|eval WORKERS [BATCH [SECONDS]]. DIR/train has a folder per
// class. Prints a line of JSON: images per second of first epochs, in which a file is decoded to its end, and of later
// epochs, in which it is decoded as far as its crop needs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "freight/base/error.h"
#include "freight/data/catalog.h"
#include "freight/data/loader.h"

namespace {
using namespace freight;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Whole first epochs, of images that nothing is known of yet.
double first_epoch_rate(const data::Dataset& set, data::LoaderOptions options, double seconds) {
  options.epochs = 1;
  double spent = 0;
  int64_t images = 0;
  while (spent < seconds) {
    data::Dataset fresh = set;
    fresh.files = std::make_shared<data::ImageFiles>(set.files->paths, set.files->geometry);
    data::Loader loader(fresh, options);
    const Clock::time_point start = Clock::now();
    for (const data::Batch& b : loader.epoch(0)) images += b.count;
    spent += since(start);
  }
  return static_cast<double>(images) / spent;
}

// Epochs after the first, from batch to batch.
double later_epoch_rate(const data::Dataset& set, const data::LoaderOptions& options, double seconds) {
  data::Loader loader(set, options);
  for ([[maybe_unused]] const data::Batch& b : loader.epoch(0)) continue;
  int64_t images = 0;
  const Clock::time_point start = Clock::now();
  for (int64_t epoch = 1; since(start) < seconds; ++epoch) {
    for (const data::Batch& b : loader.epoch(epoch)) {
      images += b.count;
      if (since(start) >= seconds) break;
    }
  }
  return static_cast<double>(images) / since(start);
}
}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[2] : "";
  if (argc < 4 || (mode != "train" && mode != "eval")) {
    std::fprintf(stderr, "usage: image_pipeline DIR train|eval WORKERS [BATCH [SECONDS]]\n");
    return 2;
  }
  const double seconds = argc > 5 ? std::atof(argv[5]) : 3;
  try {
    const data::Dataset set = data::load(argv[1], {.images = {.undivided = data::Undivided::whole}}).train;
    if (!set.files) fail(ErrorKind::usage, argv[1], "holds no images in files");
    const int64_t batch = argc > 4 ? std::atoll(argv[4]) : 64;
    const bool train = mode == "train";
    const data::LoaderOptions options{.batch_size = std::min(batch, set.count()),
                                      .shuffle = true,
                                      .drop_last = true,
                                      .workers = std::atoi(argv[3]),
                                      .augment = {.random_crop = train, .flip = train}};
    first_epoch_rate(set, options, 0);  // fills the page cache
    const double first = first_epoch_rate(set, options, seconds), later = later_epoch_rate(set, options, seconds);
    std::printf("{\"first_epoch\": %.2f, \"images_per_s\": %.2f}\n", first, later);
  } catch (const Error& e) {
    std::fprintf(stderr, "image_pipeline: %s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
