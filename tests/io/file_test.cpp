// Whole files: atomic writing under failure, gunzip of good and damaged input.
#include "freight/io/file.h"
#include "freight/io/byte_stream.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/files.h"

namespace freight::io {
namespace {
using namespace freight::testing;

TEST(ReadFile, NamesThePathAndTheReason) {
  expect_error(ErrorKind::data, {"/no/such/file", "No such file"}, [] { read_file("/no/such/file"); });
  expect_error(ErrorKind::data, {"/tmp", "directory"}, [] { read_file("/tmp"); });
  const TemporaryDir dir;
  write_file_atomic(dir / "large", std::string_view("x"));
  std::filesystem::resize_file(dir / "large", uintmax_t{1} << 43);  // without blocks on the disk
  expect_error(ErrorKind::capacity, {dir / "large", "8.0 TiB", "of memory"}, [&] { read_file(dir / "large"); });
}

TEST(ReadFile, APipeIsReadToItsEndWheneverItsWriterComes) {
  const TemporaryDir dir;
  const std::string pipe = dir / "pipe", text(200'000, 'p');
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << text; });
  EXPECT_EQ(text_of(read_file(pipe)), text);
  writer.join();
}

TEST(ReadFile, APipeWithoutAWriterIsLeftWhenAsked) {
  const TemporaryDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  static std::atomic<int> asked{0};
  stop_reading_when([] { return ++asked == 2; });
  expect_error(ErrorKind::runtime, {dir / "pipe", "stopped"}, [&] { read_file(dir / "pipe"); });
  stop_reading_when(nullptr);
  EXPECT_EQ(asked, 2);
}

// Ten gigabytes of line ends, packed into ten megabytes, held a signal off until they were read.
TEST(ReadFile, AStreamIsLeftWhenAsked) {
  const TemporaryDir dir;
  write_file_atomic(dir / "lines.gz", std::string_view(gzip_stored(std::string(100'000, '\n'))));
  ByteStream stream(dir / "lines.gz");
  uint8_t piece[1000];
  EXPECT_EQ(stream.read(piece, sizeof piece), sizeof piece);
  stop_reading_when([] { return true; });
  expect_error(ErrorKind::runtime, {"lines.gz", "stopped"}, [&] { stream.read(piece, sizeof piece); });
  stop_reading_when(nullptr);
  EXPECT_EQ(stream.read(piece, sizeof piece), sizeof piece);
}

TEST(AtomicFileTest, ReplacesTheFileAndLeavesNothingElse) {
  const TemporaryDir dir;
  write_file_atomic(dir / "a", std::string_view("one"));
  write_file_atomic(dir / "a", std::string_view("two"));
  EXPECT_EQ(read_text(dir / "a"), "two");
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(AtomicFileTest, WithoutCommitThePreviousFileStays) {
  const TemporaryDir dir;
  write_file_atomic(dir / "a", std::string_view("old"));
  {
    AtomicFile f(dir / "a");
    f.write(std::string_view("half"));
  }
  EXPECT_EQ(read_text(dir / "a"), "old");
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(AtomicFileTest, KeepsASymbolicLink) {
  const TemporaryDir dir;
  write_file_atomic(dir / "real", std::string_view("old"));
  std::filesystem::create_symlink("real", dir / "link");
  write_file_atomic(dir / "link", std::string_view("new"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(read_text(dir / "real"), "new");
}

TEST(AtomicFileTest, AFullDiskLeavesThePreviousFile) {
  const TemporaryDir dir;
  write_file_atomic(dir / "a", std::string_view("old"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ErrorKind::runtime, {dir / "a", "too large"},
               [&] { write_file_atomic(dir / "a", std::string(100000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_text(dir / "a"), "old");
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(AtomicFileTest, ADeviceIsWrittenInPlaceAndItsFaultReported) {
  if (!file_exists("/dev/full")) GTEST_SKIP() << "/dev/full is missing here";
  expect_error(ErrorKind::runtime, {"/dev/full", "No space left"},
               [] { write_file_atomic("/dev/full", std::string_view("x")); });
  EXPECT_TRUE(file_exists("/dev/full"));
}

TEST(AtomicFileTest, NamesADirectoryThatIsMissing) {
  expect_error(ErrorKind::runtime, {"/no/such/dir/a", "No such file"},
               [] { write_file_atomic("/no/such/dir/a", std::string_view("x")); });
}

TEST(Gunzip, GivesBackTheBytes) {
  const std::string text(200000, 'q');
  EXPECT_EQ(text_of(gunzip(bytes_of(gzip_stored(text)), "t.gz")), text);
  EXPECT_EQ(text_of(gunzip(bytes_of(gzip_stored("")), "t.gz")), "");
}

TEST(Gunzip, ReadsSeveralMembers) {
  const std::string both = gzip_stored(std::string(70000, 'a')) + gzip_stored("b");
  EXPECT_EQ(text_of(gunzip(bytes_of(both), "t.gz")), std::string(70000, 'a') + "b");
}

TEST(Gunzip, RefusesEveryTruncation) {
  const std::string good = gzip_stored("freight carries cargo");
  for (size_t n = 0; n < good.size(); ++n) {
    expect_error(ErrorKind::data, {"cut.gz"}, [&] { gunzip(bytes_of(good.substr(0, n)), "cut.gz"); });
  }
}

TEST(Gunzip, RefusesDamage) {
  std::string bad = gzip_stored("freight carries cargo");
  bad[20] ^= 1;
  expect_error(ErrorKind::data, {"bad.gz", "corrupt"}, [&] { gunzip(bytes_of(bad), "bad.gz"); });
  expect_error(ErrorKind::data, {"bad.gz", "magic"}, [&] { gunzip(bytes_of("PK is not gzip"), "bad.gz"); });
  // A size field that lies is only a hint.
  std::string lies = gzip_stored("freight carries cargo");
  lies[lies.size() - 1] = '\x7f';
  expect_error(ErrorKind::data, {"lies.gz", "corrupt"}, [&] { gunzip(bytes_of(lies), "lies.gz"); });
}

TEST(Gunzip, ReadsTheRealMnistImages) {
  const std::string dir = real_data("mnist/train-images-idx3-ubyte.gz");
  if (dir.empty()) GTEST_SKIP() << "the real MNIST files are not here (set FREIGHT_DATA)";
  EXPECT_EQ(read_file_gunzip(dir + "/mnist/train-images-idx3-ubyte.gz").size(), 47040016u);
}

// Opening a pipe waits for its other end where no signal reaches: it is waited for by looks, and not for ever.
TEST(FileTest, APipeThatNobodyWritesToOrReadsFromIsRefusedByName) {
  const TemporaryDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(ErrorKind::data, {pipe, "without a writer"}, [&] { read_file(pipe); });
  expect_error(ErrorKind::runtime, {pipe, "without a reader"}, [&] { AtomicFile{pipe}; });
  // Both ends, whichever comes first.
  for (const int wait : {0, 300'000}) {
    std::thread writer([&] {
      ::usleep(static_cast<useconds_t>(wait));
      AtomicFile out(pipe);
      out.write(std::string_view("text"));
      out.commit();
    });
    ::usleep(static_cast<useconds_t>(300'000 - wait));
    EXPECT_EQ(read_text(pipe), "text");
    writer.join();
  }
}

TEST(FileTest, ADirectoryThatCannotBeSyncedIsAnError) {
  const TemporaryDir dir;
  EXPECT_NO_THROW(sync_directory(dir.path()));
  EXPECT_NO_THROW(sync_directory("/proc"));  // has nothing to sync
  expect_error(ErrorKind::runtime, {dir / "none", "cannot sync"}, [&] { sync_directory(dir / "none"); });
}

// In a container a killed process and its successor have one number.
TEST(FileTest, TheTemporaryFileOfAKilledProcessStandsInNobodysWay) {
  const TemporaryDir dir;
  const std::string path = dir / "f";
  {
    AtomicFile open(path);
    const std::string name = std::filesystem::directory_iterator(dir.path())->path().filename();
    const int number = std::stoi(name.substr(name.rfind('-') + 1));
    const std::string prefix = name.substr(0, name.rfind('-') + 1);
    for (int i = 1; i <= 3; ++i) write_file_atomic(dir / (cat(prefix, number + i * 2)), std::string_view("left"));
  }
  for (int i = 0; i < 8; ++i) EXPECT_NO_THROW(write_file_atomic(path, std::string_view("new")));
  EXPECT_EQ(read_text(path), "new");
}

}  // namespace
}  // namespace freight::io
