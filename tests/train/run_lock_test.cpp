// One process at a time in a run's directory: who holds it is named, and a lock dies with its process.
#include "freight/train/run_lock.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "freight/train/run_dir.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

TEST(RunLock, ASecondHolderIsToldWhoAndSinceWhen) {
  const TemporaryDir dir;
  {
    const RunLock first(dir.path());
    const std::vector<std::string> says = {"--output-dir", dir.path(), "in use by process ",
                                           cat(static_cast<int64_t>(::getpid())), " since 20"};
    expect_error(ErrorKind::usage, says, [&] { RunLock{dir.path()}; });
    expect_error(ErrorKind::usage, says, [&] { RunDir(dir.path(), false); });
    expect_error(ErrorKind::usage, says, [&] { RunDir(dir.path(), true); });
    expect_error(ErrorKind::usage, says, [&] { RunDir(dir.path(), int64_t{3}); });
    EXPECT_TRUE(RunLock::file_exists(dir.path()));
  }
  EXPECT_EQ(dir.entries(), 0u);
  EXPECT_NO_THROW(RunLock{dir.path()});
}

TEST(RunLock, DiesWithItsProcess) {
  const TemporaryDir dir;
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock held(dir.path());
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(RunLock::file_exists(dir.path()));
  EXPECT_TRUE(RunDir::is_empty(dir.path()));
  EXPECT_NO_THROW(RunLock{dir.path()});
}

TEST(RunLock, NeitherFollowsALinkNorWaitsAtAPipe) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "target", std::string_view("mine"));
  std::filesystem::create_symlink(dir / "target", dir / ".lock");
  expect_error(ErrorKind::runtime, {".lock", "cannot make the lock"}, [&] { RunLock{dir.path()}; });
  EXPECT_EQ(io::read_text(dir / "target"), "mine");
  std::filesystem::remove(dir / ".lock");
  ASSERT_EQ(::mkfifo((dir / ".lock").c_str(), 0600), 0);
  EXPECT_NO_THROW(RunLock{dir.path()});
}

}  // namespace
}  // namespace freight::train
