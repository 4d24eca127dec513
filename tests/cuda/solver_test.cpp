// Linear algebra by cuSOLVER and cuBLAS, on fakes of them that compute what their arguments say: triangles, sides,
// leading dimensions, workspaces, pivots, reports. What they cannot tell is whether NVIDIA's libraries agree.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "freight/backend/choices.h"
#include "freight/backend/gpu/cuda/solver.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

class CudaSolver : public OnFakeLibraries, public ::testing::WithParamInterface<Op> {
 protected:
  const ForcedChoice library_{0};  // of small matrices, too
};

constexpr Op kOps[] = {Op::lu_factor, Op::cholesky, Op::qr, Op::eigh, Op::svd, Op::eig};

// One op on operands of these types.
Graph graph_of_op(Op op, const Attrs& attrs, const Type& x) {
  Graph g;
  Builder b(g);
  g.outputs = b.add(op, attrs, {b.one(Op::input, LeafAttrs{"x", x}, {})});
  return g;
}

Array random_matrices(const Type& type, uint64_t seed) {
  Array x = random_array({type}, seed);
  return x;
}

// x x^T + n I, as f64 or f32.
Array positive_matrices(const Type& type, uint64_t seed) {
  const std::vector<double> x = random_array({{DType::f64, type.shape}}, seed).to_vector<double>();
  std::vector<double> p(x.size());
  const int64_t n = type.shape.back();
  for (int64_t b = 0; n > 0 && b < type.numel() / (n * n); ++b) {
    const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>((b * n + i) * n + j); };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < n; ++k) p[at(i, j)] += x[at(i, k)] * x[at(j, k)];
        if (i == j) p[at(i, j)] += static_cast<double>(n);
      }
    }
  }
  Array f64(DType::f64, type.shape);
  std::copy(p.begin(), p.end(), f64.data<double>());
  return retype({f64}, type.dtype)[0];
}

TEST_P(CudaSolver, FactorizesAsTheOracleInBothTypesAndOnViews) {
  std::vector<OpCase> cases = cases_of_views(GetParam());
  const std::vector<OpCase> more = cases_in(GetParam(), DType::f64);
  cases.insert(cases.end(), more.begin(), more.end());
  compare_together(cases, "cuda:0");
  EXPECT_GT(fake().library_factorizations, 10);
}

TEST_P(CudaSolver, GradientsAreThoseOfTheOracle) { compare_together(cases_with_gradients(GetParam()), "cuda:0"); }

TEST_F(CudaSolver, TriangularSystemsAreSolvedAsByTheOracleOnEverySideInBothTypesAndOnViews) {
  std::vector<OpCase> cases = cases_with_gradients(Op::solve_triangular);
  for (const auto& more : {cases_of_views(Op::solve_triangular), cases_in(Op::solve_triangular, DType::f64)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  compare_together(cases, "cuda:0");
  EXPECT_GT(fake().library_solutions, 100);
}

// Extents around the tiles through which matrices are transposed, and batches of them.
TEST_F(CudaSolver, ExtentsThatFillNoTileAreFactorizedAsTheOracleDoes) {
  std::vector<OpCase> cases;
  for (const Shape& s : {Shape{33, 33}, Shape{32, 65}, Shape{70, 31}, Shape{3, 40, 33}, Shape{2, 2, 33, 34}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Type type{dtype, s};
      const Array x = random_matrices(type, 3);
      cases.push_back({cat("lu ", type), graph_of_op(Op::lu_factor, LuAttrs{}, type), {x}, 200});
      for (const bool complete : {false, true}) {
        const Graph g = graph_of_op(Op::qr, QrAttrs{complete}, type);
        cases.push_back({cat("qr ", type), g, {x}, 200});
      }
      Graph values = graph_of_op(Op::svd, SvdAttrs{}, type);
      values.outputs = {values.outputs[1]};  // nobody reads the vectors
      cases.push_back({cat("singular values ", type), values, {x}, 40});
      if (s.back() != s[s.rank() - 2]) continue;
      const Array p = positive_matrices(type, 5);
      for (const bool upper : {false, true}) {
        cases.push_back({cat("cholesky ", type), graph_of_op(Op::cholesky, CholeskyAttrs{upper}, type), {p}, 40});
        Graph eigenvalues = graph_of_op(Op::eigh, EighAttrs{upper}, type);
        eigenvalues.outputs = {eigenvalues.outputs[0]};
        cases.push_back({cat("eigenvalues ", type), eigenvalues, {p}, 40});
      }
    }
  }
  for (const OpCase& c : cases) {
    SCOPED_TRACE(c.what);
    const std::vector<Array> got = run_planned("cuda:0", c.graph, c.inputs);
    const std::vector<Array> expected = interpret(retype(c.graph, DType::f64), retype(c.inputs, DType::f64));
    const double eps = c.inputs[0].dtype() == DType::f64 ? 1e-15 : 1e-7;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(close(got[i], expected[i], eps * 100 * c.slack)) << "output " << i;
    }
  }
}

// Rows are exchanged in such an order that following them in the wrong one shows.
TEST_F(CudaSolver, PivotsAndPermutationBelongTogether) {
  const Type type{DType::f64, {2, 5, 4}};
  const Array x = random_matrices(type, 11);
  const std::vector<Array> out = run_planned("cuda:0", graph_of_op(Op::lu_factor, LuAttrs{}, type), {x});
  const auto pivots = out[1].to_vector<int>(), permutation = out[2].to_vector<int>();
  for (size_t b = 0; b < 2; ++b) {
    std::vector<int> rows = {0, 1, 2, 3, 4};
    for (size_t k = 0; k < 4; ++k) std::swap(rows[k], rows[static_cast<size_t>(pivots[4 * b + k])]);
    EXPECT_EQ(rows, std::vector<int>(permutation.begin() + static_cast<std::ptrdiff_t>(5 * b),
                                     permutation.begin() + static_cast<std::ptrdiff_t>(5 * b + 5)));
  }
}

// Six identity matrices (2, 3, 3, 3), of which the last has this number at the end of its diagonal.
Array identities_but(DType dtype, double last) {
  Array x(DType::f64, {2, 3, 3, 3});
  for (int64_t e = 0; e < x.numel(); ++e) x.data<double>()[e] = e % 9 % 4 == 0;
  x.data<double>()[x.numel() - 1] = last;
  return retype({x}, dtype)[0];
}

TEST_F(CudaSolver, ErrorsNameTheMatrixOfTheBatch) {
  const auto run = [](Op op, const Attrs& attrs, const Array& x) {
    const auto out = run_planned("cuda:0", graph_of_op(op, attrs, {x.dtype(), x.shape()}), {x});
    out[0].to_vector<double>();
    return out;
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string of = cat("matrix (1, 2) of ", dtype, "[2,3,3,3]");
    const Array singular = identities_but(dtype, 0);
    testing::expect_error(ErrorKind::data, {cat("lu_factor: ", of, " is singular"), "pivot 2"},
                          [&] { run(Op::lu_factor, LuAttrs{.refuse_singular = true}, singular); });
    EXPECT_EQ(run(Op::lu_factor, LuAttrs{}, singular)[0].to_vector<double>().back(), 0);
    for (const double bad : {0.0, -1.0, std::nan("")}) {
      testing::expect_error(ErrorKind::data, {cat("cholesky: ", of), "leading minor of order 3"},
                            [&] { run(Op::cholesky, CholeskyAttrs{}, identities_but(dtype, bad)); });
    }
    EXPECT_NO_THROW(run(Op::cholesky, CholeskyAttrs{}, identities_but(dtype, 4)));
  }
  const Array x = identities_but(DType::f32, 0);
  for (const bool refuse : {true, false}) {
    const Type type{DType::f32, x.shape()};
    Graph g;
    Builder b(g);
    const Value a = b.one(Op::input, LeafAttrs{"a", type}, {}), y = b.one(Op::input, LeafAttrs{"b", type}, {});
    g.outputs = b.add(Op::solve_triangular, TriangularAttrs{.refuse_singular = refuse}, {a, y});
    const auto solve = [&] { return run_planned("cuda:0", g, {x, x})[0].to_vector<float>(); };
    if (refuse) {
      testing::expect_error(ErrorKind::data, {"solve_triangular: matrix (1, 2) of f32[2,3,3,3]", "number 2 of its"},
                            solve);
    } else {
      EXPECT_TRUE(std::isnan(solve().back()));
    }
  }
}

TEST_F(CudaSolver, IterationsThatDoNotConvergeAreErrorsOfTheData) {
  const auto run = [](Op op, const Attrs& attrs, const Array& x) {
    run_planned("cuda:0", graph_of_op(op, attrs, {x.dtype(), x.shape()}), {x})[0].to_vector<double>();
  };
  const Told stuck("FAKE_CUSOLVER_DOES_NOT_CONVERGE");
  const Array x = identities_but(DType::f32, 2);
  for (const auto& [op, attrs] :
       {std::pair<Op, Attrs>{Op::eigh, EighAttrs{}}, {Op::svd, SvdAttrs{}}, {Op::eig, NoAttrs{}}}) {
    testing::expect_error(ErrorKind::data, {name(op), "matrix (0, 0) of f32[2,3,3,3]", "did not converge"},
                          [&] { run(op, attrs, x); });
  }
}

TEST_F(CudaSolver, NanMakesTheVectorsAndValuesOfItsMatrixNanAlone) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const auto& [op, attrs] :
         {std::pair<Op, Attrs>{Op::eigh, EighAttrs{.upper = true}}, {Op::svd, SvdAttrs{}}, {Op::eig, NoAttrs{}}}) {
      const Array x = identities_but(DType::f32, bad);
      for (const Array& out : run_planned("cuda:0", graph_of_op(op, attrs, {DType::f32, x.shape()}), {x})) {
        const std::vector<double> got = out.to_vector<double>();
        for (size_t e = 0; e < got.size(); ++e) {
          EXPECT_EQ(std::isnan(got[e]), e >= got.size() / 6 * 5) << name(op) << " " << e;
        }
      }
    }
  }
  // NaN in the triangle that is not read is none.
  Array x = identities_but(DType::f32, 1);
  x.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  const auto lower = run_planned("cuda:0", graph_of_op(Op::eigh, EighAttrs{}, {DType::f32, x.shape()}), {x});
  EXPECT_EQ(lower[0].to_vector<double>(), std::vector<double>(18, 1.0));
  const auto factor = run_planned("cuda:0", graph_of_op(Op::cholesky, CholeskyAttrs{}, {DType::f32, x.shape()}), {x});
  EXPECT_EQ(factor[0].to_vector<float>()[1], 0);
}

// Runs a plan three times on different matrices, with results in the same places.
void run_thrice(Op op, const Attrs& attrs) {
  const Type type{DType::f64, {2, 4, 4}};
  const Graph g = graph_of_op(op, attrs, type);
  Executable executable(plan_for(g, {.backend = "cuda:0"}), {});
  std::vector<Array> outputs;
  for (Value v : g.outputs) outputs.emplace_back(g.type(v).dtype, g.type(v).shape);
  for (uint64_t seed : {1, 2, 3}) {
    const Array x = positive_matrices(type, seed);
    executable.run({x}, outputs);
    EXPECT_TRUE(close(outputs[0], interpret(g, {x})[0], 1e-12)) << name(op) << " " << seed;
  }
}

TEST_F(CudaSolver, FactorizationsAreRecordedAndIterationsAreNot) {
  for (const auto& [op, attrs] :
       {std::pair<Op, Attrs>{Op::lu_factor, LuAttrs{true}}, {Op::cholesky, CholeskyAttrs{}}, {Op::qr, QrAttrs{}}}) {
    fake().captures = fake().graph_launches = 0;
    run_thrice(op, attrs);
    EXPECT_EQ(fake().captures, 1) << name(op);
    EXPECT_EQ(fake().graph_launches, 2) << name(op);
  }
  fake().captures = 0;
  run_thrice(Op::eigh, EighAttrs{});
  EXPECT_EQ(fake().captures, 0);
}

TEST_F(CudaSolver, ALibraryThatDoesNotStartSaysSo) {
  const Told none("FAKE_CUSOLVER_DOES_NOT_START");
  const auto memory = std::make_shared<cuda::Memory>(*fake_driver(), 0);
  std::string why;
  EXPECT_EQ(cuda::Solver::open(memory, why), nullptr);
  EXPECT_NE(why.find("libcusolver.so.12 does not start: status 1"), std::string::npos) << why;
}

TEST_F(CudaSolver, WhereALibraryIsMissingTheGeneratedKernelsFactorize) {
  const Told neither("FAKE_CUBLAS_DOES_NOT_START"), nor("FAKE_CUSOLVER_DOES_NOT_START");
  for (const Op op : {Op::lu_factor, Op::cholesky, Op::qr, Op::solve_triangular}) {
    compare_together(cases_in(op, DType::f64), "cuda:0");
  }
  EXPECT_EQ(fake().library_factorizations + fake().library_solutions, 0);
  const Type type{DType::f32, {3, 3}};
  testing::expect_error(
      ErrorKind::device,
      {"svd: a CUDA device computes it by cuSOLVER: ", "libcusolver.so.12 does not start", "x.to_device(\"cpu\")"},
      [&] { run_planned("cuda:0", graph_of_op(Op::svd, SvdAttrs{}, type), {random_matrices(type, 1)}); });
}

TEST_F(OnFakeLibraries, ManySmallMatricesAreFactorizedSideBySideAndLargeOnesByTheLibrary) {
  const auto kernel = [](Op op, const Attrs& attrs, const Shape& shape) {
    const auto plan = plan_for(graph_of_op(op, attrs, {DType::f64, shape}), {.backend = "cuda:0"});
    return plan->steps().at(0).kernel->name();
  };
  EXPECT_EQ(kernel(Op::lu_factor, LuAttrs{}, {4096, 64, 64}), "cuda:lu");
  EXPECT_EQ(kernel(Op::lu_factor, LuAttrs{}, {64, 64}), "cuda:lu");  // in local memory
  EXPECT_EQ(kernel(Op::lu_factor, LuAttrs{}, {128, 128}), "cuda:cusolver:lu_factor");
  EXPECT_EQ(kernel(Op::cholesky, CholeskyAttrs{}, {2, 512, 512}), "cuda:cusolver:cholesky");
  EXPECT_EQ(kernel(Op::eigh, EighAttrs{}, {4096, 64, 64}), "cuda:cusolver:eigh");
}

TEST_F(CudaSolver, AStatusThatIsNoSuccessIsAnErrorOfTheDevice) {
  const Told fails("FAKE_CUSOLVER_FAILS");
  testing::expect_error(ErrorKind::device, {"cuSOLVER: Xpotrf ended with status 6"}, [] {
    run_planned("cuda:0", graph_of_op(Op::cholesky, CholeskyAttrs{}, {DType::f32, {3, 3}}),
                {positive_matrices({DType::f32, {3, 3}}, 1)});
  });
}

// A process looks for the library once: each of these tests is one of its own.
TEST_F(OnFake, ACusolverWithoutXgeevComputesAllButEig) {
  ::setenv("FREIGHT_CUDA_LIBS", (kFakeFolder + "/old:" + kFakeFolder).c_str(), 1);
  const Type type{DType::f32, {2, 3, 3}};
  const Array x = positive_matrices(type, 1);
  testing::expect_error(ErrorKind::device,
                        {"eig: ", "cusolverDnXsyevBatched", "nvidia-cusolver", "x.to_device(\"cpu\")"},
                        [&] { run_planned("cuda:0", graph_of_op(Op::eig, NoAttrs{}, type), {x}); });
  Graph g = graph_of_op(Op::eigh, EighAttrs{}, type);
  g.outputs = {g.outputs[0]};
  EXPECT_TRUE(close(run_planned("cuda:0", g, {x})[0], interpret(g, {x})[0], 1e-5));  // one matrix after the other
  EXPECT_EQ(fake().library_factorizations, 2);
}

TEST_F(OnFake, ACusolverThatMayGiveOtherBitsIsRefused) {
  ::setenv("FREIGHT_CUDA_LIBS", (kFakeFolder + "/ancient:" + kFakeFolder).c_str(), 1);
  const Type type{DType::f32, {3, 3}};
  testing::expect_error(
      ErrorKind::device,
      {"svd: a CUDA device computes it by cuSOLVER: ", "has no cusolverDnSetDeterministicMode", "install a newer one",
       "x.to_device(\"cpu\")"},
      [&] { run_planned("cuda:0", graph_of_op(Op::svd, SvdAttrs{}, type), {random_matrices(type, 1)}); });
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaSolver, ::testing::ValuesIn(kOps),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace freight::test
