// The picture pipeline (read, decode, random crop, resize, mirror, normalise, into batches) against libjpeg-turbo
// alone, which reads and decodes the same files wholly; both on all cores. The pipeline decodes less than the whole of
// a picture. usage: jpeg_pipeline DIR [CROP [BATCH [SECONDS]]]. Prints pictures per second of both, and their ratio.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
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

double decoder_rate(const std::vector<std::string>& paths, double seconds) {
  std::atomic<size_t> next{0};
  const auto start = Clock::now();
  const auto work = [&] {
    std::vector<uint8_t> pixels;
    while (since(start) < seconds) {
      const io::Bytes bytes = io::read_file(paths[next++ % paths.size()]);
      if (is_jpeg(bytes)) decode(bytes, pixels);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count(); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return static_cast<double>(next) / since(start);
}

double pipeline_rate(const data::Dataset& set, int64_t batch, double seconds) {
  data::Loader loader(set, {.batch_size = std::min(batch, set.count()),
                            .shuffle = true,
                            .drop_last = true,
                            .augment = {.random_crop = true, .flip = true}});
  const auto start = Clock::now();
  int64_t n = 0;
  for (int64_t epoch = 0; since(start) < seconds; ++epoch) {
    for (const data::Batch& b : loader.epoch(epoch)) {
      n += b.count;
      if (since(start) >= seconds) break;
    }
  }
  return static_cast<double>(n) / since(start);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: jpeg_pipeline DIR [CROP [BATCH [SECONDS]]]\n");
    return 2;
  }
  const int64_t crop = argc > 2 ? std::atoll(argv[2]) : 224, batch = argc > 3 ? std::atoll(argv[3]) : 64;
  const double seconds = argc > 4 ? std::atof(argv[4]) : 5;
  try {
    const data::Dataset set = data::load(argv[1], {.pictures = {.train_crop = crop}}).train;
    if (!set.files) fail(ErrorKind::usage, argv[1], "holds no pictures in files");
    double decoder = 0, pipeline = 0;
    for (int round = 0; round < 3; ++round) {  // in turns, the best of each; the first fills the page cache
      decoder = std::max(decoder, decoder_rate(set.files->paths, seconds));
      pipeline = std::max(pipeline, pipeline_rate(set, batch, seconds));
    }
    std::printf("%s, %d threads, crop %lld, batch %lld\n", argv[1], thread_count(), static_cast<long long>(crop),
                static_cast<long long>(batch));
    std::printf("libjpeg-turbo alone %8.0f pictures/s\npipeline            %8.0f pictures/s\nratio %.2f\n", decoder,
                pipeline, pipeline / decoder);
  } catch (const Error& e) {
    std::fprintf(stderr, "jpeg_pipeline: %s\n", e.what());
    return e.exit_code();
  }
  return 0;
}
