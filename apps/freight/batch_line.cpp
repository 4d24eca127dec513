// See batch_line.h.
#include "batch_line.h"

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/job/parts.h"

namespace freight::app {

namespace {

// Samples of the smallest and of the largest part of a full batch: a device's, or with --grad-accum one of its parts.
std::pair<int64_t, int64_t> part_sizes(const train::RunSummary& s, int64_t devices) {
  const bool whole_shards = s.shards > 0;
  const int64_t parts = whole_shards ? devices : devices * s.grad_accum;
  std::pair<int64_t, int64_t> sizes{s.batch_size, 0};
  for (int64_t i = 0; i < parts; ++i) {
    const job::ShardAssignment deal{
        .shards = whole_shards ? s.shards : parts, .rank = static_cast<int>(i), .world = static_cast<int>(parts)};
    const data::Share share = deal.pieces();
    int64_t samples = 0;
    for (int64_t piece = share.first; piece < share.end; ++piece) samples += share.rows(piece, s.batch_size).second;
    sizes = {std::min(sizes.first, samples), std::max(sizes.second, samples)};
  }
  return sizes;
}

}  // namespace

std::string batch_product(const train::RunSummary& s, int64_t devices) {
  const auto [least, most] = part_sizes(s, devices);
  const std::string part = least == most ? cat(most) : cat(least, most == least + 1 ? " or " : " to ", most);
  return cat(
      s.batch_size, " = ", s.parts.empty() ? cat(devices, devices == 1 ? " device x " : " devices x ", part) : s.parts,
      s.grad_accum > 1 ? cat(" x accum ", s.grad_accum) : "", s.shards > 0 ? cat(" in ", s.shards, " shards") : "");
}

}  // namespace freight::app
