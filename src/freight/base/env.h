// The only place that reads the environment. Every variable Freight honors has a row here; `freight env` prints the
// table.
#pragma once
#include <string>
#include <vector>

namespace freight::env {

struct Variable {
  const char* name;
  const char* meaning;
  const char* flag;         // the command-line flag that says the same, "" where none
  const char* values = "";  // what it may be, "0|1"; "" for any text
  bool secret = false;      // listings do not show its value
};

// All honored variables, in the order of `freight env`.
const std::vector<Variable>& variables();
// The value, or `fallback` where the variable is unset. `name` must be in the table (checked).
std::string get(const char* name, const std::string& fallback = {});
bool is_set(const char* name);
// Throws Error(usage) for a variable that is set to what it cannot be. An empty one counts as not set.
void check();
// Directory for caches: $FREIGHT_CACHE, else $XDG_CACHE_HOME/freight, else ~/.cache/freight, else a folder of this user
// alone in the temporary one, which others can write to as well: "" where that is not safe, which is logged once.
// Files in it: cache.h.
std::string cache_dir();

}  // namespace freight::env
