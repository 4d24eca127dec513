// What steps over batches of matrices (linalg.cpp, linalg_spectral.cpp) share.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "freight/backend/backend.h"
#include "freight/backend/cpu/kernels/factor.h"
#include "freight/base/error.h"

namespace freight::cpu {

// The last two axes, and how many matrices there are in front of them.
struct Matrices {
  int64_t m, n, batch;
  explicit Matrices(const Type& t)
      : m(t.shape[t.shape.rank() - 2]), n(t.shape[t.shape.rank() - 1]), batch(t.numel() / (m * n)) {}
};

// The strides of the operand's matrices; none where a copy must be planned: formats of a library, matrices whose rows
// and columns both have gaps, batch axes that are not one.
inline std::optional<MatrixStrides> matrix_strides(const Operand& x) {
  if (x.layout.blocked) return {};
  const int r = x.type.shape.rank();
  const int64_t m = x.type.shape[r - 2], n = x.type.shape[r - 1];
  MatrixStrides s{x.layout.strides[r - 2], x.layout.strides[r - 1], m * n};
  // Strides of extents of 1 say nothing.
  if (n == 1) s.col = 1;
  if (m == 1) s.row = s.col == 1 ? n : 1;
  int64_t batch = 0;
  if ((s.row != 1 && s.col != 1) || !batch_stride(x, batch)) return {};
  if (x.type.numel() > m * n) s.batch = batch;
  return s;
}

// A step's op, place and matrices, for errors.
class Fault {
 public:
  explicit Fault(const StepSpec& spec)
      : op_(spec.node->called()), where_(spec.node->location()), type_(spec.in[0].type) {}

  const Type& type() const { return type_; }
  [[noreturn]] void raise(const std::string& text, ErrorKind kind = ErrorKind::data) const {
    throw Error(kind, op_, text, where_);
  }

 private:
  std::string op_, where_;
  Type type_;
};

template <template <class> class Step>
std::unique_ptr<Kernel> make_for_type(const StepSpec& spec) {
  if (spec.in[0].type.dtype == DType::f64) return std::make_unique<Step<double>>(spec);
  return std::make_unique<Step<float>>(spec);
}

}  // namespace freight::cpu
