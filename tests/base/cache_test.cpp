// The cache holds what others may have put there: only regular files of a sound size are read, no link is followed.
#include "freight/base/cache.h"

#include <sys/stat.h>

#include "tests/support/files.h"

namespace freight {
namespace {
using namespace freight::testing;

TEST(Cache, KeepsWhatIsWrittenAndAdded) {
  const TemporaryDir dir;
  const std::string path = dir / "folder/f";
  EXPECT_EQ(read_cache(path), "");
  EXPECT_TRUE(write_cache(path, "one\n"));
  EXPECT_TRUE(append_cache(path, "two\n"));
  EXPECT_EQ(read_cache(path), "one\ntwo\n");
  EXPECT_TRUE(write_cache(path, "three"));
  EXPECT_EQ(read_cache(path), "three");
}

TEST(Cache, SizeIsTakenAtTheLimitAndRefusedOneAbove) {
  const TemporaryDir dir;
  ASSERT_TRUE(write_cache(dir / "f", "12345"));
  EXPECT_EQ(read_cache(dir / "f", 5), "12345");
  EXPECT_EQ(read_cache(dir / "f", 4), "");
  EXPECT_FALSE(append_cache(dir / "f", "6", 5));
  EXPECT_TRUE(append_cache(dir / "f", "6", 6));
  EXPECT_EQ(read_cache(dir / "f"), "123456");
}

TEST(Cache, AFileHasSixtyFourMebibytes) {
  const TemporaryDir dir;
  const std::string path = dir / "f";
  ASSERT_TRUE(write_cache(path, ""));
  constexpr size_t kMost = size_t{64} << 20;
  for (const size_t bytes : {kMost - 1, kMost}) {
    std::filesystem::resize_file(path, bytes);  // zeros, on no disk
    EXPECT_EQ(read_cache(path).size(), bytes);
  }
  EXPECT_FALSE(append_cache(path, "x"));
  std::filesystem::resize_file(path, kMost - 1);
  EXPECT_TRUE(append_cache(path, "x"));
  std::filesystem::resize_file(path, kMost + 1);
  EXPECT_EQ(read_cache(path), "");
}

TEST(Cache, NeitherLinksNorPipesNorFoldersAreUsed) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "target", std::string_view("mine"));
  std::filesystem::create_symlink(dir / "target", dir / "link");
  std::filesystem::create_symlink("/dev/zero", dir / "zero");
  std::filesystem::create_directory(dir / "folder");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "zero", "folder", "pipe"}) {
    EXPECT_EQ(read_cache(dir / name), "") << name;
    EXPECT_FALSE(append_cache(dir / name, "text")) << name;
  }
  EXPECT_EQ(read_text(dir / "target"), "mine");
  EXPECT_EQ(read_cache(""), "");
  EXPECT_FALSE(write_cache("", "x"));
}

TEST(Env, VariablesThatCannotBeAreRefusedByName) {
  const std::pair<const char*, const char*> kBad[] = {{"FREIGHT_LOG", "loud"},
                                                      {"FREIGHT_TUNE", "yes"},
                                                      {"FREIGHT_BF16", "2"},
                                                      {"FREIGHT_VERIFY", " 1"},
                                                      {"FREIGHT_CUDA_GRAPH", "off"}};
  for (const auto& [name, value] : kBad) {
    const ScopedEnvironment set(name, value);
    expect_error(ErrorKind::usage, {name, value, "expected one of "}, [] { env::check(); });
  }
  const ScopedEnvironment good("FREIGHT_LOG", "debug"), empty("FREIGHT_TUNE", "");
  EXPECT_NO_THROW(env::check());
}

}  // namespace
}  // namespace freight
