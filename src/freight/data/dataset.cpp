// See dataset.h.
#include "freight/data/dataset.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/data/image_cache.h"

namespace freight::data {

namespace {
constexpr uint32_t kSplitStream = 0x73706c74;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;

uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * kMultiplier;
  return h ^ h >> 29;
}

// Four independent chains, so that the multiplications overlap.
uint64_t hash_bytes(const uint8_t* p, size_t n, uint64_t seed) {
  uint64_t h[4] = {seed, seed + 1, seed + 2, seed + 3};
  uint64_t w[4];
  size_t i = 0;
  for (; i + sizeof w <= n; i += sizeof w) {
    std::memcpy(w, p + i, sizeof w);
    for (int k = 0; k < 4; ++k) h[k] = mix(h[k], w[k]);
  }
  std::memset(w, 0, sizeof w);
  if (i < n) std::memcpy(w, p + i, n - i);
  for (int k = 0; k < 4; ++k) h[k] = mix(h[k], w[k]);
  return mix(mix(mix(mix(n, h[0]), h[1]), h[2]), h[3]);
}

// Names with their folders' names, and sizes; where the data lies does not matter.
uint64_t hash_files(const std::vector<std::string>& paths) {
  uint64_t h = kMultiplier;
  for (const std::string& path : paths) {
    const std::filesystem::path p(path);
    const std::string name = (p.parent_path().filename() / p.filename()).string();
    std::error_code missing;
    const uint64_t size = std::filesystem::file_size(p, missing);
    h = mix(hash_bytes(reinterpret_cast<const uint8_t*>(name.data()), name.size(), h), missing ? 0 : size);
  }
  return h;
}

// A view of rows [first, first + n) on axis 0.
Array rows_of(const Array& a, int64_t first, int64_t n) {
  Shape shape = a.shape();
  const size_t row = a.bytes() / static_cast<size_t>(std::max<int64_t>(shape[0], 1));
  shape[0] = n;
  auto* p = static_cast<uint8_t*>(a.raw()) + static_cast<size_t>(first) * row;
  return {a.dtype(), shape, Storage::borrow(p, static_cast<size_t>(n) * row, a.storage())};
}

struct Sums {
  double sum = 0, squares = 0;
};

// Sum and sum of squares of u8, exact: partial sums of 4096 values fit 32 bits.
Sums sums_of(std::span<const uint8_t> v) {
  constexpr size_t kBlock = 4096;
  uint64_t sum = 0, squares = 0;
  size_t i = 0;
  for (; i + kBlock <= v.size(); i += kBlock) {
    uint32_t s = 0, q = 0;
    for (size_t k = 0; k < kBlock; ++k) {
      const uint32_t x = v[i + k];
      s += x;
      q += x * x;
    }
    sum += s;
    squares += q;
  }
  for (; i < v.size(); ++i) {
    sum += v[i];
    squares += static_cast<uint64_t>(v[i]) * v[i];
  }
  return {static_cast<double>(sum), static_cast<double>(squares)};
}
Sums sums_of(std::span<const float> v) {
  Sums s;
  for (const float x : v) {
    s.sum += x;
    s.squares += static_cast<double>(x) * x;
  }
  return s;
}

// Sums per channel of x (N, C, plane), over chunks of samples whose borders do not depend on the threads.
template <class T>
std::vector<Sums> channel_sums(const T* x, int64_t n, int64_t channels, int64_t plane) {
  constexpr int64_t kRows = 512;
  const int64_t chunks = (n + kRows - 1) / kRows;
  std::vector<Sums> partial(static_cast<size_t>(chunks * channels));
  parallel_for(chunks, [&](int64_t chunk) {
    Sums* out = partial.data() + chunk * channels;
    const int64_t begin = chunk * kRows, end = std::min(n, begin + kRows);
    const auto add = [](Sums& to, const Sums& s) {
      to.sum += s.sum;
      to.squares += s.squares;
    };
    if (channels == 1) {
      add(out[0], sums_of(std::span<const T>(x + begin * plane, static_cast<size_t>((end - begin) * plane))));
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        add(out[c], sums_of(std::span<const T>(x + (i * channels + c) * plane, static_cast<size_t>(plane))));
      }
    }
  });
  std::vector<Sums> total(static_cast<size_t>(channels));
  for (size_t i = 0; i < partial.size(); ++i) {
    Sums& t = total[i % static_cast<size_t>(channels)];
    t.sum += partial[i].sum;
    t.squares += partial[i].squares;
  }
  return total;
}
}  // namespace

ImageFiles::ImageFiles(std::vector<std::string> files, const ImageGeometry& shape)
    : paths(std::move(files)), geometry(shape), kept(std::make_shared<ImageCache>(paths.size())) {}

size_t ImageFiles::kept_bytes() const {
  size_t sum = 0;
  for (const std::string& path : paths) {
    std::error_code missing;
    const uint64_t size = std::filesystem::file_size(path, missing);
    if (!missing) sum += size;
    if (sum >= ImageCache::kMost) return ImageCache::kMost;
  }
  return (sum + ImageCache::kBlock - 1) / ImageCache::kBlock * ImageCache::kBlock;
}

int64_t Dataset::count() const {
  if (files) return static_cast<int64_t>(files->paths.size());
  return images.defined() ? images.shape()[0] : 0;
}

std::string advice_on_bad(const char* what) {
  return cat("; --on-bad-sample skip leaves such ", what, " out, and freight data verify lists them all");
}

Shape Dataset::sample_shape() const {
  if (files) return {files->geometry.channels, files->geometry.rows, files->geometry.columns};
  return {images.shape().begin() + 1, images.shape().end()};
}

uint64_t Dataset::fingerprint() const {
  constexpr size_t kChunk = size_t{1} << 20;
  uint64_t h = kMultiplier;
  if (files) h = mix(h, hash_files(files->paths));
  for (const Array* a : {&images, &labels}) {
    if (!a->defined()) continue;
    for (const int64_t d : a->shape()) h = mix(h, static_cast<uint64_t>(d));
    const size_t chunks = (a->bytes() + kChunk - 1) / kChunk;
    std::vector<uint64_t> parts(chunks);
    parallel_for(static_cast<int64_t>(chunks), [&](int64_t chunk) {
      const size_t begin = static_cast<size_t>(chunk) * kChunk;
      const size_t n = std::min(kChunk, a->bytes() - begin);
      parts[static_cast<size_t>(chunk)] = hash_bytes(static_cast<const uint8_t*>(a->raw()) + begin, n, begin);
    });
    for (const uint64_t p : parts) h = mix(h, p);
  }
  return h;
}

Array selected_rows(const Array& all, const std::vector<int64_t>& rows) {
  Shape shape = all.shape();
  const size_t row = all.bytes() / static_cast<size_t>(std::max<int64_t>(shape[0], 1));
  shape[0] = static_cast<int64_t>(rows.size());
  Array out(all.dtype(), shape);
  auto* to = static_cast<char*>(out.raw());
  const auto* from = static_cast<const char*>(all.raw());
  for (const int64_t i : rows) {
    std::memcpy(to, from + static_cast<size_t>(i) * row, row);
    to += row;
  }
  return out;
}

Dataset Dataset::selected(const std::vector<int64_t>& samples) const {
  Dataset out = *this;
  if (files) {
    std::vector<std::string> paths;
    for (const int64_t i : samples) paths.push_back(files->paths.at(static_cast<size_t>(i)));
    out.files = std::make_shared<ImageFiles>(std::move(paths), files->geometry);
  } else {
    out.images = selected_rows(images, samples);
  }
  out.labels = selected_rows(labels, samples);
  if (groups.defined()) out.groups = selected_rows(groups, samples);
  return out;
}

Dataset Dataset::slice(int64_t first, int64_t n) const {
  if (first < 0 || n < 0 || first > count() - n) {
    fail(ErrorKind::usage, name, "slice out of range: got ", n, " samples from ", first, " on, the set has ", count());
  }
  Dataset out = *this;
  if (files) {
    const auto begin = files->paths.begin() + first;
    out.files = std::make_shared<ImageFiles>(std::vector(begin, begin + n), files->geometry);
  } else {
    out.images = rows_of(images, first, n);
  }
  out.labels = rows_of(labels, first, n);
  if (groups.defined()) out.groups = rows_of(groups, first, n);
  return out;
}

void Dataset::compute_statistics() {
  FREIGHT_CHECK(!files, "statistics of samples in memory");
  const Shape& s = images.shape();
  const int64_t n = s[0], channels = s[1], plane = n * channels == 0 ? 0 : images.numel() / (n * channels);
  if (n * plane == 0) return;
  const bool bytes = images.dtype() == DType::u8;
  const auto sums = bytes ? channel_sums(images.data<uint8_t>(), n, channels, plane)
                          : channel_sums(images.data<float>(), n, channels, plane);
  mean.clear();
  std.clear();
  const double scale = bytes ? 255.0 : 1.0, elements = static_cast<double>(n * plane);
  for (const Sums& t : sums) {
    const double m = t.sum / elements, variance = std::max(0.0, t.squares / elements - m * m);
    mean.push_back(static_cast<float>(m / scale));
    // A constant channel stays as it is instead of dividing by zero.
    std.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance) / scale) : 1.0f);
  }
}

void Dataset::validate(const std::string& images_file, const std::string& labels_file) const {
  const Shape& s = images.shape();
  const bool arrays =
      images.defined() && s.rank() >= 2 && (images.dtype() == DType::u8 || images.dtype() == DType::f32);
  if (!files && !arrays) {
    fail(ErrorKind::data, images_file, "samples need u8 or f32 of rank 2 or more, got ", images.dtype(), s);
  }
  const int64_t n = count();
  if (n == 0) fail(ErrorKind::data, images_file, "no samples");
  if (!files && images.numel() == 0) fail(ErrorKind::data, images_file, "empty samples: shape ", s);
  const bool values = labels.defined() && labels.dtype() == DType::f32 && labels.shape().rank() >= 1;
  const bool sets =
      labels.defined() && multilabel() && labels.shape().rank() == 2 && labels.shape()[1] == class_count();
  if (!values && !sets && (!labels.defined() || labels.dtype() != DType::i64 || labels.shape().rank() != 1)) {
    fail(ErrorKind::data, labels_file, "labels need i64 (N), f32 (N, ...) or u8 (N, labels), got ", labels.dtype(),
         labels.shape());
  }
  if (labels.shape()[0] != n) {
    fail(ErrorKind::data, labels_file, "counts differ: ", labels.shape()[0], " labels for ", n, " samples in ",
         images_file);
  }
  if (values) return;
  if (sets) {
    const uint8_t* const has = labels.data<uint8_t>();
    const auto* const odd = std::find_if(has, has + labels.numel(), [](uint8_t v) { return v > 1; });
    if (odd == has + labels.numel()) return;
    fail(ErrorKind::data, labels_file, "labels per sample are 0 or 1, got ", static_cast<int>(*odd));
  }
  if (classes.empty()) {
    fail(ErrorKind::data, labels_file, "labels are classes, but the dataset has no class names: set `classes`, as ",
         "data::numbered_classes(10), or float targets");
  }
  const int64_t* y = labels.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    if (y[i] < 0 || y[i] >= class_count()) {
      fail(ErrorKind::data, labels_file, "label out of range: sample ", i, " has ", y[i], ", expected 0 to ",
           class_count() - 1);
    }
  }
}

uint64_t hash_of(const void* bytes, size_t n, uint64_t seed) {
  return hash_bytes(static_cast<const uint8_t*>(bytes), n, seed);
}

std::vector<bool> hold_out(const std::vector<int64_t>& labels, size_t classes, double share, uint64_t seed) {
  std::vector<std::vector<size_t>> members(classes);
  for (size_t i = 0; i < labels.size(); ++i) members[static_cast<size_t>(labels[i])].push_back(i);
  std::vector<bool> is_validation(labels.size());
  for (size_t c = 0; c < classes; ++c) {
    auto& m = members[c];
    PhiloxStream random(seed, c, kSplitStream);
    for (size_t i = m.size(); i-- > 1;) std::swap(m[i], m[random.below(static_cast<uint32_t>(i + 1))]);
    const auto n = static_cast<int64_t>(m.size());
    const int64_t most = std::max<int64_t>(n - 1, 0);
    const auto count =
        std::clamp<int64_t>(std::llround(share * static_cast<double>(n)), std::min<int64_t>(1, most), most);
    for (int64_t i = 0; i < count; ++i) is_validation[m[static_cast<size_t>(i)]] = true;
  }
  return is_validation;
}

void need_val_split(double share, const std::string& path, const std::string& val) {
  if (share < 0) return;
  need_below("--val-split", "a fraction", share, 0, 1);
  if (share > 0 && !val.empty()) {
    refuse_value("--val-split", cat(share), cat(path, " has a validation set, ", val));
  }
}

void need_validation(double share, const std::string& path) {
  if (share == 0) {
    refuse_value(
        "--val-split", "0",
        cat(path, " has no validation set: expected a fraction above 0, or a validation set like ", path, "/val"));
  }
}

void need_images(const std::string& what, const std::string& use, const Dataset& set) {
  const Shape s = set.sample_shape();
  if (s.rank() != 3) fail(ErrorKind::usage, what, use, " needs images (C, H, W): samples of ", set.name, " are ", s);
}

std::vector<std::string> numbered_classes(int64_t n) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(std::to_string(i));
  return out;
}

std::string describe(const Dataset& set) {
  return cat(set.split, " ", with_commas(set.count()), " x ", set.sample_shape(), " ",
             set.files ? "image files" : to_string(set.images.dtype()), ", ",
             set.classification() ? cat(set.class_count(), " classes")
             : set.multilabel()   ? cat(set.class_count(), " labels")
                                  : std::string("values"));
}

}  // namespace freight::data
