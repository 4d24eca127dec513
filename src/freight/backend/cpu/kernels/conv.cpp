// See conv.h.
#include "freight/backend/cpu/kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/kernels/plane_tile.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// Copies image rows [first, last) of the padded image, zeros outside.
void copy_padded(const ConvProblem& p, const float* image, int64_t padded_w, int64_t first, int64_t last, float* dst) {
  const int64_t row = padded_w * p.c, left = p.pad_w * p.c, used = p.w * p.c;
  for (int64_t i = first; i < last; ++i, dst += row) {
    const int64_t h = i - p.pad_h;
    if (h < 0 || h >= p.h) {
      std::fill_n(dst, row, 0.0f);
      continue;
    }
    std::fill_n(dst, left, 0.0f);
    const int64_t kept = std::min(used, row - left);
    std::memcpy(dst + left, image + h * used, static_cast<size_t>(kept) * sizeof(float));
    std::fill_n(dst + left + kept, row - left - kept, 0.0f);
  }
}

// Cuts n into parts of at most `most` that differ by at most one: f(first, count).
template <class F>
void even_parts(int64_t n, int64_t most, F f) {
  const int64_t parts = ceil_div(n, most);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = n * i / parts, last = n * (i + 1) / parts;
    f(first, last - first);
  }
}

}  // namespace

ConvForward::ConvForward(const ConvProblem& problem) : p_(problem) {
  const GemmTable<float>& table = gemm_table();
  plane_ = p_.c == 1 && p_.o <= PlaneTable::kMaxOutputs && p_.stride_w == 1;
  width_ = plane_ ? static_cast<int>(p_.o) : p_.o <= table.lanes ? table.lanes : 2 * table.lanes;
  panels_ = ceil_div(p_.o, width_);
  padded_w_ = (p_.ow - 1) * p_.stride_w + p_.kw;
  copies_ = p_.pad_h > 0 || p_.pad_w > 0 || padded_w_ > p_.w || (p_.oh - 1) * p_.stride_h + p_.kh > p_.h ||
            (plane_ && p_.ow < plane_table().lanes);
  // Tasks of some 100,000 multiply-adds.
  const int64_t row_work = std::max<int64_t>(p_.ow * p_.o * p_.c * p_.kh * p_.kw, 1);
  task_rows_ = std::clamp<int64_t>(ceil_div(100000, row_work), 1, p_.oh);
  tasks_per_image_ = ceil_div(p_.oh, task_rows_);
  task_rows_ = ceil_div(p_.oh, tasks_per_image_);
  scratch_bytes_ = static_cast<size_t>(panels_ * (p_.kh * p_.kw * p_.c + 1) * width_) * sizeof(float);
  copy_floats_ = copies_ ? ((task_rows_ - 1) * p_.stride_h + p_.kh) * padded_w_ * p_.c : 0;
  thread_bytes_ = static_cast<size_t>(copy_floats_ + (plane_ ? plane_table().lanes : 0)) * sizeof(float);
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
}

void ConvForward::run(const float* x, const float* w, const float* bias, float* y, void* scratch) const {
  // Weights as panels (kh, kw, c, width), then the bias in the same panels.
  float* packed = static_cast<float*>(scratch);
  const int64_t window = p_.kh * p_.kw, steps = window * p_.c;
  auto pack = [&](int64_t panel) {
    float* dst = packed + panel * steps * width_;
    const int64_t first = panel * width_, count = std::min<int64_t>(width_, p_.o - first);
    for (int64_t step = 0; step < window; ++step) {
      for (int64_t c = 0; c < p_.c; ++c, dst += width_) {
        for (int64_t j = 0; j < width_; ++j) dst[j] = j < count ? w[((first + j) * p_.c + c) * window + step] : 0.0f;
      }
    }
    float* last = packed + panels_ * steps * width_ + panel * width_;
    for (int64_t j = 0; j < width_; ++j) last[j] = bias && j < count ? bias[first + j] : 0.0f;
  };
  parallel_for(panels_, panels_ * steps * width_ > 16384, pack);
  parallel_for(p_.n * tasks_per_image_, [&](int64_t t) {
    const int64_t image = t / tasks_per_image_, first = t % tasks_per_image_ * task_rows_;
    const float* packed_bias = bias || plane_ ? packed + panels_ * steps * width_ : nullptr;
    rows(x, packed, packed_bias, y, image, first, std::min(first + task_rows_, p_.oh));
  });
}

void ConvForward::rows(const float* x, const float* packed, const float* bias, float* y, int64_t image, int64_t first,
                       int64_t last) const {
  const GemmTable<float>& table = gemm_table();
  const float* source = x + image * p_.h * p_.w * p_.c;
  int64_t row = p_.w * p_.c;  // floats per image row
  if (copies_) {
    float* copy = static_cast<float*>(thread_scratch(thread_bytes_));
    copy_padded(p_, source, padded_w_, first * p_.stride_h, (last - 1) * p_.stride_h + p_.kh, copy);
    row = padded_w_ * p_.c;
    source = copy - first * p_.stride_h * row;
  }
  if (plane_) {
    PlaneRow r{.row = row,
               .kh = p_.kh,
               .kw = p_.kw,
               .w = packed,
               .bias = bias,
               .relu = p_.relu,
               .most = p_.most,
               .pixels = p_.ow};
    for (int64_t i = first; i < last; ++i) {
      r.x = source + i * p_.stride_h * row;
      r.y = y + (image * p_.oh + i) * p_.ow * p_.o;
      plane_table().run[p_.o - 1](r);
    }
    return;
  }
  GemmTile<float> t;
  t.a_row = p_.stride_w * p_.c;
  t.a_segment = row;
  t.b_step = width_;
  t.b_segment = p_.kw * p_.c * width_;
  t.b_vector = t.c_vector = table.lanes;
  t.segments = p_.kh;
  t.length = p_.kw * p_.c;
  t.c_row = p_.o;
  t.relu = p_.relu;
  t.most = p_.most;
  for (int64_t i = first; i < last; ++i) {
    const float* window = source + i * p_.stride_h * row;
    for (int64_t panel = 0; panel < panels_; ++panel) {
      const int64_t column = panel * width_, columns = std::min<int64_t>(width_, p_.o - column);
      const int vectors = columns > table.lanes ? 2 : 1;
      t.b = packed + column * p_.kh * p_.kw * p_.c;
      t.last_columns = static_cast<int>(columns - (vectors - 1) * table.lanes);
      t.column_bias = bias ? bias + column : nullptr;
      even_parts(p_.ow, vectors == 2 ? table.rows : table.rows_of_one, [&](int64_t j, int64_t count) {
        t.a = window + j * t.a_row;
        t.c = y + ((image * p_.oh + i) * p_.ow + j) * p_.o + column;
        // With one panel a vector that is too long reaches into the next pixels of the row, which are stored later;
        // near the end of the row it would leave it.
        const int64_t reach = ceil_div(vectors * table.lanes, p_.o);  // pixels that a vector touches
        t.whole_rows = static_cast<int>(panels_ > 1 ? 0 : std::clamp<int64_t>(p_.ow - j - reach + 1, 0, count));
        table.tile[0][count - 1][vectors - 1](t);
      });
    }
  }
}

ConvGradWeight::ConvGradWeight(const ConvProblem& problem) : p_(problem) {
  const GemmTable<float>& table = gemm_table();
  lanes_ = table.lanes;
  vectors_per_row_ = ceil_div(p_.kw * p_.c, lanes_);
  line_ = p_.kh * vectors_per_row_ * lanes_;
  padded_w_ = (p_.ow - 1) * p_.stride_w + p_.kw;
  padded_h_ = (p_.oh - 1) * p_.stride_h + p_.kh;
  // As many groups as keep the partial results small beside the images.
  groups_ = std::clamp<int64_t>((int64_t{1} << 20) / std::max<int64_t>(p_.o * line_, 1), 2, 32);
  groups_ = std::max<int64_t>(1, std::min(groups_, p_.n));
  scratch_bytes_ = static_cast<size_t>(groups_ * p_.o * line_) * sizeof(float);
  thread_bytes_ = static_cast<size_t>(padded_h_ * padded_w_ * p_.c + lanes_) * sizeof(float);
  reserve_thread_scratch(thread_bytes_);
}

void ConvGradWeight::run(const float* x, const float* dy, float* dw, void* scratch) const {
  float* partials = static_cast<float*>(scratch);
  const int64_t size = p_.o * line_;
  parallel_for(groups_,
               [&](int64_t g) { group(x, dy, partials + g * size, p_.n * g / groups_, p_.n * (g + 1) / groups_); });
  // Sum over groups into (O, C, KH, KW).
  auto finish = [&](int64_t o) {
    float* total = partials + o * line_;
    for (int64_t g = 1; g < groups_; ++g) {
      const float* part = total + g * size;
      for (int64_t i = 0; i < line_; ++i) total[i] += part[i];
    }
    for (int64_t c = 0; c < p_.c; ++c) {
      for (int64_t k = 0; k < p_.kh; ++k) {
        const float* from = total + k * vectors_per_row_ * lanes_ + c;
        float* to = dw + ((o * p_.c + c) * p_.kh + k) * p_.kw;
        for (int64_t q = 0; q < p_.kw; ++q) to[q] = from[q * p_.c];
      }
    }
  };
  parallel_for(p_.o, size * groups_ > 32768, finish);
}

void ConvGradWeight::group(const float* x, const float* dy, float* partial, int64_t first, int64_t last) const {
  const GemmTable<float>& table = gemm_table();
  float* copy = static_cast<float*>(thread_scratch(thread_bytes_));
  const int64_t row = padded_w_ * p_.c, vectors = p_.kh * vectors_per_row_;
  std::fill_n(copy + padded_h_ * row, lanes_, 0.0f);  // the last vector reads beyond the image
  const auto start = [&](int64_t v) { return v / vectors_per_row_ * row + v % vectors_per_row_ * lanes_; };
  GemmTile<float> t;
  t.a_row = 1;
  t.a_step = p_.o;
  t.a_segment = p_.ow * p_.o;
  t.b_step = p_.stride_w * p_.c;
  t.b_segment = p_.stride_h * row;
  t.segments = p_.oh;
  t.length = p_.ow;
  t.c_row = line_;
  t.c_vector = t.last_columns = lanes_;
  for (int64_t image = first; image < last; ++image) {
    copy_padded(p_, x + image * p_.h * p_.w * p_.c, padded_w_, 0, padded_h_, copy);
    t.accumulate = image > first;
    for (int64_t v = 0; v < vectors; v += 2) {
      const int pair = v + 1 < vectors ? 2 : 1;
      t.b = copy + start(v);
      t.b_vector = pair == 2 ? start(v + 1) - start(v) : 0;
      even_parts(p_.o, pair == 2 ? table.rows : table.rows_of_one, [&](int64_t o, int64_t count) {
        t.a = dy + image * p_.oh * p_.ow * p_.o + o;
        t.c = partial + o * line_ + v * lanes_;
        table.tile[1][count - 1][pair - 1](t);
      });
    }
  }
}

}  // namespace freight::cpu
