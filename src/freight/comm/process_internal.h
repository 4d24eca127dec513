// Watching other processes of this host, and sleeping on words of shared memory. Linux alone.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>

namespace freight::comm {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  int release();  // the caller closes it

 private:
  int fd_;
};

// A descriptor that becomes readable when the process ends, whoever its parent is. Empty where the process is not there
// (any more), or belongs to another process namespace (number 0). Throws Error(runtime) on a kernel before 5.3.
Descriptor watch_process(pid_t process);
// True once a watched process has ended; false for an empty descriptor.
bool has_ended(const Descriptor& watched);
// "is stopped", "sleeps", "runs", "ended": what /proc says of a process.
std::string state_of(pid_t process);

// Sleeps while `word` is `value`, `seconds` at most; returns earlier for no reason, too. All processes that map it may
// change the word, and then call wake_all.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t value, double seconds);
void wake_all(const std::atomic<uint32_t>& word);

// While it lives, a write of this thread, or of one that it starts, to a closed connection is an error and not SIGPIPE,
// which would end the process.
class WithoutSigpipe {
 public:
  WithoutSigpipe();
  ~WithoutSigpipe();
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
  bool pending_before_ = false;
};

// While it lives, this thread gets no signals, nor does one that it starts, for good: they are for the program's own.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// 32 hexadecimal digits that nobody can guess.
std::string new_secret();

// "box17", for messages.
std::string host_name();

}  // namespace freight::comm
