// See memory_need.h.
#include "freight/io/memory_need.h"

#include <sys/resource.h>

#include <algorithm>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"

namespace freight::io {

uint64_t memory_limit() {
  static const auto machine = static_cast<uint64_t>(std::max<int64_t>(cpu_info().memory_bytes, 0));
  rlimit of_process{};
  const bool limited = ::getrlimit(RLIMIT_AS, &of_process) == 0 && of_process.rlim_cur != RLIM_INFINITY;
  const uint64_t least = limited ? std::min<uint64_t>(machine, of_process.rlim_cur) : machine;
  return least > 0 ? least : UINT64_MAX;
}

void need_memory(double bytes, const std::string& name, const std::string& what) {
  const auto there = static_cast<double>(memory_limit());
  if (bytes <= there) return;
  fail(ErrorKind::capacity, name, what, " take ", human_bytes(bytes), " of memory, and there are ", human_bytes(there));
}

uint64_t most_unpacked(uint64_t packed) {
  constexpr uint64_t kTimes = 200, kAlways = uint64_t{64} << 20;
  return packed > (UINT64_MAX - kAlways) / kTimes ? UINT64_MAX : kTimes * packed + kAlways;
}

void unpacks_to_more(const std::string& name, uint64_t packed) {
  fail(ErrorKind::data, name, human_bytes(static_cast<double>(packed)), " of gzip data unpack to more than ",
       human_bytes(static_cast<double>(most_unpacked(packed))),
       ", which is rarely a table or text; unpack it first (gunzip) if it is meant so");
}

void no_memory_for(const std::string& name) {
  fail(ErrorKind::capacity, name, "reading it needs more memory than available");
}

bool says_no_memory(const Error& error) { return error.kind() == ErrorKind::capacity && error.op() == "memory"; }

}  // namespace freight::io
