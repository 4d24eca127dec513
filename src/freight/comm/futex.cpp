// See futex_internal.h.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cmath>
#include <ctime>

#include "freight/comm/futex_internal.h"

namespace freight::comm {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

void sleep_while(const std::atomic<uint32_t>& word, uint32_t value, double seconds) {
  const double whole = std::floor(seconds);
  const timespec span = {.tv_sec = static_cast<time_t>(whole), .tv_nsec = static_cast<long>((seconds - whole) * 1e9)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &span, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace freight::comm
