// See log.h.
#include "freight/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

#include "freight/base/env.h"

namespace freight::logging {

namespace {
Level initial_level() {
  const std::string v = env::get("FREIGHT_LOG", "warn");
  if (v == "error") return Level::error;
  if (v == "info") return Level::info;
  if (v == "debug") return Level::debug;
  return Level::warn;
}
std::mutex g_mutex;
std::atomic<bool> g_rewriting = false;
Level& current() {
  static Level l = initial_level();
  return l;
}
}  // namespace

void set_level(Level level) {
  std::lock_guard lock(g_mutex);
  current() = level;
}

void write(Level level, const std::string& text) {
  static constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  std::lock_guard lock(g_mutex);
  if (level > current()) return;
  const char* const removed = g_rewriting ? "\r\033[K" : "";
  std::fprintf(stderr, "%sfreight: %s: %s\n", removed, kNames[static_cast<int>(level)], text.c_str());
}

void set_rewriting(bool rewriting) { g_rewriting = rewriting; }

}  // namespace freight::logging
