// Files through POSIX calls, gzip of usual sizes through libdeflate (twice zlib's speed on whole buffers). See file.h.
#include "freight/io/file.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/io/byte_stream.h"
#include "freight/io/memory_need.h"
#include "freight/io/stop_internal.h"

namespace freight::io {

namespace {
constexpr int kEnded = -1;                       // in place of an error's number: the file ended
constexpr ssize_t kBlock = ssize_t{8} << 20;     // of one write
constexpr size_t kMostStream = size_t{1} << 30;  // of what tells no size: a pipe may have no end

std::atomic<bool (*)()> g_stop{nullptr};

// Closes a descriptor at the end of a scope.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void read_failed(const std::string& path, int error) {
  fail(ErrorKind::data, path, "cannot read: ", std::strerror(error));
}

// How often a pipe is looked at, and how many looks it may take until somebody opens its other end.
constexpr int kLook = 100;  // ms
constexpr int kMostLooks = 50;

// Says whether a pipe or device has something to give, or its end; looks for a tenth of a second.
bool has_something(int fd, const std::string& path) {
  pollfd ready{fd, POLLIN, 0};
  if (::poll(&ready, 1, kLook) > 0) return true;
  const auto stop = g_stop.load();
  if (stop && stop()) fail(ErrorKind::runtime, path, "stopped while waiting for what is written to this pipe");
  return false;
}

// For so many bytes, on pages of the system's large size where it has them: it would need about as long to make the
// small pages of a large block as libdeflate, or a copy from the page cache, to fill them.
Bytes on_large_pages(size_t size) {
  constexpr size_t kSmallPage = 4096, kLargePage = size_t{2} << 20;
  Bytes bytes(size);
  if (size < 2 * kLargePage) return bytes;
  uint8_t* const page = bytes.data() + kSmallPage - reinterpret_cast<uintptr_t>(bytes.data()) % kSmallPage;
  madvise(page, static_cast<size_t>(bytes.data() + size - page), MADV_HUGEPAGE);  // a hint
  return bytes;
}

struct Decompressor {
  libdeflate_decompressor* handle = libdeflate_alloc_decompressor();
  ~Decompressor() { libdeflate_free_decompressor(handle); }
};

uint32_t le32(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
         static_cast<uint32_t>(p[3]) << 24;
}
}  // namespace

bool file_exists(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0;
}

void stop_reading_when(bool (*asked)()) { g_stop = asked; }

void end_reading_where_asked(const std::string& path) {
  const auto stop = g_stop.load();
  if (stop && stop()) fail(ErrorKind::runtime, path, "stopped while it was read");
}

namespace {
uint64_t state_of(const struct stat& st) {
  uint64_t h = 0;
  for (const int64_t word :
       {static_cast<int64_t>(st.st_dev), static_cast<int64_t>(st.st_ino), static_cast<int64_t>(st.st_size),
        static_cast<int64_t>(st.st_mtim.tv_sec), static_cast<int64_t>(st.st_mtim.tv_nsec),
        static_cast<int64_t>(st.st_ctim.tv_sec), static_cast<int64_t>(st.st_ctim.tv_nsec)}) {
    h = (h ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
  }
  return h | 1;
}

// Reads into `bytes`, which becomes larger where it is too small; returns the file's size.
size_t read_into(const std::string& path, Bytes& bytes, uint64_t& state) {
  // Not blocking: who opens a pipe that nobody writes to would wait where no signal reaches him.
  const Descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0) read_failed(path, errno);
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) read_failed(path, errno);
  if (S_ISDIR(st.st_mode)) read_failed(path, EISDIR);
  // Pipes and devices tell no size: start with a guess and grow.
  const bool regular = S_ISREG(st.st_mode);
  if (regular) need_memory(static_cast<double>(st.st_size), path, "its bytes");
  state = regular ? state_of(st) : 0;
  const size_t expected = regular ? static_cast<size_t>(st.st_size) : 1 << 16;
  if (bytes.size() < expected)
    bytes = reading(path, [&] { return on_large_pages(std::max(expected, 2 * bytes.size())); });
  size_t done = 0;
  // A pipe that gives nothing has ended only if someone had begun to write to it.
  bool wait = !regular, something = true;
  int looks = 0;
  for (;;) {
    if (regular && done == expected) return done;
    if (!regular && done > kMostStream) {
      fail(ErrorKind::data, path, "cannot read: is not a file and returns more than ",
           human_bytes(static_cast<double>(kMostStream)), "; save it as a file, if it has an end");
    }
    if (done == bytes.size()) {
      // A byte more than may come tells whether more does.
      const size_t size = 2 * bytes.size() < kMostStream ? 2 * bytes.size() : kMostStream + 1;
      Bytes larger = reading(path, [&] { return Bytes(size); });
      std::memcpy(larger.data(), bytes.data(), done);
      bytes = std::move(larger);
    }
    if (wait) something = has_something(d.fd, path);
    const ssize_t n = ::read(d.fd, bytes.data() + done, (regular ? expected : bytes.size()) - done);
    const bool later = n < 0 && errno == EAGAIN;
    wait = later || (wait && n == 0);
    if (later || (n < 0 && errno == EINTR)) continue;
    if (n < 0) read_failed(path, errno);
    if (n == 0 && wait && !something) {
      if (++looks == kMostLooks) fail(ErrorKind::data, path, "cannot read: is a pipe without a writer");
      continue;
    }
    if (n == 0) return done;
    done += static_cast<size_t>(n);
  }
}
}  // namespace

Bytes read_file(const std::string& path) {
  Bytes bytes;
  uint64_t ignored = 0;
  bytes.shrink(read_into(path, bytes, ignored));
  return bytes;
}

ByteView read_file(const std::string& path, Bytes& buffer, uint64_t& state) {
  const size_t size = read_into(path, buffer, state);
  return {buffer.data(), size};
}

PartsOfFile::PartsOfFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) read_failed(path_, errno);
  struct stat st {};
  if (::fstat(fd_, &st) == 0 && S_ISREG(st.st_mode)) size_ = static_cast<size_t>(st.st_size);
}

PartsOfFile::~PartsOfFile() {
  if (fd_ >= 0) ::close(fd_);
}

void PartsOfFile::read(const std::vector<Part>& parts) const {
  constexpr size_t kMost = size_t{2} << 20;  // at a time
  std::vector<Part> pieces;
  for (const Part& part : parts) {
    for (size_t at = 0; at < part.bytes; at += kMost) {
      pieces.push_back({part.from + at, part.to + at, std::min(kMost, part.bytes - at)});
    }
  }
  std::atomic<int> error{0};
  parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    Part left = pieces[static_cast<size_t>(i)];
    while (left.bytes > 0 && error == 0) {
      const ssize_t n = ::pread(fd_, left.to, left.bytes, static_cast<off_t>(left.from));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        error = n < 0 ? errno : kEnded;
        return;
      }
      left = {left.from + static_cast<size_t>(n), left.to + n, left.bytes - static_cast<size_t>(n)};
    }
  });
  if (error == kEnded) fail(ErrorKind::data, path_, "cannot read: it became shorter while it was read");
  if (error != 0) read_failed(path_, error);
}

std::string read_text(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ScratchDir::ScratchDir() : path_((std::filesystem::temp_directory_path() / "freight-XXXXXX").string()) {
  if (!mkdtemp(path_.data())) fail(ErrorKind::runtime, path_, "cannot make this directory: ", std::strerror(errno));
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat st {};
  const bool exists = ::stat(path_.c_str(), &st) == 0;
  if (exists && S_ISDIR(st.st_mode)) give_up("cannot write", EISDIR);
  if (exists && !S_ISREG(st.st_mode)) {
    // Not blocking: who opens a pipe that nobody reads from would wait where no signal reaches him.
    for (int looks = 0; looks < kMostLooks; ++looks) {
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
      const auto stop = g_stop.load();
      if (fd_ >= 0 || errno != ENXIO || (stop && stop())) break;
      ::poll(nullptr, 0, kLook);
    }
    if (fd_ < 0 && errno == ENXIO) fail(ErrorKind::runtime, path_, "cannot write: is a pipe without a reader");
    if (fd_ < 0 || ::fcntl(fd_, F_SETFL, 0) != 0) give_up("cannot write", errno);
    return;
  }
  // A symbolic link keeps pointing at its file: the file is what gets replaced.
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) {
    const auto real = std::filesystem::weakly_canonical(path_, ignored);
    if (!ignored) path_ = real.string();
  }
  static std::atomic<unsigned> counter{0};
  do {  // a process of the same number may have been killed here, as containers number theirs alike
    temporary_ = cat(path_, ".tmp-", static_cast<int64_t>(::getpid()), "-", counter++);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) {
    const int error = errno;
    temporary_.clear();
    give_up("cannot write", error);
  }
  if (exists) (void)!::fchmod(fd_, st.st_mode & 07777);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::give_up(const char* what, int error) {
  discard();
  fail(ErrorKind::runtime, path_, what, ": ", std::strerror(error));
}

void AtomicFile::write(const void* data, size_t size) {
  const auto* p = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_, p, std::min<size_t>(size, kBlock));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up("cannot write", errno);
    p += n;
    size -= static_cast<size_t>(n);
    // The disk begins while the rest is written; without being told, it waits for the sync.
    if (n == kBlock && !temporary_.empty()) ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
  }
}

void AtomicFile::commit() {
  const bool in_place = temporary_.empty();
  if (!in_place && ::fsync(fd_) != 0) give_up("cannot sync", errno);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) give_up("cannot write", errno);
  if (in_place) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) give_up("cannot rename to it", errno);
  temporary_.clear();
  const std::string parent = std::filesystem::path(path_).parent_path().string();
  sync_directory(parent.empty() ? "." : parent);
}

void sync_directory(const std::string& path) {
  const Descriptor dir{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (dir.fd < 0 && errno == EACCES) return;  // who may write into a directory need not be allowed to list it
  if (dir.fd >= 0 && (::fsync(dir.fd) == 0 || errno == EINVAL || errno == ENOTSUP)) return;
  fail(ErrorKind::runtime, path, "cannot sync the directory: ", std::strerror(errno));
}

void write_file_atomic(const std::string& path, ByteView bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomic(const std::string& path, std::string_view text) {
  write_file_atomic(path, ByteView(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

namespace {
// Room for what a file unpacks to.
Bytes unpacked(size_t size, const std::string& name) {
  need_memory(static_cast<double>(size), name, "its bytes, unpacked,");
  return reading(name, [&] { return on_large_pages(size); });
}
}  // namespace

bool is_gzip(ByteView bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

Bytes gunzip(ByteView bytes, const std::string& name) {
  constexpr size_t kMinMember = 18;  // header 10, trailer 8
  if (!is_gzip(bytes)) fail(ErrorKind::data, name, "not a gzip file: wrong magic number, expected 1f 8b");
  if (bytes.size() < kMinMember) fail(ErrorKind::data, name, "truncated gzip file: ", bytes.size(), " bytes");
  // The trailer holds the size modulo 2^32 of the last member: exact for nearly all files, a first guess for the rest.
  // A file beyond the size that any may become is unpacked by pieces, which sees early where it has no end.
  const size_t most = std::min<size_t>(bytes.size() * kMaxInflateRatio + 64, most_unpacked(0));
  Bytes out = unpacked(std::min<size_t>(le32(bytes.data() + bytes.size() - 4), most), name);
  const Decompressor d;
  size_t in_done = 0, out_done = 0;
  while (in_done < bytes.size()) {
    if (in_done > 0 && !is_gzip(bytes.subspan(in_done))) break;  // padding after the last member
    size_t used = 0, made = 0;
    const libdeflate_result result =
        libdeflate_gzip_decompress_ex(d.handle, bytes.data() + in_done, bytes.size() - in_done, out.data() + out_done,
                                      out.size() - out_done, &used, &made);
    if (result == LIBDEFLATE_SUCCESS) {
      in_done += used;
      out_done += made;
      continue;
    }
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE && out.size() < most) {
      Bytes larger = unpacked(std::min(most, std::max<size_t>(2 * out.size(), 1 << 16)), name);
      if (out_done > 0) std::memcpy(larger.data(), out.data(), out_done);
      out = std::move(larger);
      continue;
    }
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return unpack_by_pieces(bytes, name);
    fail(ErrorKind::data, name, "truncated or corrupt gzip data: error in the member at byte ", in_done, " of ",
         bytes.size(), "; fetch the file again");
  }
  out.shrink(out_done);
  return out;
}

bool inflate_raw(ByteView bytes, uint8_t* out, size_t size) {
  const Decompressor d;
  return libdeflate_deflate_decompress(d.handle, bytes.data(), bytes.size(), out, size, nullptr) == LIBDEFLATE_SUCCESS;
}

bool inflate_zlib(ByteView bytes, uint8_t* out, size_t size) {
  const Decompressor d;
  return libdeflate_zlib_decompress(d.handle, bytes.data(), bytes.size(), out, size, nullptr) == LIBDEFLATE_SUCCESS;
}

uint32_t crc32(ByteView bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

Bytes read_file_gunzip(const std::string& path) {
  Bytes bytes = read_file(path);
  return is_gzip(bytes) ? gunzip(bytes, path) : std::move(bytes);
}

}  // namespace freight::io
