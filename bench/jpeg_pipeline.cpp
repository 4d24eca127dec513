// The image pipeline (read, decode, random crop, resize, mirror, normalise, into batches) against libjpeg-turbo
// alone, which reads and decodes the same files wholly; both on all cores. The pipeline decodes less than the whole of
// a image. usage: jpeg_pipeline DIR [CROP [BATCH [SECONDS [ROUNDS]]]]. Each round measures the decoder, first epochs
// and later epochs, so many seconds each; prints medians of images per second and of the ratios within a round. Where
// others use the machine too, the cores' time tells more than the clock.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <jpeglib.h>  // needs cstddef and cstdio before it

#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/data/catalog.h"
#include "freight/data/loader.h"

namespace {
using namespace freight;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Seconds that all threads of this program have had a core.
double core_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Images per second, and per second of a core.
struct Rate {
  double by_clock = 0, by_core = 0;
};
// Counts while it lives.
class Watch {
 public:
  double seconds() const { return since(start_); }
  void pause() {
    spent_.by_clock += since(start_);
    spent_.by_core += core_seconds() - core_start_;
  }
  void resume() {
    start_ = Clock::now();
    core_start_ = core_seconds();
  }
  double spent() const { return spent_.by_clock; }
  Rate rate(int64_t images) const {
    return {static_cast<double>(images) / spent_.by_clock, static_cast<double>(images) / spent_.by_core};
  }

 private:
  Clock::time_point start_ = Clock::now();
  double core_start_ = core_seconds();
  Rate spent_;
};

bool is_jpeg(const io::Bytes& b) { return b.size() > 2 && b.data()[0] == 0xff && b.data()[1] == 0xd8; }

void decode(const io::Bytes& bytes, std::vector<uint8_t>& pixels) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes.data(), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  const size_t row_bytes = static_cast<size_t>(jpeg.output_width) * static_cast<size_t>(jpeg.output_components);
  pixels.resize(row_bytes * jpeg.output_height);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels.data() + jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
}

Rate decoder_rate(const std::vector<std::string>& paths, double seconds) {
  std::atomic<size_t> next{0};
  Watch watch;
  const auto work = [&] {
    std::vector<uint8_t> pixels;
    while (watch.seconds() < seconds) {
      const io::Bytes bytes = io::read_file(paths[next++ % paths.size()]);
      if (is_jpeg(bytes)) decode(bytes, pixels);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count(); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  watch.pause();
  return watch.rate(static_cast<int64_t>(next));
}

data::LoaderOptions options(const data::Dataset& set, int64_t batch, int64_t epochs) {
  return {.batch_size = std::min(batch, set.count()),
          .shuffle = true,
          .drop_last = true,
          .epochs = epochs,
          .augment = {.random_crop = true, .flip = true}};
}

// First epochs: whole ones, of images that nothing is known of yet.
Rate first_epoch_rate(const data::Dataset& set, int64_t batch, double seconds) {
  Watch watch;
  int64_t n = 0;
  for (watch.pause(); watch.spent() < seconds;) {
    data::Dataset fresh = set;
    fresh.files = std::make_shared<data::ImageFiles>(set.files->paths, set.files->geometry);
    data::Loader loader(fresh, options(set, batch, 1));
    watch.resume();
    for (const data::Batch& b : loader.epoch(0)) n += b.count;
    watch.pause();
  }
  return watch.rate(n);
}

// Epochs of a loader that has seen all images once.
Rate later_rate(data::Loader& loader, int64_t& epoch, double seconds) {
  Watch watch;
  int64_t n = 0;
  while (watch.seconds() < seconds) {
    for (const data::Batch& b : loader.epoch(epoch++)) {
      n += b.count;
      if (watch.seconds() >= seconds) break;
    }
  }
  watch.pause();
  return watch.rate(n);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.size() % 2 != 0 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

double Rate::*const kWays[] = {&Rate::by_clock, &Rate::by_core};

void print(const char* what, const std::vector<Rate>& rates, const std::vector<Rate>& decoder) {
  std::printf("%-20s", what);
  for (double Rate::*way : kWays) {
    std::vector<double> all, ratios;
    for (size_t i = 0; i < rates.size(); ++i) {
      all.push_back(rates[i].*way);
      ratios.push_back(rates[i].*way / (decoder[i].*way));
    }
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf(" %8.0f, ratio %.3f (%.3f to %.3f)", median(all), median(ratios), *low, *high);
  }
  std::printf("\n");
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: jpeg_pipeline DIR [CROP [BATCH [SECONDS [ROUNDS]]]]\n");
    return 2;
  }
  const int64_t crop = argc > 2 ? std::atoll(argv[2]) : 224, batch = argc > 3 ? std::atoll(argv[3]) : 64;
  const double seconds = argc > 4 ? std::atof(argv[4]) : 1;
  const int rounds = std::max(1, argc > 5 ? std::atoi(argv[5]) : 7);
  try {
    const data::Dataset set = data::load(argv[1], {.images = {.train_crop = crop}}).train;
    if (!set.files) fail(ErrorKind::usage, argv[1], "holds no images in files");
    data::Loader loader(set, options(set, batch, 0));
    for ([[maybe_unused]] const data::Batch& b : loader.epoch(0)) continue;  // fills the page cache, too
    int64_t epoch = 1;
    std::vector<Rate> decoder, first, later;
    for (int round = 0; round < rounds; ++round) {
      decoder.push_back(decoder_rate(set.files->paths, seconds));
      first.push_back(first_epoch_rate(set, batch, seconds));
      later.push_back(later_rate(loader, epoch, seconds));
    }
    std::printf("%s: %lld images, %d threads, crop %lld, batch %lld, medians of %d rounds\n", argv[1],
                static_cast<long long>(set.count()), thread_count(), static_cast<long long>(crop),
                static_cast<long long>(batch), rounds);
    std::printf("%-20s %-38s %s\n", "pictures", "per second", "per second of a core");
    print("libjpeg-turbo alone", decoder, decoder);
    print("first epoch", first, decoder);
    print("later epochs", later, decoder);
  } catch (const Error& e) {
    std::fprintf(stderr, "jpeg_pipeline: %s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
