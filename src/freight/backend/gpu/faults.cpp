// See faults.h.
#include "freight/backend/gpu/faults.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "freight/backend/matrix_faults.h"
#include "freight/base/error.h"

namespace freight::gpu {

namespace {

struct Check {
  std::string op, where;
  int64_t rows = 0;  // that an index must lie in; or the pivots of a matrix of `matrices`
  std::optional<MatrixFault> fault = {};
  Type matrices = {};
  bool operator==(const Check&) const = default;
};
std::mutex g_mutex;
std::vector<Check> g_checks;

int64_t number_of(const Check& check) {
  std::lock_guard lock(g_mutex);
  const auto at = std::find(g_checks.begin(), g_checks.end(), check) - g_checks.begin();
  if (at == std::ssize(g_checks)) g_checks.push_back(check);
  return at + 1;
}

std::string text_of(const Check& check, int64_t found) {
  if (!check.fault) return cat("index out of range: expected 0 to ", check.rows - 1, ", got ", found);
  const int64_t matrix = found / check.rows, place = found % check.rows;
  switch (*check.fault) {
    case MatrixFault::zero_pivot: return zero_pivot_text(check.matrices, matrix, place);
    case MatrixFault::zero_diagonal: return zero_diagonal_text(check.matrices, matrix, place);
    case MatrixFault::not_converged: return not_converged_text(check.matrices, matrix, "cuSOLVER");
    default: return not_positive_text(check.matrices, matrix, place + 1);
  }
}

}  // namespace

int64_t index_check(const Node& node, int64_t rows) {
  return number_of({.op = node.called(), .where = node.location(), .rows = rows});
}

int64_t matrix_check(const Node& node, const Type& matrices, MatrixFault fault) {
  const Shape& s = matrices.shape;
  return number_of({.op = node.called(),
                    .where = node.location(),
                    .rows = std::min(s[s.rank() - 2], s[s.rank() - 1]),
                    .fault = fault,
                    .matrices = matrices});
}

void throw_fault(const int64_t words[2], DeviceMemory& memory, void* words_there) {
  if (words[0] == 0) return;
  memory.upload(words_there, kNoFault, sizeof kNoFault);
  std::lock_guard lock(g_mutex);
  FREIGHT_CHECK(words[0] > 0 && words[0] <= std::ssize(g_checks), "the device's fault words are damaged");
  const Check& check = g_checks[static_cast<size_t>(words[0] - 1)];
  throw Error(ErrorKind::data, check.op, text_of(check, words[1]), check.where);
}

}  // namespace freight::gpu
