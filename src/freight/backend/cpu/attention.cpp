// Attention and its gradient without the matrix of all weights (Dao et al. 2022): blocks of keys pass by a block of
// queries, whose running maximum and sum rescale what was added up before; the gradient computes the weights again from
// the row statistics. Products: kernels/gemm.h; the rest: kernels/attention_rows.h.
// B batch, H heads, T queries, S keys, D numbers per head; strides of (B, H, T or S), D contiguous.
#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/attention_rows.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/tile_steps.h"
#include "freight/backend/cpu/steps.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kKeys = 64, kQueries = 48;  // of a block
constexpr int64_t kChunk = 6 * kQueries;      // queries of a task at most; its keys and values are packed once
constexpr float kHidden = -std::numeric_limits<float>::infinity();

// A tensor (B, H, rows, D).
struct Heads {
  int64_t batch, head, row;  // strides
  explicit Heads(const Operand& o) : batch(o.layout.strides[0]), head(o.layout.strides[1]), row(o.layout.strides[2]) {}
  const float* in(const void* p, int64_t b, int64_t h) const {
    return static_cast<const float*>(p) + b * batch + h * head;
  }
  float* out(void* p, int64_t b, int64_t h) const { return static_cast<float*>(p) + b * batch + h * head; }
};

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const StepSpec& spec, int64_t scratch_floats(int64_t d, int64_t t))
      : a_(attrs<AttentionAttrs>(*spec.node)),
        q_(spec.in[0]),
        k_(spec.in[1]),
        v_(spec.in[2]),
        h_(spec.in[0].type.shape[1]),
        t_(spec.in[0].type.shape[2]),
        s_(spec.in[1].type.shape[2]),
        d_(spec.in[0].type.shape[3]),
        heads_(spec.in[0].type.shape[0] * h_),
        saved_(a_.lengths ? 4 : 3),
        wide_lengths_(a_.lengths && spec.in[3].type.dtype == DType::i64),
        thread_bytes_(static_cast<size_t>(scratch_floats(d_, t_)) * sizeof(float)) {
    reserve_thread_scratch(thread_bytes_);
  }
  std::string name() const override { return "attention"; }

 protected:
  float* thread_floats() const { return static_cast<float*>(thread_scratch(thread_bytes_)); }
  // The keys that a sample has; one at least.
  int64_t keys(void* const* o, int64_t b) const {
    if (!a_.lengths) return s_;
    const int64_t n = wide_lengths_ ? static_cast<const int64_t*>(o[3])[b] : static_cast<const int32_t*>(o[3])[b];
    return std::clamp<int64_t>(n, 1, s_);
  }
  // Of `count` keys from j on, those that any of the `rows` queries from i on sees.
  int64_t seen_keys(int64_t i, int64_t rows, int64_t j, int64_t count) const {
    return a_.causal ? std::clamp<int64_t>(i + rows - j, 0, count) : count;
  }
  ScoreBlock block(float* scores, int64_t i, int64_t rows, int64_t j, int64_t keys) const {
    return {.scores = scores,
            .row = kKeys,
            .rows = rows,
            .keys = keys,
            .first_seen = a_.causal ? i + 1 - j : keys,
            .more = a_.causal ? 1 : 0,
            .scale = static_cast<float>(a_.scale)};
  }

  AttentionAttrs a_;
  Heads q_, k_, v_;
  int64_t h_, t_, s_, d_, heads_;
  size_t saved_;  // operands before the results of the forward op
  bool wide_lengths_;
  size_t thread_bytes_;
};

// (q, k, v[, lengths]) -> y, lse. Parallel over heads and chunks of queries.
class Forward final : public AttentionKernel {
 public:
  explicit Forward(const StepSpec& spec) : AttentionKernel(spec, scratch), y_(spec.out[0]) {}

  void run(void* const* o) override {
    const int64_t chunks = ceil_div(t_, kChunk), blocks = ceil_div(t_, kQueries);
    const auto start = [&](int64_t i) { return std::min(blocks * i / chunks * kQueries, t_); };
    auto task = [&](int64_t i) { queries(o, i / chunks, start(i % chunks), start(i % chunks + 1)); };
    parallel_for(heads_ * chunks, task);
  }

 private:
  static int64_t scratch(int64_t d, int64_t) {
    return panel_floats(d, kKeys) + panel_floats(kKeys, d) + kQueries * kKeys + kChunk;
  }
  // lse holds the running maximum until the end.
  void queries(void* const* o, int64_t head, int64_t first, int64_t last) const {
    const int64_t b = head / h_, h = head % h_, keys = this->keys(o, b);
    const float *q = q_.in(o[0], b, h), *k = k_.in(o[1], b, h), *v = v_.in(o[2], b, h);
    float *y = y_.out(o[saved_], b, h), *lse = static_cast<float*>(o[saved_ + 1]) + head * t_;
    float *k_panels = thread_floats(), *v_panels = k_panels + panel_floats(d_, kKeys);
    float *p = v_panels + panel_floats(kKeys, d_), *sums = p + kQueries * kKeys;
    std::fill(lse + first, lse + last, kHidden);
    std::fill_n(sums, last - first, 0.0f);
    for (int64_t j = 0; j < (a_.causal ? std::min(keys, last) : keys); j += kKeys) {
      const int64_t count = std::min(kKeys, keys - j);
      pack_columns(k_panels, k + j * k_.row, 1, k_.row, d_, count);
      pack_columns(v_panels, v + j * v_.row, v_.row, 1, count, d_);
      for (int64_t i = first; i < last; i += kQueries) {
        const int64_t rows = std::min(kQueries, last - i), seen = seen_keys(i, rows, j, count);
        if (seen == 0) continue;
        multiply_panels({q + i * q_.row, q_.row, 1, k_panels, p, kKeys, rows, seen, d_, false});
        attention_table().weights(block(p, i, rows, j, seen), lse + i, sums + i - first, y + i * y_.row, y_.row, d_,
                                  j == 0);
        multiply_panels({p, kKeys, 1, v_panels, y + i * y_.row, y_.row, rows, d_, seen, j > 0, count});
      }
    }
    for (int64_t i = first; i < last; ++i) {
      apply(Op::mul, y + i * y_.row, y + i * y_.row, 1 / sums[i - first], d_);
      lse[i] += std::log(sums[i - first]);
    }
  }

  Heads y_;
};

// (q, k, v[, lengths], y, lse, dy[, dlse]) -> dq, dk, dv. Parallel over heads.
class Backward final : public AttentionKernel {
 public:
  explicit Backward(const StepSpec& spec)
      : AttentionKernel(spec, scratch),
        y_(spec.in[saved_]),
        dy_(spec.in[saved_ + 2]),
        dq_(spec.out[0]),
        dk_(spec.out[1]),
        dv_(spec.out[2]) {}

  void run(void* const* o) override {
    auto task = [&](int64_t head) { gradients(o, head); };
    parallel_for(heads_, task);
  }

 private:
  static int64_t scratch(int64_t d, int64_t t) {
    return 2 * panel_floats(d, kKeys) + panel_floats(kKeys, d) + 2 * panel_floats(kQueries, d) + 2 * kQueries * kKeys +
           t + (3 * t + 2 * kKeys) * d;
  }
  void copy_rows(float* to, ptrdiff_t to_row, const float* from, ptrdiff_t from_row, int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_row, d_, to + r * to_row);
  }
  // What is read and added to again and again lies together meanwhile: rows that lie a multiple of many lines apart
  // meet on few sets of the caches.
  void gradients(void* const* o, int64_t head) const {
    const int64_t b = head / h_, h = head % h_, keys = this->keys(o, b);
    const float *q = q_.in(o[0], b, h), *k = k_.in(o[1], b, h), *v = v_.in(o[2], b, h);
    const float *y = y_.in(o[saved_], b, h), *dy = dy_.in(o[saved_ + 2], b, h);
    const float *lse = static_cast<const float*>(o[saved_ + 1]) + head * t_,
                *dlse = a_.second ? static_cast<const float*>(o[saved_ + 3]) + head * t_ : nullptr;
    void* const* out = o + saved_ + (a_.second ? 4 : 3);
    float *dq = dq_.out(out[0], b, h), *dk = dk_.out(out[1], b, h), *dv = dv_.out(out[2], b, h);
    float *kt = thread_floats(), *vt = kt + panel_floats(d_, kKeys), *k_panels = vt + panel_floats(d_, kKeys);
    float *q_panels = k_panels + panel_floats(kKeys, d_), *dy_panels = q_panels + panel_floats(kQueries, d_);
    float *p = dy_panels + panel_floats(kQueries, d_), *ds = p + kQueries * kKeys, *delta = ds + kQueries * kKeys;
    // dL/ds = p (dp - delta), delta = sum(p dp) = y dy; d lse/ds = p.
    float *q_rows = delta + t_, *dy_rows = q_rows + t_ * d_, *dq_rows = dy_rows + t_ * d_, *dk_rows = dq_rows + t_ * d_,
          *dv_rows = dk_rows + kKeys * d_;
    copy_rows(q_rows, d_, q, q_.row, t_);
    copy_rows(dy_rows, d_, dy, dy_.row, t_);
    attention_table().dots(delta, y, y_.row, dy_rows, d_, t_, d_);
    for (int64_t i = 0; dlse && i < t_; ++i) delta[i] -= dlse[i];
    const int64_t used = a_.causal ? std::min(keys, t_) : keys;
    for (int64_t j = used; j < s_; ++j) {  // seen by no query
      std::fill_n(dk + j * dk_.row, d_, 0.0f);
      std::fill_n(dv + j * dv_.row, d_, 0.0f);
    }
    for (int64_t j = 0; j < used; j += kKeys) {
      const int64_t count = std::min(kKeys, used - j);
      const int64_t start = a_.causal ? j / kQueries * kQueries : 0;
      pack_columns(kt, k + j * k_.row, 1, k_.row, d_, count);
      pack_columns(vt, v + j * v_.row, 1, v_.row, d_, count);
      pack_columns(k_panels, k + j * k_.row, k_.row, 1, count, d_);
      for (int64_t i = start; i < t_; i += kQueries) {
        const int64_t rows = std::min(kQueries, t_ - i), seen = seen_keys(i, rows, j, count);
        if (i == start) {  // the other keys are seen by later queries
          std::fill(dk_rows + seen * d_, dk_rows + count * d_, 0.0f);
          std::fill(dv_rows + seen * d_, dv_rows + count * d_, 0.0f);
        }
        multiply_panels({q_rows + i * d_, d_, 1, kt, p, kKeys, rows, seen, d_, false});
        multiply_panels({dy_rows + i * d_, d_, 1, vt, ds, kKeys, rows, seen, d_, false});
        attention_table().gradients(block(p, i, rows, j, seen), ds, lse + i, delta + i);
        pack_columns(q_panels, q_rows + i * d_, d_, 1, rows, d_);
        pack_columns(dy_panels, dy_rows + i * d_, d_, 1, rows, d_);
        multiply_panels({p, 1, kKeys, dy_panels, dv_rows, d_, seen, d_, rows, i > start});
        multiply_panels({ds, 1, kKeys, q_panels, dk_rows, d_, seen, d_, rows, i > start});
        multiply_panels({ds, kKeys, 1, k_panels, dq_rows + i * d_, d_, rows, d_, seen, j > 0, count});
      }
      copy_rows(dk + j * dk_.row, dk_.row, dk_rows, d_, count);
      copy_rows(dv + j * dv_.row, dv_.row, dv_rows, d_, count);
    }
    copy_rows(dq, dq_.row, dq_rows, d_, t_);
  }

  Heads y_, dy_, dq_, dk_, dv_;
};

}  // namespace

// D contiguous, the other axes in any order; results lie as (B, T, H, D), which joins the heads for free.
LayoutPlan attention_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given) {
  LayoutPlan plan;
  const auto usual = [](const Shape& s) {
    return s.rank() == 4 ? Layout{permuted_strides(s, {0, 2, 1, 3}), nullptr} : Layout::row_major(s);
  };
  for (size_t i = 0; i < given.size(); ++i) {
    const Shape& s = graph.type(node.inputs[i]).shape;
    const bool fine = s.rank() == 4 && !given[i].blocked && given[i].strides[3] == 1;
    plan.in.push_back(fine ? given[i] : usual(s));
  }
  for (Value v : node.outputs) plan.out.push_back(usual(graph.type(v).shape));
  return plan;
}

std::unique_ptr<Kernel> make_attention(const StepSpec& spec) {
  if (spec.node->op == Op::attention) return std::make_unique<Forward>(spec);
  if (spec.node->op == Op::attention_grad) return std::make_unique<Backward>(spec);
  return nullptr;
}

}  // namespace freight::cpu
