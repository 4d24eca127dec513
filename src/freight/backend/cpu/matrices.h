// What steps over batches of matrices (linalg.cpp, linalg_spectral.cpp) share.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "freight/backend/backend.h"
#include "freight/base/error.h"

namespace freight::cpu {

// The last two axes, and how many matrices there are in front of them.
struct Matrices {
  int64_t m, n, batch;
  explicit Matrices(const Type& t)
      : m(t.shape[t.shape.rank() - 2]), n(t.shape[t.shape.rank() - 1]), batch(t.numel() / (m * n)) {}
};

// A step's op, place and matrices, for errors.
class Fault {
 public:
  explicit Fault(const StepSpec& spec)
      : op_(freight::name(spec.node->op)), where_(spec.node->location()), type_(spec.in[0].type) {}

  const Type& type() const { return type_; }
  [[noreturn]] void tell(const std::string& text, ErrorKind kind = ErrorKind::data) const {
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
