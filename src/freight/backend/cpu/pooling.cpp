// Pooling steps: channels-last f32 or bf16, in parallel over rows of the result. See kernels/pool.h.
#include "freight/backend/cpu/kernels/pool.h"
#include "freight/backend/cpu/kernels/scratch.h"

#include <algorithm>
#include "freight/backend/cpu/steps.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

PoolGeometry geometry(const PoolAttrs& a, const Shape& x, const Shape& y) {
  PoolGeometry g;
  g.n = x[0];
  g.channels = x[1];
  g.count_include_pad = a.count_include_pad;
  const int spatial = x.rank() - 2;
  for (int s = 0; s < spatial; ++s) {
    const int d = s + 2 - spatial;  // a single axis becomes the second
    g.in[d] = x[2 + s];
    g.out[d] = y[2 + s];
    g.kernel[d] = a.kernel[s];
    g.stride[d] = a.stride[s];
    g.pad[d] = a.pad_low[s];
  }
  g.find_ranges();
  return g;
}

class PoolKernel final : public Kernel {
 public:
  // `indices`: whether somebody reads those that max_pool gives.
  PoolKernel(Op op, DType dtype, const PoolGeometry& geometry_of_step, bool indices)
      : op_(op),
        indices_(indices),
        g_(geometry_of_step),
        table_(dtype == DType::f32 ? pool_tables().f32 : pool_tables().bf16) {
    const bool gradient = op == Op::max_pool_grad || op == Op::avg_pool_grad;
    rows_ = g_.n * (gradient ? g_.in[0] : g_.out[0]);
    // Chunks of some 8,000 elements.
    const int64_t row = (gradient ? g_.in[1] : g_.out[1]) * g_.channels;
    chunk_ = std::max<int64_t>(1, 8192 / std::max<int64_t>(row, 1));
    constexpr int64_t kVector = 16;
    line_bytes_ = op == Op::max_pool && !indices ? (g_.in[1] * g_.channels + kVector) * sizeof(float) : 0;
    if (line_bytes_ > 0) reserve_thread_scratch(line_bytes_);
  }

  void run(void* const* operands) override {
    auto body = [&](int64_t chunk) {
      const int64_t end = std::min(rows_, (chunk + 1) * chunk_);
      for (int64_t row = chunk * chunk_; row < end; ++row) one(operands, row);
    };
    parallel_for((rows_ + chunk_ - 1) / chunk_, body);
  }
  std::string name() const override { return "pool"; }

 private:
  void one(void* const* o, int64_t row) const {
    switch (op_) {
      case Op::max_pool:
        if (!indices_) return table_.max_values(g_, o[0], o[1], static_cast<float*>(thread_scratch(line_bytes_)), row);
        return table_.max(g_, o[0], o[1], static_cast<int32_t*>(o[2]), row);
      case Op::max_pool_grad: return table_.max_grad(g_, o[0], static_cast<const int32_t*>(o[1]), o[2], row);
      case Op::avg_pool: return table_.average(g_, o[0], o[1], row);
      default: return table_.average_grad(g_, o[0], o[1], row);
    }
  }

  Op op_;
  bool indices_;
  PoolGeometry g_;
  const PoolTable& table_;
  int64_t rows_, chunk_;
  size_t line_bytes_ = 0;
};

// Also where the indices were copied or went to host memory and back in between.
bool made_by_max_pool(const Graph& g, Value indices) {
  const Node* n = &g.def(indices);
  while (n->op == Op::copy || n->op == Op::offload || n->op == Op::fetch) n = &g.def(n->in(0));
  return n->op == Op::max_pool;
}

}  // namespace

std::unique_ptr<Kernel> make_pool(const StepSpec& spec) {
  const Op op = spec.node->op;
  const DType dtype = spec.out[0].type.dtype;
  const bool fits = dtype == DType::f32 || dtype == DType::bf16;
  if (info(op).kind != OpKind::pool || !fits || spec.out[0].type.numel() == 0) return nullptr;
  const bool gradient = op == Op::max_pool_grad || op == Op::avg_pool_grad;
  // The kernel looks for an element only in the windows that cover it: indices must be those of max_pool.
  if (op == Op::max_pool_grad && !made_by_max_pool(*spec.graph, spec.node->in(1))) return nullptr;
  const Shape &in = spec.in[0].type.shape, &out = spec.out[0].type.shape;
  const auto& a = attrs<PoolAttrs>(*spec.node);
  return std::make_unique<PoolKernel>(op, dtype, gradient ? geometry(a, out, in) : geometry(a, in, out),
                                      op == Op::max_pool && spec.graph->use_counts()[spec.node->out(1).index()] > 0);
}

}  // namespace freight::cpu
