// See signals.h. The handlers touch lock-free atomics and _exit only.
#include "freight/job/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "freight/io/file.h"

namespace freight::signals {

namespace {

std::atomic<int> g_stop{0}, g_agreed{0};
std::atomic<bool> g_save{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_stop(int number) {
  if (g_stop.exchange(number) != 0) _exit(128 + number);
}

void on_save(int) { g_save = true; }

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // reads and waits go on; loops poll
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void install() {
  io::stop_reading_when(stop_requested);
  handle(SIGINT, on_stop);
  handle(SIGTERM, on_stop);
  handle(SIGUSR1, on_save);
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
