// The progress line of downloads.
#pragma once
#include "freight/io/fetch.h"
#include "freight/train/progress.h"

namespace freight::app {

// Options of a download that shows its progress and stops when a signal asks for it. They refer to `progress`.
io::FetchOptions fetch_with_progress(Progress& progress);

}  // namespace freight::app
