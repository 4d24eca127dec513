// Log lines on stderr by level (FREIGHT_LOG); an optional second sink keeps them in a run's log.txt. Thread-safe.
#pragma once
#include <functional>
#include <string>

namespace freight::log {

enum class Level : int { error, warn, info, debug };

void set_level(Level level);
Level level();
// Receives every line at or above the level as well; empty removes it.
void set_sink(std::function<void(Level, const std::string&)> sink);
void write(Level level, const std::string& text);

inline void warn(const std::string& text) { write(Level::warn, text); }
inline void info(const std::string& text) { write(Level::info, text); }
inline void debug(const std::string& text) { write(Level::debug, text); }

}  // namespace freight::log
