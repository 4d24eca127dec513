// See arrays.h.
#include "freight/data/arrays.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "freight/base/error.h"

namespace freight::data {

namespace {
const Array* find(const io::NamedArrays& arrays, std::initializer_list<const char*> names) {
  for (const char* n : names) {
    if (const auto it = arrays.find(n); it != arrays.end()) return &it->second;
  }
  return nullptr;
}
}  // namespace

Array targets_of(const Array& a, const std::string& file) {
  if (is_floating(a.dtype())) return a.cast(DType::f32);
  const Shape& s = a.shape();
  if (s.rank() == 2 && s[1] == 1) return a.reshaped({s[0]}).cast(DType::i64);  // a column, as Keras stores them
  if (s.rank() != 1) fail(ErrorKind::data, file, "integer labels need shape (N), got ", s);
  return a.cast(DType::i64);
}

bool is_array_source(const std::string& path) {
  return ends_with(path, ".npz") || io::file_exists(path + "/x_train.npy");
}

TrainTest sets_of_arrays(const io::NamedArrays& given, const std::string& where, const std::string& name,
                         const ArrayOptions& options) {
  io::NamedArrays arrays;
  for (const auto& [key, array] : given) arrays[key] = io::computable(array, cat(where, "[", key, "]"));
  const Array* x = find(arrays, {"x_train", "x"});
  const Array* y = find(arrays, {"y_train", "y"});
  const Array* x_test = find(arrays, {"x_test"});
  const Array* y_test = find(arrays, {"y_test"});
  if (!x || !y) fail(ErrorKind::data, where, "no arrays x_train and y_train (or x and y)");
  if (!x_test != !y_test) fail(ErrorKind::data, where, "x_test and y_test are only valid together");
  TrainTest out;
  out.train.name = out.test.name = name;
  out.train.split = "train";
  out.test.split = "test";
  const std::string x_name = where + "[x_train]", y_name = where + "[y_train]";
  const ArrayMeaning meaning = options.recorded.values != Values::unstated || options.early
                                   ? options.recorded
                                   : decide_meaning(*x, options.asked, x_name);
  out.train.meaning = out.test.meaning = meaning;
  out.train.images = read_samples(*x, meaning, options.asked, x_name);
  out.train.labels = targets_of(*y, y_name);
  if (out.train.classification()) {
    const auto n = out.train.labels.numel();
    const int64_t* labels = out.train.labels.data<int64_t>();
    const int64_t top = n > 0 ? *std::max_element(labels, labels + n) : 0;
    constexpr int64_t kMaxClasses = 1 << 20;
    if (top >= kMaxClasses)
      fail(ErrorKind::data, y_name, "label ", top, " is out of range: expected class numbers from 0");
    out.train.classes = numbered_classes(std::max<int64_t>(top, 0) + 1);
  }
  out.train.validate(x_name, y_name);
  out.train.undivided = out.test.undivided = !x_test;
  if (!x_test && options.undivided == Undivided::whole) {
    out.test = out.train;
    out.test.split = "test";
  } else if (!x_test) {
    const int64_t n = out.train.count(), held_out = std::max<int64_t>(1, n / 10);
    if (n < 2) fail(ErrorKind::data, where, "one sample is too few for a validation split");
    out.test = out.train.slice(n - held_out, held_out);
    out.test.split = "test";
    out.test.note = cat("the last tenth of ", where, " for validation");
    out.test.validation = true;
    out.train = out.train.slice(0, n - held_out);
  } else {
    out.test.images = read_samples(*x_test, meaning, options.asked, where + "[x_test]");
    out.test.labels = targets_of(*y_test, where + "[y_test]");
    out.test.classes = out.train.classes;
    if (const std::string odd = range_warning(out.test.images, meaning); !odd.empty()) {
      out.test.note = cat(where, "[x_test] contains ", odd);
    }
    out.test.validate(where + "[x_test]", where + "[y_test]");
    if (out.test.sample_shape() != out.train.sample_shape() || out.test.images.dtype() != out.train.images.dtype()) {
      fail(ErrorKind::data, where, "x_train and x_test differ: ", out.train.images.dtype(), out.train.sample_shape(),
           " and ", out.test.images.dtype(), out.test.sample_shape(), " per sample");
    }
  }
  // Floats are taken as they are, unless their range was asked for: whoever stored floats has scaled them.
  const bool raw = meaning.values == Values::scaled && meaning.range != ValueRange{0, 1};
  if (out.train.images.dtype() == DType::u8 || raw) {
    out.train.compute_statistics();
    out.test.mean = out.train.mean;
    out.test.std = out.train.std;
  }
  return out;
}

TrainTest load_array_source(const std::string& path, const ArrayOptions& options) {
  const std::string name = std::filesystem::path(path).stem().string();
  static const std::vector<std::string> kKeys = {"x_train", "y_train", "x_test", "y_test", "x", "y"};
  if (ends_with(path, ".npz")) {
    const io::Bytes bytes = io::read_file(path);
    std::vector<std::string> others = io::npz_keys(bytes, path);
    std::erase_if(others, [](const auto& key) { return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end(); });
    TrainTest sets = sets_of_arrays(io::parse_npz(bytes, path, kKeys), path, name, options);
    if (!others.empty()) sets.train.note = cat("arrays of ", path, " that are not read: ", join(others, ", "));
    return sets;
  }
  io::NamedArrays arrays;
  for (const std::string& key : kKeys) {
    const std::string file = cat(path, "/", key, ".npy");
    if (io::file_exists(file)) arrays[key] = io::load_npy(file);
  }
  return sets_of_arrays(arrays, path, name, options);
}

}  // namespace freight::data
