// See byte_stream.h.
#include "freight/io/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "freight/base/error.h"
#include "freight/io/memory_need.h"
#include "freight/io/stop_internal.h"

namespace freight::io {

struct ByteStream::Source {
  virtual ~Source() = default;
  virtual size_t read(uint8_t* to, size_t size) = 0;
  virtual void rewind() = 0;
  virtual uint64_t size() const { return 0; }
};

namespace {

using Source = ByteStream::Source;

class HeldBytes : public Source {
 public:
  explicit HeldBytes(ByteView bytes) : bytes_(bytes) {}
  explicit HeldBytes(Bytes bytes) : own_(std::move(bytes)), bytes_(own_.view()) {}
  size_t read(uint8_t* to, size_t size) override {
    const size_t count = std::min(size, bytes_.size() - at_);
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
    return count;
  }
  void rewind() override { at_ = 0; }
  uint64_t size() const override { return bytes_.size(); }

 private:
  Bytes own_;
  ByteView bytes_;
  size_t at_ = 0;
};

class RegularFile : public Source {
 public:
  RegularFile(const std::string& path, int fd, uint64_t size) : path_(path), fd_(fd), size_(size) {}
  ~RegularFile() override { ::close(fd_); }
  size_t read(uint8_t* to, size_t size) override {
    size = static_cast<size_t>(std::min<uint64_t>(size, size_ - at_));
    size_t done = 0;
    while (done < size) {
      const ssize_t n = ::pread(fd_, to + done, size - done, static_cast<off_t>(at_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(ErrorKind::data, path_, "cannot read: ", std::strerror(errno));
      if (n == 0) fail(ErrorKind::data, path_, "became shorter while it was read");
      done += static_cast<size_t>(n);
    }
    at_ += done;
    return done;
  }
  void rewind() override { at_ = 0; }
  uint64_t size() const override { return size_; }

 private:
  std::string path_;
  int fd_;
  uint64_t size_, at_ = 0;
};

// By zlib, which unpacks piece by piece; libdeflate, twice as fast, takes whole buffers alone.
class GzipFile : public Source {
 public:
  GzipFile(const std::string& path, std::unique_ptr<Source> packed)
      : path_(path), packed_(std::move(packed)), piece_(size_t{64} << 10) {
    begin();
  }
  ~GzipFile() override { inflateEnd(&z_); }
  size_t read(uint8_t* to, size_t size) override {
    size_t done = 0;
    while (done < size && !ended_) {
      if (z_.avail_in == 0) refill();
      const size_t most = std::min<size_t>(size - done, size_t{1} << 30);
      z_.next_out = to + done;
      z_.avail_out = static_cast<uInt>(most);
      const int state = inflate(&z_, Z_NO_FLUSH);
      done += most - z_.avail_out;
      made_ += most - z_.avail_out;
      if (made_ > most_unpacked(taken_)) unpacks_to_more(path_, taken_);
      if (state == Z_STREAM_END) {
        next_member();
      } else if (state != Z_OK) {
        fail(ErrorKind::data, path_, "the gzip data are ", state == Z_BUF_ERROR ? "cut off" : "damaged",
             z_.msg ? cat(": ", z_.msg) : std::string());
      }
    }
    return done;
  }
  void rewind() override {
    inflateEnd(&z_);
    packed_->rewind();
    begin();
  }

 private:
  void begin() {
    z_ = {};
    ended_ = false;
    taken_ = made_ = 0;
    constexpr int kGzip = 16 + MAX_WBITS;
    if (inflateInit2(&z_, kGzip) != Z_OK) fail(ErrorKind::runtime, path_, "cannot unpack: zlib has no memory");
  }
  void refill() {
    z_.next_in = piece_.data();
    z_.avail_in = static_cast<uInt>(packed_->read(piece_.data(), piece_.size()));
    taken_ += z_.avail_in;
  }
  // A gzip file may be several behind each other; zeros behind the last one pad it.
  void next_member() {
    for (;;) {
      if (z_.avail_in == 0) refill();
      if (z_.avail_in == 0) {
        ended_ = true;
        return;
      }
      if (*z_.next_in != 0) break;
      ++z_.next_in;
      --z_.avail_in;
    }
    const auto in = z_.next_in;
    const auto left = z_.avail_in;
    inflateReset(&z_);
    z_.next_in = in;
    z_.avail_in = left;
  }

  std::string path_;
  std::unique_ptr<Source> packed_;
  Bytes piece_;
  z_stream z_{};
  uint64_t taken_ = 0, made_ = 0;  // bytes of the file, and what they became
  bool ended_ = false;
};

std::unique_ptr<Source> open_source(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
  struct stat st {};
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    ::close(fd);
    return std::make_unique<HeldBytes>(read_file_gunzip(path));
  }
  auto file = std::make_unique<RegularFile>(path, fd, static_cast<uint64_t>(st.st_size));
  uint8_t first[2] = {};
  const bool packed = is_gzip({first, file->read(first, 2)});
  file->rewind();
  if (packed) return std::make_unique<GzipFile>(path, std::move(file));
  return file;
}

// UTF-8 of UTF-16 behind its byte order mark.
class Utf16 : public Source {
 public:
  Utf16(std::string path, std::unique_ptr<Source> wide, bool big_endian)
      : path_(std::move(path)), wide_(std::move(wide)), big_(big_endian), piece_(size_t{64} << 10) {
    begin();
  }
  size_t read(uint8_t* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      if (at_ == ready_.size() && !refill()) break;
      const size_t count = std::min(size - done, ready_.size() - at_);
      std::memcpy(to + done, ready_.data() + at_, count);
      at_ += count;
      done += count;
    }
    return done;
  }
  void rewind() override {
    wide_->rewind();
    begin();
  }

 private:
  void begin() {
    constexpr size_t kMark = 2;
    uint8_t mark[kMark];
    wide_->read(mark, kMark);
    units_ = kMark / 2;
    high_ = 0;
    ready_.clear();
    at_ = 0;
  }
  [[noreturn]] void damaged(const char* what) const {
    fail(ErrorKind::data, path_, "its UTF-16 is damaged: ", what, " at byte ", 2 * units_);
  }
  // The next units; false at the end.
  bool refill() {
    ready_.clear();
    at_ = 0;
    const size_t got = wide_->read(piece_.data(), piece_.size());
    for (size_t i = 0; i + 1 < got; i += 2)
      add(static_cast<uint32_t>(piece_[i + (big_ ? 0 : 1)]) << 8 | piece_[i + (big_ ? 1 : 0)]);
    if (got % 2 == 1) damaged("half a character is");
    if (got == 0 && high_ != 0) damaged("half a surrogate pair is");
    return got > 0;
  }
  void add(uint32_t unit) {
    constexpr uint32_t kHigh = 0xd800, kLow = 0xdc00, kEnd = 0xe000, kPairs = 0x10000;
    const bool high = unit >= kHigh && unit < kLow, low = unit >= kLow && unit < kEnd;
    if (low != (high_ != 0)) damaged("half a surrogate pair is");
    if (high) {
      high_ = unit;
    } else {
      append(low ? kPairs + ((high_ - kHigh) << 10) + (unit - kLow) : unit);
      high_ = 0;
    }
    ++units_;
  }
  void append(uint32_t character) {
    const auto byte = [&](uint32_t v) { ready_.push_back(static_cast<uint8_t>(v)); };
    const auto last = [&](int shift) { byte(0x80 | ((character >> shift) & 0x3f)); };
    if (character < 0x80) return byte(character);
    if (character < 0x800) {
      byte(0xc0 | character >> 6);
    } else {
      if (character < 0x10000) {
        byte(0xe0 | character >> 12);
      } else {
        byte(0xf0 | character >> 18);
        last(12);
      }
      last(6);
    }
    last(0);
  }

  std::string path_;
  std::unique_ptr<Source> wide_;
  bool big_;
  std::vector<uint8_t> piece_, ready_;
  size_t at_ = 0;
  uint64_t units_ = 0;  // before the next one
  uint32_t high_ = 0;   // the first half of a pair whose second one is to come
};

}  // namespace

ByteStream::ByteStream(const std::string& path) : source_(open_source(path)), path_(path) {}
ByteStream::ByteStream(ByteView bytes) : source_(std::make_unique<HeldBytes>(bytes)) {}
ByteStream::~ByteStream() = default;
size_t ByteStream::read(uint8_t* to, size_t size) {
  if (!path_.empty()) end_reading_where_asked(path_);  // a packed file of 10 MB may hold 10 GB
  return source_->read(to, size);
}
void ByteStream::rewind() { source_->rewind(); }
void ByteStream::to_utf8() {
  uint8_t first[4] = {};
  const size_t got = source_->read(first, sizeof first);
  source_->rewind();
  const bool little = got >= 2 && first[0] == 0xff && first[1] == 0xfe,
             big = got >= 2 && first[0] == 0xfe && first[1] == 0xff;
  const bool utf32 = little && got == 4 && first[2] == 0 && first[3] == 0;
  if ((little || big) && !utf32)
    source_ = std::make_unique<Utf16>(path_.empty() ? "UTF-16" : path_, std::move(source_), big);
}
uint64_t ByteStream::size() const { return source_->size(); }

Bytes unpack_by_pieces(ByteView bytes, const std::string& name) {
  GzipFile file(name, std::make_unique<HeldBytes>(bytes));
  Bytes out;
  size_t done = 0;
  for (size_t n = 1; n > 0; done += n) {
    if (done == out.size()) {
      const size_t size = std::max<size_t>(2 * out.size(), size_t{1} << 20);
      need_memory(static_cast<double>(size), name, "its bytes, unpacked,");
      Bytes larger = reading(name, [&] { return Bytes(size); });
      if (done > 0) std::memcpy(larger.data(), out.data(), done);
      out = std::move(larger);
    }
    end_reading_where_asked(name);
    n = file.read(out.data() + done, std::min(out.size() - done, size_t{16} << 20));
  }
  out.shrink(done);
  return out;
}

}  // namespace freight::io
