// matmul: batch axes, transposes as strides, bias and relu in the epilogue; f32 and bf16 by oneDNN or by
// kernels/gemm.h, whichever is measured to be faster (equal on most shapes; oneDNN 2.6 is three times slower where rows
// lie a multiple of 4 KiB apart), f64, which oneDNN has not, by kernels/gemm.h.
#include <algorithm>

#include "freight/backend/choices.h"
#include "freight/backend/cpu/dnnl_support.h"
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/bf16/dots.h"
#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/kernels/bf16/thin.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/steps.h"
#include "freight/backend/cpu/tune.h"
#include "freight/base/error.h"

namespace freight::cpu {

namespace {

// One of the last two axes is contiguous and the other steps over whole rows; nothing is broadcast.
bool usable(const Shape& shape, const Layout& layout) {
  if (layout.blocked) return false;
  const int r = shape.rank();
  const auto along = [&](int fast, int slow) {
    return (shape[fast] == 1 || layout.strides[fast] == 1) && (shape[slow] == 1 || layout.strides[slow] >= shape[fast]);
  };
  bool batch = true;
  for (int i = 0; i < r - 2; ++i) batch = batch && (shape[i] == 1 || layout.strides[i] > 0);
  return batch && (along(r - 1, r - 2) || along(r - 2, r - 1));
}

// The operand with its last two axes exchanged where the flag says so.
Operand oriented(const Operand& o, bool transposed) {
  Operand t = o;
  const int r = o.type.shape.rank();
  if (transposed) {
    std::swap(t.type.shape[r - 1], t.type.shape[r - 2]);
    std::swap(t.layout.strides[r - 1], t.layout.strides[r - 2]);
  }
  // Rows of one element: say that they step over what they hold.
  if (t.type.shape[r - 1] == 1 && t.type.shape[r - 2] != 1)
    t.layout.strides[r - 1] = t.layout.strides[r - 2] == 1 ? t.type.shape[r - 2] : 1;
  if (t.type.shape[r - 2] == 1) t.layout.strides[r - 2] = t.layout.strides[r - 1] == 1 ? t.type.shape[r - 1] : 1;
  return t;
}

dnnl::memory::desc plain(const Operand& o) {
  return dnnl::memory::desc(o.type.shape.vector(), dnnl_type(o.type.dtype), o.layout.strides.vector());
}

std::unique_ptr<Kernel> by_dnnl(const StepSpec& spec, const Operand& lhs, const Operand& rhs) {
  const auto& a = attrs<MatmulAttrs>(*spec.node);
  const Operand& out = spec.out[0];
  const int rank = out.type.shape.rank();
  std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, plain(lhs), 0}, {DNNL_ARG_WEIGHTS, plain(rhs), 1}};
  size_t next = 2;
  dnnl::memory::desc bias;  // of nothing: without
  if (a.epilogue.bias) {
    Shape thin = Shape::filled(rank, 1);
    thin[rank - 1] = out.type.shape[rank - 1];
    bias = dnnl::memory::desc(thin.vector(), dnnl_type(out.type.dtype), contiguous_strides(thin).vector());
    arguments.push_back({DNNL_ARG_BIAS, bias, next++});
  }
  const dnnl::memory::desc result = plain(oriented(out, false));
  arguments.push_back({DNNL_ARG_DST, result, next});
  const dnnl::matmul::primitive_desc pd({plain(lhs), plain(rhs), bias, result}, dnnl_attributes(), dnnl_engine());
  return dnnl_step<dnnl::matmul>(pd, arguments, next + 1, a.epilogue, out.type.dtype);
}

// Up to so many FLOPs a guess is our own kernel, which generates no code: oneDNN 2.6 takes 0.17 ms to generate the code
// of a product, as long as a product of so many FLOPs takes (two cores of a Zen 4 with AVX-512).
constexpr double kGuessed = 3e7;
// Up to so many our own kernel takes some microseconds on one thread, and oneDNN's calls alone take as many: nothing is
// measured, which takes milliseconds.
constexpr double kTooSmall = 4e5;

double flops_of(const GemmProblem& p) {
  return 2.0 * static_cast<double>(p.m * p.n * p.batch) * static_cast<double>(p.k);
}

template <class Multiply, class T>
Candidate own_product(const char* name, const GemmProblem& p, const Epilogue& e) {
  return {name, [=] { return std::make_unique<OwnKernel<Multiply, T>>(Multiply(p), name, e); },
          flops_of(p) <= kGuessed};
}

// False where the strides of the batch axes do not collapse.
bool gemm_problem(const StepSpec& spec, const Operand& lhs, const Operand& rhs, GemmProblem& p) {
  const Operand& out = spec.out[0];
  const int r = out.type.shape.rank();
  p.m = out.type.shape[r - 2];
  p.n = out.type.shape[r - 1];
  p.k = lhs.type.shape[r - 1];
  p.batch = out.type.numel() / (p.m * p.n);
  p.a_row = lhs.layout.strides[r - 2];
  p.a_col = lhs.layout.strides[r - 1];
  p.b_row = rhs.layout.strides[r - 2];
  p.b_col = rhs.layout.strides[r - 1];
  p.c_row = p.n;
  p.relu = attrs<MatmulAttrs>(*spec.node).epilogue.relu;
  return batch_stride(lhs, p.a_batch) && batch_stride(rhs, p.b_batch) && batch_stride(out, p.c_batch);
}

// f64 has no second kernel that walks over several batch axes of any strides.
bool one_batch_stride(const Type& type, const Layout& layout) {
  int64_t stride = 0;
  return batch_stride({type, layout}, stride);
}

}  // namespace

// Nothing to multiply is left to the plain loops: oneDNN 2.6 divides by zero on AVX-512 machines, and by the extent of
// an empty sum.
bool takes_matmul(const Graph& graph, const Node& node) {
  const Type& result = graph.type(node.out());
  const bool multiplies = dnnl_multiplies(result.dtype) || result.dtype == DType::f64;
  return multiplies && result.numel() > 0 && graph.type(node.in(0)).numel() > 0;
}

bool matmul_epilogue(const Graph&, const Node&, const Epilogue& epilogue) {
  return !epilogue.residual && !epilogue.bounded() && !epilogue.silu;
}

// A row by a matrix that the caches hold: dot products in bf16 pack the matrix in each step, which takes longer than
// reading f32. (1, 1280) by (1280, 1000) on two cores of a Zen 5, ms, bf16 : f32: 0.206 : 0.072. AMX has ThinGemm.
bool matmul_keeps_f32(const Graph& graph, const Node& node, DType dtype) {
  constexpr size_t kMostBytes = 16 << 20;
  const Shape& y = graph.type(node.out()).shape;
  return dtype == DType::bf16 && uses_dots() && y.numel() == y[y.rank() - 1] &&
         graph.type(node.in(1)).bytes() <= kMostBytes;
}

LayoutPlan matmul_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                          const FrozenInputs& frozen) {
  LayoutPlan plan;
  for (size_t i = 0; i < given.size(); ++i) {
    const Type& type = graph.type(node.inputs[i]);
    const bool takes =
        i < 2 && usable(type.shape, given[i]) && (type.dtype != DType::f64 || one_batch_stride(type, given[i]));
    plan.in.push_back(takes ? given[i] : Layout::row_major(type.shape));
  }
  plan.out.push_back(Layout::row_major(graph.type(node.out()).shape));
  const Type& w = graph.type(node.in(1));
  // With AMX, oneDNN or ThinGemm, which read plain weights, may multiply faster.
  const bool packs = w.dtype == DType::f32 || (w.dtype == DType::bf16 && uses_dots());
  if (weight_frozen(frozen) && packs && w.shape.rank() == 2 && w.numel() > 0)
    plan.in[1] = panel_layout(w, attrs<MatmulAttrs>(node).trans_b ? 0 : 1);
  return plan;
}

std::unique_ptr<Kernel> make_matmul(const StepSpec& spec) {
  const auto& a = attrs<MatmulAttrs>(*spec.node);
  Operand weight = spec.in[1];
  const bool packed = is_own_packing(weight.layout);
  if (packed) weight.layout = Layout::row_major(weight.type.shape);  // strides that are not looked at
  const Operand lhs = oriented(spec.in[0], a.trans_a), rhs = oriented(weight, a.trans_b);
  std::vector<Candidate> candidates;
  GemmProblem p;
  const DType dtype = spec.out[0].type.dtype;
  const bool narrow = dtype == DType::bf16, wide = dtype == DType::f64;
  const bool own = (!narrow || bf16_table()) && gemm_problem(spec, lhs, rhs, p);
  p.packed = packed;
  p.stream = spec.stream_outputs;
  if (own && narrow && ThinGemm::fits(p)) return own_product<ThinGemm, Bf16>("thin", p, a.epilogue).make();
  const bool splits = !narrow && !wide && !packed && splits_f32() && std::min({p.m, p.n, p.k}) >= 16;
  if (own) {
    candidates.push_back(narrow   ? own_product<Bf16Gemm, Bf16>("gemm", p, a.epilogue)
                         : wide   ? own_product<Gemm<double>, double>("gemm", p, a.epilogue)
                         : splits ? own_product<SplitGemm, float>("split", p, a.epilogue)
                                  : own_product<Gemm<float>, float>("gemm", p, a.epilogue));
    if (flops_of(p) <= kTooSmall && !ForcedChoice::among(1)) return candidates[0].make();
  }
  if (!a.epilogue.residual && !packed && !wide) candidates.push_back({"dnnl", [&] { return by_dnnl(spec, lhs, rhs); }});
  FREIGHT_CHECK(!candidates.empty(), "residual epilogue on odd strides");
  // Unmeasured f32: oneDNN, but not over rows that share cache sets (its AVX-512 kernels copy those), nor for results
  // that pass the caches by: it cannot, which costs more within a net than alone. AMX is faster. Nor where equal bits
  // are asked for: it cuts long sums by the number of threads.
  const bool shares_sets = gemm_table().lanes == 8 && p.b_col == 1 && p.b_row % 512 == 0 && p.k >= 256 && p.n >= 64;
  if (candidates.size() == 2 && !spec.deterministic && !narrow && !splits && !shares_sets && !p.stream)
    std::swap(candidates[0], candidates[1]);
  return choose(spec, candidates);
}

}  // namespace freight::cpu
