// See faults.h.
#include "freight/backend/gpu/faults.h"

#include <algorithm>
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
std::mutex g_mutex;
std::vector<Check> g_checks;

}  // namespace

int64_t index_check(const Node& node, int64_t rows) {
  const Check check{name(node.op), node.location(), rows};
  std::lock_guard lock(g_mutex);
  const auto at = std::find(g_checks.begin(), g_checks.end(), check) - g_checks.begin();
  if (at == std::ssize(g_checks)) g_checks.push_back(check);
  return at + 1;
}

void throw_fault(const int64_t words[2], DeviceMemory& memory, void* words_there) {
  if (words[0] == 0) return;
  memory.upload(words_there, kNoFault, sizeof kNoFault);
  std::lock_guard lock(g_mutex);
  FREIGHT_CHECK(words[0] > 0 && words[0] <= std::ssize(g_checks), "the device's fault words are damaged");
  const Check& check = g_checks[static_cast<size_t>(words[0] - 1)];
  throw Error(ErrorKind::data, check.op, cat("index out of range: got ", words[1], ", need 0 to ", check.rows - 1),
              check.where);
}

}  // namespace freight::gpu
