// Builds the text of one kernel: declares the operands and numbers that its lines mention, and names the kernel by what
// it says, so that equal kernels of different steps are compiled once. Extents and strides are numbers given at launch:
// tensors of other shapes share the kernel.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/launch.h"
#include "freight/base/strings.h"

namespace freight::gpu {

class KernelText {
 public:
  // The parameter for an operand of the step: its name in the text. The same operand may be declared several times.
  std::string operand(int index, DType dtype, bool written, size_t byte_offset = 0);
  // A condition under which an index (of type i64) of the step's node lies in [0, rows); where it does not, the
  // device's fault words say so.
  std::string checked(const std::string& index, const Node& node, int64_t rows);
  // A number given at launch: its name in the text.
  std::string number(int64_t value);
  // `e` / `divisor`, rounded down, as an expression; `e` must not be negative there. Division by a number that the
  // compiler does not know takes longer than all else that an index needs.
  std::string quotient(const std::string& e, int64_t divisor);
  // Appends a line.
  template <class... Parts>
  void line(const Parts&... parts) {
    body_ += cat("  ", parts..., "\n");
  }
  // `elements`: the largest number that index arithmetic meets; from 2^31 on it is done in 64 bits. In lines the type
  // is written idx_t. What does not fit a grid of groups is the caller's loop.
  Launch finish(const char* purpose, int64_t elements, size_t groups, size_t lanes);

 private:
  std::string parameters_, prologue_, body_;
  std::vector<Argument> arguments_;
  std::vector<int64_t> numbers_;
};

// 16 hexadecimal digits that are the same in every run: they key the cache of compiled programs.
std::string hash_name(const std::string& text);
// `text` with every `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to);
// Elements from the first to the last of an operand; the most of all operands of a step.
int64_t span(const Operand& o);
int64_t largest_span(const StepSpec& spec);
inline size_t ceil_div(int64_t a, int64_t b) { return static_cast<size_t>((a + b - 1) / b); }

}  // namespace freight::gpu
