// See bf16/conv.h.
#include "freight/backend/cpu/kernels/bf16/conv.h"

#include <algorithm>
#include <cstring>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/cpu_info.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kSteps = Bf16Table::kSteps;
constexpr int64_t kPiece = Bf16Table::kPiece, kBlock = Bf16Table::kBlock, kHalf = kSide / 2;
constexpr int64_t kPixels = 400;       // of a stretch, about: a panel of 25 KiB stays in the first-level cache
constexpr int64_t kNumbers = 1 << 29;  // of x that a stretch sees, at most
constexpr int64_t kLine = 32;          // numbers of a cache line
constexpr int64_t kGroups = 8;         // of stretches: as many threads have work, and sums are added up in one order

}  // namespace

Bf16GradWeight::Bf16GradWeight(const ConvProblem& problem) : p_(problem) {
  height_ = std::max((p_.oh - 1) * p_.stride_h + p_.kh, p_.h + p_.pad_h);
  width_ = std::max((p_.ow - 1) * p_.stride_w + p_.kw, p_.w + p_.pad_w);
  padded_ = p_.pad_h > 0 || p_.pad_w > 0 || height_ > p_.h || width_ > p_.w;
  rows_ = std::clamp<int64_t>(kPixels / p_.ow, 1, p_.oh);
  if (rows_ < p_.oh) rows_ = ceil_div(p_.oh, ceil_div(p_.oh, rows_));
  if (rows_ == p_.oh)
    images_ = std::clamp<int64_t>(std::min(kPixels / (p_.oh * p_.ow), kNumbers / (height_ * width_ * p_.c)), 1, p_.n);
  for (int64_t n = 0; n < images_; ++n) {
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < p_.ow; ++j)
        pixel_at_.push_back(static_cast<int32_t>(((n * height_ + i * p_.stride_h) * width_ + j * p_.stride_w) * p_.c));
    }
  }
  const int64_t taps = p_.kh * p_.kw;
  // The numbers of few channels lie together for all taps of a filter's row.
  const bool together = p_.c < kHalf;
  const int64_t run = together ? p_.kw * p_.c : p_.c, runs = together ? p_.kh : taps;
  for (int64_t first = 0; first < run; first += kHalf) {
    for (int64_t r = 0; r < runs; ++r) {
      const int64_t ki = together ? r : r / p_.kw, kj = together ? 0 : r % p_.kw;
      const int64_t lines = std::min(kHalf, run - first);
      halves_.push_back({static_cast<int32_t>((ki * width_ + kj) * p_.c + first), static_cast<int32_t>(lines)});
      for (int64_t q = first; q < first + kHalf; ++q) {
        const int64_t c = q % p_.c, tap = ki * p_.kw + kj + (together ? q / p_.c : 0);
        weight_at_.push_back(static_cast<int32_t>(q < first + lines ? c * taps + tap : -1));
      }
    }
  }
  if (halves_.size() % 2 != 0) {
    halves_.push_back({});
    weight_at_.resize(weight_at_.size() + kHalf, -1);
  }
  row_panels_ = ceil_div(p_.o, kSide);
  panels_ = static_cast<int64_t>(halves_.size()) / 2;
  pieces_ = ceil_div(static_cast<int64_t>(pixel_at_.size()), kSteps);
  stretch_height_ = rows_ == p_.oh ? height_ : (rows_ - 1) * p_.stride_h + p_.kh;
  stretch_x_ = padded_ ? ceil_div(images_ * stretch_height_ * width_ * p_.c, kLine) * kLine : 0;
  stretch_dy_ = row_panels_ * pieces_ * kPiece;
  const int64_t cache = std::max<int64_t>(cpu_info().l2_bytes, 512 << 10);
  const int64_t most = cache / 2 / (row_panels_ * kBlock * static_cast<int64_t>(sizeof(float)));
  if (panels_ <= most) {
    groups_ = std::min(kGroups, stretches());
    panel_block_ = panels_;
    scratch_bytes_ = static_cast<size_t>(groups_ * panels_ * row_panels_ * kBlock) * sizeof(float);
    thread_bytes_ = static_cast<size_t>(stretch_x_ + stretch_dy_) * sizeof(Bf16);
  } else {
    const int64_t threads = thread_count();
    panel_block_ = ceil_div(panels_, ceil_div(ceil_div(panels_, std::max<int64_t>(most, 1)), threads) * threads);
    scratch_bytes_ = static_cast<size_t>(stretches() * (stretch_x_ + stretch_dy_)) * sizeof(Bf16);
    thread_bytes_ = static_cast<size_t>(panel_block_ * row_panels_ * kBlock) * sizeof(float);
  }
  thread_bytes_ += static_cast<size_t>(panel_block_ * pieces_ * kPiece) * sizeof(Bf16);
  reserve_thread_scratch(thread_bytes_);
}

int64_t Bf16GradWeight::stretches() const {
  return rows_ < p_.oh ? p_.n * ceil_div(p_.oh, rows_) : ceil_div(p_.n, images_);
}

Bf16GradWeight::Stretch Bf16GradWeight::stretch(int64_t i) const {
  if (rows_ == p_.oh) return {i * images_, 0, std::min(images_, p_.n - i * images_), p_.oh};
  const int64_t parts = ceil_div(p_.oh, rows_), row = i % parts * rows_;
  return {i / parts, row, 1, std::min(rows_, p_.oh - row)};
}

// What a stretch sees of x, between margins of zeros.
void Bf16GradWeight::pad(const Bf16* x, const Stretch& s, Bf16* padded) const {
  const int64_t before = p_.pad_w * p_.c, row = std::min(p_.w, width_ - p_.pad_w) * p_.c, whole = width_ * p_.c;
  const int64_t rows = s.rows == p_.oh ? height_ : (s.rows - 1) * p_.stride_h + p_.kh;
  for (int64_t n = 0; n < s.images; ++n) {
    for (int64_t i = 0; i < rows; ++i) {
      Bf16* to = padded + (n * stretch_height_ + i) * whole;
      const int64_t y = s.row * p_.stride_h + i - p_.pad_h;
      if (y < 0 || y >= p_.h) {
        std::fill_n(to, whole, Bf16{0});
        continue;
      }
      std::fill_n(to, before, Bf16{0});
      std::memcpy(to + before, x + ((s.image + n) * p_.h + y) * p_.w * p_.c, static_cast<size_t>(row) * sizeof(Bf16));
      std::fill_n(to + before + row, whole - before - row, Bf16{0});
    }
  }
}

// dy's channels as rows of the product.
void Bf16GradWeight::pack_rows(const Bf16* dy, const Stretch& s, Bf16* rows) const {
  dy += ((s.image * p_.oh + s.row) * p_.ow) * p_.o;
  const int64_t pixels = s.images * s.rows * p_.ow;
  for (int64_t k = 0; k < pixels; k += kSteps) {
    for (int64_t o = 0; o < p_.o; o += kSide) {
      bf16_table()->pack(rows + (o / kSide * pieces_ + k / kSteps) * kPiece,
                         {dy + k * p_.o + o, p_.o, 1, std::min(kSteps, pixels - k), std::min(kSide, p_.o - o)},
                         Bf16Table::Operand::left);
    }
  }
}

// Of several groups x and dy are the operands; of one, what was packed of all stretches.
void Bf16GradWeight::multiply(const Bf16* x, const Bf16* dy, const Task& task, float* sums) const {
  const Bf16Table& table = *bf16_table();
  auto* columns = static_cast<Bf16*>(thread_scratch(thread_bytes_));
  Bf16* const own_rows = columns + panel_block_ * pieces_ * kPiece;
  Bf16* const own_x = own_rows + stretch_dy_;
  table.begin();
  for (int64_t i = task.stretch0; i < task.stretch1; ++i) {
    const Stretch s = stretch(i);
    const int64_t pixels = s.images * s.rows * p_.ow, pieces = ceil_div(pixels, kSteps);
    const Bf16 *rows = dy + i * stretch_dy_, *from = x + i * stretch_x_;
    if (!packed_before()) {
      pack_rows(dy, s, own_rows);
      rows = own_rows;
      if (padded_) pad(x, s, own_x);
      from = own_x;
    }
    if (!padded_) from = x + (s.image * p_.h + s.row * p_.stride_h) * p_.w * p_.c;
    for (int64_t q = task.panel0; q < task.panel1; ++q) {
      const Half *half = &halves_[static_cast<size_t>(2 * q)], &second = half[1];
      table.pack(columns + (q - task.panel0) * pieces_ * kPiece,
                 {from + half->at, 0, 1, pixels, half->lines, pixel_at_.data(), from + second.at, second.lines},
                 Bf16Table::Operand::right);
    }
    for (int64_t r = 0; r < row_panels_; ++r) {
      for (int64_t q = 0; q < task.panel1 - task.panel0; ++q) {
        table.block(rows + r * pieces_ * kPiece, columns + q * pieces_ * kPiece, pieces,
                    sums + (q * row_panels_ + r) * kBlock, i > task.stretch0);
      }
    }
  }
  table.end();
}

void Bf16GradWeight::finish(const float* sums, int64_t panel0, int64_t panel1, Bf16* dw) const {
  const int64_t row = p_.c * p_.kh * p_.kw;
  for (int64_t r = 0; r < row_panels_; ++r) {
    const int64_t count = std::min(kSide, p_.o - r * kSide);
    for (int64_t q = panel0; q < panel1; ++q) {
      alignas(64) Bf16 block[kBlock];
      bf16_table()->finish(sums + ((q - panel0) * row_panels_ + r) * kBlock,
                           {.to = block, .row = kSide, .rows = count, .columns = kSide});
      const int32_t* at = weight_at_.data() + q * kSide;
      for (int64_t o = 0; o < count; ++o) {
        Bf16* to = dw + (r * kSide + o) * row;
        for (int64_t j = 0; j < kSide; ++j) {
          if (at[j] >= 0) to[at[j]] = block[o * kSide + j];
        }
      }
    }
  }
}

void Bf16GradWeight::run(const Bf16* x, const Bf16* dy, Bf16* dw, void* scratch) const {
  if (!packed_before()) {
    auto* sums = static_cast<float*>(scratch);
    const int64_t panel = row_panels_ * kBlock, group = panels_ * panel;
    parallel_for(groups_, [&](int64_t i) {
      multiply(x, dy, {0, panels_, stretches() * i / groups_, stretches() * (i + 1) / groups_}, sums + i * group);
    });
    parallel_for(panels_, [&](int64_t q) {
      for (int64_t i = 1; i < groups_; ++i) {
        for (int64_t j = q * panel; j < (q + 1) * panel; ++j) sums[j] += sums[i * group + j];
      }
      finish(sums + q * panel, q, q + 1, dw);
    });
    return;
  }
  auto *padded = static_cast<Bf16*>(scratch), *rows = padded + stretches() * stretch_x_;
  parallel_for(stretches(), [&](int64_t i) {
    if (padded_) pad(x, stretch(i), padded + i * stretch_x_);
    pack_rows(dy, stretch(i), rows + i * stretch_dy_);
  });
  parallel_for(ceil_div(panels_, panel_block_), [&](int64_t i) {
    const int64_t panel0 = i * panel_block_, panel1 = std::min(panels_, panel0 + panel_block_);
    auto* sums =
        reinterpret_cast<float*>(static_cast<Bf16*>(thread_scratch(thread_bytes_)) + panel_block_ * pieces_ * kPiece);
    multiply(padded_ ? padded : x, rows, {panel0, panel1, 0, stretches()}, sums);
    finish(sums, panel0, panel1, dw);
  });
}

Bf16SpreadProduct::Bf16SpreadProduct(const ConvProblem& p)
    : p_(p), product_({.m = p.n * p.oh * p.ow, .n = p.c, .k = p.o, .a_row = p.o, .b_row = p.c, .c_row = p.c}) {}

void Bf16SpreadProduct::run(const Bf16* dy, const Bf16* w, Bf16* dx, void* scratch) const {
  auto* rows = static_cast<Bf16*>(scratch);
  product_.run(dy, w, rows, nullptr, nullptr, nullptr);
  const size_t pixel = static_cast<size_t>(p_.c) * sizeof(Bf16);
  parallel_for(p_.n * p_.h, [&](int64_t line) {
    const int64_t n = line / p_.h, y = line % p_.h, i = y / p_.stride_h;
    Bf16* to = dx + line * p_.w * p_.c;
    std::memset(to, 0, static_cast<size_t>(p_.w) * pixel);
    if (y % p_.stride_h != 0 || i >= p_.oh) return;
    const Bf16* from = rows + (n * p_.oh + i) * p_.ow * p_.c;
    for (int64_t j = 0; j < p_.ow; ++j) std::memcpy(to + j * p_.stride_w * p_.c, from + j * p_.c, pixel);
  });
}

}  // namespace freight::cpu
