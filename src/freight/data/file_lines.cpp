// See file_lines_internal.h.
#include <algorithm>
#include <string_view>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/data/file_lines_internal.h"
#include "freight/data/unicode.h"

namespace freight::data {

namespace {
constexpr size_t kPieceOfLines = size_t{1} << 20;
}

FileLines::FileLines(std::unique_ptr<io::ByteStream> stream, std::string name, size_t longest)
    : stream_(std::move(stream)), name_(std::move(name)), longest_(longest), piece_(kPieceOfLines) {}

bool FileLines::next(std::string& line) {
  line.clear();
  bool any = false;
  for (;;) {
    if (at_ == end_) {
      end_ = stream_->read(piece_.data(), piece_.size());
      at_ = 0;
      taken_ += end_;
      if (end_ == 0) break;
    }
    any = true;
    const std::string_view rest(reinterpret_cast<const char*>(piece_.data()) + at_, end_ - at_);
    const size_t stop = std::min(rest.find('\n'), rest.size());
    if (line.size() + stop > longest_) {
      fail(ErrorKind::data, cat(name_, ":", number_ + 1), "the line is longer than ",
           human_bytes(static_cast<double>(longest_)));
    }
    line.append(rest.substr(0, stop));
    at_ += stop;
    if (stop == rest.size()) continue;
    ++at_;
    break;
  }
  number_ += any ? 1 : 0;
  if (number_ == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  return any;
}

bool FileLines::next_text(std::string& line) {
  while (next(line)) {
    if (!trimmed(line).empty()) return true;
  }
  return false;
}

void FileLines::rewind() {
  stream_->rewind();
  at_ = end_ = 0;
  taken_ = 0;
  number_ = 0;
}

std::string FileLines::place() const { return cat(name_, ":", number_); }

}  // namespace freight::data
