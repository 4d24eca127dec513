// Log lines on stderr by level (FREIGHT_LOG). Thread-safe.
#pragma once
#include <string>

namespace freight::logging {

enum class Level : int { error, warn, info, debug };

void set_level(Level level);
void write(Level level, const std::string& text);
// Says whether the last line of stderr is one that is rewritten, such as a progress line: log lines remove it first, so
// that they do not join it.
void set_rewriting(bool rewriting);

inline void warn(const std::string& text) { write(Level::warn, text); }
inline void info(const std::string& text) { write(Level::info, text); }
inline void debug(const std::string& text) { write(Level::debug, text); }

}  // namespace freight::logging
