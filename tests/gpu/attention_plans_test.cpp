// Whether cuDNN's heuristics know the graphs of attention on an sm_90, asked of the real library without a device. Its
// engines for them compile at run time, for which it wants libcuda.so.1: the toolkit's stub is enough up to where they
// would compile. That they are fast, or right, only a device can tell.
#include <dlfcn.h>
#include <glob.h>
#include <gtest/gtest.h>

#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/ir/builder.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

// The driver, or the stub that comes with a toolkit.
bool has_libcuda() {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) return true;
  glob_t found = {};
  bool loaded = false;
  if (glob("/usr/local/cuda*/lib*/stubs/libcuda.so", 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && !loaded; ++i)
      loaded = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL) != nullptr;
  }
  globfree(&found);
  return loaded;
}

struct Sizes {
  const char* name;
  int64_t b, h, t, s, d;
};

// A step as MultiheadAttention makes it: q, k and v are parts of rows that one product made.
struct AttentionStep {
  AttentionStep(const Sizes& z, DType dtype, bool causal, bool gradient) {
    Builder b(graph);
    const auto input = [&](DType t, const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {t, s}}, {}); };
    const Shape q = {z.b, z.h, z.t, z.d}, k = {z.b, z.h, z.s, z.d};
    std::vector<Value> in = {input(dtype, q), input(dtype, k), input(dtype, k)};
    if (gradient) in.insert(in.end(), {input(dtype, q), input(DType::f32, {z.b, z.h, z.t}), input(dtype, q)});
    const AttentionAttrs a{.scale = 0.125, .causal = causal};
    const std::vector<Value> out = b.add(gradient ? Op::attention_grad : Op::attention, a, in);
    const int64_t row = 3 * z.h * z.d;
    spec.graph = &graph;
    spec.node = &graph.def(out[0]);
    for (Value v : in) spec.in.push_back({graph.type(v), Layout::row_major(graph.type(v).shape)});
    for (Value v : out) spec.out.push_back({graph.type(v), Layout::row_major(graph.type(v).shape)});
    spec.in[0].layout.strides = {z.t * row, z.d, row, 1};
    spec.in[1].layout.strides = spec.in[2].layout.strides = {z.s * row, z.d, row, 1};
    spec.in[1].offset = z.h * z.d, spec.in[2].offset = 2 * z.h * z.d;
  }
  Graph graph;
  StepSpec spec;
};

class CudnnAttention : public ::testing::TestWithParam<Sizes> {};

TEST_P(CudnnAttention, HasAnEngineThatGivesTheSameBitsForwardAndBackward) {
  const Library& library = cuda::find_dnn();
  if (!library.why.empty()) GTEST_SKIP() << library.why;
  if (!has_libcuda()) GTEST_SKIP() << "neither a driver nor a toolkit's stub of it";
  const cuda::DnnPlanner planner(io::read_text(source_dir() + "/tests/gpu/sm_90.json"));
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool causal : {true, false}) {
      for (const bool gradient : {false, true}) {
        const AttentionStep step(GetParam(), dtype, causal, gradient);
        ASSERT_TRUE(cuda::takes_attention(step.spec));
        const std::string what = cuda::Dnn::signature(step.spec);
        const std::vector<cuda::DnnPlan> engines =
            planner.plans(step.spec, size_t{512} << 20, 8, cuda::DnnPlanner::Stage::chosen);
        EXPECT_FALSE(engines.empty()) << what << " by cuDNN " << library.version;
        for (const cuda::DnnPlan& p : engines) RecordProperty(cat(what, " eng", p.engine), cat(p.workspace, " bytes"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudnnAttention,
                         ::testing::Values(Sizes{"gpt2", 16, 12, 1024, 1024, 64}, Sizes{"gpt_char", 4, 6, 256, 256, 64},
                                           Sizes{"wide", 4, 6, 256, 256, 128}, Sizes{"odd", 3, 2, 100, 77, 40}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace freight::test
