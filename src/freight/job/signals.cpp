// See signals.h. The handlers touch lock-free atomics and _exit only.
#include "freight/job/signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "freight/io/file.h"

namespace freight::signals {

namespace {

std::atomic<int> g_stop{0}, g_agreed{0};
std::atomic<bool> g_save{false};
std::atomic<int64_t> g_stopped_at{0};  // milliseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<int64_t>::is_always_lock_free);

struct sigaction g_before = {};  // what hold_termination has replaced
bool g_held = false;

int64_t milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

// `timeout` and some schedulers send SIGTERM to the process and then to its group, so that it arrives twice: what comes
// within a second is no second request.
void on_stop(int number) {
  constexpr int64_t kSameRequest = 1000;
  const int64_t now = milliseconds();
  if (g_stop == 0) g_stopped_at = now;
  const int before = g_stop.exchange(number);
  if (before == 0 || (before == SIGTERM && number == SIGTERM && now - g_stopped_at < kSameRequest)) return;
  _exit(128 + number);
}

void on_save(int) { g_save = true; }

void handle(int number, void (*handler)(int), struct sigaction* before = nullptr) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // reads and waits go on; loops poll
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, before);
}

}  // namespace

void install() {
  io::stop_reading_when(stop_requested);
  handle(SIGINT, on_stop);
  handle(SIGTERM, on_stop);
  handle(SIGUSR1, on_save);
}

void hold_termination() {
  if (!std::exchange(g_held, true)) handle(SIGTERM, on_stop, &g_before);
}

int release_termination() {
  if (std::exchange(g_held, false)) sigaction(SIGTERM, &g_before, nullptr);
  const int number = stop_signal();
  reset();
  return number;
}

int own_signal() { return g_stop; }
void agree(int number) { g_agreed = number; }
int stop_signal() { return g_stop != 0 ? g_stop : g_agreed; }
int exit_code() { return stop_signal() == 0 ? 0 : 128 + stop_signal(); }
bool take_save_request() { return g_save.exchange(false); }
void reset() {
  g_stop = g_agreed = 0;
  g_save = false;
}

}  // namespace freight::signals
