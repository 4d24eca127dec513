// Builds the text of one kernel: declares the operands and numbers that its lines mention, and names the kernel by what
// it says, so that equal kernels of different steps are compiled once. Extents and strides are numbers given at launch:
// tensors of other shapes share the kernel.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_template.h"
#include "freight/backend/gpu/launch.h"
#include "freight/base/strings.h"

namespace freight::gpu {

// An operand in a kernel's text.
struct Elements {
  std::string pointer;
  DType dtype = DType::f32;

  // The element as a number, and a statement that stores one.
  std::string load(const std::string& index) const;
  std::string store(const std::string& index, const std::string& value) const;
};

class KernelText {
 public:
  static constexpr int64_t kLanes = 128;  // of a group where every element has a work-item of its own

  // The parameter for an operand of the step; the same operand may be declared several times.
  Elements operand(int index, DType dtype, bool written, size_t byte_offset = 0);
  // An input or result of the step, or its scratch memory.
  Elements in(const StepSpec& spec, size_t i) { return operand(static_cast<int>(i), spec.in[i].type.dtype, false); }
  Elements out(const StepSpec& spec, size_t i) {
    return operand(static_cast<int>(spec.in.size() + i), spec.out[i].type.dtype, true);
  }
  Elements scratch(const StepSpec& spec, DType dtype, size_t byte_offset = 0) {
    return operand(static_cast<int>(spec.in.size() + spec.out.size()), dtype, true, byte_offset);
  }
  // A condition under which an index (of type i64) of the step's node lies in [0, rows); where it does not, the
  // device's fault words say so.
  std::string checked(const std::string& index, const Node& node, int64_t rows);
  // A number given at launch: its name in the text.
  std::string number(int64_t value);
  std::array<std::string, 2> numbers(const std::array<int64_t, 2>& values) {
    return {number(values[0]), number(values[1])};
  }
  // `e` / `divisor`, rounded down, as an expression; `e` must not be negative there. Division by a number that the
  // compiler does not know takes longer than all else that an index needs.
  std::string quotient(const std::string& e, int64_t divisor);
  // Declares `outer` = `e` / extent, rounded down, and the rest, `inner`.
  std::string split(const std::string& e, int64_t extent, const std::string& outer, const std::string& inner);
  // Appends a line.
  template <class... Parts>
  void line(const Parts&... parts) {
    body_ += cat("  ", parts..., "\n");
  }
  // Appends a template, its words replaced.
  void lines(const Words& words, std::string_view text) { body_ += filled(text, words); }
  // `elements`: the largest number that index arithmetic meets; from 2^31 on it is done in 64 bits. In lines the type
  // is written idx_t. What does not fit a grid of groups is the caller's loop.
  Launch finish(const char* purpose, int64_t elements, int64_t groups, int64_t lanes);
  // Begins a kernel with a work-item for each of so many elements, of which it is number `e`.
  void begin_elements(int64_t count);
  Launch finish_elements(const char* purpose, int64_t elements);
  // A step that is such a kernel alone.
  Lowered finish_step(const char* purpose, int64_t elements);

 private:
  std::string parameters_, prologue_, body_;
  std::vector<Argument> arguments_;
  std::vector<int64_t> numbers_;
  int64_t count_ = 0;
};

// The spatial axes seen as two: of a tensor (N, C, spatial) from axis 2, of an attribute from axis 0 on. A single one
// becomes the second, beside a first of `missing`.
inline std::array<int64_t, 2> two_axes(const Shape& s, int first, int64_t missing) {
  return {s.rank() == first + 1 ? missing : s[first], s.back()};
}
// 16 hexadecimal digits that are the same in every run: they key the cache of compiled programs.
std::string hash_name(const std::string& text);
// `text` with every `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to);
// Elements from the first to the last of an operand; the most of all operands of a step.
int64_t span(const Operand& o);
int64_t largest_span(const StepSpec& spec);
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace freight::gpu
