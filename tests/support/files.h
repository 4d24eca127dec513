// Helpers of the tests of io and data: temporary folders, error expectations, small gzip files, the real data.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/io/file.h"
#include "tests/support/folders.h"

namespace freight::testing {

// A fresh directory, removed at the end of the scope.
class TemporaryDir {
 public:
  TemporaryDir() {
    static std::atomic<int> counter{0};
    path_ =
        std::filesystem::temp_directory_path() / cat("freight-test-", static_cast<int64_t>(::getpid()), "-", counter++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

// Sets a variable of the environment until the end of the scope. Freight takes an empty value for none.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name), set_(env::is_set(name)) {
    if (set_) before_ = env::get(name);
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() { set_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  bool set_;
  std::string before_;
};

inline io::ByteView bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string text_of(io::ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
using io::read_text;
// Makes the folder that the file is in, too.
inline void put(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  io::write_file_atomic(path, std::string_view(content));
}

// f must throw Error of that kind whose text holds every one of `parts`.
template <class F>
void expect_error(ErrorKind kind, const std::vector<std::string>& parts, F&& f) {
  try {
    f();
    ADD_FAILURE() << "no error; expected one that says: " << join(parts, ", ");
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(kind)) << e.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << "'" << part << "' is not in: " << e.what();
    }
  }
}

inline std::string le(uint64_t v, int size) {
  std::string out;
  for (int i = 0; i < size; ++i, v >>= 8) out += static_cast<char>(v & 0xff);
  return out;
}
inline std::string be32(uint32_t v) {
  const std::string s = le(v, 4);
  return {s.rbegin(), s.rend()};
}
// A gzip file of stored blocks.
inline std::string gzip_stored(const std::string& text) {
  std::string out("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
  size_t at = 0;
  do {
    const size_t n = std::min<size_t>(text.size() - at, 65535);
    out += at + n == text.size() ? '\x01' : '\x00';
    out += le(n, 2) + le(~n & 0xffff, 2) + text.substr(at, n);
    at += n;
  } while (at < text.size());
  return out + le(io::crc32(bytes_of(text)), 4) + le(text.size(), 4);
}

// The folder with real data sets ($FREIGHT_DATA, else what tests/unpack_data.sh unpacked, else shared/data beside the
// checkout), "" where there is none.
inline std::string real_data(const std::string& file_inside) {
  for (const std::string& dir : {env::get("FREIGHT_DATA"), binary_dir() + "/data", source_dir() + "/../shared/data"}) {
    if (!dir.empty() && std::filesystem::exists(dir + "/" + file_inside)) return dir;
  }
  return "";
}

// A Python that has this module, "" where there is none: the first of the search path need not be Debian's.
inline std::string python_with(const std::string& module) {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import " + module + "' 2>/dev/null").c_str()) == 0) return python;
  }
  return "";
}

}  // namespace freight::testing
