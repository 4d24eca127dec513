// See cifar.h.
#include "freight/data/cifar.h"

#include <cstring>
#include <vector>

#include "freight/base/error.h"

namespace freight::data {

namespace {
constexpr size_t kPixels = 3 * 32 * 32;

size_t label_bytes(CifarKind kind) { return kind == CifarKind::cifar10 ? 1 : 2; }

std::vector<std::string> files_of(CifarKind kind, const char* split) {
  if (kind == CifarKind::cifar100) return {cat(split, ".bin")};
  if (std::string_view(split) == "test") return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

std::vector<std::string> class_names(const std::string& dir, CifarKind kind) {
  const int64_t n = kind == CifarKind::cifar10 ? 10 : 100;
  const std::string path = dir + (kind == CifarKind::cifar10 ? "/batches.meta.txt" : "/fine_label_names.txt");
  if (!io::file_exists(path)) {
    if (kind == CifarKind::cifar100) return numbered_classes(n);
    return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  }
  const io::Bytes bytes = io::read_file(path);
  std::vector<std::string> names;
  for (std::string line : split(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), '\n')) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(std::move(line));
  }
  if (static_cast<int64_t>(names.size()) != n)
    fail(ErrorKind::data, path, "expected ", n, ", got ", names.size(), " class names");
  return names;
}

Dataset load_split(const std::string& dir, const std::string& name, CifarKind kind, const char* split_name) {
  const size_t labels = label_bytes(kind), record = labels + kPixels;
  std::vector<io::Bytes> contents;
  std::vector<std::string> paths;
  int64_t n = 0;
  for (const std::string& file : files_of(kind, split_name)) {
    paths.push_back(cat(dir, "/", file));
    contents.push_back(io::read_file(paths.back()));
    n += cifar_records(contents.back().size(), kind, paths.back());
  }
  Dataset set;
  set.name = name;
  set.split = split_name;
  set.classes = class_names(dir, kind);
  set.images = Array(DType::u8, {n, 3, 32, 32});
  set.labels = Array(DType::i64, {n});
  auto* pixels = set.images.data<uint8_t>();
  auto* label = set.labels.data<int64_t>();
  for (size_t f = 0; f < contents.size(); ++f) {
    const int64_t records = cifar_records(contents[f].size(), kind, paths[f]);
    for (int64_t i = 0; i < records; ++i, pixels += kPixels) {
      const uint8_t* src = contents[f].data() + static_cast<size_t>(i) * record;
      const int64_t y = src[labels - 1];  // CIFAR-100: the fine label is the second
      if (y >= set.class_count()) {
        fail(ErrorKind::data, paths[f], "label out of range: record ", i, " has ", y, ", expected 0 to ",
             set.class_count() - 1);
      }
      *label++ = y;
      std::memcpy(pixels, src + labels, kPixels);
    }
  }
  set.validate(dir, dir);
  return set;
}
}  // namespace

int64_t cifar_records(size_t bytes, CifarKind kind, const std::string& file) {
  const size_t record = label_bytes(kind) + kPixels;
  if (bytes == 0 || bytes % record != 0) {
    fail(ErrorKind::data, file, "truncated, or not a CIFAR file: ", bytes, " bytes, expected a multiple of ", record);
  }
  return static_cast<int64_t>(bytes / record);
}

bool is_cifar_dir(const std::string& dir, CifarKind& kind) {
  if (io::file_exists(dir + "/data_batch_1.bin")) {
    kind = CifarKind::cifar10;
    return true;
  }
  kind = CifarKind::cifar100;
  return io::file_exists(dir + "/train.bin") && io::file_exists(dir + "/test.bin");
}

TrainTest load_cifar_dir(const std::string& dir, const std::string& name, CifarKind kind) {
  TrainTest out{load_split(dir, name, kind, "train"), load_split(dir, name, kind, "test")};
  out.train.compute_statistics();
  return out;
}

}  // namespace freight::data
