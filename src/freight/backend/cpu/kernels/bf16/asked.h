// Memory that is asked for while something else is computed.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/ceil_div.h"

namespace freight::cpu {

// Lines of memory that will be packed or read next, asked for a few at a time: `runs` stretches of `length` bytes,
// `stride` apart.
class Asked {
 public:
  Asked() = default;
  Asked(const void* from, ptrdiff_t stride, int64_t runs, int64_t length)
      : at_(static_cast<const char*>(from)), run_(at_), stride_(stride), runs_(runs), length_(length) {}
  // `lines` lines of an operand, `steps` steps of each, of which one has the stride 1.
  template <class T>
  static Asked block(const T* from, ptrdiff_t step, ptrdiff_t line, int64_t lines, int64_t steps) {
    constexpr int64_t kBytes = sizeof(T);
    return line == 1 ? Asked(from, step * kBytes, steps, lines * kBytes)
                     : Asked(from, line * kBytes, lines, steps * kBytes);
  }
  int64_t lines() const { return runs_ * ceil_div(length_, kLine); }
  // So many calls of ask() ask for all.
  Asked in(int64_t calls) const {
    Asked spread = *this;
    spread.each_ = ceil_div(lines(), calls);
    return spread;
  }
  void ask() { ask(each_); }
  void ask(int64_t lines) {
    for (; lines > 0 && runs_ > 0; --lines) {
      __builtin_prefetch(at_, 0, 2);
      at_ += kLine;
      if (at_ < run_ + length_) continue;
      --runs_;
      at_ = run_ += stride_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const char *at_ = nullptr, *run_ = nullptr;
  ptrdiff_t stride_ = 0;
  int64_t runs_ = 0, length_ = 0;
  int64_t each_ = 0;
};

}  // namespace freight::cpu
