// Stores past the caches, for bytes that another processor reads next. On EPYC, two cores that share no third-level
// cache hand each other a written line by asking across the chip, for the reader and once more for the next writer:
// sums take several times as long so as where the lines lie in memory. Elsewhere it was not measured, so there the
// caches keep what is written.
#pragma once
#include <cstdint>

namespace freight::comm {

// Copies `bytes` from one place to another that does not overlap. Others see them after a round that begins with
// stores_done().
void stream_bytes(void* to, const void* from, int64_t bytes);

// Orders stores: streamed bytes are there before anything that this thread stores afterwards.
void stores_done();

}  // namespace freight::comm
