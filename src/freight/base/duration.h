// Lengths of time as users write them: "60s", "5m", "1h30m", "2d".
#pragma once
#include <string>

namespace freight {

// Seconds. Throws Error(usage) that names `flag` for another form and for no time at all.
double parse_seconds(const std::string& flag, const std::string& text);

}  // namespace freight
