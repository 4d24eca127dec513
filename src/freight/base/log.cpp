// See log.h.
#include "freight/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

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
std::function<void(const std::string&)> g_copy;
int g_holders = 0;
std::vector<std::string> g_waiting;
std::atomic<bool> g_rewriting = false;
Level& current() {
  static Level l = initial_level();
  return l;
}
}  // namespace

namespace {
// With g_mutex held.
void put(const std::string& line) {
  const char* const removed = g_rewriting ? "\r\033[K" : "";
  std::fprintf(stderr, "%s%s\n", removed, line.c_str());
  if (g_copy) g_copy(line);
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
  std::string line = std::string("freight: ") + kNames[static_cast<int>(level)] + ": " + text;
  if (g_holders > 0) {
    g_waiting.push_back(std::move(line));
  } else {
    put(line);
  }
}

void set_copy(std::function<void(const std::string&)> copy) {
  std::lock_guard lock(g_mutex);
  g_copy = std::move(copy);
}

Held::Held() {
  std::lock_guard lock(g_mutex);
  ++g_holders;
}

Held::~Held() {
  std::lock_guard lock(g_mutex);
  if (--g_holders > 0) return;
  for (const std::string& line : g_waiting) put(line);
  g_waiting.clear();
}

void set_rewriting(bool rewriting) { g_rewriting = rewriting; }

}  // namespace freight::logging
