// See conv_rows.h. Rows are channels-last, so that a piece of one is a block of memory. A piece has the padding that
// its windows still need; at both ends that is the convolution's own.
#include "freight/backend/cpu/conv_rows.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kLongRow = 65536;                // pixels
constexpr int64_t kPiece = 32768;                  // pixels of a piece of the longer side
constexpr int64_t kPieceBytes = int64_t{1} << 28;  // of either side
constexpr int64_t kMostInPlane = 1 << 20;          // pixels of a row where rows lie below each other

struct Columns {
  int64_t first, count;
};
struct RowSegment {
  Columns x, y;
  int64_t pad_low, pad_high;
};

struct Row {
  int64_t w, ow, stride, low, high, reach;  // reach: from the first tap to the last

  explicit Row(const ConvOp& p)
      : w(p.x.shape[2]),
        ow(p.y.shape[2]),
        stride(p.a.stride[0]),
        low(p.a.pad_low[0]),
        high(p.a.pad_high[0]),
        reach(p.a.dilation[0] * (p.w.shape[2] - 1)) {}

  // The piece for results [first, last) of the convolution.
  RowSegment of_results(int64_t first, int64_t last) const {
    const int64_t begin = first * stride - low, end = (last - 1) * stride - low + reach + 1;
    const int64_t from = std::max<int64_t>(begin, 0), to = std::min(end, w);
    return {{from, to - from}, {first, last - first}, from - begin, end - to};
  }
  // The piece for pixels [first, last) of the image, of which the first is seen by the first tap of a window, or is the
  // row's first.
  RowSegment of_pixels(int64_t first, int64_t last) const {
    const int64_t before = first == 0 ? 0 : std::max<int64_t>((first + low) / stride - reach / stride, 0);
    const int64_t behind = std::min((last - 1 + low) / stride + 1, ow);
    const int64_t pad = first + low - before * stride;
    const int64_t more = (behind - before - 1) * stride + reach + 1 - (last - first) - pad;
    return {{first, last - first}, {before, behind - before}, pad, std::max<int64_t>(more, 0)};
  }
};

int64_t row_bytes(const Type& t) { return t.shape[1] * t.shape[2] * static_cast<int64_t>(size_of(t.dtype)); }

std::vector<RowSegment> pieces_of(const ConvOp& p) {
  const Row row(p);
  const bool of_pixels = p.op == Op::conv_grad_input;
  const int64_t length = of_pixels ? row.w : row.ow, longest = std::max(row.w, row.ow);
  const int64_t parts = std::max(longest / kPiece, ceil_div(std::max(row_bytes(p.x), row_bytes(p.y)), kPieceBytes));
  // A window of a piece sees more than padding at both ends.
  const int64_t least = ceil_div(std::max(row.low, row.high) + 1, of_pixels ? 1 : row.stride);
  const int64_t piece = round_up(std::max(length / parts, least), row.stride),
                count = std::max<int64_t>(length / piece, 1);
  std::vector<RowSegment> pieces;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t shift = of_pixels ? row.low % row.stride : 0;
    const auto start = [&](int64_t k) { return k == 0 ? 0 : k == count ? length : k * piece - shift; };
    pieces.push_back(of_pixels ? row.of_pixels(start(i), start(i + 1)) : row.of_results(start(i), start(i + 1)));
  }
  return pieces;
}

ConvOp problem_of(const ConvOp& p, const RowSegment& piece) {
  ConvOp part = p;
  part.x.shape[0] = part.y.shape[0] = 1;
  part.x.shape[2] = piece.x.count;
  part.y.shape[2] = piece.y.count;
  part.a.pad_low[0] = piece.pad_low;
  part.a.pad_high[0] = piece.pad_high;
  return part;
}

class RowsKernel final : public Kernel {
 public:
  RowsKernel(const ConvOp& p, size_t operands, size_t weight_bytes,
             const std::function<std::unique_ptr<Kernel>(const ConvOp&)>& make)
      : op_(p.op), operands_(operands), samples_(p.x.shape[0]), x_(p.x), y_(p.y), weight_bytes_(weight_bytes) {
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, size_t> known;
    for (const RowSegment& piece : pieces_of(p)) {
      const auto [at, made] =
          known.insert({{piece.x.count, piece.y.count, piece.pad_low, piece.pad_high}, kernels_.size()});
      if (made) kernels_.push_back(make(problem_of(p, piece)));
      parts_.push_back({at->second, piece.x.first, piece.y.first});
    }
    for (const auto& kernel : kernels_) scratch_ = std::max(scratch_, kernel->scratch_bytes());
    // The weight's gradient by one piece, behind what the pieces need.
    sum_ = (scratch_ + 63) / 64 * 64;
    if (op_ == Op::conv_grad_weight) scratch_ = sum_ + weight_bytes;
  }
  std::string name() const override { return kernels_[0]->name() + " in pieces"; }
  size_t scratch_bytes() const override { return scratch_; }

  void run(void* const* operands) override {
    const size_t x = op_ == Op::conv_grad_input ? operands_ - 1 : 0, y = op_ == Op::conv              ? operands_ - 1
                                                                         : op_ == Op::conv_grad_input ? 0
                                                                                                      : 1;
    std::vector<void*> bound(operands, operands + operands_ + (scratch_ > 0));
    void* const more = op_ == Op::conv_grad_weight ? static_cast<char*>(operands[operands_]) + sum_ : nullptr;
    for (int64_t n = 0; n < samples_; ++n) {
      for (const KernelCall& part : parts_) {
        bound[x] = x_.at(operands[x], n, part.x);
        bound[y] = y_.at(operands[y], n, part.y);
        const bool adds = more && !(n == 0 && &part == parts_.data());
        if (adds) bound[operands_ - 1] = more;
        kernels_[part.kernel]->run(bound.data());
        if (adds) add(static_cast<float*>(operands[operands_ - 1]), static_cast<const float*>(more));
      }
    }
  }

 private:
  struct KernelCall {
    size_t kernel;
    int64_t x, y;  // the first columns
  };
  // Finds a column of a sample; steps are in bytes.
  struct Side {
    int64_t sample, column;
    explicit Side(const Type& t) : sample(row_bytes(t)), column(t.shape[1] * static_cast<int64_t>(size_of(t.dtype))) {}
    void* at(void* base, int64_t n, int64_t first) const {
      return static_cast<char*>(base) + n * sample + first * column;
    }
  };

  void add(float* sum, const float* part) const {
    constexpr int64_t kChunk = 16384;
    const auto n = static_cast<int64_t>(weight_bytes_ / sizeof(float));
    parallel_for(ceil_div(n, kChunk), n > kChunk, [&](int64_t chunk) {
      for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) sum[i] += part[i];
    });
  }

  Op op_;
  size_t operands_;
  int64_t samples_;
  Side x_, y_;
  size_t weight_bytes_, scratch_ = 0, sum_ = 0;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<KernelCall> parts_;
};

}  // namespace

bool cuts_rows(const ConvOp& p) {
  const int last = p.x.shape.rank() - 1;
  const int64_t longest = std::max(p.x.shape[last], p.y.shape[last]);
  if (p.x.shape.rank() > 3) {
    if (longest <= kMostInPlane) return false;
    fail(ErrorKind::device, freight::name(p.op), "rows of ", p.x, " -> ", p.y,
         " are too long for a convolution over two axes on the CPU: expected at most ", kMostInPlane, ", got ", longest,
         " pixels; exchange the axes, or use a convolution over one axis, which splits its rows");
  }
  if (longest <= kLongRow && std::max(row_bytes(p.x), row_bytes(p.y)) <= kPieceBytes) return false;
  const bool sums = p.op == Op::conv_grad_weight;
  if (sums && p.w.dtype != DType::f32) {
    fail(ErrorKind::device, freight::name(p.op), "the weight's gradient by rows of ", p.x,
         " is summed up by pieces, in f32 alone: expected f32, got ", p.w);
  }
  return pieces_of(p).size() > 1;
}

ConvOp usual_piece(const ConvOp& p) {
  const std::vector<RowSegment> pieces = pieces_of(p);
  return problem_of(p, pieces[pieces.size() / 2]);
}

std::unique_ptr<Kernel> make_conv_rows(const ConvOp& p, size_t operands, size_t weight_bytes,
                                       const std::function<std::unique_ptr<Kernel>(const ConvOp&)>& make) {
  return std::make_unique<RowsKernel>(p, operands, weight_bytes, make);
}

}  // namespace freight::cpu
