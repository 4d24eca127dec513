// Pooling steps: channels-last f32 or bf16, in parallel over rows of the result. See kernels/pool.h.
#include "freight/backend/cpu/kernels/pool.h"

#include <algorithm>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

PoolGeometry geometry(const PoolAttrs& a, const Shape& x, const Shape& y) {
  PoolGeometry g{.n = x[0], .channels = x[1], .count_include_pad = a.count_include_pad};
  const int spatial = x.rank() - 2;
  for (int s = 0; s < spatial; ++s) {
    const int d = s + 2 - spatial;  // a single axis becomes the second
    g.in[d] = x[2 + s];
    g.out[d] = y[2 + s];
    g.kernel[d] = a.kernel[s];
    g.stride[d] = a.stride[s];
    g.pad[d] = a.pad_low[s];
  }
  return g;
}

class PoolKernel final : public Kernel {
 public:
  // `indices`: whether somebody reads those that max_pool gives.
  PoolKernel(Op op, const PoolTable& table, const PoolGeometry& geometry_of_step, bool indices)
      : op_(op), g_(geometry_of_step), table_(table) {
    const auto& result = op == Op::max_pool_grad || op == Op::avg_pool_grad ? g_.in : g_.out;
    rows_ = g_.n * result[0];
    // Neighbouring chunks of overlapping windows read the same rows: chunks are large where there are many.
    const int64_t width = std::max<int64_t>(result[1] * g_.channels, 1);
    chunk_ = std::max<int64_t>(1, std::clamp<int64_t>(rows_ * width / 256, 8192, 32768) / width);
    constexpr int64_t kVector = 16;
    if (op == Op::max_pool && !indices) line_bytes_ = (g_.in[1] * g_.channels + kVector) * sizeof(float);
    reserve_thread_scratch(line_bytes_);
  }

  void run(void* const* operands) override {
    parallel_for((rows_ + chunk_ - 1) / chunk_, [&](int64_t chunk) {
      const int64_t end = std::min(rows_, (chunk + 1) * chunk_);
      for (int64_t row = chunk * chunk_; row < end; ++row) one(operands, row);
    });
  }
  std::string name() const override { return "pool"; }

 private:
  void one(void* const* o, int64_t row) const {
    switch (op_) {
      case Op::max_pool:
        if (line_bytes_ == 0) return table_.max(g_, o[0], o[1], o[2], row);
        return table_.max_values(g_, o[0], o[1], static_cast<float*>(thread_scratch(line_bytes_)), row);
      case Op::max_pool_grad: return table_.max_grad(g_, o[0], o[1], o[2], row);
      case Op::avg_pool: return table_.average(g_, o[0], o[1], row);
      default: return table_.average_grad(g_, o[0], o[1], row);
    }
  }

  Op op_;
  PoolGeometry g_;
  const PoolTable& table_;
  int64_t rows_, chunk_;
  size_t line_bytes_ = 0;  // for maxima without indices
};

// The indices that max_pool gave, also where they were copied or went to host memory and back in between.
Value origin(const Graph& g, Value indices) {
  const Node& n = g.def(indices);
  return n.op == Op::copy || n.op == Op::offload || n.op == Op::fetch ? origin(g, n.in(0)) : indices;
}

}  // namespace

bool takes_pool(const Graph& graph, const Node& node) {
  const Type& result = graph.type(node.out());
  if (!attrs<PoolAttrs>(node).dilation.empty()) return false;
  return (result.dtype == DType::f32 || result.dtype == DType::bf16) && result.numel() > 0;
}

LayoutPlan pool_layouts(const Graph& graph, const Node& node, const std::vector<Layout>&, const FrozenInputs&) {
  LayoutPlan plan;
  for (Value v : node.inputs) plan.in.push_back(Layout::channels_last(graph.type(v).shape));
  for (Value v : node.outputs) plan.out.push_back(Layout::channels_last(graph.type(v).shape));
  return plan;
}

std::unique_ptr<Kernel> make_pool(const StepSpec& spec) {
  const Op op = spec.node->op;
  const DType dtype = spec.out[0].type.dtype;
  const Graph& graph = *spec.graph;
  const bool gradient = op == Op::max_pool_grad, backward = gradient || op == Op::avg_pool_grad;
  const Value indices = gradient ? origin(graph, spec.node->in(1)) : spec.node->outputs.back();
  // The kernel looks for an element only in the windows that cover it: indices must be those of max_pool.
  if (gradient && graph.def(indices).op != Op::max_pool) return nullptr;
  const auto reads = [&](const Node& n) {
    return n.op == Op::max_pool_grad && n.in(1) == indices && takes_pool(graph, n);
  };
  const Node& source = graph.def(indices);
  const auto readers = graph.use_counts()[indices];
  const bool inside =
      takes_pool(graph, source) && readers == std::count_if(graph.nodes.begin(), graph.nodes.end(), reads);
  const Operand &large = backward ? spec.out[0] : spec.in[0], &small = backward ? spec.in[0] : spec.out[0];
  PoolGeometry g = geometry(attrs<PoolAttrs>(*spec.node), large.type.shape, small.type.shape);
  // Nobody else can read places in bytes.
  if (inside && attrs<PoolAttrs>(source).kernel.numel() <= 256) g.places = MaxPlaces::bytes;
  return std::make_unique<PoolKernel>(op, dtype == DType::f32 ? pool_tables().f32 : pool_tables().bf16, g, readers > 0);
}

}  // namespace freight::cpu
