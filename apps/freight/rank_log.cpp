// See rank_log.h.
#include "rank_log.h"

#include <unistd.h>

#include <cstdio>

#include "freight/base/printable.h"
#include "freight/base/strings.h"

namespace freight::app {

namespace {
void write_line(const std::string& text) { std::fprintf(stderr, "%s\n", printable(text).c_str()); }
}  // namespace

void begin_rank_log(const comm::Launch& launch) {
  if (launch.source != "freight" || launch.rank == 0) return;
  write_line(cat("rank ", launch.rank, " of ", launch.world, " started as process ", ::getpid()));
}

void RankLog::on_start(const train::RunSummary& s) {
  if (own_) write_line(cat("training ", s.model, " on ", s.data, " with ", s.device, ", ", s.steps, " steps"));
}

void RankLog::on_epoch(const train::EpochReport& e) {
  if (own_) write_line(cat("epoch ", e.train.epoch, "/", e.train.epochs, " ended at step ", e.train.total_step));
}

void RankLog::on_bad_sample(const std::string& path, const std::string& reason) {
  write_line(cat("skipped: ", path, ": ", reason));
}

}  // namespace freight::app
