// Attention as cuDNN's fused engines know it: products, pointwise operations and reductions in f32, weights in 16 bits
// where a product reads them (Dao et al. 2022). See dnn.h.
#include "freight/backend/gpu/cuda/dnn_descriptor.h"
#include "freight/backend/gpu/gpu_backend.h"

namespace freight::cuda {

namespace {

using namespace cudnn;

class AttentionGraph {
 public:
  explicit AttentionGraph(const StepSpec& spec)
      : spec_(spec), type_(data_type(spec.in[0].type.dtype)), scores_(extents(q)), scale_(number(kScale)) {
    scores_[3] = extents(k)[2];
    if (spec.node->op == Op::attention) {
      forward();
    } else {
      gradient();
    }
  }
  std::vector<Descriptor> operations;

 private:
  // Tensors of the step, as they are named there.
  enum : int64_t { q = 1, k, v, y, lse, dy, dq, dk, dv };

  // s = scale q k^T, later keys hidden where it is causal; y = softmax(s) v, lse the logarithm of the sum.
  void forward() {
    const Descriptor s = hidden(scaled(product(operand(q), turned(k), scores()))), peak = reduced(kMost, s);
    const Descriptor p = apply(kExp, apply(kSub, s, peak, scores()), nullptr, scores()), sum = reduced(kSum, p);
    apply(kAdd, peak, apply(kLog, sum, nullptr, inside(extents(lse))), operand(lse));
    product(apply(kDiv, p, sum, scores(type_)), operand(v), operand(y));
  }

  // p = exp(s - lse), dv = p^T dy, ds = scale p (dy v^T - sums of dy y), dk = ds^T q, dq = ds k.
  void gradient() {
    const Descriptor query = operand(q), key = turned(k), up = operand(dy);
    const Descriptor sums = apply(kMul, reduced(kSum, apply(kMul, up, operand(y), inside(extents(q)))), number(kOne),
                                  inside(extents(lse)));  // without the factor the engines need more workspace
    const Descriptor s = apply(kSub, scaled(product(query, key, scores())), operand(lse), scores());
    const Descriptor p = apply(kExp, hidden(s), nullptr, scores());
    product(turned(p), up, operand(dv));
    const Descriptor dp = apply(kSub, product(up, turned(v), scores()), sums, scores());
    const Descriptor ds = scaled(apply(kMul, dp, p, scores()));
    product(turned(ds), query, operand(dk));
    product(ds, add(kReshapeOperation, {{kReshapeX, key}, {kReshapeY, operand(k, next_++)}}), operand(dq));
  }

  // Returns a tensor of the step, under another name if one is given; lse becomes rows of one number.
  Descriptor operand(int64_t id, int64_t name = 0) const {
    return tensor(name ? name : id, extents(id), strides(id), id == lse ? kF32 : type_);
  }
  // The last two axes swapped.
  static Four turned(const Four& f) { return {f[0], f[1], f[3], f[2]}; }
  Descriptor turned(int64_t id) const { return tensor(id, turned(extents(id)), turned(strides(id)), type_); }
  Descriptor turned(const Descriptor& s) {
    const Descriptor view = tensor(next_++, turned(scores_), turned(packed(scores_)), type_);
    return add(kReshapeOperation, {{kReshapeX, s}, {kReshapeY, view}});
  }
  const Operand& of_step(int64_t id) const {
    const auto i = static_cast<size_t>(id) - 1, first = spec_.in.size();
    return i < first ? spec_.in[i] : spec_.out[i - first];
  }
  Four extents(int64_t id) const { return four(of_step(id).type.shape, id); }
  Four strides(int64_t id) const { return four(of_step(id).layout.strides, id); }
  static Four four(const auto& f, int64_t id) { return {f[0], f[1], f[2], id == lse ? 1 : f[3]}; }
  static Four packed(const Four& e) { return {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}; }
  Descriptor inside(const Four& e, int type = kF32) { return tensor(next_++, e, packed(e), type); }
  Descriptor scores(int type = kF32) { return inside(scores_, type); }
  static Descriptor number(int64_t id) { return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, kF32); }

  // Each of these adds an operation and returns the tensor of its result.
  Descriptor add(int type, std::initializer_list<std::pair<int, Descriptor>> parts) {
    operations.push_back(descriptor(type, {}, parts));
    return (parts.end() - 1)->second;
  }
  Descriptor apply(int mode, const Descriptor& x, const Descriptor& b, const Descriptor& to,
                   const Descriptor& t = nullptr, int64_t axis = -1) {
    operations.push_back(pointwise(mode, x, b, to, t, axis));
    return to;
  }
  Descriptor product(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    const Descriptor kind = descriptor(kMatmul, {{kMatmulPrecision, kDataType, &kF32}});
    return add(kMatmulOperation, {{kMatmulOf, kind}, {kMatmulA, a}, {kMatmulB, b}, {kMatmulC, c}});
  }
  Descriptor reduced(int mode, const Descriptor& x) {
    const Descriptor kind =
        descriptor(kReduction, {{kReductionModeOf, kReductionMode, &mode}, {kReductionPrecision, kDataType, &kF32}});
    return add(kReductionOperation, {{kReductionOf, kind}, {kReductionX, x}, {kReductionY, inside(extents(lse))}});
  }
  Descriptor scaled(const Descriptor& s) { return apply(kMul, s, scale_, scores()); }
  Descriptor hidden(const Descriptor& s) {
    if (!attrs<AttentionAttrs>(*spec_.node).causal) return s;
    const Descriptor query = apply(kIndex, s, nullptr, scores(kI32), nullptr, 2),
                     key = apply(kIndex, s, nullptr, scores(kI32), nullptr, 3);
    return apply(kSelect, s, number(kHidden), scores(), apply(kNotLess, query, key, scores(kBool)));
  }

  const StepSpec& spec_;
  int type_;
  Four scores_;
  int64_t next_ = kFirstVirtual;
  Descriptor scale_;
};

}  // namespace

std::vector<Descriptor> operations_of(const StepSpec& attention) { return AttentionGraph(attention).operations; }

bool takes_attention(const freight::Graph& graph, const Node& node) {
  if (node.op != Op::attention && node.op != Op::attention_grad) return false;
  const auto& a = attrs<AttentionAttrs>(node);
  const Shape& q = graph.type(node.in(0)).shape;
  return !a.lengths && !a.mask && !a.second && q.numel() > 0 && q[3] % 8 == 0 && q[3] <= 128;
}

bool takes_attention(const StepSpec& spec) {
  if (!takes_attention(*spec.graph, *spec.node)) return false;
  const auto fits = [](const Operand& o) {
    const Strides& s = o.layout.strides;
    const bool row = o.type.shape.rank() == 3 || (s[3] == 1 && s[0] % 8 + s[1] % 8 + s[2] % 8 == 0);
    return row && s[0] * s[1] * s[2] > 0 && gpu::alignment_of(o) >= kLeastAlignment;
  };
  return wide(spec.in[0].type.dtype) != spec.in[0].type.dtype && std::all_of(spec.in.begin(), spec.in.end(), fits) &&
         std::all_of(spec.out.begin(), spec.out.end(), fits);
}

}  // namespace freight::cuda
