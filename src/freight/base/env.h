// The only place that reads the environment. Every variable Freight honours has a row here; `freight env` prints the
// table.
#pragma once
#include <string>
#include <vector>

namespace freight::env {

struct Variable {
  const char* name;
  const char* meaning;
  const char* flag;  // the command-line flag that says the same, "" where none
};

// All honoured variables, in the order of `freight env`.
const std::vector<Variable>& variables();
// The value, or `fallback` where the variable is unset. `name` must be in the table (checked).
std::string get(const char* name, const std::string& fallback = {});
bool is_set(const char* name);
// Directory for caches: $FREIGHT_CACHE, else $XDG_CACHE_HOME/freight, else ~/.cache/freight, else TMPDIR/freight-cache.
std::string cache_dir();

}  // namespace freight::env
