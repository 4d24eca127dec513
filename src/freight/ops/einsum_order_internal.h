// The order in which einsum contracts three and more operands: the one of the fewest FLOPs. Internal to ops.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace freight::ops {

// Two operands are joined: the product takes the place of the first one, which has the lower number.
struct Contraction {
  size_t first, second;
};

// Letters and their extents. A letter that stands in one operand alone stands in the result, too.
struct Contractions {
  std::vector<std::string> operands;
  std::string result;
  std::map<char, int64_t> extents;
  bool whole_products =
      false;  // elements are multiplied before they are summed: of integers, which matmul does not take
};

// An order in which all operands become one. Exact up to 8 operands, by dynamic programming over their subsets; of
// more, pairs are joined that leave the smallest arrays, until 8 are left. From left to right where that is no worse,
// or where every other order makes an array of more axes than there may be.
std::vector<Contraction> contraction_order(const Contractions& all);

}  // namespace freight::ops
