// See file_memory.h.
#include "freight/io/file_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "freight/base/error.h"
#include "freight/base/strings.h"

namespace freight::io {

namespace {

int nameless_file(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string name = folder + "/freight-XXXXXX";  // a file system without nameless files
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

// Each column of a wide table has a file; shells allow 1,024 open ones, the system usually more.
void allow_more_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

FileMemory::~FileMemory() {
  if (data_) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

void FileMemory::give_up(const char* what, int error) const {
  fail(ErrorKind::runtime, folder_, what, ": ", std::strerror(error),
       "; it holds data that are larger than memory: set TMPDIR to use another folder");
}

void FileMemory::open() {
  fd_ = nameless_file(folder_);
  if (fd_ < 0 && errno == EMFILE) {
    allow_more_files();
    fd_ = nameless_file(folder_);
  }
  if (fd_ < 0) give_up("cannot make a file in this folder", errno);
}

void FileMemory::resize(size_t bytes) {
  if (bytes == size_) return;
  if (fd_ < 0) open();
  if (bytes > size_) {
    // The blocks are taken now: a disk that is full when a page is written would end the program by a signal.
    int error = ::posix_fallocate(fd_, static_cast<off_t>(size_), static_cast<off_t>(bytes - size_));
    if (error == EOPNOTSUPP || error == EINVAL) error = ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    if (error != 0) give_up(cat("cannot hold ", human_bytes(static_cast<double>(bytes))).c_str(), error);
  }
  if (bytes == 0) {
    ::munmap(data_, size_);
    data_ = nullptr;
  } else {
    void* const at = data_ ? ::mremap(data_, size_, bytes, MREMAP_MAYMOVE)
                           : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) give_up("cannot map a file of this folder", errno);
    data_ = at;
  }
  if (bytes < size_ && ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) give_up("cannot shorten a file here", errno);
  size_ = bytes;
}

Array zeros_in(const std::string& folder, DType dtype, const Shape& shape) {
  const size_t bytes = static_cast<size_t>(shape.numel()) * size_of(dtype);
  if (folder.empty() || bytes == 0) return {dtype, shape};
  const auto memory = std::make_shared<FileMemory>(folder);
  memory->resize(bytes);
  return {dtype, shape, Storage::borrow(memory->data(), bytes, memory)};
}

}  // namespace freight::io
