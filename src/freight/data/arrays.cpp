// See arrays.h.
#include "freight/data/arrays.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "freight/base/error.h"

namespace freight::data {

namespace {
// u8 images to (N, C, H, W), floats to f32.
Array samples_of(const Array& a, const std::string& file) {
  const Shape& s = a.shape();
  if (s.rank() < 2) fail(ErrorKind::data, file, "samples need rank 2 or more: got ", a.dtype(), s);
  if (a.dtype() != DType::u8) return a.cast(DType::f32);
  if (s.rank() == 3) return a.reshaped({s[0], 1, s[1], s[2]});
  const auto colour = [](int64_t c) { return c == 1 || c == 3; };
  if (s.rank() != 4 || colour(s[1]) || !colour(s[3])) return a;
  Array out(DType::u8, {s[0], s[3], s[1], s[2]});
  const int64_t plane = s[1] * s[2], channels = s[3];
  const uint8_t* src = a.data<uint8_t>();
  auto* dst = out.data<uint8_t>();
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t i = 0; i < plane; ++i) {
      for (int64_t c = 0; c < channels; ++c) dst[(n * channels + c) * plane + i] = *src++;
    }
  }
  return out;
}

Array targets_of(const Array& a, const std::string& file) {
  if (is_floating(a.dtype())) return a.cast(DType::f32);
  const Shape& s = a.shape();
  if (s.rank() == 2 && s[1] == 1) return a.reshaped({s[0]}).cast(DType::i64);  // a column, as Keras stores them
  if (s.rank() != 1) fail(ErrorKind::data, file, "integer labels need shape (N): got ", s);
  return a.cast(DType::i64);
}

const Array* find(const io::NamedArrays& arrays, std::initializer_list<const char*> names) {
  for (const char* n : names) {
    if (const auto it = arrays.find(n); it != arrays.end()) return &it->second;
  }
  return nullptr;
}
}  // namespace

bool is_array_source(const std::string& path) {
  return ends_with(path, ".npz") || io::file_exists(path + "/x_train.npy");
}

TrainTest sets_of_arrays(const io::NamedArrays& arrays, const std::string& where, const std::string& name) {
  const Array* x = find(arrays, {"x_train", "x"});
  const Array* y = find(arrays, {"y_train", "y"});
  const Array* x_test = find(arrays, {"x_test"});
  const Array* y_test = find(arrays, {"y_test"});
  if (!x || !y) fail(ErrorKind::data, where, "no arrays x_train and y_train (or x and y)");
  if (!x_test != !y_test) fail(ErrorKind::data, where, "x_test and y_test must come together");
  TrainTest out;
  out.train.name = out.test.name = name;
  out.train.split = "train";
  out.test.split = "test";
  const std::string x_name = where + "[x_train]", y_name = where + "[y_train]";
  out.train.images = samples_of(*x, x_name);
  out.train.labels = targets_of(*y, y_name);
  if (out.train.classification()) {
    const auto n = out.train.labels.numel();
    const int64_t* labels = out.train.labels.data<int64_t>();
    const int64_t top = n > 0 ? *std::max_element(labels, labels + n) : 0;
    constexpr int64_t kMaxClasses = 1 << 20;
    if (top >= kMaxClasses) fail(ErrorKind::data, y_name, "label ", top, " is absurd: classes are counted from 0");
    out.train.classes = numbered_classes(std::max<int64_t>(top, 0) + 1);
  }
  out.train.validate(x_name, y_name);
  if (!x_test) {
    const int64_t n = out.train.count(), held_out = std::max<int64_t>(1, n / 10);
    if (n < 2) fail(ErrorKind::data, where, "one sample is too few to hold a test split out");
    out.test = out.train.slice(n - held_out, held_out);
    out.test.split = "test";
    out.train = out.train.slice(0, n - held_out);
  } else {
    out.test.images = samples_of(*x_test, where + "[x_test]");
    out.test.labels = targets_of(*y_test, where + "[y_test]");
    out.test.classes = out.train.classes;
    out.test.validate(where + "[x_test]", where + "[y_test]");
    if (out.test.sample_shape() != out.train.sample_shape() || out.test.images.dtype() != out.train.images.dtype()) {
      fail(ErrorKind::data, where, "x_train and x_test differ: ", out.train.images.dtype(), out.train.sample_shape(),
           " and ", out.test.images.dtype(), out.test.sample_shape(), " per sample");
    }
  }
  // Floats are taken as they are: whoever stored floats has scaled them.
  if (out.train.images.dtype() == DType::u8) {
    out.train.compute_statistics();
    out.test.mean = out.train.mean;
    out.test.std = out.train.std;
  }
  return out;
}

TrainTest load_array_source(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  if (ends_with(path, ".npz")) return sets_of_arrays(io::load_npz(path), path, name);
  io::NamedArrays arrays;
  for (const char* key : {"x_train", "y_train", "x_test", "y_test"}) {
    const std::string file = cat(path, "/", key, ".npy");
    if (io::file_exists(file)) arrays[key] = io::load_npy(file);
  }
  return sets_of_arrays(arrays, path, name);
}

}  // namespace freight::data
