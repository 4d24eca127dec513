// See digest.h.
#include "freight/io/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

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

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { good_ = context_ && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1; }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(ByteView bytes) { good_ = good_ && EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1; }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (!good_ || EVP_DigestFinal_ex(context_, digest, &size) != 1)
      fail(ErrorKind::runtime, "sha256", "OpenSSL failed");
    std::string out;
    for (unsigned i = 0; i < size; ++i) {
      constexpr char kHex[] = "0123456789abcdef";
      out += kHex[digest[i] >> 4];
      out += kHex[digest[i] & 15];
    }
    return out;
  }

 private:
  EVP_MD_CTX* context_;
  bool good_ = false;
};

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
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

PartHashes part_hashes(const std::vector<ByteView>& pieces) {
  PartHashes out{.bytes = 0, .part = kPart, .sha256 = {}};
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
  out.sha256.resize(parts.size());
  for_each_part(parts.size(), [&](size_t k) {
    Sha256 hash;
    for (const ByteView piece : parts[k]) hash.add(piece);
    out.sha256[k] = hash.hex();
  });
  return out;
}

Bytes read_verified(const std::string& path, const PartHashes& expected) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* d) { ::close(*d); });
  struct stat st {};
  if (::fstat(fd, &st) != 0) fail(ErrorKind::data, path, "cannot read: ", std::strerror(errno));
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size != expected.bytes) {
    fail(ErrorKind::checkpoint, path, "size differs: got ", size, " bytes, the manifest has ", expected.bytes);
  }
  const uint64_t part = std::max<uint64_t>(expected.part, 1), parts = size / part + (size % part ? 1 : 0);
  if (parts != expected.sha256.size()) {
    fail(ErrorKind::checkpoint, path, "the manifest has ", expected.sha256.size(), " hashes, need ", parts);
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  Bytes bytes(size);
  for_each_part(parts, [&](size_t k) {
    const uint64_t first = k * part, last = std::min(size, first + part);
    for (uint64_t done = first; done < last;) {
      const ssize_t n = ::pread(fd, bytes.data() + done, last - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(ErrorKind::data, path, "cannot read: ", n < 0 ? std::strerror(errno) : "it became shorter");
      done += static_cast<uint64_t>(n);
    }
    const std::string hash = sha256(bytes.view().subspan(first, last - first));
    if (hash == expected.sha256[k]) return;
    fail(ErrorKind::checkpoint, path, "SHA-256 differs", parts > 1 ? cat(" from byte ", first, " to ", last) : "",
         ": got ", hash, ", the manifest has ", expected.sha256[k]);
  });
  return bytes;
}

}  // namespace freight::io
