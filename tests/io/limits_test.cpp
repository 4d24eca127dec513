// Limits of docs/limits.md that files of this room have: what is at a limit or below is taken, one above is refused by
// the file's name, and what a file claims is asked for before it is made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "freight/io/byte_stream.h"
#include "freight/io/file.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/packed.h"

namespace freight::io {
namespace {
using namespace freight::testing;

TEST(IoLimits, AHeaderOfAnNpyFileHasAMebibyte) {
  const auto of = [](size_t header) {
    std::string dict = "{'descr': '<i4', 'fortran_order': False, 'shape': ()}";
    dict.resize(header - 1, ' ');
    return std::string("\x93NUMPY\x02\0", 8) + le(header, 4) + dict + "\n" + le(7, 4);
  };
  constexpr size_t kMost = 1 << 20;
  for (const size_t header : {kMost - 1, kMost}) {
    EXPECT_EQ(parse_npy(bytes_of(of(header)), "a.npy").to_vector<int>(), std::vector<int>{7});
  }
  expect_error(ErrorKind::data, {"a.npy", "header of 1048577 bytes"}, [&] {
    parse_npy(bytes_of(of(kMost + 1)),
              "a"
              ".npy");
  });
}

TEST(IoLimits, AHeaderOfASafetensorsFileHasAHundredMillionBytes) {
  const auto of = [](size_t header) {
    std::string text = le(header, 8) + "{}";
    text.resize(8 + header, ' ');
    return text;
  };
  for (const size_t header : {99'999'999, 100'000'000}) {
    EXPECT_TRUE(parse_safetensors(bytes_of(of(header)), "a.safetensors").tensors.empty());
  }
  expect_error(ErrorKind::checkpoint, {"a.safetensors", "header of 100000001 bytes", "100000000"},
               [&] { parse_safetensors(bytes_of(of(100'000'001)), "a.safetensors"); });
}

// A file of a hundred bytes that holds 2^40 empty matrices kept `linalg` busy for days.
TEST(IoLimits, ExtentsOfAnArrayWithoutElementsAreLimited) {
  const auto of = [](int64_t batch) {
    std::string dict = cat("{'descr': '<f8', 'fortran_order': False, 'shape': (", batch, ", 0, 0)}\n");
    return std::string("\x93NUMPY\x02\0", 8) + le(dict.size(), 4) + dict;
  };
  constexpr int64_t kMost = 67'108'864;
  for (const int64_t batch : {kMost - 1, kMost}) {
    EXPECT_EQ(parse_npy(bytes_of(of(batch)), "a.npy").shape(), (Shape{batch, 0, 0}));
  }
  expect_error(ErrorKind::data, {"a.npy", "too many axes or elements"},
               [&] { parse_npy(bytes_of(of(kMost + 1)), "a.npy"); });
}

TEST(IoLimits, NoFileTakesMoreThanTheMemoryThereIs) {
  const auto there = static_cast<double>(memory_limit());
  EXPECT_NO_THROW(need_memory(there - 1, "f", "its bytes"));
  EXPECT_NO_THROW(need_memory(there, "f", "its bytes"));
  for (const double above : {there + 1, there * 2}) {
    expect_error(ErrorKind::capacity, {"f: its bytes take", "there are"},
                 [&] { need_memory(above, "f", "its bytes"); });
  }
  // Memory that runs out in spite of that names the file, too.
  expect_error(ErrorKind::capacity, {"g: reading it needs more memory"},
               [] { reading("g", []() -> int { throw std::bad_alloc(); }); });
  EXPECT_EQ(reading("g", [] { return 3; }), 3);
}

// Writes so many zeros to a pipe, or until nobody reads it any more.
void give_zeros(const std::string& pipe, size_t bytes) {
  const int fd = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::fcntl(fd, F_SETPIPE_SZ, 1 << 20);
  const std::string piece(size_t{1} << 20, '\0');
  for (ssize_t n = 0; bytes > 0; bytes -= static_cast<size_t>(n)) {
    n = ::write(fd, piece.data(), std::min(bytes, piece.size()));
    if (n <= 0) break;
  }
  ::close(fd);
}

// A GiB itself was refused.
TEST(IoLimits, APipeGivesAGibibyte) {
  const TemporaryDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  constexpr size_t kMost = size_t{1} << 30;
  const auto ignored = std::signal(SIGPIPE, SIG_IGN);
  for (const size_t bytes : {kMost - 1, kMost, kMost + 1}) {
    std::thread writer([&] { give_zeros(pipe, bytes); });
    if (bytes <= kMost) {
      EXPECT_EQ(read_file(pipe).size(), bytes);
    } else {
      expect_error(ErrorKind::data, {pipe, "returns more than 1.0 GiB"}, [&] { read_file(pipe); });
    }
    writer.join();
  }
  std::signal(SIGPIPE, ignored);
  expect_error(ErrorKind::data, {"/dev/zero", "returns more than 1.0 GiB"}, [] { read_file("/dev/zero"); });
}

// Below the limit, at it, and one above, of both readers of such files.
TEST(IoLimits, GzipDataUnpackToTwoHundredTimesTheirBytesAnd64Mebibytes) {
  const TemporaryDir dir;
  const std::string path = dir / "zeros.gz";
  constexpr size_t kPacked = 100'000, kMost = 200 * kPacked + (size_t{64} << 20);
  EXPECT_EQ(most_unpacked(kPacked), kMost);
  EXPECT_EQ(most_unpacked(UINT64_MAX / 2), UINT64_MAX);
  for (const size_t unpacked : {kMost - 1, kMost, kMost + 1}) {
    const std::string file = gzip_packed(std::string(unpacked, '\0'), kPacked);
    ASSERT_EQ(file.size(), kPacked);
    write_file_atomic(path, std::string_view(file));
    const auto at_once = [&] { return read_file_gunzip(path).size(); };
    const auto by_pieces = [&] {
      ByteStream stream(path);
      Bytes piece(size_t{1} << 20);
      size_t all = 0;
      for (size_t n = 0; (n = stream.read(piece.data(), piece.size())) > 0;) all += n;
      return all;
    };
    if (unpacked <= kMost) {
      EXPECT_EQ(at_once(), unpacked);
      EXPECT_EQ(by_pieces(), unpacked);
      continue;
    }
    const std::vector<std::string> parts = {path, "97.7 KiB of gzip data unpack to more than 83.1 MiB", "gunzip"};
    expect_error(ErrorKind::data, parts, at_once);
    expect_error(ErrorKind::data, parts, by_pieces);
  }
}

// An archive of one member of no bytes that claims so many.
std::string archive(uint64_t size) {
  const std::string name = "x.npy";
  const std::string common = le(20, 2) + le(0, 2) + le(8, 2) + le(0, 4) + le(0, 4) + le(0, 4) + le(size, 4);
  const std::string local = "PK\3\4" + common + le(name.size(), 2) + le(0, 2) + name;
  const std::string entry =
      "PK\1\2" + le(20, 2) + common + le(name.size(), 2) + le(0, 2) + le(0, 2) + le(0, 8) + le(0, 4) + name;
  return local + entry + "PK\5\6" + le(0, 4) + le(1, 2) + le(1, 2) + le(entry.size(), 4) + le(local.size(), 4) +
         le(0, 2);
}

TEST(IoLimits, AMemberOfAnArchiveCannotUnpackToMoreThanItsBytesHold) {
  expect_error(ErrorKind::data, {"a.npz[x.npy]", "claims 65 bytes from 0"},
               [] { parse_npz(bytes_of(archive(65)), "a.npz"); });
  expect_error(ErrorKind::data, {"a.npz[x.npy]", "corrupt"}, [] { parse_npz(bytes_of(archive(64)), "a.npz"); });
  expect_error(ErrorKind::data, {"a.npz"}, [] { parse_npz(bytes_of(archive(0xfffffffe)), "a.npz"); });
}

}  // namespace
}  // namespace freight::io
