// One process at a time in the directory of a run: a lock on its file .lock, which the system lifts when the process
// ends, however it ends.
#pragma once
#include <string>

namespace freight::train {

class RunLock {
 public:
  // The directory must be there. Throws Error(usage) that says who holds the lock and since when, and Error(runtime)
  // where the file cannot be made. A file system without locks is no error: there is none then.
  explicit RunLock(const std::string& run);
  // Takes the file away, too.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // True where the file is there: held, or left by a process that was killed.
  static bool file_exists(const std::string& run);
  // True where a process holds it.
  static bool held(const std::string& run);
  static constexpr const char* kFile = ".lock";

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace freight::train
