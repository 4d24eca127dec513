// The kernels of the CPU backend, one row per family of ops: which nodes a family takes, how the kernel of a step is
// made, and what planning must know of it. Everything that CpuBackend (cpu.cpp) answers about a node it reads here;
// what no family takes runs on the reference backend's loops. To add a family see docs/extend/kernel.md.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <vector>

#include "freight/backend/backend.h"

namespace freight::cpu {

// The ops of whole kinds, and single ones.
struct OpSet {
  std::initializer_list<OpKind> kinds = {};
  std::initializer_list<Op> ops = {};

  bool has(Op op) const {
    return std::count(kinds.begin(), kinds.end(), info(op).kind) + std::count(ops.begin(), ops.end(), op) > 0;
  }
};

struct KernelFamily {
  const char* name;  // what the tests call it
  OpSet ops;
  // True where there is a kernel for these types and shapes; null: for all. Composites of `ops` that are not taken are
  // decomposed, other ops run on the reference backend.
  bool (*takes)(const Graph& graph, const Node& node) = nullptr;
  // The prepared kernel of a step, or null where the family has none for the layouts of its operands.
  std::unique_ptr<Kernel> (*make)(const StepSpec& spec);
  // Backend::layouts_of_frozen, where `frozen` says of no input that it never changes for Backend::layouts. Null:
  // row-major everywhere.
  LayoutPlan (*layouts)(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                        const FrozenInputs& frozen) = nullptr;
  // Backend::in_place for an input and a result of one type; null: never.
  bool (*in_place)(const Graph& graph, const Node& node, int input, int output) = nullptr;
  // Backend::has_epilogue; null: no epilogue.
  bool (*epilogue)(const Graph& graph, const Node& node, const Epilogue& epilogue) = nullptr;

  bool takes_node(const Graph& graph, const Node& node) const {
    return ops.has(node.op) && (!takes || takes(graph, node));
  }
};

// lowering.cpp: pointwise ops, reductions and fused regions, in the tile interpreter.
std::unique_ptr<Kernel> make_tile_step(const StepSpec& spec);
bool tile_in_place(const Graph& graph, const Node& node, int input, int output);

// packing.cpp: the copy of a frozen weight into a format of our own kernels.
std::unique_ptr<Kernel> make_packing(const StepSpec& spec);

// conv.cpp: the copy to and from oneDNN's packed weights; convolutions and their gradients (f32, bf16).
std::unique_ptr<Kernel> make_reorder(const StepSpec& spec);
bool takes_conv(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_conv(const StepSpec& spec);
LayoutPlan conv_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                        const FrozenInputs& frozen);
bool conv_epilogue(const Graph& graph, const Node& node, const Epilogue& epilogue);
bool conv_keeps_f32(const Graph& graph, const Node& node, DType dtype);  // Backend::keeps_f32

// conv_chain.cpp: a depthwise convolution in f32 and the 1x1 ones around it as one step; finds them.
bool takes_conv_chain(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_conv_chain(const StepSpec& spec);
LayoutPlan conv_chain_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                              const FrozenInputs& frozen);
Graph fuse_conv_chains(const Graph& graph);
bool joins_conv_chains(const Graph& graph, const Node& conv);  // where its neighbors are such as well

// matmul.cpp: matmul with transposes, batch axes, bias and relu (f32, f64, bf16).
bool takes_matmul(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_matmul(const StepSpec& spec);
bool matmul_keeps_f32(const Graph& graph, const Node& node, DType dtype);  // Backend::keeps_f32
LayoutPlan matmul_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                          const FrozenInputs& frozen);
bool matmul_epilogue(const Graph& graph, const Node& node, const Epilogue& epilogue);

// movement.cpp: copy between plain layouts, concat and pad, as strided copies.
std::unique_ptr<Kernel> make_copy(const StepSpec& spec);
std::unique_ptr<Kernel> make_concat(const StepSpec& spec);
std::unique_ptr<Kernel> make_pad(const StepSpec& spec);
LayoutPlan layouts_of_first(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                            const FrozenInputs& frozen);

// pooling.cpp: pooling of channels-last tensors and its gradients (f32, bf16).
bool takes_pool(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_pool(const StepSpec& spec);
LayoutPlan pool_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                        const FrozenInputs& frozen);

// indexing.cpp: rows that are looked up or added to, argmax, argmin and argsort, on row-major tensors.
bool takes_index(const Graph& graph, const Node& node);
std::unique_ptr<Kernel> make_index(const StepSpec& spec);
LayoutPlan index_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                         const FrozenInputs& frozen);
bool index_in_place(const Graph& graph, const Node& node, int input, int output);

// attention.cpp: attention and its gradient as whole kernels.
std::unique_ptr<Kernel> make_attention(const StepSpec& spec);
LayoutPlan attention_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                             const FrozenInputs& frozen);

// recurrent.cpp: the steps of LSTM and GRU layers and their gradient.
std::unique_ptr<Kernel> make_recurrent(const StepSpec& spec);
bool recurrent_in_place(const Graph& graph, const Node& node, int input, int output);

// linalg.cpp: factorizations and triangular solves (f32, f64), many small systems at once.
bool takes_factors(const Graph& graph, const Node& node);
bool factors_in_place(const Graph& graph, const Node& node, int input, int output);
LayoutPlan factor_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                          const FrozenInputs& frozen);
std::unique_ptr<Kernel> make_lu_factor(const StepSpec& spec);
std::unique_ptr<Kernel> make_cholesky(const StepSpec& spec);
std::unique_ptr<Kernel> make_qr(const StepSpec& spec);
std::unique_ptr<Kernel> make_solve_triangular(const StepSpec& spec);
bool takes_solve(const Graph& graph, const Node& node);
bool solves_in_place(const Graph& graph, const Node& node, int input, int output);
std::unique_ptr<Kernel> make_solve(const StepSpec& spec);

// linalg_spectral.cpp: eigenvalues and singular values by LAPACK (f32, f64), where there is one.
bool takes_spectral(const Graph& graph, const Node& node);
bool spectral_in_place(const Graph& graph, const Node& node, int input, int output);
std::unique_ptr<Kernel> make_spectral(const StepSpec& spec);

// Composites over sequences have kernels for f32 and, on processors with its instructions, bf16 (cpu.cpp).
bool takes_sequence(const Graph& graph, const Node& node);

// Where several rows have an op, the first one that makes a kernel serves a step; of the other answers, the first row
// that takes the node gives them.
inline constexpr KernelFamily kFamilies[] = {
    {.name = "packing", .ops = {.ops = {Op::copy}}, .make = make_packing},
    {.name = "reorder", .ops = {.ops = {Op::copy}}, .make = make_reorder},
    {.name = "copy", .ops = {.ops = {Op::copy}}, .make = make_copy},
    {.name = "conv_chain",
     .ops = {.ops = {Op::fused}},
     .takes = takes_conv_chain,
     .make = make_conv_chain,
     .layouts = conv_chain_layouts},
    {.name = "tile",
     .ops = {.kinds = {OpKind::generator, OpKind::unary, OpKind::binary, OpKind::ternary, OpKind::reduce},
             .ops = {Op::broadcast, Op::fused}},
     .make = make_tile_step,
     .in_place = tile_in_place},
    {.name = "matmul",
     .ops = {.ops = {Op::matmul}},
     .takes = takes_matmul,
     .make = make_matmul,
     .layouts = matmul_layouts,
     .epilogue = matmul_epilogue},
    {.name = "conv",
     .ops = {.kinds = {OpKind::convolve}},
     .takes = takes_conv,
     .make = make_conv,
     .layouts = conv_layouts,
     .epilogue = conv_epilogue},
    {.name = "pool", .ops = {.kinds = {OpKind::pool}}, .takes = takes_pool, .make = make_pool, .layouts = pool_layouts},
    {.name = "index",
     .ops = {.ops = {Op::argmax, Op::argmin, Op::argsort, Op::gather, Op::gather_elements, Op::scatter_add,
                     Op::scatter_elements_add, Op::scatter, Op::scatter_elements, Op::check_index, Op::sgd_rows}},
     .takes = takes_index,
     .make = make_index,
     .layouts = index_layouts,
     .in_place = index_in_place},
    {.name = "concat", .ops = {.ops = {Op::concat}}, .make = make_concat, .layouts = layouts_of_first},
    {.name = "pad", .ops = {.ops = {Op::pad}}, .make = make_pad, .layouts = layouts_of_first},
    {.name = "attention",
     .ops = {.ops = {Op::attention, Op::attention_grad}},
     .takes = takes_sequence,
     .make = make_attention,
     .layouts = attention_layouts},
    {.name = "recurrent",
     .ops = {.ops = {Op::recurrent, Op::recurrent_grad}},
     .takes = takes_sequence,
     .make = make_recurrent,
     .in_place = recurrent_in_place},
    {.name = "lu_factor",
     .ops = {.ops = {Op::lu_factor}},
     .takes = takes_factors,
     .make = make_lu_factor,
     .layouts = factor_layouts,
     .in_place = factors_in_place},
    {.name = "cholesky",
     .ops = {.ops = {Op::cholesky}},
     .takes = takes_factors,
     .make = make_cholesky,
     .layouts = factor_layouts,
     .in_place = factors_in_place},
    {.name = "qr", .ops = {.ops = {Op::qr}}, .takes = takes_factors, .make = make_qr, .layouts = factor_layouts},
    {.name = "solve_triangular",
     .ops = {.ops = {Op::solve_triangular}},
     .takes = takes_factors,
     .make = make_solve_triangular,
     .layouts = factor_layouts},
    {.name = "spectral",
     .ops = {.ops = {Op::eigh, Op::svd, Op::eig}},
     .takes = takes_spectral,
     .make = make_spectral,
     .layouts = factor_layouts,
     .in_place = spectral_in_place},
    {.name = "solve",
     .ops = {.ops = {Op::solve}},
     .takes = takes_solve,
     .make = make_solve,
     .layouts = factor_layouts,
     .in_place = solves_in_place},
};

}  // namespace freight::cpu
