// A case of the tests of large operands (large.h), and the list of them.
#pragma once
#include <string>
#include <vector>

#include "tests/support/large_repeated.h"

namespace freight::test {

struct LargeCase {
  std::string what;
  int64_t gib;  // of memory that it takes at most, rounded up
  std::function<void(const RunGraph&)> check;
  bool quick = false;  // runs in every suite; the others with FREIGHT_LONG=1
  bool on_gpu = false;
  size_t ways = 1;  // kernels that a backend chooses among: each is tried
};

class LargeCases {
 public:
  void add(const LargeCase& c) { all_.push_back(c); }
  void add(const std::string& what, int64_t gib, const Repeated& r, bool on_gpu = false, bool quick = false) {
    all_.push_back({what, gib, [r](const RunGraph& run) { check_repeated(run, r); }, quick, on_gpu});
  }
  const std::vector<LargeCase>& all() const { return all_; }

 private:
  std::vector<LargeCase> all_;
};

constexpr int64_t kBytes31 = int64_t{1} << 31;

// The least odd number of copies that make an operand of more than 2^31 bytes, and some more.
inline int64_t beyond_bytes(const Type& block) { return (kBytes31 / static_cast<int64_t>(block.bytes()) + 8) | 1; }

inline Repeated one_op(Op op, const Attrs& attrs, const std::vector<Block>& in, const std::vector<Outcome>& out,
                       int64_t copies, double tolerance = 1e-4) {
  const auto make = [=](Builder& b, const std::vector<Value>& x, int64_t) { return b.add(op, attrs, x); };
  return {copies, in, make, out, tolerance};
}

}  // namespace freight::test
