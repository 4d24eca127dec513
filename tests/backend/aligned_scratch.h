// Scratch memory for kernels that are called without a plan.
#pragma once
#include <memory>
#include <vector>

namespace freight::testing {

// So many bytes at an address that vectors like.
class AlignedScratch {
 public:
  explicit AlignedScratch(size_t bytes) : bytes_(bytes + kAlignment) {}
  void* get() {
    void* at = bytes_.data();
    size_t space = bytes_.size();
    return std::align(kAlignment, 1, at, space);
  }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<char> bytes_;
};

}  // namespace freight::testing
