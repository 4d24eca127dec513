// See faults.h.
#include "freight/backend/gpu/faults.h"

#include <mutex>
#include <vector>

#include "freight/base/error.h"

namespace freight::gpu {

namespace {

struct Check {
  std::string op, where;
  int64_t rows;
  bool operator==(const Check&) const = default;
};
struct Checks {
  std::mutex mutex;
  std::vector<Check> all;
};
Checks& checks() {
  static Checks c;
  return c;
}

}  // namespace

int64_t index_check(const Node& node, int64_t rows) {
  const Check check{name(node.op), node.location(), rows};
  Checks& c = checks();
  std::lock_guard lock(c.mutex);
  for (size_t i = 0; i < c.all.size(); ++i) {
    if (c.all[i] == check) return static_cast<int64_t>(i) + 1;
  }
  c.all.push_back(check);
  return static_cast<int64_t>(c.all.size());
}

void throw_fault(const int64_t words[2], DeviceMemory& memory, void* words_there) {
  if (words[0] == 0) return;
  memory.upload(words_there, kNoFault, sizeof kNoFault);
  Checks& c = checks();
  std::lock_guard lock(c.mutex);
  FREIGHT_CHECK(words[0] > 0 && words[0] <= static_cast<int64_t>(c.all.size()), "the device's fault words are damaged");
  const Check& check = c.all[static_cast<size_t>(words[0] - 1)];
  throw Error(ErrorKind::data, check.op, cat("index out of range: got ", words[1], ", need 0 to ", check.rows - 1),
              check.where);
}

}  // namespace freight::gpu
