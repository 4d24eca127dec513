// See run_lock.h.
#include "freight/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"

namespace freight::train {

namespace {

std::string self() {
  char time[64] = "";
  const std::time_t now = std::time(nullptr);
  struct tm utc {};
  std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", ::gmtime_r(&now, &utc));
  return cat("process ", static_cast<int64_t>(::getpid()), " on ", host_name(), " since ", time);
}

// The text that the holder wrote into the file; it may be about to.
std::string holder(int fd) {
  char text[400];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  return n > 0 ? excerpt({text, static_cast<size_t>(n)}) : "another process";
}

bool is_at(int fd, const std::string& path) {
  struct stat held {
  }, there{};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &there) == 0 && held.st_ino == there.st_ino &&
         held.st_dev == there.st_dev;
}

}  // namespace

RunLock::RunLock(const std::string& run) : path_(cat(run, "/", kFile)) {
  for (;;) {
    // Neither follows a link nor waits at a pipe that somebody put there.
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd_ < 0) fail(ErrorKind::runtime, path_, "cannot make the lock of this run: ", std::strerror(errno));
    const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      const std::string who = holder(fd_);
      ::close(fd_);
      fd_ = -1;
      fail(ErrorKind::usage, "--output-dir", run, " is in use by ", who,
           ": wait until it ends, or use another directory");
    }
    // The one before took its file away between our opening and locking it.
    if (is_at(fd_, path_)) break;
    ::close(fd_);
  }
  const std::string text = self();
  // A full disk must not prevent the run: the lock is valid without its text.
  if (::ftruncate(fd_, 0) == 0) (void)!::pwrite(fd_, text.data(), text.size(), 0);
}

RunLock::~RunLock() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

bool RunLock::held(const std::string& run) {
  const int fd = ::open(cat(run, "/", kFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool free = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  const bool held = !free && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

bool RunLock::file_exists(const std::string& run) {
  struct stat there {};
  return ::lstat(cat(run, "/", kFile).c_str(), &there) == 0;
}

}  // namespace freight::train
