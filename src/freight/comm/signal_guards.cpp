// See signal_guards_internal.h.
#include <ctime>

#include "freight/comm/signal_guards_internal.h"

namespace freight::comm {

namespace {

bool sigpipe_pends() {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGPIPE) == 1;
}

sigset_t sigpipe_alone() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

WithoutSigpipe::WithoutSigpipe() : pending_before_(sigpipe_pends()) {
  const sigset_t set = sigpipe_alone();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

WithoutSigpipe::~WithoutSigpipe() {
  const sigset_t set = sigpipe_alone();
  const timespec at_once = {.tv_sec = 0, .tv_nsec = 0};
  if (!pending_before_ && sigpipe_pends()) ::sigtimedwait(&set, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace freight::comm
