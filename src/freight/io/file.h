// Whole files: read, gunzip, and write so that a crash or a full disk never damages what was there before.
// Parsers of this room take bytes and a name for their messages, so that tests and the fuzzer need no files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace freight::io {

using ByteView = std::span<const uint8_t>;  // Bytes that somebody else owns.

// An owned block of bytes. Unlike std::vector it is not zeroed before it is filled.
class Bytes {
 public:
  Bytes() = default;
  // so many bytes, not zeroed
  explicit Bytes(size_t size) : data_(std::make_unique_for_overwrite<uint8_t[]>(size)), size_(size) {}
  uint8_t* data() { return data_.get(); }                            // the first byte
  const uint8_t* data() const { return data_.get(); }                // the first byte
  size_t size() const { return size_; }                              // in bytes
  void shrink(size_t size) { size_ = size < size_ ? size : size_; }  // keeps the first `size` bytes
  ByteView view() const { return {data_.get(), size_}; }             // all of them; valid while this lives
  operator ByteView() const { return view(); }                       // the same

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
};

// The content of a file; of a pipe or device what it gives to its end, a GiB at most. Throws Error(data) that names the
// path and the system's reason; of a pipe that nobody opens to write to within five seconds, too.
Bytes read_file(const std::string& path);
// The same into memory that is kept from file to file: it grows where it must. `state` becomes a number that changes
// when the file does (or another takes its place); 0 for what is no regular file.
ByteView read_file(const std::string& path, Bytes& buffer, uint64_t& state);
// A regular file that is read in parts, at any of its places; of another kind of file the size is 0. Throws Error(data)
// that names the path and the system's reason.
class PartsOfFile {
 public:
  explicit PartsOfFile(std::string path);  // opens it
  ~PartsOfFile();
  PartsOfFile(const PartsOfFile&) = delete;
  PartsOfFile& operator=(const PartsOfFile&) = delete;
  size_t size() const { return size_; }  // in bytes, when it was opened
  struct Part {                          // so many bytes from a place in the file
    size_t from;                         // in the file
    uint8_t* to;                         // where its bytes go
    size_t bytes;                        // how many
  };
  // Reads all parts, large ones by several threads. A file that has become shorter is an error.
  void read(const std::vector<Part>& parts) const;

 private:
  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
};

// Asked every tenth of a second while a pipe has nothing to give, by any thread that reads; true ends the reading with
// Error(runtime). Null: never.
void stop_reading_when(bool (*asked)());
std::string read_text(const std::string& path);  // read_file as text
bool file_exists(const std::string& path);       // whether there is a file, folder or device of that path

// A fresh directory of the system's temporary one, removed at the end of the scope. Throws Error(runtime).
class ScratchDir {
 public:
  // Makes it.
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }  // of the directory

 private:
  std::string path_;
};

// A file that appears under its name only when it is complete: bytes go to a temporary file beside it, `commit` syncs
// and renames. Without commit, or after any failure, the temporary file is removed and the previous file is untouched.
// A target that exists and is not a regular file (a pipe, a device) is written in place.
// All functions throw Error(runtime) that names the path and the system's reason.
class AtomicFile {
 public:
  // Opens the temporary file beside `path`.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Appends bytes.
  void write(const void* data, size_t size);
  void write(ByteView bytes) { write(bytes.data(), bytes.size()); }
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();  // makes it appear under its name; once

 private:
  [[noreturn]] void give_up(const char* what, int error);
  void discard() noexcept;
  std::string path_, temporary_;  // temporary_ is empty when the target is written in place
  int fd_ = -1;
};

// Names made or changed in a directory survive a power failure; a file system that cannot sync directories is no error,
// one that fails to is.
void sync_directory(const std::string& path);
// Writes a whole file as AtomicFile does.
void write_file_atomic(const std::string& path, ByteView bytes);
void write_file_atomic(const std::string& path, std::string_view text);

// Decompresses a whole gzip file (one or more members; checksums verified). Throws Error(data) that names `name` when
// the bytes are no gzip file, truncated or corrupt.
Bytes gunzip(ByteView bytes, const std::string& name);
bool is_gzip(ByteView bytes);  // by its first two bytes
// Raw deflate data of known size, as in zip archives; false when it is corrupt or has another size.
bool inflate_raw(ByteView bytes, uint8_t* out, size_t size);
// The same with the header and the checksum of zlib, as in PNG.
bool inflate_zlib(ByteView bytes, uint8_t* out, size_t size);
uint32_t crc32(ByteView bytes);  // the checksum of gzip, zip and PNG
// A deflate stream cannot expand by more than this factor: larger claims are lies, and are refused before allocating.
inline constexpr size_t kMaxInflateRatio = 1032;

// read_file, and gunzip when the content is gzip.
Bytes read_file_gunzip(const std::string& path);

}  // namespace freight::io
