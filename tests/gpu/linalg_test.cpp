// Factorizations and triangular solves on the test's device (device.h): their defining equations for many kinds of
// matrices, small ones, which one kernel takes, and larger ones, which are cut into blocks; the CPU's texts of errors.
#include <cmath>
#include <cstring>

#include "freight/base/error.h"
#include "freight/ops/linalg.h"
#include "freight/ops/ops.h"
#include "freight/run/executable.h"

#include "tests/backend/matrices.h"
#include "tests/gpu/device.h"
#include "tests/ops/case_checks.h"
#include "tests/ops/function_rows.h"

namespace freight::test {
namespace {

constexpr double kStable = 30;  // LAPACK's threshold

// Steps on the device, in one plan, since nearly all of the time goes into the driver's compiler.
class OnDevice {
 public:
  explicit OnDevice(DType dtype) : dtype_(dtype) {}
  Value input(const Shape& s) {
    return Builder(graph_).one(Op::input, LeafAttrs{cat("x", graph_.nodes.size()), {dtype_, s}}, {});
  }
  // The op's results become outputs; the number of the first.
  size_t add(Op op, const Attrs& attrs, const std::vector<Value>& in) {
    const size_t first = graph_.outputs.size();
    for (Value v : graph_.add(op, attrs, in)) graph_.outputs.push_back(v);
    return first;
  }
  void run(const std::vector<Array>& inputs) {
    if (!executable_) {
      executable_ = std::make_unique<Executable>(plan_for(graph_, {.backend = test_device(), .deterministic = true}),
                                                 std::vector<std::shared_ptr<Storage>>{});
      for (Value v : graph_.outputs) outputs_.emplace_back(graph_.type(v).dtype, graph_.type(v).shape);
    }
    executable_->run(inputs, outputs_);
  }
  // Matrix number `index` of a result.
  Dense result(size_t output, int64_t index = 0) const {
    const Shape& s = outputs_[output].shape();
    const int64_t m = s[s.rank() - 2], n = s[s.rank() - 1];
    const std::vector<double> all = outputs_[output].to_vector<double>();
    return {m, n, {all.begin() + index * m * n, all.begin() + (index + 1) * m * n}};
  }
  std::vector<int64_t> places(size_t output) const { return outputs_[output].to_vector<int64_t>(); }
  const std::vector<Array>& outputs() const { return outputs_; }
  double eps() const { return dtype_ == DType::f64 ? 0x1p-52 : 0x1p-23; }
  Array array(const Dense& a) const { return Array::of<double>(a.numbers, {a.rows, a.columns}).cast(dtype_); }

 private:
  DType dtype_;
  Graph graph_;
  std::unique_ptr<Executable> executable_;
  std::vector<Array> outputs_;
};

// The numbers as the device has them.
Dense rounded(const Dense& a, DType dtype) {
  return {a.rows, a.columns, Array::of<double>(a.numbers, {a.rows, a.columns}).cast(dtype).to_vector<double>()};
}

void expect_lu(const Dense& a, const OnDevice& device, size_t output, const std::string& text) {
  const Dense lu = device.result(output);
  const std::vector<int64_t> pivots = device.places(output + 1), permutation = device.places(output + 2);
  const int64_t k = std::min(a.rows, a.columns);
  Dense l(a.rows, k), u(k, a.columns), exchanged(a.rows, a.columns), swapped = a;
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) {
      if (j < k && j <= i) l(i, j) = i == j ? 1 : lu(i, j);
      if (i < k && j >= i) u(i, j) = lu(i, j);
      exchanged(i, j) = a(permutation[static_cast<size_t>(i)], j);
      if (i > j) {
        EXPECT_LE(std::fabs(lu(i, j)), 1.0001) << text;  // partial pivoting
      }
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    const int64_t with = pivots[static_cast<size_t>(i)];
    for (int64_t j = 0; j < a.columns; ++j) std::swap(swapped(i, j), swapped(with, j));
  }
  EXPECT_LT(ratio(exchanged, l * u, device.eps()), kStable) << text;
  EXPECT_EQ(swapped.numbers, exchanged.numbers) << text;
}

void expect_qr(const Dense& a, const OnDevice& device, size_t output, const std::string& text) {
  const Dense q = device.result(output), r = device.result(output + 1);
  EXPECT_LT(ratio(a, q * r, device.eps()), kStable) << text;
  EXPECT_LT(orthogonality(q, device.eps()), kStable) << text;
  for (int64_t i = 0; i < r.rows; ++i) {
    for (int64_t j = 0; j < std::min(i, r.columns); ++j) EXPECT_EQ(r(i, j), 0) << text;
  }
}

class GpuLinearAlgebra : public testing::TestWithParam<DType> {
 protected:
  bool lacks_type() const { return GetParam() == DType::f64 && !test_device_has_f64(); }
};

// Kinds whose numbers the type has.
std::vector<std::string> kinds_of(DType dtype) {
  std::vector<std::string> kinds;
  for (const std::string& kind : matrix_kinds()) {
    if (dtype == DType::f64 || (kind != "large" && kind != "small" && kind != "bad rows")) kinds.push_back(kind);
  }
  return kinds;
}

TEST_P(GpuLinearAlgebra, LuAndQrRebuildTheMatrix) {
  NEEDS_TEST_DEVICE();
  if (lacks_type()) GTEST_SKIP() << "the device has no f64";
  OnDevice device(GetParam());
  struct Outputs {
    size_t lu, reduced, complete;
  };
  std::vector<Extents> extents = {{7, 7}, {40, 40}, {3, 7}, {40, 7}, {97, 97}, {130, 70}, {70, 130}};
  std::vector<Outputs> outputs;
  for (const auto& [m, n] : extents) {
    const Value x = device.input({m, n});
    outputs.push_back({device.add(Op::lu_factor, LuAttrs{}, {x}), device.add(Op::qr, QrAttrs{false}, {x}),
                       device.add(Op::qr, QrAttrs{true}, {x})});
  }
  for (const std::string& kind : kinds_of(GetParam())) {
    std::vector<Array> inputs;
    for (const auto& [m, n] : extents) inputs.push_back(device.array(matrix(kind, m, n)));
    device.run(inputs);
    for (size_t i = 0; i < extents.size(); ++i) {
      const Dense a = rounded(matrix(kind, extents[i].m, extents[i].n), GetParam());
      const std::string text = cat(kind, " ", a.rows, "x", a.columns);
      expect_lu(a, device, outputs[i].lu, text);
      expect_qr(a, device, outputs[i].reduced, text);
      expect_qr(a, device, outputs[i].complete, text);
    }
  }
  const std::vector<Array> first = device.outputs();
  std::vector<Array> copies;
  for (const Array& a : first) copies.push_back(a.clone());
  std::vector<Array> inputs;
  for (const auto& [m, n] : extents) inputs.push_back(device.array(matrix(kinds_of(GetParam()).back(), m, n)));
  device.run(inputs);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(std::memcmp(copies[i].raw(), device.outputs()[i].raw(), copies[i].bytes()), 0)
        << "result " << i << " differs in a second run";
  }
}

// Two matrices (n, n) that are positive definite; what a triangle does not have is NaN.
struct Definite {
  Dense whole[2], lower, upper;
  explicit Definite(int64_t n) : whole{Dense(n, n), Dense(n, n)}, lower(2 * n, n), upper(2 * n, n) {
    for (int64_t k = 0; k < 2; ++k) {
      const Dense b = matrix(k == 0 ? "random" : "signs", n, n + 3);
      whole[k] = b * b.transposed();
      for (int64_t i = 0; i < n; ++i) whole[k](i, i) += 1;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          lower(k * n + i, j) = j <= i ? whole[k](i, j) : NAN;
          upper(k * n + i, j) = j >= i ? whole[k](i, j) : NAN;
        }
      }
    }
  }
};

TEST_P(GpuLinearAlgebra, CholeskyReadsOneTriangleAndRebuildsTheMatrices) {
  NEEDS_TEST_DEVICE();
  if (lacks_type()) GTEST_SKIP() << "the device has no f64";
  OnDevice device(GetParam());
  std::vector<Array> inputs;
  std::vector<size_t> outputs;
  const std::vector<int64_t> extents = {1, 7, 33, 110};
  for (const int64_t n : extents) {
    const Definite given(n);
    for (const bool upper : {false, true}) {
      inputs.push_back(device.array(upper ? given.upper : given.lower).reshaped({2, n, n}));
      outputs.push_back(device.add(Op::cholesky, CholeskyAttrs{upper}, {device.input({2, n, n})}));
    }
  }
  device.run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int64_t n = extents[i / 2];
    for (int64_t k = 0; k < 2; ++k) {
      const Dense f = device.result(outputs[i], k), l = i % 2 == 1 ? f.transposed() : f;
      EXPECT_LT(ratio(Definite(n).whole[k], l * l.transposed(), device.eps()), kStable) << n << ", matrix " << k;
      for (int64_t row = 0; row < n; ++row) {
        for (int64_t column = row + 1; column < n; ++column) EXPECT_EQ(l(row, column), 0);
      }
    }
  }
}

TEST_P(GpuLinearAlgebra, TrianglesAreSolvedOnEitherSide) {
  NEEDS_TEST_DEVICE();
  if (lacks_type()) GTEST_SKIP() << "the device has no f64";
  struct Case {
    TriangularAttrs how;
    int64_t n, columns;
    size_t output = 0;
    Dense op{0, 0}, b{0, 0};
  };
  OnDevice device(GetParam());
  std::vector<Case> cases;
  std::vector<Array> inputs;
  for (int flags = 0; flags < 16; ++flags) {
    const TriangularAttrs how{.upper = (flags & 1) != 0,
                              .transposed = (flags & 2) != 0,
                              .unit_diagonal = (flags & 4) != 0,
                              .right = (flags & 8) != 0,
                              .refuse_singular = true};
    for (const auto& [n, columns] : {Extents{5, 1}, Extents{32, 3}, Extents{75, 20}}) {
      Case c{how, n, columns};
      Dense a = matrix("random", n, n);
      c.op = Dense(n, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          a(i, j) = i == j ? 2 + std::fabs(a(i, j)) : a(i, j) / static_cast<double>(n);
          const bool read = i == j ? !how.unit_diagonal : how.upper == (j > i);
          if (!read) a(i, j) = NAN;
          const double v = read ? rounded(Dense(1, 1, {a(i, j)}), GetParam())(0, 0) : i == j ? 1 : 0;
          (how.transposed ? c.op(j, i) : c.op(i, j)) = v;
        }
      }
      c.b = rounded(how.right ? matrix("random", columns, n) : matrix("random", n, columns), GetParam());
      inputs.push_back(device.array(a));
      inputs.push_back(device.array(c.b));
      const Value left = device.input({n, n}), right = device.input({c.b.rows, c.b.columns});
      c.output = device.add(Op::solve_triangular, how, {left, right});
      cases.push_back(c);
    }
  }
  device.run(inputs);
  for (const Case& c : cases) {
    const Dense x = device.result(c.output);
    EXPECT_LT(ratio(c.b, c.how.right ? x * c.op : c.op * x, device.eps()), kStable)
        << c.n << " upper " << c.how.upper << " transposed " << c.how.transposed << " unit " << c.how.unit_diagonal
        << " right " << c.how.right;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuLinearAlgebra, testing::Values(DType::f32, DType::f64),
                         [](const auto& instance) { return cat(instance.param); });

// The message of the error of the data on a device.
std::string refusal(const Graph& g, const Array& x, const std::string& on) {
  try {
    for (const Array& a : run_planned(on, g, {x})) a.to_vector<double>();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::data);
    return e.what();
  }
  return "no error";
}

TEST(GpuLinearAlgebraErrors, NameTheFirstMatrixAndPlaceAsTheCpuDoes) {
  NEEDS_TEST_DEVICE();
  for (const int64_t n : {4, 100}) {
    std::vector<float> x(static_cast<size_t>(6 * n * n));
    for (int64_t i = 0; i < 6 * n; ++i) x[static_cast<size_t>(i * n + i % n)] = 1;
    for (const int64_t matrix : {4, 5}) x[static_cast<size_t>((matrix * n + n - 2) * n + n - 2)] = 0;
    const Array input = Array::of<float>(x, {2, 3, n, n});
    const std::pair<Op, Attrs> ops[] = {{Op::lu_factor, LuAttrs{true}},
                                        {Op::cholesky, CholeskyAttrs{false}},
                                        {Op::cholesky, CholeskyAttrs{true}},
                                        {Op::solve_triangular, TriangularAttrs{.refuse_singular = true}},
                                        {Op::solve, NoAttrs{}}};
    for (const auto& [op, attrs] : ops) {
      if (n > 4 && op == Op::solve_triangular) continue;  // the diagonal is looked at in the same way
      // By itself, and as a part of what the user called.
      for (const char* function : {static_cast<const char*>(nullptr), "inv"}) {
        Graph g;
        const Value v = g.add(Op::input, LeafAttrs{"x", Type{DType::f32, input.shape()}}, {})[0];
        const std::vector<Value> in(info(op).min_inputs == 2 ? 2 : 1, v);
        g.outputs = g.add(op, attrs, in, "whiten", "net.cpp:7", function);
        const std::string message = refusal(g, input, test_device());
        EXPECT_EQ(message, refusal(g, input, "cpu"));
        EXPECT_EQ(message.find(cat(function ? function : name(op), ": ")), 0u) << message;
        EXPECT_NE(message.find(cat("matrix (1, 1) of f32[2,3,", n, ",", n, "]")), std::string::npos) << message;
        EXPECT_NE(message.find("(whiten, net.cpp:7)"), std::string::npos) << message;
      }
    }
  }
}

TEST(GpuLinearAlgebraErrors, TheFirstStepThatRefusesIsTheOneThatIsNamed) {
  NEEDS_TEST_DEVICE();
  const Array x = Array::of<float>({1, 0, 0, -1}, {2, 2});  // of the factor's NaN an inverse is not asked for
  Graph g;
  Builder b(g);
  const Value v = b.one(Op::input, LeafAttrs{"x", Type{DType::f32, x.shape()}}, {});
  const Value l = b.one(Op::cholesky, CholeskyAttrs{}, {v}), zero = b.binary(Op::mul, v, b.binary(Op::sub, v, v));
  g.outputs = {b.one(Op::solve_triangular, TriangularAttrs{.refuse_singular = true}, {zero, l})};
  EXPECT_EQ(refusal(g, x, test_device()).find("cholesky: "), 0u) << refusal(g, x, test_device());
}

TEST(GpuLinearAlgebraFunctions, SolveByFactorsAndHaveGradients) {
  NEEDS_TEST_DEVICE();
  std::vector<OpCase> cases;
  for (const FunctionRow& row : function_rows()) {
    if (signature_of(row).header != "linalg.h") continue;
    OpCase c = case_of(row);
    if (!has_linear_algebra(c.graph)) continue;
    const bool refused =
        std::any_of(c.graph.nodes.begin(), c.graph.nodes.end(), [](const Node& n) { return is_spectral(n.op); });
    if (refused || !drawn(to_string(row), 2)) continue;
    c.graph = with_gradients(c.graph);
    cases.push_back(c);
  }
  ASSERT_GT(cases.size(), 20u);
  compare_together(cases, test_device());
}

}  // namespace
}  // namespace freight::test
