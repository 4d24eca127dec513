// gather, scatter and arg-reductions on row-major tensors. Scatters add in the order of the indices: each chunk owns a
// range of the result and reads all indices, so bits do not depend on threads. An index out of range is an error of the
// data.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "freight/backend/cpu/steps.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// A tensor seen as (outer, rows along the axis, inner).
struct Split {
  int64_t outer = 1, rows = 1, inner = 1;
  Split(const Shape& shape, int64_t axis) {
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : i == axis ? rows : inner) *= shape[i];
  }
};

int64_t index_at(const void* idx, DType dtype, int64_t i) {
  if (dtype == DType::i64) return static_cast<const int64_t*>(idx)[i];
  if (dtype == DType::i32) return static_cast<const int32_t*>(idx)[i];
  return static_cast<const uint8_t*>(idx)[i];
}

class IndexKernel final : public Kernel {
 public:
  explicit IndexKernel(const StepSpec& spec)
      : op_(spec.node->op),
        split_(tensor(spec), axis(spec)),
        scatters_(op_ == Op::scatter_add || op_ == Op::scatter_elements_add) {
    const Operand& idx = spec.in[scatters_ ? 0 : 1];
    index_type_ = idx.type.dtype;
    indices_ = idx.type.numel();
    whole_rows_ = op_ == Op::gather || op_ == Op::scatter_add || op_ == Op::sgd_rows;
    picks_ = whole_rows_ ? indices_ : idx.type.shape[static_cast<int>(axis(spec))];
    size_ = size_of(spec.out[0].type.dtype);
    dtype_ = spec.out[0].type.dtype;
    out_bytes_ = spec.out[0].type.bytes();
  }

  static int64_t axis(const StepSpec& spec) {
    if (spec.node->op == Op::sgd_rows) return 0;
    if (const auto* s = std::get_if<ScatterAttrs>(&spec.node->attrs)) return s->axis;
    return attrs<AxisAttrs>(*spec.node).axis;
  }
  // The tensor whose axis is indexed.
  static const Shape& tensor(const StepSpec& spec) {
    const bool scatters = spec.node->op == Op::scatter_add || spec.node->op == Op::scatter_elements_add;
    return scatters ? spec.out[0].type.shape : spec.in[0].type.shape;
  }

  void run(void* const* operands) override {
    const void* idx = operands[scatters_ ? 0 : 1];
    check(idx);
    if (op_ == Op::sgd_rows) {  // the table less lr times the gradients of its rows
      if (operands[4] != operands[0]) std::memcpy(operands[4], operands[0], out_bytes_);
      return scatter<float>(idx, operands[2], operands[4], -*static_cast<const float*>(operands[3]));
    }
    if (!scatters_) return gather(operands[0], idx, operands[2]);
    if (dtype_ == DType::f32) return scatter<float>(idx, operands[1], operands[2]);
    if (dtype_ == DType::f64) return scatter<double>(idx, operands[1], operands[2]);
    if (dtype_ == DType::i32) return scatter<uint32_t>(idx, operands[1], operands[2]);
    scatter<uint64_t>(idx, operands[1], operands[2]);
  }
  std::string name() const override { return "index"; }

 private:
  void check(const void* idx) const {
    for (int64_t i = 0; i < indices_; ++i) {
      const int64_t v = index_at(idx, index_type_, i);
      if (v < 0 || v >= split_.rows) {
        fail(ErrorKind::data, freight::name(op_), "index out of range: got ", v, ", need 0 to ", split_.rows - 1);
      }
    }
  }

  // Result (outer, picks, inner); chunks of about 16 KiB.
  void gather(const void* src, const void* idx, void* dst) const {
    const int64_t lines = split_.outer * picks_, bytes = split_.inner * static_cast<int64_t>(size_);
    const int64_t chunk = std::max<int64_t>(1, 16384 / std::max<int64_t>(bytes, 1));
    auto body = [&](int64_t c) {
      for (int64_t line = c * chunk; line < std::min(lines, (c + 1) * chunk); ++line) {
        const int64_t a = line / picks_, i = line % picks_;
        char* to = static_cast<char*>(dst) + line * bytes;
        const char* from = static_cast<const char*>(src) + a * split_.rows * bytes;
        if (whole_rows_) {
          std::memcpy(to, from + index_at(idx, index_type_, i) * bytes, static_cast<size_t>(bytes));
          continue;
        }
        for (int64_t b = 0; b < split_.inner; ++b) {
          const int64_t row = index_at(idx, index_type_, line * split_.inner + b);
          std::memcpy(to + b * static_cast<int64_t>(size_),
                      from + (row * split_.inner + b) * static_cast<int64_t>(size_), size_);
        }
      }
    };
    parallel_for((lines + chunk - 1) / chunk, body);
  }

  // Chunks are (outer, block of rows): a block of rows looks at all indices of its outer part.
  template <class T>
  void scatter(const void* idx, const void* updates, void* result, T factor = 1) const {
    const T* u = static_cast<const T*>(updates);
    T* y = static_cast<T*>(result);
    const int64_t inner = split_.inner;
    const int64_t blocks = std::clamp<int64_t>(split_.rows * inner / 65536, 1, 16),
                  block = (split_.rows + blocks - 1) / blocks;
    auto body = [&](int64_t chunk) {
      const int64_t a = chunk / blocks, first = chunk % blocks * block, last = std::min(first + block, split_.rows);
      if (first >= last) return;
      T* base = y + a * split_.rows * inner;
      if (scatters_) {
        std::memset(static_cast<void*>(base + first * inner), 0,
                    static_cast<size_t>((last - first) * inner) * sizeof(T));
      }
      for (int64_t i = 0; i < picks_; ++i) {
        const T* from = u + (a * picks_ + i) * inner;
        if (whole_rows_) {
          const int64_t row = index_at(idx, index_type_, i);
          if (row < first || row >= last) continue;
          for (int64_t b = 0; b < inner; ++b) base[row * inner + b] += factor * from[b];
          continue;
        }
        for (int64_t b = 0; b < inner; ++b) {
          const int64_t row = index_at(idx, index_type_, (a * picks_ + i) * inner + b);
          if (row >= first && row < last) base[row * inner + b] += factor * from[b];
        }
      }
    };
    if (out_bytes_ > 65536) {
      parallel_for(split_.outer * blocks, body);
    } else {
      for (int64_t chunk = 0; chunk < split_.outer * blocks; ++chunk) body(chunk);
    }
  }

  Op op_;
  Split split_;
  bool scatters_, whole_rows_ = false;
  DType index_type_ = DType::i64, dtype_ = DType::f32;
  int64_t indices_ = 0, picks_ = 0;
  size_t size_ = 4, out_bytes_ = 0;
};

// The first of the largest (or smallest) elements along an axis; NaN wins.
class ArgKernel final : public Kernel {
 public:
  explicit ArgKernel(const StepSpec& spec)
      : split_(spec.in[0].type.shape, attrs<AxisAttrs>(*spec.node).axis), largest_(spec.node->op == Op::argmax) {}

  void run(void* const* operands) override {
    const float* x = static_cast<const float*>(operands[0]);
    int32_t* y = static_cast<int32_t*>(operands[1]);
    const int64_t n = split_.outer * split_.inner, chunk = std::max<int64_t>(1, 16384 / split_.rows);
    auto body = [&](int64_t c) {
      for (int64_t i = c * chunk; i < std::min(n, (c + 1) * chunk); ++i) {
        const float* column = x + i / split_.inner * split_.rows * split_.inner + i % split_.inner;
        float best = column[0];
        int64_t at = 0;
        for (int64_t r = 1; r < split_.rows && !std::isnan(best); ++r) {
          const float v = column[r * split_.inner];
          if (std::isnan(v) || (largest_ ? v > best : v < best)) {
            best = v;
            at = r;
          }
        }
        y[i] = static_cast<int32_t>(at);
      }
    };
    parallel_for((n + chunk - 1) / chunk, body);
  }
  std::string name() const override { return "arg"; }

 private:
  Split split_;
  bool largest_;
};

}  // namespace

std::unique_ptr<Kernel> make_index(const StepSpec& spec) {
  const Op op = spec.node->op;
  const bool reduces = op == Op::argmax || op == Op::argmin;
  if ((info(op).kind != OpKind::index && op != Op::sgd_rows) || spec.out[0].type.numel() == 0) return nullptr;
  if (reduces) {
    if (spec.in[0].type.dtype != DType::f32) return nullptr;
    return std::make_unique<ArgKernel>(spec);
  }
  const DType dtype = spec.out[0].type.dtype;
  const bool scatters = op == Op::scatter_add || op == Op::scatter_elements_add;
  if (scatters && size_of(dtype) < 4) return nullptr;
  if (!(op == Op::gather || op == Op::gather_elements || op == Op::sgd_rows || scatters)) return nullptr;
  // Elements of single-element picks lie in step only where all other extents agree.
  if (op == Op::gather_elements || op == Op::scatter_elements_add) {
    const Shape &a = spec.in[0].type.shape,
                &b = op == Op::gather_elements ? spec.in[1].type.shape : spec.out[0].type.shape;
    for (int i = 0; i < a.rank(); ++i) {
      if (i != IndexKernel::axis(spec) && a[i] != b[i]) return nullptr;
    }
  }
  return std::make_unique<IndexKernel>(spec);
}

}  // namespace freight::cpu
