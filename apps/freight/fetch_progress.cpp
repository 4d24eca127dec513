// See fetch_progress.h.
#include "fetch_progress.h"

#include "freight/base/strings.h"
#include "freight/job/signals.h"

namespace freight::app {

io::FetchOptions fetch_with_progress(Progress& progress) {
  io::FetchOptions fetch;
  fetch.cancelled = signals::stop_requested;
  fetch.progress = [&progress](const io::Progress& p) {
    if (!progress.due()) return;
    const auto done = static_cast<double>(p.done), total = static_cast<double>(p.total);
    progress.update(p.total > 0 ? cat(p.file, "  ", human_bytes(done), " of ", human_bytes(total), "  ",
                                      fixed(100.0 * done / total, 0), "%")
                                : cat(p.file, "  ", human_bytes(done)));
  };
  return fetch;
}

}  // namespace freight::app
