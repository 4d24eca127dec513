// See outline.h.
#include "freight/data/outline.h"

#include <algorithm>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/arrays.h"
#include "freight/data/cifar.h"
#include "freight/data/idx.h"
#include "freight/io/byte_stream.h"
#include "freight/io/npy.h"
#include "freight/io/npy_internal.h"

namespace freight::data {

namespace {

constexpr uintmax_t kMostTargets = uintmax_t{32} << 20;  // bytes

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);  // a pipe gives its bytes once
}

// Reads the beginning of a regular file, unpacked where it is gzip.
io::Bytes first_bytes(const std::string& path, size_t most) {
  io::ByteStream stream(path);
  io::Bytes bytes(most);
  bytes.shrink(stream.read(bytes.data(), most));
  return bytes;
}

std::optional<Outline> outline_of_idx(const std::string& path) {
  constexpr size_t kMostHeader = 4 + 4 * Shape::kMaxRank;
  const std::string file = find_idx(path, "train-images", 3);
  if (!is_file(file)) return std::nullopt;
  const Shape s = idx_shape(first_bytes(file, kMostHeader), file);
  if (s.rank() != 3) return std::nullopt;
  return Outline{.sample = {1, s[1], s[2]}, .classes = 10, .target = {}};
}

std::optional<Outline> outline_of_arrays(const std::string& path, const AskedMeaning& asked) {
  const std::string x = path + "/x_train.npy", y = path + "/y_train.npy";
  if (!is_file(x) || !is_file(y) || std::filesystem::file_size(y) > kMostTargets) return std::nullopt;
  const auto [dtype, samples] = io::npy_type(first_bytes(x, 12 + io::kMaxNpyHeader), x);
  const Array targets = targets_of(io::computable(io::load_npy(y), y), y);
  Outline out{.sample = sample_shape(dtype, samples, asked, x), .classes = 0, .target = {}};
  const Shape& t = targets.shape();
  if (t.rank() < 1 || targets.numel() == 0) return std::nullopt;
  out.target = Shape(t.begin() + 1, t.end());
  if (targets.dtype() != DType::i64) return out;
  const auto* const labels = targets.data<int64_t>();
  out.classes = std::max<int64_t>(*std::max_element(labels, labels + targets.numel()), 0) + 1;
  return out;
}

}  // namespace

std::optional<Outline> outline(const std::string& path, const LoadOptions& options) {
  CifarKind kind;
  try {
    if (is_array_source(path)) return outline_of_arrays(path, options.arrays.asked);
    if (is_idx_dir(path)) return outline_of_idx(path);
    if (!is_cifar_dir(path, kind)) return std::nullopt;
    return Outline{.sample = {3, 32, 32}, .classes = kind == CifarKind::cifar10 ? 10 : 100, .target = {}};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace freight::data
