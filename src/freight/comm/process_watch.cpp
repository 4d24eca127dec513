// See process_watch_internal.h.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "freight/base/error.h"
#include "freight/comm/process_watch_internal.h"

namespace freight::comm {

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

}  // namespace freight::comm
