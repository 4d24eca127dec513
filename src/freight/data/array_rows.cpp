// Rows of an .npz archive whose arrays are columns: one of N numbers is a column of its name, one of (N, K) is K
// columns, NAME.0, NAME.1, ... It is read whole: a zip archive has no beginning and end of its own at which one could
// go on.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/table_rows_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"

namespace freight::data {

namespace {

constexpr size_t kLongestNumber = 32;  // of a double or a 64-bit integer as text

struct ArrayColumn {
  std::string name;
  Array values;  // f64, i64 or boolean, (N) or (N, K)
  int64_t first = 0, stride = 1;
};

io::Bytes all_of(io::ByteStream& stream) {
  constexpr size_t kAtFirst = size_t{1} << 20;
  io::Bytes all(std::max<size_t>(static_cast<size_t>(stream.size()) + 1, kAtFirst));
  size_t size = 0;
  while (const size_t got = stream.read(all.data() + size, all.size() - size)) {
    size += got;
    if (size < all.size()) continue;
    io::Bytes larger(2 * size);
    std::memcpy(larger.data(), all.data(), size);
    all = std::move(larger);
  }
  io::Bytes exact(size);
  if (size > 0) std::memcpy(exact.data(), all.data(), size);
  return exact;
}

class ArrayRows : public FileRows {
 public:
  ArrayRows(std::unique_ptr<io::ByteStream> stream, std::string name) : name_(std::move(name)) {
    const io::Bytes bytes = all_of(*stream);
    const io::NamedArrays arrays = io::parse_npz(bytes, name_);
    for (const std::string& key : io::npz_keys(bytes, name_)) add_array(key, arrays.at(key));
    if (columns_.empty()) fail(ErrorKind::data, name_, "contains no arrays");
    std::set<std::string> names;
    for (const ArrayColumn& c : columns_) {
      if (names.insert(c.name).second) continue;
      fail(ErrorKind::data, name_, "two columns are named ", excerpt(c.name), ": expected different names of arrays");
    }
    text_.assign(columns_.size() * (kLongestNumber + kReadableBehind), '\0');
    cells_.resize(columns_.size());
  }

  bool next(std::span<const std::string_view>& cells, int64_t& line) override {
    if (row_ == rows_) return false;
    for (size_t k = 0; k < columns_.size(); ++k) {
      char* const begin = text_.data() + k * (kLongestNumber + kReadableBehind);
      char* const end = write_cell(columns_[k], begin);
      std::fill_n(end, kReadableBehind, '\0');
      cells_[k] = {begin, static_cast<size_t>(end - begin)};
    }
    cells = cells_;
    line = ++row_;
    return true;
  }
  void rewind() override { row_ = 0; }
  bool typed() const override { return true; }
  std::vector<std::string> own_names() const override {
    std::vector<std::string> names;
    for (const ArrayColumn& c : columns_) names.push_back(c.name);
    return names;
  }

 private:
  void add_array(const std::string& key, const Array& array) {
    const std::string where = cat(name_, "[", key, "]");
    const Shape& shape = array.shape();
    if (key.empty()) fail(ErrorKind::data, where, "has no name: it is that of a column");
    if (shape.rank() != 1 && (shape.rank() != 2 || shape[1] == 0)) {
      fail(ErrorKind::data, where, "got shape ", shape, ", a column needs (rows), and several (rows, columns)");
    }
    if (rows_ < 0) {
      rows_ = shape[0];
      first_ = key;
    }
    if (shape[0] != rows_) {
      fail(ErrorKind::data, name_, "the array ", excerpt(key), " has ", shape[0], " rows, ", excerpt(first_), " has ",
           rows_, ": columns of a table need as many");
    }
    if (array.dtype() != DType::boolean) bytes_ += 8 * static_cast<double>(shape.numel());
    io::need_memory(bytes_, name_, "its columns, eight bytes per value,");
    const Array plain = array.dtype() == DType::boolean ? array : io::computable(array, where);
    const Array values = is_floating(plain.dtype())        ? plain.cast(DType::f64)
                         : plain.dtype() == DType::boolean ? plain
                                                           : plain.cast(DType::i64);
    const int64_t width = shape.rank() == 2 ? shape[1] : 1;
    if (columns_.size() + static_cast<size_t>(width) > kMostTableColumns) {
      fail(ErrorKind::data, where, "got ", width, " columns next to ", columns_.size(), ", a table may have ",
           kMostTableColumns);
    }
    for (int64_t k = 0; k < width; ++k) {
      columns_.push_back({width == 1 ? key : cat(key, ".", k), values, k, width});
    }
  }

  char* write_cell(const ArrayColumn& c, char* to) const {
    const int64_t at = c.first + row_ * c.stride;
    char* const end = to + kLongestNumber;
    if (c.values.dtype() == DType::i64) return std::to_chars(to, end, c.values.data<int64_t>()[at]).ptr;
    if (c.values.dtype() == DType::f64) {
      const double v = c.values.data<double>()[at];
      return std::isnan(v) ? to : std::to_chars(to, end, v).ptr;  // NaN is a missing cell
    }
    const std::string_view word = static_cast<const uint8_t*>(c.values.raw())[at] != 0 ? "true" : "false";
    return std::copy(word.begin(), word.end(), to);
  }

  std::string name_, first_;
  std::vector<ArrayColumn> columns_;
  int64_t rows_ = -1, row_ = 0;
  double bytes_ = 0;  // of the columns
  std::string text_;
  std::vector<std::string_view> cells_;
};

}  // namespace

std::unique_ptr<FileRows> array_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name) {
  return std::make_unique<ArrayRows>(std::move(stream), name);
}

}  // namespace freight::data
