// Tile steps that have no SIMD loop: i64 registers, rare ops of f32 and f64, conversions between element types and
// registers. One plain loop each over the reference backend's scalar functions: right first, fast where cheap.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "freight/backend/cpu/kernels/tile_steps.h"
#include "freight/backend/ref/scalar.h"
#include "freight/base/error.h"

namespace freight::cpu {

Reg register_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::boolean: return Reg::f32;
    case DType::f64: return Reg::f64;
    case DType::u64: return Reg::u64;
    default: return Reg::i64;
  }
}

bool stored_as_held(DType dtype, Reg reg) {
  return (dtype == DType::f32 && reg == Reg::f32) || (dtype == DType::f64 && reg == Reg::f64) ||
         (dtype == DType::i64 && reg == Reg::i64) || (dtype == DType::u64 && reg == Reg::u64);
}

bool links_convert(DType dtype, Reg reg) {
  return reg == Reg::f32 && (dtype == DType::bf16 || dtype == DType::u8 || dtype == DType::boolean);
}

bool rounds(DType from, DType to) {
  const bool small = from == DType::boolean || from == DType::u8 || from == DType::i8;  // exact in 8 bits and a sign
  return wide(to) != to && from != to && !small;
}

bool rounded_by_stores(const TileProgram& p, int v) {
  const auto value = [&](int i) -> const TileValue& { return p.values[static_cast<size_t>(i)]; };
  const DType own = value(v).dtype;
  for (size_t i = 0; i < p.values.size(); ++i) {
    const TileValue& u = p.values[i];
    if (u.a != v && u.b != v && u.c != v) continue;
    const bool sign = u.op == Op::gt && own == DType::bf16 && u.a == v &&
                      value(u.b).kind == TileValue::Kind::constant && value(u.b).number == 0;
    const bool relu = u.op == Op::relu && rounded_by_stores(p, static_cast<int>(i));
    if (u.kind != TileValue::Kind::op || !(sign || relu)) return false;
  }
  return std::none_of(p.sums.begin(), p.sums.end(), [&](const TileAccumulate& s) { return s.value == v; }) &&
         std::all_of(p.stores.begin(), p.stores.end(),
                     [&](const TileStore& s) { return s.value != v || s.dtype == own; });
}

int reduction_index(Op op) { return op == Op::sum ? 0 : op == Op::reduce_max ? 1 : 2; }

namespace generic {

namespace {

template <class F>
void with_type(Reg reg, F&& f) {
  if (reg == Reg::f32) {
    f(float{});
  } else if (reg == Reg::f64) {
    f(double{});
  } else if (reg == Reg::u64) {
    f(uint64_t{});
  } else {
    f(int64_t{});
  }
}

// Integers of fewer than 64 bits wrap in their own width.
int64_t narrow(int64_t v, DType dtype) {
  switch (dtype) {
    case DType::i32: return static_cast<int32_t>(v);
    case DType::u32: return static_cast<uint32_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::u16: return static_cast<uint16_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::u8: return static_cast<uint8_t>(v);
    default: return v;
  }
}
uint64_t narrow(uint64_t v, DType) { return v; }

template <class T>
T combine(int reduction, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (reduction == 0) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    if (reduction == 0) return a + b;
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return reduction == 1 ? (a > b ? a : b) : (a < b ? a : b);
}

template <class In, class Out>
Out convert(In v, DType dtype) {
  if (dtype == DType::boolean) return static_cast<Out>(v != In{});
  if (dtype == DType::bf16) return static_cast<Out>(element_cast<float>(element_cast<BFloat16>(v)));
  if (dtype == DType::f16) return static_cast<Out>(element_cast<float>(element_cast<Float16>(v)));
  if constexpr (std::is_same_v<Out, int64_t> && !std::is_integral_v<In>) {
    return ref::truncate(static_cast<double>(v), dtype);
  } else if constexpr (std::is_integral_v<Out> && std::is_integral_v<In>) {
    return narrow(static_cast<Out>(v), dtype);
  } else if constexpr (std::is_integral_v<Out>) {
    return element_cast<Out>(v);
  } else {
    return static_cast<Out>(v);
  }
}

// Runs the common ops of integers in loops that call nothing; false for others. Results of add, sub and mul wrap in the
// width of the type; those of the other ops have it already.
template <class In, class Out>
bool run_integers(const Call& call, Out* dst, const In* a, const In* b, size_t n) {
  const size_t sa = call.scalars & 1 ? 0 : 1, sb = call.scalars & 2 ? 0 : 1;
  const auto loop = [&](auto f) {
    for (size_t i = 0; i < n; ++i) dst[i] = static_cast<Out>(f(a[i * sa], b[i * sb]));
    return true;
  };
  const auto wrapping = [&](auto f) {
    const auto wraps = [&](auto as) {
      return loop(
          [f](In x, In y) { return static_cast<decltype(as)>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y))); });
    };
    switch (call.dtype) {
      case DType::i32: return wraps(int32_t{});
      case DType::i64: return wraps(int64_t{});
      case DType::u64: return wraps(uint64_t{});
      default: return false;
    }
  };
  switch (call.op) {
    case Op::add: return wrapping([](uint64_t x, uint64_t y) { return x + y; });
    case Op::sub: return wrapping([](uint64_t x, uint64_t y) { return x - y; });
    case Op::mul: return wrapping([](uint64_t x, uint64_t y) { return x * y; });
    case Op::bitwise_and: return loop([](In x, In y) { return x & y; });
    case Op::bitwise_or: return loop([](In x, In y) { return x | y; });
    case Op::bitwise_xor: return loop([](In x, In y) { return x ^ y; });
    case Op::maximum: return loop([](In x, In y) { return x > y ? x : y; });
    case Op::minimum: return loop([](In x, In y) { return x < y ? x : y; });
    case Op::eq: return loop([](In x, In y) { return x == y; });
    case Op::ne: return loop([](In x, In y) { return x != y; });
    case Op::lt: return loop([](In x, In y) { return x < y; });
    case Op::le: return loop([](In x, In y) { return x <= y; });
    case Op::gt: return loop([](In x, In y) { return x > y; });
    case Op::ge: return loop([](In x, In y) { return x >= y; });
    default: return false;
  }
}

}  // namespace

bool supports(Op op, Reg in) {
  if (op == Op::where || op == Op::cast) return true;
  const ref::ScalarFunctions f = ref::scalar_functions(op);
  return holds_integers(in) ? static_cast<bool>(f.integer) : f.real != nullptr;
}

void run(const Call& call, void* dst_, const void* a_, const void* b_, const void* c_, size_t n) {
  if (call.loop) return call.loop(dst_, a_, b_, c_, n, call.scalars);
  const size_t sa = call.scalars & 1 ? 0 : 1, sb = call.scalars & 2 ? 0 : 1, sc = call.scalars & 4 ? 0 : 1;
  if (call.op == Op::where) {
    const float* c = static_cast<const float*>(a_);
    with_type(call.out, [&]<class T>(T) {
      const T *a = static_cast<const T*>(b_), *b = static_cast<const T*>(c_);
      T* dst = static_cast<T*>(dst_);
      for (size_t i = 0; i < n; ++i) dst[i] = c[i * sa] != 0 ? a[i * sb] : b[i * sc];
    });
    return;
  }
  with_type(call.in, [&]<class In>(In) {
    const In *a = static_cast<const In*>(a_), *b = static_cast<const In*>(b_);
    with_type(call.out, [&]<class Out>(Out) {
      Out* dst = static_cast<Out*>(dst_);
      if (call.op == Op::cast) {
        for (size_t i = 0; i < n; ++i) dst[i] = convert<In, Out>(a[i * sa], call.dtype);
        return;
      }
      const ref::ScalarFunctions f = ref::scalar_functions(call.op);
      if constexpr (std::is_integral_v<In>) {
        if (b && run_integers(call, dst, a, b, n)) return;
        for (size_t i = 0; i < n; ++i) {
          dst[i] = static_cast<Out>(narrow(f.integer(a[i * sa], b ? b[i * sb] : In{0}), call.dtype));
        }
      } else if (f.typed) {
        for (size_t i = 0; i < n; ++i) {
          const auto x = static_cast<double>(a[i * sa]), y = static_cast<double>(b[i * sb]);
          dst[i] = static_cast<Out>(f.typed(x, y, call.dtype));
        }
      } else {
        for (size_t i = 0; i < n; ++i) {
          dst[i] = static_cast<Out>(f.real(static_cast<double>(a[i * sa]), b ? static_cast<double>(b[i * sb]) : 0.0));
        }
      }
    });
  });
}

void load(void* dst_, Reg reg, const void* src_, DType dtype, int64_t stride, size_t n) {
  with_type(reg, [&]<class Out>(Out) {
    Out* dst = static_cast<Out*>(dst_);
    const int64_t count = static_cast<int64_t>(n);
    if (dtype == DType::boolean) {
      const uint8_t* src = static_cast<const uint8_t*>(src_);
      for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<Out>(src[i * stride] != 0);
      return;
    }
    dispatch(dtype, [&]<class In>(In) {
      if constexpr (!kIsComplex<In>) {
        const In* src = static_cast<const In*>(src_);
        for (int64_t i = 0; i < count; ++i) dst[i] = element_cast<Out>(src[i * stride]);
      }
    });
  });
}

void store(void* dst_, DType dtype, int64_t stride, const void* src_, Reg reg, size_t n) {
  with_type(reg, [&]<class In>(In) {
    const In* src = static_cast<const In*>(src_);
    const int64_t count = static_cast<int64_t>(n);
    dispatch(dtype, [&]<class Out>(Out) {
      if constexpr (!kIsComplex<Out>) {
        Out* dst = static_cast<Out*>(dst_);
        for (int64_t i = 0; i < count; ++i) dst[i * stride] = element_cast<Out>(src[i]);
      }
    });
  });
}

void accumulate(void* dst_, Reg reg, const void* a_, int reduction, size_t n) {
  with_type(reg, [&]<class T>(T) {
    T* dst = static_cast<T*>(dst_);
    const T* a = static_cast<const T*>(a_);
    for (size_t i = 0; i < n; ++i) dst[i] = combine<T>(reduction, dst[i], a[i]);
  });
}

void row_reduce(void* dst_, Reg reg, const void* a_, int reduction, size_t rows, size_t width) {
  with_type(reg, [&]<class T>(T) {
    T* dst = static_cast<T*>(dst_);
    const T* a = static_cast<const T*>(a_);
    for (size_t r = 0; r < rows; ++r, a += width) {
      T total = width ? a[0] : T{};
      for (size_t j = 1; j < width; ++j) total = combine<T>(reduction, total, a[j]);
      dst[r] = total;
    }
  });
}

void index(void* dst_, Reg reg, int64_t start, int64_t stride, size_t n) {
  with_type(reg, [&]<class T>(T) {
    T* dst = static_cast<T*>(dst_);
    for (size_t i = 0; i < n; ++i) dst[i] = static_cast<T>(start + static_cast<int64_t>(i) * stride);
  });
}

}  // namespace generic

}  // namespace freight::cpu
