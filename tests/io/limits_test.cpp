// Limits of docs/limits.md that files of this room have: what is at a limit or below is taken, one above is refused by
// the file's name, and what a file claims is asked for before it is made.
#include <gtest/gtest.h>

#include <filesystem>

#include "freight/io/csv.h"
#include "freight/io/file.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "tests/support/files.h"

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

// An image list of 30 million commas took gigabytes.
TEST(IoLimits, ARowOfCommaSeparatedValuesHasAHundredThousandFields) {
  const auto of = [](size_t fields) { return cat("a,b\n", std::string(fields - 1, ','), "\n"); };
  for (const size_t fields : {kMostCsvFields - 1, kMostCsvFields}) {
    EXPECT_EQ(parse_csv(bytes_of(of(fields)), "a.csv")[1].fields.size(), fields);
  }
  expect_error(ErrorKind::data, {"a.csv:2", "more than 100000 fields"},
               [&] { parse_csv(bytes_of(of(kMostCsvFields + 1)), "a.csv"); });
}

TEST(IoLimits, NoFileTakesMoreThanTheMemoryThereIs) {
  const auto there = static_cast<double>(memory_limit());
  EXPECT_NO_THROW(need_memory(there - 1, "f", "its bytes"));
  EXPECT_NO_THROW(need_memory(there, "f", "its bytes"));
  expect_error(ErrorKind::capacity, {"f: its bytes take", "there are"},
               [&] { need_memory(there * 2, "f", "its bytes"); });
  // Memory that runs out in spite of that names the file, too.
  expect_error(ErrorKind::capacity, {"g: reading it takes more memory"},
               [] { reading("g", []() -> int { throw std::bad_alloc(); }); });
  EXPECT_EQ(reading("g", [] { return 3; }), 3);
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
