// The study's file, compiled in; internal to the room.
#pragma once

namespace freight::bench {

// The text of catalog/study.json.
const char* study_file();

}  // namespace freight::bench
