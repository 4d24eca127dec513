// Readers that may take long ask here whether they are to stop (stop_reading_when in file.h).
#pragma once
#include <string>

namespace freight::io {

// Throws Error(runtime) that begins with `path` where the reading is to end.
void end_reading_where_asked(const std::string& path);

}  // namespace freight::io
