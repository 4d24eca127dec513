// A function of one number that is applied to f32 results before they are stored, while they are in the first cache:
// the pointwise body of an epilogue, in links of the tile interpreter (tile_chain.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "freight/backend/cpu/kernels/tile_chain.h"

namespace freight::cpu {

class Pointwise {
 public:
  static constexpr int64_t kMost = 512;  // numbers at once
  // Of a program from operand 0 to operand 1 over kMost numbers of f32. Null where some of it has no SIMD code.
  static std::shared_ptr<const Pointwise> compile(const TileProgram& program);
  // In place, on the calling thread, without its scratch memory. Fastest on whole groups of kGroup vectors.
  void apply(float* values, int64_t n) const;
  // The function is minimum(x, most()), which kernels compute in registers.
  bool limits() const { return most_.has_value(); }
  float most() const { return *most_; }

 private:
  Pointwise(CompiledTiles tiles, std::optional<float> most) : k_(std::move(tiles)), most_(most) {}
  CompiledTiles k_;
  std::optional<float> most_;
};

}  // namespace freight::cpu
