// See ubjson_check.h. Lengths and numbers are big-endian.
#include "freight/tables/ubjson_check.h"

#include <set>
#include <string_view>

#include "freight/base/printable.h"
#include "freight/base/strings.h"

namespace freight::tables {

namespace {

// The bytes of a number of that type; 0 if the letter is not a type of numbers.
size_t size_of_number(uint8_t type) {
  switch (type) {
    case 'i':
    case 'U': return 1;
    case 'I': return 2;
    case 'l':
    case 'd': return 4;
    case 'L':
    case 'D': return 8;
    default: return 0;
  }
}

class UbjsonReader {
 public:
  explicit UbjsonReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  std::string fault() {
    if (value(0) && at_ < bytes_.size()) wrong("bytes after the end");
    return fault_;
  }

 private:
  bool wrong(const std::string& what) {
    if (fault_.empty()) fault_ = cat(what, " at byte ", at_);
    return false;
  }
  bool take(uint64_t count) {
    if (count > bytes_.size() - at_) return wrong(cat(count, " bytes should follow, but ", bytes_.size() - at_, " do"));
    at_ += static_cast<size_t>(count);
    return true;
  }
  uint8_t next() { return at_ < bytes_.size() ? bytes_[at_] : 0; }

  bool length(uint64_t& count) {
    const uint8_t type = next();
    const size_t size = type == 'd' || type == 'D' ? 0 : size_of_number(type);
    if (size == 0) return wrong("expected a length");
    ++at_;
    const size_t begin = at_;
    if (!take(size)) return false;
    if (type != 'U' && (bytes_[begin] & 0x80) != 0) return wrong("a length below 0");
    count = 0;
    for (size_t i = begin; i < at_; ++i) count = count << 8 | bytes_[i];
    return true;
  }

  bool text(std::string_view& out) {
    uint64_t count = 0;
    if (!length(count)) return false;
    const size_t begin = at_;
    if (!take(count)) return false;
    out = {reinterpret_cast<const char*>(bytes_.data()) + begin, static_cast<size_t>(count)};
    return true;
  }

  bool value(int depth) {
    const uint8_t type = next();
    if (!take(1)) return false;
    std::string_view ignored;
    if (type == 'Z' || type == 'T' || type == 'F') return true;
    if (type == 'S') return text(ignored);
    if (type != '[' && type != '{') {
      const size_t size = size_of_number(type);
      return size > 0 ? take(size) : wrong("no value of UBJSON");
    }
    if (depth == kMostUbjsonDepth) return wrong(cat("more than ", kMostUbjsonDepth, " lists within each other"));
    return type == '[' ? list(depth + 1) : object(depth + 1);
  }

  bool list(int depth) {
    if (next() == '$') return typed_list();
    if (next() == '#') {
      ++at_;
      uint64_t count = 0;
      if (!length(count)) return false;
      for (; count > 0; --count) {  // each element takes at least a byte
        if (!value(depth)) return false;
      }
      return true;
    }
    while (next() != ']') {
      if (!value(depth)) return false;
    }
    return take(1);
  }

  // Accepts typed lists of numbers only: lists of null would take memory without using bytes.
  bool typed_list() {
    ++at_;
    const size_t size = size_of_number(next());
    if (size == 0) return wrong("a list of one type that has no numbers");
    ++at_;
    if (next() != '#') return wrong("a list of one type without a length");
    ++at_;
    uint64_t count = 0;
    if (!length(count)) return false;
    if (count > bytes_.size()) return take(count);
    return take(count * size);
  }

  bool object(int depth) {
    std::set<std::string_view> keys;
    while (next() != '}') {
      std::string_view key;
      if (!text(key)) return false;
      if (!keys.insert(key).second) return wrong(cat("the key ", excerpt(key), " appears twice"));
      if (!value(depth)) return false;
    }
    return take(1);
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  std::string fault_;
};

}  // namespace

std::string ubjson_fault(std::span<const uint8_t> bytes) { return UbjsonReader(bytes).fault(); }

}  // namespace freight::tables
