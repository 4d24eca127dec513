// The study's file, which is compiled in; internal to bench/.
#pragma once

namespace freight::bench {

// The text of catalog/study.json.
const char* study_file();

}  // namespace freight::bench
