// Ensures that one process at a time uses the directory of a run: a lock on its file .lock, which the system releases
// when the process ends for any reason.
#pragma once
#include <string>

namespace freight::train {

class RunLock {
 public:
  // The directory must exist. Throws Error(usage) that names the process that holds the lock, with its start time, and
  // Error(runtime) if the file cannot be created. On a file system without locks there is no lock, and no error.
  explicit RunLock(const std::string& run);
  // Removes the file, too.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // True if the file exists: a process holds the lock, or was killed while it did.
  static bool file_exists(const std::string& run);
  // True if a process holds the lock.
  static bool held(const std::string& run);
  static constexpr const char* kFile = ".lock";

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace freight::train
