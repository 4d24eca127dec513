// Inside the reference backend. A kernel sees its operands as dense row-major arrays of only two element types: double
// for the floating dtypes, int64_t for integers and bool. ref.cpp converts (any dtype, any strides) before and after,
// so a kernel is one plain loop. To add an op, add its row to the table at the end of the file of its kind.
#pragma once
#include <type_traits>
#include <vector>

#include "freight/ir/graph.h"

namespace freight::ref {

// A row-major operand in double or int64_t.
struct Tensor {
  Type type;
  void* data = nullptr;

  const Shape& shape() const { return type.shape; }
  int64_t numel() const { return type.numel(); }
  bool floating() const { return is_floating(type.dtype); }
  template <class C>
  C* as() const {
    return static_cast<C*>(data);
  }
};

struct Call {
  Op op;
  Attrs attrs;
  std::vector<Tensor> in, out;

  template <class A>
  const A& get() const {
    return std::get<A>(attrs);
  }
};

using KernelFn = void (*)(const Call&);
struct KernelRow {
  Op op;
  KernelFn run;
};
using KernelTable = std::vector<KernelRow>;

KernelTable pointwise_kernels();
KernelTable shape_kernels();
KernelTable reduce_kernels();
KernelTable contract_kernels();
KernelTable pool_kernels();
KernelTable index_kernels();

// Calls f(double{}) or f(int64_t{}), the type in which `t` is held.
template <class F>
void by_kind(const Tensor& t, F&& f) {
  if (t.floating()) {
    f(double{});
  } else {
    f(int64_t{});
  }
}

// Integer arithmetic that wraps instead of being undefined.
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline void accumulate(double& sum, double v) { sum += v; }
inline void accumulate(int64_t& sum, int64_t v) { sum = wrap_add(sum, v); }
inline double multiply(double a, double b) { return a * b; }
inline int64_t multiply(int64_t a, int64_t b) { return wrap_mul(a, b); }

// Counts through all positions of a shape in row-major order: for (Counter c(shape); c.more(); c.next()) c.at[axis].
class Counter {
 public:
  explicit Counter(const Shape& shape) : at(Shape::filled(shape.rank(), 0)), shape_(shape), left_(shape.numel()) {}
  bool more() const { return left_ > 0; }
  void next() {
    --left_;
    ++index;
    for (int i = shape_.rank() - 1; i >= 0; --i) {
      if (++at[i] < shape_[i]) return;
      at[i] = 0;
    }
  }
  Shape at;
  int64_t index = 0;  // row-major number of the position

 private:
  Shape shape_;
  int64_t left_;
};

// Sum of at[i] * strides[i].
inline int64_t offset(const Shape& at, const Strides& strides) {
  int64_t o = 0;
  for (int i = 0; i < at.rank(); ++i) o += at[i] * strides[i];
  return o;
}

}  // namespace freight::ref
