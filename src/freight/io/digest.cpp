// See digest.h.
#include "freight/io/digest.h"

#include <fcntl.h>
#include <nettle/sha2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "freight/base/error.h"

namespace freight::io {

namespace {

constexpr uint64_t kPart = uint64_t{16} << 20;

std::string hex(ByteView digest) {
  std::string out;
  for (const uint8_t byte : digest) {
    constexpr char kHex[] = "0123456789abcdef";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string hex(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  return hex(ByteView(bytes.digest, sizeof(bytes.digest)));
}

std::string digest_of(sha256_ctx& state) {
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&state, sizeof(digest), digest);
  return hex(digest);
}

std::string hash_of(const std::vector<ByteView>& pieces) {
  Xxh3 hash;
  for (const ByteView p : pieces) hash.add(p);
  return hash.hex();
}

// body(part) for every part, by a few threads of their own: those of the compute pool may be training. The parts begin
// in order. What `body` throws is thrown here, after all threads have ended.
template <class F>
void for_each_part(size_t parts, const F& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t k = next++; k < parts; k = next++) body(k);
  };
  const size_t threads = std::min<size_t>(parts, std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
  std::vector<std::future<void>> others;
  for (size_t t = 1; t < threads; ++t) others.push_back(std::async(std::launch::async, work));
  work();
  for (auto& other : others) other.get();
}

}  // namespace

std::string sha256(ByteView bytes) {
  sha256_ctx state;
  sha256_init(&state);
  sha256_update(&state, bytes.size(), bytes.data());
  return digest_of(state);
}

std::string sha256_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* d) { ::close(*d); });
  sha256_ctx state;
  sha256_init(&state);
  std::vector<uint8_t> buffer(size_t{1} << 20);
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
    if (n == 0) break;
    sha256_update(&state, static_cast<size_t>(n), buffer.data());
  }
  return digest_of(state);
}

Xxh3::Xxh3() : state_(XXH3_createState(), [](void* s) { XXH3_freeState(static_cast<XXH3_state_t*>(s)); }) {
  if (!state_ || XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_.get())) != XXH_OK) {
    fail(ErrorKind::capacity, "xxh3", "no memory for its state");
  }
}

void Xxh3::add(ByteView bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size());
}

std::string Xxh3::hex() const { return io::hex(XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_.get()))); }

std::string xxh3_128(ByteView bytes) { return hex(XXH3_128bits(bytes.data(), bytes.size())); }

PartHashes part_hashes(const std::vector<ByteView>& pieces) {
  PartHashes out{.bytes = 0, .part = kPart, .parts = {}};
  std::vector<std::vector<ByteView>> parts;
  for (ByteView piece : pieces) {
    while (!piece.empty()) {
      if (out.bytes % kPart == 0) parts.emplace_back();
      const size_t n = std::min<uint64_t>(piece.size(), kPart - out.bytes % kPart);
      parts.back().push_back(piece.first(n));
      piece = piece.subspan(n);
      out.bytes += n;
    }
  }
  out.parts.resize(parts.size());
  for_each_part(parts.size(), [&](size_t k) { out.parts[k] = hash_of(parts[k]); });
  return out;
}

std::shared_ptr<Storage> read_verified(const std::string& path, const PartHashes& expected) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* d) { ::close(*d); });
  struct stat st {};
  if (::fstat(fd, &st) != 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
  if (!S_ISREG(st.st_mode)) fail(ErrorKind::checkpoint, path, "is not a file");
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size != expected.bytes) {
    fail(ErrorKind::checkpoint, path, "size differs: got ", size, " bytes, the manifest has ", expected.bytes);
  }
  const uint64_t part = std::max<uint64_t>(expected.part, 1), parts = size / part + (size % part ? 1 : 0);
  if (parts != expected.parts.size()) {
    fail(ErrorKind::checkpoint, path, "the manifest has ", expected.parts.size(), " hashes, expected ", parts);
  }
  if (size == 0) return Storage::allocate(0);
  // Mapped, the bytes are copied once only, into the variables; read, twice. Files of checkpoints are never rewritten.
  void* const map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) fail(ErrorKind::data, path, "cannot map: ", std::strerror(errno));
  const std::shared_ptr<void> owner(map, [size](void* p) { ::munmap(p, size); });
  std::shared_ptr<Storage> content = Storage::borrow(map, size, owner);
  const auto* const bytes = static_cast<const uint8_t*>(map);
  // Seen from several threads the reading is not sequential: one that only asks for the file keeps the disk busy.
  const std::future<void> ahead =
      std::async(std::launch::async, [&] { ::posix_fadvise(fd, 0, static_cast<off_t>(size), POSIX_FADV_WILLNEED); });
  for_each_part(parts, [&](size_t k) {
    const uint64_t first = k * part, last = std::min(size, first + part);
    const ByteView got(bytes + first, last - first);
    const std::string hash = xxh3_128(got);
    if (hash == expected.parts[k]) return;
    fail(ErrorKind::checkpoint, path, "XXH3 differs", parts > 1 ? cat(" from byte ", first, " to ", last) : "",
         ": got ", hash, ", the manifest has ", expected.parts[k]);
  });
  return content;
}

}  // namespace freight::io
