// Stores that bypass the caches, for bytes that another core reads next. On EPYC, two cores that share no third-level
// cache pass a written line by requests across the chip, for the reader and again for the next writer: sums then take
// several times as long as with the lines in memory. Other processors were not measured, so there the caches keep what
// is written.
#pragma once
#include <cstdint>

namespace freight::comm {

// Copies `bytes` from one place to another that does not overlap. Others see them after a round that begins with
// stores_done().
void stream_bytes(void* to, const void* from, int64_t bytes);

// Orders stores: streamed bytes are visible before anything that this thread stores afterwards.
void stores_done();

}  // namespace freight::comm
