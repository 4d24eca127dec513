// See idx.h.
#include "freight/data/idx.h"

#include <cstring>
#include <future>
#include <memory>

#include "freight/base/error.h"

namespace freight::data {

namespace {
uint32_t be32(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

struct Header {
  Shape shape;
  size_t size = 0;  // bytes before the elements
};

// The file may have more bytes, or fewer, than its shape says.
Header read_header(io::ByteView bytes, const std::string& name) {
  if (bytes.size() < 4) fail(ErrorKind::data, name, "truncated IDX file: ", bytes.size(), " bytes");
  if (bytes[0] != 0 || bytes[1] != 0) fail(ErrorKind::data, name, "not an IDX file: wrong magic number");
  if (bytes[2] != 0x08) {
    fail(ErrorKind::data, name, "IDX element type ", static_cast<int>(bytes[2]), " is not supported, expected 8 (u8)");
  }
  const int rank = bytes[3];
  if (rank < 1 || rank > Shape::kMaxRank) fail(ErrorKind::data, name, "bad IDX header: ", rank, " axes");
  Header h;
  h.size = 4 + 4 * static_cast<size_t>(rank);
  if (bytes.size() < h.size) fail(ErrorKind::data, name, "truncated IDX file: ", bytes.size(), " bytes");
  for (int i = 0; i < rank; ++i) h.shape.push_back(be32(bytes.data() + 4 + 4 * i));
  return h;
}

Header check_header(io::ByteView bytes, const std::string& name) {
  Header h = read_header(bytes, name);
  uint64_t need = 1;
  for (const int64_t of_axis : h.shape) {
    const auto extent = static_cast<uint64_t>(of_axis);
    // Saturates: whatever is larger than the file is wrong.
    need = extent != 0 && need > (uint64_t{1} << 40) / extent ? uint64_t{1} << 40 : need * extent;
  }
  const uint64_t got = bytes.size() - h.size;
  if (got != need) {
    fail(ErrorKind::data, name, got < need ? "truncated IDX file" : "bytes after the IDX data", ": shape ", h.shape,
         " needs ", need, " bytes, got ", got);
  }
  return h;
}

Dataset load_split(const std::string& dir, const std::string& stem, const char* split, const std::string& name,
                   const std::vector<std::string>& classes) {
  Dataset set;
  set.name = name;
  set.split = split;
  const std::string images_file = find_idx(dir, stem + "-images", 3), labels_file = find_idx(dir, stem + "-labels", 1);
  const Array images = load_idx(images_file), labels = load_idx(labels_file);
  const Shape& s = images.shape();
  if (s.rank() != 3) fail(ErrorKind::data, images_file, "images need 3 axes, got shape ", s);
  if (labels.shape().rank() != 1) fail(ErrorKind::data, labels_file, "labels need 1 axis, got shape ", labels.shape());
  set.images = images.reshaped({s[0], 1, s[1], s[2]});
  set.labels = labels.cast(DType::i64);
  set.classes = classes;
  set.validate(images_file, labels_file);
  return set;
}
}  // namespace

Shape idx_shape(io::ByteView first, const std::string& name) { return read_header(first, name).shape; }

Array parse_idx(io::ByteView bytes, const std::string& name) {
  const Header h = check_header(bytes, name);
  Array a(DType::u8, h.shape);
  if (a.bytes() > 0) std::memcpy(a.raw(), bytes.data() + h.size, a.bytes());
  return a;
}

Array load_idx(const std::string& path) {
  auto bytes = std::make_shared<io::Bytes>(io::read_file_gunzip(path));
  const Header h = check_header(*bytes, path);
  uint8_t* first = bytes->data() + h.size;
  const size_t size = bytes->size() - h.size;
  return {DType::u8, h.shape, Storage::borrow(first, size, std::move(bytes))};
}

std::string find_idx(const std::string& dir, const std::string& stem, int axes) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      std::string path = cat(dir, "/", stem, separator, "idx", axes, "-ubyte", suffix);
      if (io::file_exists(path)) return path;
    }
  }
  return "";
}

bool is_idx_dir(const std::string& dir) { return !find_idx(dir, "train-images", 3).empty(); }

TrainTest load_idx_dir(const std::string& dir, const std::string& name, const std::vector<std::string>& classes) {
  for (const char* stem : {"train-images", "train-labels", "t10k-images", "t10k-labels"}) {
    const int axes = ends_with(stem, "images") ? 3 : 1;
    if (find_idx(dir, stem, axes).empty()) {
      fail(ErrorKind::data, dir, "no file ", stem, "-idx", axes, "-ubyte (or .gz, or with '.' before idx)");
    }
  }
  auto test = std::async(std::launch::async, [&] { return load_split(dir, "t10k", "test", name, classes); });
  Dataset train = load_split(dir, "train", "train", name, classes);
  TrainTest out{std::move(train), test.get()};
  if (out.train.sample_shape() != out.test.sample_shape()) {
    fail(ErrorKind::data, dir, "train and test images differ in shape: ", out.train.sample_shape(), " and ",
         out.test.sample_shape());
  }
  out.train.compute_statistics();
  return out;
}

}  // namespace freight::data
