// Matrix products of every element type on views, and factorizations of complex matrices (complex_linalg.h). Real
// matrices are factorized by the library's ops; large products of floating numbers are its too.
#include <algorithm>
#include <cstring>

#include "array.h"
#include "complex_linalg.h"
#include "freight/ops/elementwise.h"
#include "freight/trace/tracer.h"
#include "loops.h"

namespace freight::python {

namespace {

// From so many multiplications on the library's kernels are faster than the loop below.
constexpr int64_t kLibraryProduct = 1 << 18;

// The type in which products of T are summed: f64 of f32, whose sums are then nearly exact.
template <class T>
using Summed = std::conditional_t<
    std::is_integral_v<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>,
    std::conditional_t<kIsHalf<T> || std::is_same_v<T, float>, double,
                       std::conditional_t<std::is_same_v<T, std::complex<float>>, std::complex<double>, T>>>;

template <class T>
T times(T a, T b) {
  if constexpr (kIsComplex<T>) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

// One matrix: y (M, N) = a (M, K) b (K, N); strides in elements, rows of b and y without gaps.
struct Product {
  int64_t m, n, k;
  const char *a, *b;
  int64_t a_row, a_column;
  char* y;
};

// The columns of y from `first` on.
template <class T, class Row>
[[gnu::always_inline]] inline void multiply_columns(const Product& p, int64_t first) {
  constexpr int64_t kTile = 64;
  for (; first < p.n; first += kTile) {
    const int64_t width = std::min(kTile, p.n - first);
    for (int64_t i = 0; i < p.m; ++i) {
      const T* a = reinterpret_cast<const T*>(p.a) + i * p.a_row;
      const Row* row = reinterpret_cast<const Row*>(p.b) + first;
      Summed<T> sums[kTile] = {};
      for (int64_t l = 0; l < p.k; ++l, row += p.n) {
        const auto factor = element_cast<Summed<T>>(a[l * p.a_column]);
        for (int64_t j = 0; j < width; ++j) sums[j] += times(factor, static_cast<Summed<T>>(row[j]));
      }
      T* y = reinterpret_cast<T*>(p.y) + i * p.n + first;
      for (int64_t j = 0; j < width; ++j) y[j] = element_cast<T>(sums[j]);
    }
  }
}

// Sums in f64, those of 2 x 16 elements in registers.
template <class T>
[[gnu::always_inline]] inline void multiply_tiles(const Product& p) {
  using Lanes [[gnu::vector_size(32)]] = double;
  int64_t first = 0;
  for (; first + 16 <= p.n; first += 16) {
    for (int64_t i = 0; i < p.m; i += 2) {
      const bool two = i + 1 < p.m;
      const T* a = reinterpret_cast<const T*>(p.a) + i * p.a_row;
      const auto* row = reinterpret_cast<const double*>(p.b) + first;
      Lanes sums[2][4] = {};
      for (int64_t l = 0; l < p.k; ++l, a += p.a_column, row += p.n) {
        const double one = element_cast<double>(a[0]), other = element_cast<double>(a[two ? p.a_row : 0]);
        for (int v = 0; v < 4; ++v) {
          Lanes lanes;
          std::memcpy(&lanes, row + 4 * v, sizeof(lanes));
          sums[0][v] += one * lanes;
          sums[1][v] += other * lanes;
        }
      }
      T* y = reinterpret_cast<T*>(p.y) + i * p.n + first;
      for (int j = 0; j < 16; ++j) {
        y[j] = element_cast<T>(sums[0][j / 4][j % 4]);
        if (two) y[p.n + j] = element_cast<T>(sums[1][j / 4][j % 4]);
      }
    }
  }
  multiply_columns<T, double>(p, first);
}

using Multiply = void (*)(const Product&);

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma")]] void multiply_avx2(const Product& p) {
  multiply_tiles<T>(p);
}
#endif

// For the instructions of this CPU.
template <class T>
Multiply multiply_of() {
  if constexpr (std::is_floating_point_v<T> || kIsHalf<T>) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2<T>;
#endif
    return [](const Product& p) { multiply_tiles<T>(p); };
  } else {
    return [](const Product& p) { multiply_columns<T, T>(p, 0); };
  }
}

View matmul_views(const View& a, const View& b) {
  const int64_t m = a.shape[a.rank() - 2], k = a.shape[a.rank() - 1], n = b.shape[b.rank() - 1];
  Shape a_batch = a.shape, b_batch = b.shape;
  for (Shape* s : {&a_batch, &b_batch}) {
    s->erase(s->rank() - 1);
    s->erase(s->rank() - 1);
  }
  Shape shape = broadcast_of(a_batch, b_batch), batch = shape, a_shape = shape, b_shape = shape;
  shape.push_back(m);
  shape.push_back(n);
  if (is_floating(a.dtype) && shape.numel() * k >= kLibraryProduct && shape.rank() <= freight::Shape::kMaxRank) {
    const trace::Recording aside(nullptr);  // arrays of the host are no part of a function that is being traced
    return from_array(invoke_named("matmul", {Tensor(to_array(a)), Tensor(to_array(b))}).array());
  }
  a_shape.push_back(m);
  a_shape.push_back(k);
  b_shape.push_back(k);
  b_shape.push_back(n);
  const View left = broadcast(a, a_shape);
  // Rows of b are read as a whole, of floating types in f64.
  const DType rows = is_floating(b.dtype) ? DType::f64 : b.dtype;
  const bool fits = rows == b.dtype && b.strides[b.rank() - 1] == 1 && (b.strides[b.rank() - 2] == n || k <= 1);
  const View right = broadcast(fits ? b : cast(b, rows), b_shape);
  View y(a.dtype, shape);
  View a_first = left, b_first = right, y_first = y;
  for (View* v : {&a_first, &b_first, &y_first}) {
    v->shape = batch;
    v->strides = Strides(v->strides.begin(), v->strides.begin() + batch.rank());
  }
  if (y.numel() == 0) return y;
  dispatch(a.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      static const Multiply multiply = multiply_of<T>();
      Loop<3>(batch, {&y_first, &a_first, &b_first}).run([&](int64_t count, char** at, const int64_t* steps) {
        for (int64_t i = 0; i < count; ++i) {
          multiply({m, n, k, at[1] + i * steps[1], at[2] + i * steps[2], left.strides[left.rank() - 2],
                    left.strides[left.rank() - 1], at[0] + i * steps[0]});
        }
      });
    }
  });
  return y;
}

// Batches of complex matrices, (..., M, N) in c128; freight/_linalg.py has checked the shapes.
ComplexMatrix matrix_at(const View& x, int64_t index) {
  ComplexMatrix a(x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
  const auto* from = reinterpret_cast<const std::complex<double>*>(x.data) + index * a.rows * a.columns;
  std::copy(from, from + a.rows * a.columns, a.data.begin());
  return a;
}

struct Batch {
  View x;  // c128, contiguous
  Shape shape;
  int64_t rows, columns;

  Batch(nb::handle h, const char* function) : x(contiguous(cast(host(array_of(h, function)), DType::c128))) {
    rows = x.shape[x.rank() - 2];
    columns = x.shape[x.rank() - 1];
    shape = Shape(x.shape.begin(), x.shape.end() - 2);
  }
  View result(DType dtype, std::initializer_list<int64_t> sizes) const {
    Shape s = shape;
    for (const int64_t n : sizes) s.push_back(n);
    return View(dtype, s);
  }
};

template <class Element>
void put(const View& y, int64_t index, const std::vector<Element>& from) {
  std::copy(from.begin(), from.end(), reinterpret_cast<Element*>(y.data) + index * static_cast<int64_t>(from.size()));
}

// f(matrix, its index) for the whole batch.
template <class F>
void for_each_matrix(const Batch& b, F&& f) {
  for (int64_t i = 0; i < b.shape.numel(); ++i) f(matrix_at(b.x, i), i);
}

nb::object complex_pivots(nb::handle a) {
  const Batch b(a, "det");
  View y = b.result(DType::c128, {b.rows});
  ComplexMatrix nothing;
  for_each_matrix(b, [&](ComplexMatrix m, int64_t i) { put(y, i, eliminate(m, nothing)); });
  return wrap(std::move(y));
}

nb::object complex_solve(nb::handle a, nb::handle right) {  // b (..., N, K), of the same batch
  const Batch f(a, "solve"), b(right, "solve");
  View y(DType::c128, b.x.shape);
  for_each_matrix(f, [&](ComplexMatrix m, int64_t i) {
    ComplexMatrix x = matrix_at(b.x, i);
    const std::vector<ComplexMatrix::Element> pivots = eliminate(m, x);
    if (std::count(pivots.begin(), pivots.end(), 0.0) > 0) raise<ValueError>("Singular matrix");
    put(y, i, x.data);
  });
  return wrap(std::move(y));
}

nb::object complex_cholesky(nb::handle a) {
  const Batch b(a, "cholesky");
  View y(DType::c128, b.x.shape);
  for_each_matrix(b, [&](ComplexMatrix l, int64_t i) {
    if (!cholesky_of(l)) raise<ValueError>("Matrix is not positive definite");
    put(y, i, l.data);
  });
  return wrap(std::move(y));
}

nb::object complex_qr(nb::handle a, bool complete) {
  const Batch b(a, "qr");
  const int64_t k = complete ? b.rows : std::min(b.rows, b.columns);
  View q = b.result(DType::c128, {b.rows, k}), r = b.result(DType::c128, {k, b.columns});
  ComplexMatrix left, right;
  for_each_matrix(b, [&](const ComplexMatrix& m, int64_t i) {
    qr_of(m, complete, left, right);
    put(q, i, left.data);
    put(r, i, right.data);
  });
  return nb::make_tuple(wrap(q), wrap(r));
}

template <class Value, void (*kEigen)(ComplexMatrix, std::vector<Value>&, ComplexMatrix&)>
nb::object complex_eigen(nb::handle a) {
  const Batch b(a, "eig");
  View w = b.result(DTypeOf<Value>::value, {b.rows}), v = b.result(DType::c128, {b.rows, b.rows});
  std::vector<Value> values;
  ComplexMatrix vectors;
  for_each_matrix(b, [&](ComplexMatrix m, int64_t i) {
    kEigen(std::move(m), values, vectors);
    put(w, i, values);
    put(v, i, vectors.data);
  });
  return nb::make_tuple(wrap(w), wrap(v));
}

nb::object complex_svd(nb::handle a, bool full) {
  const Batch b(a, "svd");
  const int64_t k = std::min(b.rows, b.columns);
  View u = b.result(DType::c128, {b.rows, full ? b.rows : k}), s = b.result(DType::f64, {k}),
       vh = b.result(DType::c128, {full ? b.columns : k, b.columns});
  ComplexMatrix left, right;
  std::vector<double> values;
  for_each_matrix(b, [&](const ComplexMatrix& m, int64_t i) {
    svd_of(m, full, left, values, right);
    put(u, i, left.data);
    put(s, i, values);
    put(vh, i, right.data);
  });
  return nb::make_tuple(wrap(u), wrap(s), wrap(vh));
}

}  // namespace

nb::object matmul(nb::handle left, nb::handle right, bool as_operator) {
  nb::object made_a, made_b;
  PyArray *a = array_or_converted(left, made_a), *b = array_or_converted(right, made_b);
  if (!a || !b) {
    if (as_operator) return nb::borrow(Py_NotImplemented);
    raise<TypeError>("matmul: expected two freight.Array, got ", nb::str(left.type()).c_str(), " and ",
                     nb::str(right.type()).c_str());
  }
  const DType dtype = promoted(a->dtype(), b->dtype());
  if (dtype == DType::boolean) raise<TypeError>("matmul is not defined for bool");
  const Shape &sa = a->shape(), &sb = b->shape();
  if (sa.rank() == 0 || sb.rank() == 0)
    raise<ValueError>("matmul: operands need at least one axis, got shapes ", to_string(sa), " and ", to_string(sb));
  const bool vector_a = sa.rank() == 1, vector_b = sb.rank() == 1;
  const int64_t inner = sa[sa.rank() - 1], other = vector_b ? sb[0] : sb[sb.rank() - 2];
  if (inner != other) {
    raise<ValueError>("matmul: inner dimensions differ: ", to_string(sa), " and ", to_string(sb), ": ", inner,
                      " is not ", other);
  }
  if (!a->on_host() || !b->on_host()) return traced("product")(made_a ? made_a : left, made_b ? made_b : right);
  View x = a->view.dtype == dtype ? a->view : cast(a->view, dtype),
       y = b->view.dtype == dtype ? b->view : cast(b->view, dtype);
  if (vector_a) x = with_axis(x, 0);
  if (vector_b) y = with_axis(y, 1);
  View z = matmul_views(x, y);
  if (vector_b) z = without_axis(z, z.rank() - 1);
  if (vector_a) z = without_axis(z, z.rank() - (vector_b ? 1 : 2));
  return wrap(std::move(z));
}

void bind_linalg(nb::module_& m) {
  m.def("matmul", [](nb::handle a, nb::handle b) { return matmul(a, b, false); });
  m.def("complex_pivots", complex_pivots);
  m.def("complex_solve", complex_solve);
  m.def("complex_cholesky", complex_cholesky);
  m.def("complex_qr", complex_qr);
  m.def("complex_eigh", complex_eigen<double, eigh_of>);
  m.def("complex_eig", complex_eigen<std::complex<double>, eig_of>);
  m.def("complex_svd", complex_svd);
}

}  // namespace freight::python
