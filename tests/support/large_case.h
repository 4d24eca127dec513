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

}  // namespace freight::test
