// See samples.h.
#include "freight/inspect/samples.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/data/resample.h"
#include "freight/io/file.h"
#include "freight/io/image.h"

namespace freight::inspect {

namespace {

constexpr int64_t kWork = 32;  // side of the image that features are of
using Planes = std::array<uint8_t, 3 * kWork * kWork>;

// Histograms of the gradients' directions, weighted by their size, each cell scaled to length 1; then mean colors.
void write_features(const Planes& planes, float* out) {
  constexpr int64_t kCells = 8, kBins = 9, kCell = kWork / kCells, kParts = 4, kPart = kWork / kParts;
  constexpr int64_t kPlane = kWork * kWork;
  std::fill_n(out, ImageSamples::kFeatures, 0.0f);
  const auto gray = [&](int64_t y, int64_t x) {
    const int64_t at = std::clamp<int64_t>(y, 0, kWork - 1) * kWork + std::clamp<int64_t>(x, 0, kWork - 1);
    return (static_cast<float>(planes[static_cast<size_t>(at)]) +
            static_cast<float>(planes[static_cast<size_t>(at + kPlane)]) +
            static_cast<float>(planes[static_cast<size_t>(at + 2 * kPlane)])) /
           3.0f;
  };
  constexpr float kPi = 3.14159265f;
  for (int64_t y = 0; y < kWork; ++y) {
    for (int64_t x = 0; x < kWork; ++x) {
      const float dx = gray(y, x + 1) - gray(y, x - 1), dy = gray(y + 1, x) - gray(y - 1, x);
      const float size = std::sqrt(dx * dx + dy * dy);
      float turn = std::atan2(dy, dx) / kPi;  // a direction and its opposite are the same
      if (turn < 0) turn += 1;
      const int64_t bin = std::min<int64_t>(static_cast<int64_t>(turn * kBins), kBins - 1);
      out[((y / kCell) * kCells + x / kCell) * kBins + bin] += size;
    }
  }
  for (int64_t cell = 0; cell < kCells * kCells; ++cell) {
    float* const bins = out + cell * kBins;
    float square = 0;
    for (int64_t b = 0; b < kBins; ++b) square += bins[b] * bins[b];
    constexpr float kFlat = 100;  // the square of what noise reaches in a flat cell
    const float scale = 1 / std::sqrt(square + kFlat);
    for (int64_t b = 0; b < kBins; ++b) bins[b] *= scale;
  }
  float* const colors = out + kCells * kCells * kBins;
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t at = 0; at < kPlane; ++at) {
      const int64_t part = (at / kWork / kPart) * kParts + at % kWork / kPart;
      colors[c * kParts * kParts + part] +=
          static_cast<float>(planes[static_cast<size_t>(c * kPlane + at)]) / (255.0f * kPart * kPart);
    }
  }
}

// The thumbnail has the means of blocks of 2 x 2.
void write_thumbnail(const Planes& planes, uint8_t* out) {
  constexpr int64_t kSide = ImageSamples::kSide;
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const auto* at = planes.data() + c * kWork * kWork + 2 * y * kWork + 2 * x;
        out[(c * kSide + y) * kSide + x] = static_cast<uint8_t>((at[0] + at[1] + at[kWork] + at[kWork + 1] + 2) / 4);
      }
    }
  }
}

// One thread's memory.
struct Reader {
  data::Resampler resampler;
  std::vector<uint8_t> interleaved;
};

void resize(const data::PixelView& view, Reader& reader, Planes& planes) {
  const data::Box whole{0, 0, static_cast<double>(view.rows), static_cast<double>(view.columns)};
  reader.resampler.run(view, whole, data::Mirror::no, 3, kWork, kWork, data::PlaneTarget(planes.data()));
}

// Values of an array, planes of u8 or floats, as pixels. Floats are stretched from their least value to their largest.
data::PixelView pixels_of(const Array& images, int64_t i, Reader& reader) {
  const int64_t channels = images.shape()[1], rows = images.shape()[2], columns = images.shape()[3];
  const int64_t plane = rows * columns, numel = channels * plane;
  reader.interleaved.resize(static_cast<size_t>(numel));
  std::vector<float> values(static_cast<size_t>(numel));
  if (images.dtype() == DType::u8) {
    const uint8_t* src = images.data<uint8_t>() + i * numel;
    std::copy_n(src, numel, values.begin());
  } else {
    const float* src = images.data<float>() + i * numel;
    const auto [least, most] = std::minmax_element(src, src + numel);
    const float scale = *most > *least ? 255 / (*most - *least) : 0;
    for (int64_t k = 0; k < numel; ++k) values[static_cast<size_t>(k)] = (src[k] - *least) * scale;
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t k = 0; k < plane; ++k) {
      reader.interleaved[static_cast<size_t>(k * channels + c)] =
          static_cast<uint8_t>(values[static_cast<size_t>(c * plane + k)]);
    }
  }
  return {reader.interleaved.data(), rows, columns, channels};
}

class Reading {
 public:
  Reading(const data::Dataset& part, ImageSamples& out) : part_(part), out_(out) {
    const Array& images = part.images;
    const bool planes = !part.files && images.shape().rank() == 4 && (images.shape()[1] == 1 || images.shape()[1] == 3);
    out.pictures = part.files != nullptr || (planes && (images.dtype() == DType::u8 || images.dtype() == DType::f32));
    const auto n = static_cast<size_t>(part.count());
    out.content.resize(n);
    out.readable.assign(n, true);
    if (!out.pictures) return;
    out.thumbnails.resize(n * ImageSamples::kThumbnail);
    out.features.resize(n * ImageSamples::kFeatures);
  }

  void read(int64_t i, Reader& reader) {
    const auto at = static_cast<size_t>(i);
    if (!part_.files) {
      const Array& images = part_.images;
      const size_t bytes = images.bytes() / static_cast<size_t>(part_.count());
      out_.content[at] = data::hash_of(static_cast<const std::byte*>(images.raw()) + at * bytes, bytes, 0);
      if (out_.pictures) write(i, pixels_of(images, i, reader), reader);
      return;
    }
    const std::string& path = part_.files->paths[at];
    try {
      const io::Bytes bytes = io::read_file(path);
      out_.content[at] = data::hash_of(bytes.data(), bytes.size(), 0);
      const Array image = io::decode_image(bytes, path, part_.files->geometry.orientation);  // (H, W, C)
      write(i, {image.data<uint8_t>(), image.shape()[0], image.shape()[1], image.shape()[2]}, reader);
    } catch (const Error& e) {
      const std::lock_guard lock(mutex_);
      out_.readable[at] = false;
      out_.bad.push_back({path, e.message()});
    }
  }

 private:
  void write(int64_t i, const data::PixelView& view, Reader& reader) {
    Planes planes;
    resize(view, reader, planes);
    write_thumbnail(planes, out_.thumbnails.data() + i * ImageSamples::kThumbnail);
    write_features(planes, out_.features.data() + i * ImageSamples::kFeatures);
  }

  const data::Dataset& part_;
  ImageSamples& out_;
  std::mutex mutex_;
};

}  // namespace

ImageSamples read_samples(const data::Dataset& part, const std::function<bool(int64_t done)>& poll) {
  ImageSamples out;
  Reading reading(part, out);
  const int64_t n = part.count();
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false};
  const auto work = [&](bool asks) {
    Reader reader;
    for (int64_t i = next++; i < n && !stopped; i = next++) {
      reading.read(i, reader);
      if (asks && poll && !poll(i)) stopped = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < thread_count(); ++i) threads.emplace_back(work, false);
  work(true);
  for (std::thread& t : threads) t.join();
  if (stopped) fail(ErrorKind::runtime, part.name, "stopped before all samples were read");
  std::sort(out.bad.begin(), out.bad.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

}  // namespace freight::inspect
