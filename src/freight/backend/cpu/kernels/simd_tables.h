// The instruction set of the SIMD kernels, and their tables by instruction set. This file knows no kernel.
#pragma once
#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace freight::cpu {

// The instruction sets of the SIMD kernels that this processor has, the widest first: "AVX3" (AVX-512), "AVX2", "SSE2".
std::vector<std::string> simd_targets();

// The one in use: 0 for AVX-512, 1 for AVX2, 2 for the build's baseline. Highway's own choice is not used, because its
// library measures the clock for 3 ms when a process loads it.
size_t simd_target();

// While one lives, kernels are those of a processor that has this instruction set and no wider one, so that tests reach
// them all. Plans made before keep theirs. Tests that use it run nothing else meanwhile.
class ForcedSimdTarget {
 public:
  explicit ForcedSimdTarget(const std::string& name);
  ~ForcedSimdTarget();
  ForcedSimdTarget(const ForcedSimdTarget&) = delete;
  ForcedSimdTarget& operator=(const ForcedSimdTarget&) = delete;
  // Kernels written for AVX-512 and AMX alone (bf16/) are not used either where a narrower set is forced.
  static bool allows_avx512();
};

// The table of each instruction set, made when it is first asked for: another one's code may not run on this processor.
template <class Table>
class TablesByTarget {
 public:
  using Make = Table (*)();
  TablesByTarget(Make avx512, Make avx2, Make baseline) : entries_{{{avx512}, {avx2}, {baseline}}} {}
  const Table& get(size_t target) {
    Entry& entry = entries_[target];
    std::call_once(entry.once, [&] { entry.table.emplace(entry.make()); });
    return *entry.table;
  }

 private:
  struct Entry {
    Make make;
    std::once_flag once = {};
    std::optional<Table> table = {};
  };
  std::array<Entry, 3> entries_;
};

}  // namespace freight::cpu
