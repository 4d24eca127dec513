// Log lines on stderr by level (FREIGHT_LOG). Thread-safe.
#pragma once
#include <functional>
#include <string>

namespace freight::logging {

enum class Level : int { error, warn, info, debug };

void set_level(Level level);
void write(Level level, const std::string& text);
// Says whether the last line of stderr is one that is rewritten, such as a progress line: log lines remove it first, so
// that they do not join it.
void set_rewriting(bool rewriting);

// Calls `copy` with each line that is written from now on; an empty function ends that.
void set_copy(std::function<void(const std::string& line)> copy);

// While one lives, log lines wait: results are being written piece by piece, and on a terminal lines of stderr would
// stand within them. The last one's end writes them.
class Held {
 public:
  Held();
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

inline void warn(const std::string& text) { write(Level::warn, text); }
inline void info(const std::string& text) { write(Level::info, text); }
inline void debug(const std::string& text) { write(Level::debug, text); }

}  // namespace freight::logging
