// See log.h.
#include "freight/base/log.h"

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
  if (level <= current()) std::fprintf(stderr, "freight: %s: %s\n", kNames[static_cast<int>(level)], text.c_str());
}

}  // namespace freight::logging
