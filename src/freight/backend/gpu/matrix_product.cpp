// See matrix_product.h.
#include "freight/backend/gpu/matrix_product.h"

#include "freight/backend/choices.h"
#include "freight/backend/gpu/pattern_kernels.h"
#include "freight/base/strings.h"

namespace freight::gpu {

namespace {

// How the last two axes of an operand lie: rows dense, or columns (`transposed`); false where neither is.
bool matrix(const Operand& o, bool& transposed, size_t& lead) {
  const int rows = o.type.shape.rank() - 2, columns = rows + 1;
  const auto lies = [&](int fast, int slow) {
    const int64_t length = o.type.shape[fast], count = o.type.shape[slow], step = o.layout.strides[slow];
    if ((length > 1 && o.layout.strides[fast] != 1) || (count > 1 && step < length)) return false;
    lead = static_cast<size_t>(count > 1 ? step : length);
    return true;
  };
  transposed = !lies(columns, rows);
  return !transposed || lies(rows, columns);
}

}  // namespace

std::optional<MatrixProduct> matrix_product(const StepSpec& spec) {
  if (pattern_of(*spec.node).product == Op::matmul) {
    std::optional<MatrixProduct> p = matrix_product(matmul_alone(spec));
    if (p) p->result = static_cast<int>(spec.in.size());
    return p;
  }
  if (spec.node->op != Op::matmul || !is_floating(spec.out[0].type.dtype)) return std::nullopt;  // as libraries compute
  const auto& attrs = freight::attrs<MatmulAttrs>(*spec.node);
  const Operand &a = spec.in[0], &b = spec.in[1], &y = spec.out[0];
  const Shape& shape = y.type.shape;
  const int rows = shape.rank() - 2;
  MatrixProduct p;
  p.dtype = y.type.dtype;
  p.result = static_cast<int>(spec.in.size());
  p.m = static_cast<size_t>(shape[rows]);
  p.n = static_cast<size_t>(shape[rows + 1]);
  p.k = static_cast<size_t>(a.type.shape[attrs.trans_a ? rows : rows + 1]);
  for (int i = 0; i < rows; ++i) p.batches *= static_cast<size_t>(shape[i]);
  if (p.batches == 0 || p.m == 0 || p.n == 0 || p.k == 0) return std::nullopt;
  bool lies[3] = {};
  const Operand* operands[3] = {&a, &b, &y};
  for (int i = 0; i < 3; ++i) {
    if (!matrix(*operands[i], lies[i], p.lead[i]) || !batch_stride(*operands[i], p.apart[i])) return std::nullopt;
  }
  if (lies[2]) return std::nullopt;
  p.transposed[0] = lies[0] != attrs.trans_a;
  p.transposed[1] = lies[1] != attrs.trans_b;
  return p;
}

std::string signature(const StepSpec& spec) {
  const FusedPattern& pattern = pattern_of(*spec.node);
  if (!pattern.product) return freight::signature(spec);
  std::string s = freight::signature(matmul_alone(spec));  // in users' caches choices are kept under these words
  if (pattern.mask) s += " masked";
  if (pattern.sums) s += cat(" sums ", pattern.summed.value_or(-1));
  if (pattern.mask) s += cat(" ", spec.in[static_cast<size_t>(*pattern.mask)].layout);
  return s;
}

}  // namespace freight::gpu
