// A call of a collective as a number that ranks compare, and the checks that transports share.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

#include "freight/base/dtype.h"
#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/comm/comm.h"
#include "freight/comm/tree_sum.h"

namespace freight::comm {

// A collective packed into one number: 3 bits for its kind, 5 for the type, 16 for the root, 40 for the count.
struct Call {
  Collective which;
  DType dtype;
  int root;
  int64_t count;

  uint64_t packed() const {
    return static_cast<uint64_t>(which) << 61 | static_cast<uint64_t>(dtype) << 56 | static_cast<uint64_t>(root) << 40 |
           static_cast<uint64_t>(count);
  }
  explicit Call(uint64_t bits)
      : which(static_cast<Collective>(bits >> 61)),
        dtype(static_cast<DType>(bits >> 56 & 31)),
        root(static_cast<int>(bits >> 40 & 0xffff)),
        count(static_cast<int64_t>(bits & kMostElements)) {}
  Call(Collective w, DType t, int r, int64_t n) : which(w), dtype(t), root(r), count(n) {}

  static constexpr int64_t kMostElements = (int64_t{1} << 40) - 1;
};
static_assert(kDTypeCount <= 32);

inline std::string to_string(const Call& call) {
  if (call.which == Collective::barrier) return "barrier";
  return cat(call.which, " of ", call.dtype, "[", call.count, "]",
             call.which == Collective::broadcast ? cat(" from rank ", call.root) : "");
}

// The last known position of a rank: "rank 2 was last in barrier at step 7"; `call` is null before its first one.
inline std::string position_of(int rank, const Call* call, int64_t step) {
  if (!call) return cat("rank ", rank, " has not been in a collective yet");
  return cat("rank ", rank, " was last in ", *call, " at step ", step);
}

inline std::string process_text(int64_t process, const std::string& host) {
  return cat("its process ", process, " on host ", host);
}

// "rank 2 failed: its process 12 on host b ended or was killed; rank 2 was last in barrier at step 7"
inline std::string failure_of(int rank, const std::string& process, const std::string& how,
                              const std::string& position) {
  return cat("rank ", rank, " failed: ", process, " ", how, "; ", position);
}

// Throws Error(usage) for a negative or too large count, and for a root that is not a rank.
inline void check_call(const Call& call, int world) {
  const char* const op = to_string(call.which);
  need_between(op, "root rank", call.root, 0, world - 1);
  need_between(op, "elements", static_cast<double>(call.count), 0, static_cast<double>(Call::kMostElements));
}

inline int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));  // with no bytes the addresses may be null
}

inline void check_movable(const char* op, DType dtype) {
  if (dtype != DType::u8) check_summable(op, dtype);
}

// A rank's part of an array, in elements.
struct Slice {
  int64_t begin, count;
};
// Rank r's part of `count` elements of `size` bytes: whole cache lines, so that no two ranks write to one.
inline Slice slice_of(int64_t count, int r, int world, int64_t size) {
  const int64_t line = 64 / size, lines = (count + line - 1) / line;
  const int64_t each = (lines + world - 1) / world * line, begin = each * r < count ? each * r : count;
  return {begin, each < count - begin ? each : count - begin};
}

}  // namespace freight::comm
