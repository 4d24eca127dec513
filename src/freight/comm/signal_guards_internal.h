// Keeps signals from a thread while a guard lives.
#pragma once
#include <csignal>

namespace freight::comm {

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

}  // namespace freight::comm
