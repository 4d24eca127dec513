// Matrix products by cuBLASLt, on a fake of it that executes descriptions word by word: layouts, leading dimensions,
// transposes, batches, epilogues, algorithms. What it cannot tell is whether NVIDIA's library agrees.
#include <gtest/gtest.h>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/cuda/blas.h"
#include "freight/base/philox.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "freight/store/precision.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/files.h"
#include "tests/support/trained.h"

namespace freight::test {
namespace {

class CudaBlas : public OnFakeLibraries {};

std::vector<OpCase> all_matmuls() {
  std::vector<OpCase> cases = cases_with_gradients(Op::matmul);
  const auto append = [&](const std::vector<OpCase>& more) { cases.insert(cases.end(), more.begin(), more.end()); };
  append(cases_of_views(Op::matmul));
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) append(cases_in(Op::matmul, dtype));
  return cases;
}

TEST_F(CudaBlas, MultipliesAsTheOracleInAllTypesAndOnViews) {
  compare_together(all_matmuls(), "cuda:0");
  EXPECT_GT(fake().library_products, 50);
}

TEST_F(CudaBlas, WhereTheLibraryHasNoKernelTheGeneratedOnesMultiply) {
  const Told none("FAKE_CUBLASLT_HAS_NO_KERNELS");
  compare_together(all_matmuls(), "cuda:0");
  EXPECT_EQ(fake().library_products, 0);
}

// relu(x w + b + r), where asked for; x a part of a larger tensor, from column `first` on.
struct Finished {
  DType dtype;
  bool bias, residual, relu;
  int64_t first = 0;
  Shape batches = {};
};

Graph graph_of(const Finished& f) {
  Graph g;
  Builder b(g);
  const auto shape = [&](int64_t rows, int64_t columns) {
    Shape s = f.batches;
    s.push_back(rows);
    s.push_back(columns);
    return s;
  };
  const auto input = [&](const char* name, const Shape& s) {
    return b.one(Op::input, LeafAttrs{name, {f.dtype, s}}, {});
  };
  Value x = input("x", shape(5, 24));
  const bool batched = f.batches.rank() > 0;
  if (batched) {
    x = b.slice(x, {0, 0, f.first}, {f.batches[0], 5, f.first + 16}, {1, 1, 1});
  } else {
    x = b.slice(x, {0, f.first}, {5, f.first + 16}, {1, 1});
  }
  Value y = b.one(Op::matmul, MatmulAttrs{}, {x, input("w", shape(16, 9))});
  if (f.bias) {
    const Value row = b.reshape(input("b", {9}), batched ? Shape{1, 1, 9} : Shape{1, 9});
    y = b.binary(Op::add, y, b.broadcast(row, shape(5, 9)));
  }
  // A residual is a result of its own: what is only read would rather be added elsewhere.
  if (f.residual)
    y = b.binary(Op::add, y, b.one(Op::matmul, MatmulAttrs{}, {input("r", shape(5, 3)), input("s", shape(3, 9))}));
  if (f.relu) y = b.unary(Op::relu, y);
  g.outputs = {y};
  return g;
}

std::string to_text(const Finished& f) {
  return cat(f.dtype, f.bias ? " bias" : "", f.residual ? " residual" : "", f.relu ? " relu" : "", " from ", f.first,
             " batches ", to_string(f.batches));
}

TEST_F(CudaBlas, EpiloguesAreComputedWhereTheyBelong) {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (int bits = 0; bits < 8; ++bits) {
      for (const Shape& batches : {Shape{}, Shape{3}}) {
        const Finished f{dtype, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, bits % 3, batches};
        const Graph g = graph_of(f);
        std::vector<Array> in;
        for (Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v)}, 7 + in.size()));
        cases.push_back({to_text(f), g, in, 1});
      }
    }
  }
  compare_together(cases, "cuda:0");
  for (const Finished& f : {Finished{DType::f32, true, false, true}, Finished{DType::f64, true, false, true}}) {
    const auto plan = plan_for(graph_of(f), {.backend = "cuda:0", .deterministic = true});
    ASSERT_EQ(plan->steps().size(), 1u) << print(*plan);  // bias and relu ride on it
    EXPECT_TRUE(starts_with(plan->steps()[0].kernel->name(), "cuda:cublaslt:")) << plan->steps()[0].kernel->name();
  }
}

// What the backward pass of a dense layer fuses with a matmul (backend/gpu/fused_patterns.cpp): the mask of a ReLU's
// gradient with or without the sums of a bias's, or the sums of a weight gradient's operand, first or second. `leads`:
// the rows of the region have two axes.
struct Gradient {
  enum Kind { mask, mask_and_sums, sums_of_first, sums_of_second } kind;
  DType dtype = DType::f32;
  int64_t columns = 9;
  bool leads = false;
  int64_t more = 0;  // rows
};

Graph graph_of(const Gradient& d) {
  Graph g;
  Builder b(g);
  const auto input = [&](const char* name, const Shape& s) {
    return b.one(Op::input, LeafAttrs{name, {d.dtype, s}}, {});
  };
  // Regions of one shape that depend on nothing of each other's would become one.
  const int64_t some = (d.kind == Gradient::mask ? 2 : 3) + d.more;
  const auto rows = [&](int64_t n) { return d.leads ? Shape{2, some, n} : Shape{2 * some, n}; };
  const Shape lead = d.leads ? Shape{0, 1} : Shape{0};
  if (d.kind <= Gradient::mask_and_sums) {
    const Value p = b.reshape(b.matmul(input("g", {2 * some, 17}), input("w", {17, d.columns})), rows(d.columns));
    const Value y = input("y", rows(d.columns));
    const Value r = b.where(b.binary(Op::gt, y, b.constant_like(0, y)), p, b.constant_like(0, p));
    g.outputs = {r};
    if (d.kind == Gradient::mask_and_sums) g.outputs.push_back(b.reshape(b.sum(r, lead), {d.columns}));
    return g;
  }
  const Value x = input("x", rows(d.columns)), other = input("other", {2 * some, 17}),
              flat = b.reshape(x, {2 * some, d.columns});
  g.outputs = {b.reshape(b.sum(x, lead), {d.columns}), d.kind == Gradient::sums_of_first
                                                           ? b.matmul(flat, other, true, false)
                                                           : b.matmul(other, flat, true, false)};
  return g;
}

OpCase case_of(const Gradient& d) {
  const Graph g = graph_of(d);
  std::vector<Array> in;
  for (Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v)}, 7 + in.size()));
  return {cat(d.dtype, " form ", int{d.kind}, " columns ", d.columns, d.leads ? " leads" : ""), g, in, 1};
}

std::vector<OpCase> gradients(const std::vector<DType>& dtypes) {
  std::vector<OpCase> cases;
  for (const DType dtype : dtypes) {
    for (int kind = 0; kind < 4; ++kind) {
      for (const int64_t columns : {1, 9, 130}) {
        for (const bool leads : {false, true}) {
          cases.push_back(case_of({static_cast<Gradient::Kind>(kind), dtype, columns, leads}));
        }
      }
    }
  }
  return cases;
}

const std::vector<DType> kFloating = {DType::f32, DType::bf16, DType::f16, DType::f64};

TEST_F(CudaBlas, GradientsRideOnProductsWhereTheirTypesAreTheLibrarys) {
  compare_together(gradients({DType::f32}), "cuda:0");
  EXPECT_EQ(fake().library_gradients, 4 * 3 * 2);
  compare_together(gradients({DType::bf16, DType::f16, DType::f64}), "cuda:0");
  EXPECT_EQ(fake().library_gradients, 4 * 3 * 2 + 2 * 3 * 2);  // masks alone: sums of 16 bits would be of 16 bits
  for (int kind = 0; kind < 4; ++kind) {
    const auto plan =
        plan_for(graph_of(Gradient{static_cast<Gradient::Kind>(kind)}), {.backend = "cuda:0", .deterministic = true});
    ASSERT_EQ(plan->steps().size(), kind == Gradient::mask ? 1u : 2u) << print(*plan);  // the sums are copied out
    EXPECT_TRUE(starts_with(plan->steps()[0].kernel->name(), "cuda:cublaslt:")) << print(*plan);
  }
}

TEST_F(CudaBlas, GradientsThatTheLibraryLacksAreFinishedByGeneratedKernels) {
  const Told none("FAKE_CUBLASLT_HAS_NO_GRADIENTS");
  compare_together(gradients(kFloating), "cuda:0");
  EXPECT_EQ(fake().library_gradients, 0);
  EXPECT_GT(fake().library_products, 50);
}

TEST_F(CudaBlas, GradientsAreGeneratedWholeWhereTheLibraryHasNoKernel) {
  const Told none("FAKE_CUBLASLT_HAS_NO_KERNELS");
  compare_together(gradients(kFloating), "cuda:0");
  EXPECT_EQ(fake().library_products, 0);
}

// The kernels behind a product, or all of them, sum in parts, which lie in the scratch memory of the step.
TEST_F(CudaBlas, SumsOfManyRowsAreFinishedInParts) {
  std::vector<OpCase> cases;
  for (const Gradient::Kind kind : {Gradient::mask_and_sums, Gradient::sums_of_first, Gradient::sums_of_second}) {
    cases.push_back(case_of({.kind = kind, .more = 300}));
  }
  for (const char* lacking : {"FAKE_CUBLASLT_HAS_NO_GRADIENTS", "FAKE_CUBLASLT_HAS_NO_KERNELS"}) {
    const Told none(lacking);
    clear_plan_cache();
    compare_together(cases, "cuda:0");
  }
}

TEST_F(CudaBlas, WhetherAGradientRidesIsMeasured) {
  const Graph g = graph_of(Gradient{Gradient::mask_and_sums});
  const std::string first = plan_for(g, {.backend = "cuda:0"})->steps()[0].kernel->name();
  EXPECT_GT(fake().library_gradients, 0);
  EXPECT_GT(fake().library_products, fake().library_gradients);  // those that generated kernels finish
  const std::string kept = io::read_text(cache_.path() + "/gpu-choices.txt");
  EXPECT_NE(kept.find(first + " matmul f32[6,17]"), std::string::npos) << kept;
  EXPECT_NE(kept.find(" masked sums -1"), std::string::npos) << kept;
}

TEST_F(CudaBlas, SumsOfOperandsAreNotTakenFromTf32) {
  const Graph g = graph_of(Gradient{Gradient::sums_of_first});
  plan_for(g, {.backend = "cuda:0", .tf32 = true});
  EXPECT_EQ(fake().library_gradients, 0);
  EXPECT_GT(fake().library_products, 0);
}

// 1 + 2^-11, which TF32 rounds to 1.
TEST_F(CudaBlas, RoundsToTf32WhereThePrecisionSaysSoAndNowhereElse) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {1, 1}}}, {}),
              w = b.one(Op::input, LeafAttrs{"w", {DType::f32, {1, 1}}}, {});
  g.outputs = {b.one(Op::matmul, MatmulAttrs{}, {x, w})};
  const Array in = Array::of<float>({1 + 0x1p-11f}, {1, 1}), one = Array::of<float>({1}, {1, 1});
  const auto product = [&](bool tf32) {
    const Array out(DType::f32, {1, 1});
    Executable(plan_for(g, {.backend = "cuda:0", .deterministic = true, .tf32 = tf32}), {}).run({in, one}, {out});
    return out.to_vector<float>()[0];
  };
  EXPECT_TRUE(backend("cuda:0").has_tf32());
  EXPECT_EQ(product(false), 1 + 0x1p-11f);
  EXPECT_EQ(product(true), 1);
  EXPECT_EQ(backend("cuda:0").why_unsupported(DType::bf16), "");
  EXPECT_TRUE(store::compute_type("tf32", "cuda:0").tf32);
  EXPECT_EQ(store::compute_type("tf32", "cuda:0").note, "");
  EXPECT_FALSE(store::compute_type("tf32", "cpu").tf32);
  EXPECT_EQ(store::compute_type("tf32", "cpu").note, "no tf32 on this device: computing in f32");
}

TEST_F(CudaBlas, TheFastestKernelIsMeasuredOnceAndRemembered) {
  const Graph g = graph_of({DType::f32, true, false, true});
  const RunOptions options{.backend = "cuda:0"};
  std::string first, second;
  int64_t measured = 0;
  // A measurement that other programs disturb is not remembered, so it may take more than one.
  for (int attempt = 0; attempt < 20 && (second.empty() || fake().library_products > measured); ++attempt) {
    clear_plan_cache();
    first = plan_for(g, options)->steps()[0].kernel->name();
    measured = fake().library_products;
    clear_plan_cache();
    second = plan_for(g, options)->steps()[0].kernel->name();
  }
  EXPECT_GT(measured, 5);
  EXPECT_EQ(second, first);
  EXPECT_EQ(fake().library_products, measured);
  const std::string kept = io::read_text(cache_.path() + "/gpu-choices.txt");
  EXPECT_TRUE(starts_with(kept, first + " matmul bias relu ")) << kept;
}

TEST_F(CudaBlas, WorkspaceIsMemoryOfThePlan) {
  const auto plan = plan_for(graph_of({DType::f32, false, false, false}), {.backend = "cuda:0", .deterministic = true});
  ASSERT_EQ(plan->steps().size(), 1u);
  EXPECT_EQ(plan->steps()[0].kernel->scratch_bytes(), 4096u);
  EXPECT_GE(plan->arena_bytes(), 4096u);
}

TEST_F(CudaBlas, DescriptionsGoWithThePlanThatNeedsThem) {
  plan_for(graph_of({DType::f32, false, false, false}), {.backend = "cuda:0", .deterministic = true});
  const int64_t most = fake().live_descriptions;
  clear_plan_cache();
  EXPECT_EQ(fake().live_descriptions, 1);  // the library's handle
  EXPECT_EQ(most, 5);
}

TEST_F(CudaBlas, ALibraryThatDoesNotStartSaysSo) {
  const Told none("FAKE_CUBLASLT_DOES_NOT_START");
  const auto memory = std::make_shared<cuda::Memory>(*fake_driver(), 0);
  std::string why;
  EXPECT_EQ(cuda::Blas::open(memory, 90, why), nullptr);
  EXPECT_NE(why.find("libcublasLt.so.13 does not start: CUBLAS_STATUS_NOT_INITIALIZED (1)"), std::string::npos) << why;
}

struct Net {
  const char* name;
  int64_t batch;
};
class CudaBlasNets : public CudaBlas, public ::testing::WithParamInterface<Net> {};

// By generated kernels in both drivers; here lane by lane, with every access seen.
TEST_F(CudaBlas, AttentionAndItsGradientAreThoseOfTheOracle) {
  for (const Op op : {Op::attention, Op::attention_grad}) {
    std::vector<OpCase> cases = cases_in(op, DType::bf16);
    for (const OpCase& c : cases_of_views(op)) cases.push_back(c);
    compare_together(cases, "cuda:0");
  }
}

// Nets whose products differ in form: dense, recurrent (a slice per step of time), attention (batches of transposes).
TEST_P(CudaBlasNets, TrainAsOnTheCpuWithOneLaunchPerStep) {
  constexpr int kSteps = 3;
  static Net net;  // the maker is a plain function
  net = GetParam();
  train::trains_as_on_the_cpu(
      "cuda:0",
      [] {
        models::Options o;
        const std::string name = net.name;
        if (name != "mlp") o.vocabulary = 30, o.length = 6;
        if (name == "gpt_char") o.layers = 1, o.width = 64;
        return models::create(name, o);
      },
      net.batch, kSteps, 0.02);
  EXPECT_GE(fake().library_products, 3 * kSteps);
  EXPECT_GE(fake().library_gradients, kSteps);
  EXPECT_EQ(fake().captures, 1);
  EXPECT_EQ(fake().graph_launches, kSteps - 1);
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaBlasNets,
                         ::testing::Values(Net{"mlp", 4}, Net{"lstm_text", 2}, Net{"gru_text", 2}, Net{"text_bow", 2},
                                           Net{"gpt_char", 2}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace freight::test
