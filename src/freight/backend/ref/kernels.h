// Inside the reference backend. A kernel sees its operands as dense row-major arrays of few element types: double for
// the floating dtypes, int64_t for integers and bool, uint64_t for u64. ref.cpp converts (any dtype, any strides)
// before and after, so a kernel is one plain loop. Those that only move elements see complex<double> for complex
// numbers, too. To add an op, add its row to the table at the end of the file of its kind.
#pragma once
#include <type_traits>
#include <vector>

#include "freight/ir/graph.h"

namespace freight::ref {

// A row-major operand in double, int64_t or uint64_t.
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
KernelTable linalg_kernels();
KernelTable pool_kernels();
KernelTable index_kernels();

// Calls f(double{}), f(int64_t{}) or f(uint64_t{}), the type in which `t` is held.
template <class F>
void by_kind(const Tensor& t, F&& f) {
  if (t.floating()) {
    f(double{});
  } else if (t.type.dtype == DType::u64) {
    f(uint64_t{});
  } else {
    f(int64_t{});
  }
}

// The same for kernels that move elements, with complex numbers.
template <class F>
void by_element(const Tensor& t, F&& f) {
  if (is_complex(t.type.dtype)) {
    f(std::complex<double>{});
  } else {
    by_kind(t, f);
  }
}

// Integer arithmetic that wraps instead of being undefined.
template <class I>
I wrap_add(I a, I b) {
  return static_cast<I>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class I>
I wrap_mul(I a, I b) {
  return static_cast<I>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class C>
void accumulate(C& sum, C v) {
  if constexpr (std::is_integral_v<C>) {
    sum = wrap_add(sum, v);
  } else {
    sum += v;
  }
}
template <class C>
C multiply(C a, C b) {
  if constexpr (std::is_integral_v<C>) return wrap_mul(a, b);
  return a * b;
}

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

// The window of a convolution or pooling of x (N, C, spatial) to y, over one or two spatial axes seen as two (a single
// axis becomes the second).
struct Window {
  int64_t in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];

  // `sizes` of the kernel by spatial axis, as the other attributes; no `spread`: its elements lie side by side.
  Window(const Shape& x, const Shape& y, const Shape& sizes, const Shape& steps, const Shape& low,
         const Shape& spread = {}) {
    const int missing = 4 - x.rank();
    for (int d = 0; d < 2; ++d) {
      const int s = d - missing;  // the spatial axis, -1 for the missing one
      in[d] = s < 0 ? 1 : x[2 + s];
      out[d] = s < 0 ? 1 : y[2 + s];
      kernel[d] = s < 0 ? 1 : sizes[s];
      stride[d] = s < 0 ? 1 : steps[s];
      pad[d] = s < 0 ? 0 : low[s];
      dilation[d] = s < 0 || spread.empty() ? 1 : spread[s];
    }
  }
  int64_t in_plane() const { return in[0] * in[1]; }
  int64_t out_plane() const { return out[0] * out[1]; }

  // f(flat index in the plane of x, flat index in the kernel) for every element of x that element `o` of a plane of y
  // sees.
  template <class F>
  void each(int64_t o, F f) const {
    const int64_t h0 = o / out[1] * stride[0] - pad[0], w0 = o % out[1] * stride[1] - pad[1];
    for (int64_t kh = 0; kh < kernel[0]; ++kh) {
      for (int64_t kw = 0; kw < kernel[1]; ++kw) {
        const int64_t h = h0 + kh * dilation[0], w = w0 + kw * dilation[1];
        if (h >= 0 && h < in[0] && w >= 0 && w < in[1]) f(h * in[1] + w, kh * kernel[1] + kw);
      }
    }
  }
};

}  // namespace freight::ref
