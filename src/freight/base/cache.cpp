// See cache.h.
#include "freight/base/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "freight/base/env.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

// A regular file, opened without following a link and without waiting at a pipe; -1 where there is none.
class File {
 public:
  File(const std::string& path, int flags)
      : fd_(path.empty() ? -1 : ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666)) {
    struct stat st {};
    if (fd_ >= 0 && ::fstat(fd_, &st) == 0 && S_ISREG(st.st_mode)) {
      size_ = static_cast<size_t>(st.st_size);
      return;
    }
    close();
  }
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  size_t size() const { return size_; }
  int fd() const { return fd_; }

 private:
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int fd_;
  size_t size_ = 0;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void make_folder_of(const std::string& path) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
}

}  // namespace

std::string cache_path(const std::string& name) {
  const std::string dir = env::cache_dir();
  return dir.empty() ? std::string() : cat(dir, "/", name);
}

std::string read_cache(const std::string& path, size_t most) {
  const File file(path, O_RDONLY);
  if (!file || file.size() > most) return {};
  std::string content(file.size(), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(file.fd(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

bool append_cache(const std::string& path, std::string_view text, size_t most) {
  if (path.empty()) return false;
  make_folder_of(path);
  const File file(path, O_WRONLY | O_CREAT | O_APPEND);
  return file && file.size() + text.size() <= most && write_all(file.fd(), text);
}

bool write_cache(const std::string& path, std::string_view bytes) {
  if (path.empty()) return false;
  make_folder_of(path);
  const std::string partial = cat(path, ".", static_cast<int64_t>(::getpid()));
  ::unlink(partial.c_str());
  {
    const File file(partial, O_WRONLY | O_CREAT | O_EXCL);
    if (!file) return false;
    if (!write_all(file.fd(), bytes)) {
      ::unlink(partial.c_str());
      return false;
    }
  }
  return ::rename(partial.c_str(), path.c_str()) == 0;
}

}  // namespace freight
