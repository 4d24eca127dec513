// Watches other processes of this host, and sleeps on words of shared memory. Linux only.
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

// A descriptor that becomes readable when the process ends, even if this process is not its parent. Empty if the
// process does not exist (any more), or belongs to another process namespace (number 0). Throws Error(runtime) on a
// kernel before 5.3.
Descriptor watch_process(pid_t process);
// True once a watched process has ended; false for an empty descriptor.
bool has_ended(const Descriptor& watched);
// The state of a process according to /proc: "is stopped", "sleeps", "runs", "ended".
std::string state_of(pid_t process);

// Sleeps while `word` is `value`, for at most `seconds`; it may also return early. Any process that maps the word may
// change it and must then call wake_all.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t value, double seconds);
void wake_all(const std::atomic<uint32_t>& word);

// While it lives, writing to a closed connection in this thread, or in threads that it starts, is an error and does not
// raise SIGPIPE, which would end the process.
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

// While it lives, this thread gets no signals; threads that it starts never get any. Signals are for the program's own
// threads.
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

// A random secret of 32 hexadecimal digits.
std::string new_secret();

// The name of this host for messages: "box17".
std::string host_name();

}  // namespace freight::comm
