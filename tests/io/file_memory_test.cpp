// Memory in files without names: it grows and shrinks as memory does, and says where a disk has no room.
#include "freight/io/file_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "freight/base/error.h"
#include "tests/support/files.h"
#include "tests/support/process_memory.h"

namespace freight::io {
namespace {
using freight::testing::expect_error;
using freight::testing::TemporaryDir;

TEST(FileMemory, KeepsWhatItHoldsAndBeginsWithZeros) {
  const TemporaryDir dir;
  FileMemory memory(dir.path());
  EXPECT_EQ(memory.data(), nullptr);
  size_t before = 0;
  for (const size_t size :
       {size_t{10}, size_t{5000}, size_t{3} << 20, size_t{7}, size_t{4096}, size_t{0}, size_t{12}}) {
    memory.resize(size);
    ASSERT_EQ(memory.size(), size);
    auto* const bytes = static_cast<unsigned char*>(memory.data());
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(bytes[i], i < before ? i % 251 : 0) << i << " of " << size;
      bytes[i] = static_cast<unsigned char>(i % 251);
    }
    before = size;
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(FileMemory, IsNoMemoryOfTheProcess) {
  constexpr size_t kBytes = size_t{32} << 20;
  const TemporaryDir dir;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = freight::testing::status_bytes("VmData") + kBytes / 2;
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &small), 0);
  // By mmap, since the allocators of sanitizers end the process.
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Array zeros;
  try {
    zeros = zeros_in(dir.path(), DType::f64, {kBytes / sizeof(double)});
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  EXPECT_EQ(memory, MAP_FAILED) << "the limit does not hold here";
  ASSERT_TRUE(zeros.defined());
  EXPECT_EQ(zeros.data<double>()[kBytes / sizeof(double) - 1], 0);
}

TEST(FileMemory, NamesTheFolderWhereNoFileCanBeOrGrow) {
  FileMemory nowhere("/no/such/folder");
  expect_error(ErrorKind::runtime, {"/no/such/folder", "cannot make a file"}, [&] { nowhere.resize(1); });
  const TemporaryDir dir;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 4096;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  FileMemory memory(dir.path());
  expect_error(ErrorKind::runtime, {dir.path(), "cannot hold", "TMPDIR"}, [&] { memory.resize(1 << 20); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
}

}  // namespace
}  // namespace freight::io
