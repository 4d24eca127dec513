// See process_internal.h.
#include "freight/comm/process_internal.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "freight/base/error.h"

namespace freight::comm {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int Descriptor::release() { return std::exchange(fd_, -1); }

Descriptor watch_process(pid_t process) {
  if (process <= 0) return Descriptor();
  const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (fd < 0 && errno != ESRCH && errno != EINVAL) {
    fail(ErrorKind::runtime, "pidfd_open", "cannot watch process ", process, ": ", std::strerror(errno),
         "; processes of one job need Linux 5.3 or newer");
  }
  return Descriptor(fd);
}

bool has_ended(const Descriptor& watched) {
  pollfd p = {.fd = watched.get(), .events = POLLIN, .revents = 0};
  return watched.get() >= 0 && ::poll(&p, 1, 0) == 1;
}

std::string state_of(pid_t process) {
  std::array<char, 512> text{};
  if (std::FILE* const f = std::fopen(cat("/proc/", process, "/stat").c_str(), "r")) {
    const size_t n = std::fread(text.data(), 1, text.size() - 1, f);
    text[n] = 0;
    std::fclose(f);
  }
  // The name in parentheses may contain parentheses, too; the state follows the last one.
  const char* const close = std::strrchr(text.data(), ')');
  switch (close && close[1] == ' ' ? close[2] : 'X') {
    case 'T':
    case 't': return "is stopped";
    case 'S':
    case 'D': return "sleeps";
    case 'R': return "runs";
    default: return "ended";
  }
}

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

void sleep_while(const std::atomic<uint32_t>& word, uint32_t value, double seconds) {
  const double whole = std::floor(seconds);
  const timespec span = {.tv_sec = static_cast<time_t>(whole), .tv_nsec = static_cast<long>((seconds - whole) * 1e9)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &span, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

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

std::string new_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail(ErrorKind::runtime, "getrandom", "the system returns no random numbers: ", std::strerror(errno));
  }
  std::string text;
  constexpr const char* kDigits = "0123456789abcdef";
  for (const unsigned char b : bytes) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace freight::comm
