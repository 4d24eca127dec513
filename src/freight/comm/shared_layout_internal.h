// The memory file of a job on one host contains a head, a status per rank and a slot per rank. Zeros are its first
// state.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace freight::comm {

// Errors go to all ranks: the first that finds one writes it here, and every rank throws it.
struct SharedError {
  std::atomic<uint32_t> state;  // kNone, kBeingWritten, kWritten
  int32_t kind;                 // an ErrorKind
  std::array<char, 512> text;   // ends with a zero

  static constexpr uint32_t kNone = 0, kBeingWritten = 1, kWritten = 2;
};

struct alignas(128) SharedHead {
  SharedError shared_error;
};

// The status shows how far its rank is. Others poll `arrived`, hence it has separate cache lines: two, since
// processors fetch pairs.
struct alignas(128) RankStatus {
  std::atomic<uint32_t> arrived;               // rounds that the rank has entered; sleepers sleep on this word
  std::atomic<uint32_t> sleepers;              // ranks that sleep on `arrived`
  std::atomic<uint32_t> call_count;            // collectives that the rank has entered
  std::atomic<uint32_t> left;                  // 1: the rank has left the job in good order
  std::atomic<int32_t> processor;              // the core that it ran on in its last round
  std::array<std::atomic<uint64_t>, 2> calls;  // the last two calls, packed; the n-th is in calls[n % 2]
  std::atomic<int64_t> step;
};

// Half h of a slot is written before the rounds whose number is h modulo 2, and read between such a round and the next
// one. A rank that is one round ahead writes the other half. It cannot be two ahead: the others would have entered the
// round in between, and they enter it only after they have read the half.
constexpr size_t kInputBytes = size_t{512} << 10;       // of a half: a rank's input
constexpr size_t kResultBytes = kInputBytes / 2 + 128;  // of a half: the result, a slice of a sum
constexpr size_t kHalfBytes = (kInputBytes + kResultBytes + 4095) / 4096 * 4096;

inline size_t statuses_at() { return sizeof(SharedHead); }
inline size_t slots_at(int world) {
  return (statuses_at() + static_cast<size_t>(world) * sizeof(RankStatus) + 4095) / 4096 * 4096;
}
inline size_t shared_bytes(int world) { return slots_at(world) + static_cast<size_t>(world) * 2 * kHalfBytes; }

}  // namespace freight::comm
