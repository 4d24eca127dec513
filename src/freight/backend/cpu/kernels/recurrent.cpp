// See recurrent.h.
#include "freight/backend/cpu/kernels/recurrent.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {
constexpr int64_t kLeastRows = 8, kMostRows = 96;  // samples of a task
constexpr int64_t kColumns = 64;                   // that are summed up together
// Rows that lie together are a line apart from a power of two, so that they do not meet on few sets of the caches.
constexpr int64_t kGap = 16;
int64_t lines(int64_t floats) { return ceil_div(floats, 16) * 16; }
}  // namespace

Recurrent::Recurrent(const RecurrentProblem& problem, bool gradient)
    : p_(problem), gradient_(gradient), group_(2 * gemm_table().lanes) {
  const int64_t h = p_.width, gh = p_.gates() * h, steps = p_.samples * p_.steps;
  tasks_ = std::clamp<int64_t>(ceil_div(p_.samples, kLeastRows), 1, thread_count());
  tasks_ = std::max(tasks_, ceil_div(ceil_div(p_.samples, kMostRows), tasks_) * tasks_);
  thread_bytes_ = static_cast<size_t>(ceil_div(p_.samples, tasks_) * (gh + 2 * h + 3 * kGap)) * sizeof(float);
  reserve_thread_scratch(thread_bytes_);
  panels_ = lines(gradient ? panel_size(gh, h) : panel_size(h, gh));
  scratch_bytes_ = static_cast<size_t>(panels_) * sizeof(float);
  if (!gradient) return;
  // dw = dz' h, of a GRU apart for the gates whose dz is dx and the one whose is not. A row of dz meets the states' row
  // of the step before, which is the row before (or behind); first steps, which have none, count as zeros.
  if (steps > 1) {
    GemmProblem g{.m = p_.gru ? 2 * h : gh, .n = h, .k = steps - 1, .a_row = 1, .a_col = gh, .b_row = h, .c_row = h};
    weight_products_.emplace_back(g);
    g.m = g.a_col = h;
    if (p_.gru) weight_products_.emplace_back(g);
  }
  size_t most = 0;
  for (const Gemm<float>& product : weight_products_) most = std::max(most, product.scratch_bytes());
  first_ = lines(p_.samples * gh);
  dinner_ = p_.gru ? lines(steps * h) : 0;
  scratch_bytes_ += static_cast<size_t>(first_ + dinner_) * sizeof(float) + most;
}

// The weights as columns: of h W' going forward, of dz W going back.
void Recurrent::pack(const RecurrentOperands<float>& o, float* panels) const {
  const int64_t h = p_.width, gh = p_.gates() * h, k = gradient_ ? gh : h, n = gradient_ ? h : gh;
  auto task = [&](int64_t i) {
    const int64_t column = i * group_, count = std::min(group_, n - column);
    const int64_t step = gradient_ ? h : 1, line = gradient_ ? 1 : h;
    pack_columns(panels + column * k, o.w + column * line, step, line, k, count);
  };
  parallel_for(ceil_div(n, group_), task);
}

RecurrentRows Recurrent::rows_of(const RecurrentOperands<float>& o, int64_t first, int64_t last) const {
  const int64_t h = p_.width, gh = p_.gates() * h;
  RecurrentRows r;
  r.rows = last - first;
  r.width = r.until = h;
  r.gates_row = p_.steps * gh;
  r.state_row = p_.steps * h;
  r.product_row = gh + kGap;
  r.compact_row = h + kGap;
  r.counts = o.counts ? o.counts + first : nullptr;
  r.inside = o.inside;
  return r;
}

void Recurrent::forward(const RecurrentOperands<float>& o, void* scratch) const {
  auto* panels = static_cast<float*>(scratch);
  const int64_t h = p_.width, groups = h / group_;
  pack(o, panels);
  if (tasks_ == 1 && h % group_ == 0 && shares_steps(p_, groups)) {
    return share_steps(p_, groups, [&](RecurrentShare share) {
      share.from *= group_;
      share.until *= group_;
      run_forward(o, panels, share);
    });
  }
  auto task = [&](int64_t i) {
    run_forward(o, panels, {p_.samples * i / tasks_, p_.samples * (i + 1) / tasks_, 0, h});
  };
  parallel_for(tasks_, task);
}

void Recurrent::run_forward(const RecurrentOperands<float>& o, const float* panels, const RecurrentShare& share) const {
  const int64_t h = p_.width, gh = p_.gates() * h;
  RecurrentRows r = rows_of(o, share.first, share.last);
  r.from = share.from;
  r.until = share.until;
  auto* product = static_cast<float*>(thread_scratch(thread_bytes_));
  r.product = product;
  r.h = product + r.rows * r.product_row;
  r.c = r.h + r.rows * r.compact_row;
  std::fill(product, r.c + r.rows * r.compact_row, 0.0f);
  for (int64_t i = 0; i < p_.steps; ++i) {
    const int64_t t = p_.reverse ? p_.steps - 1 - i : i, at = share.first * p_.steps + t;
    r.step = t;
    r.x = o.x + at * gh;
    r.gates = o.gates + at * gh;
    r.inner = o.inner + at * h;
    r.y = o.y + at * h;
    const Ahead<float> x{r.x, r.rows, gh, r.gates_row};
    if (i > 0 && share.parts > 1) {  // y has all numbers of the step before
      const float* before = p_.reverse ? r.y + h : r.y - h;
      for (int64_t column = share.from; column < gh; column += h) {
        multiply_panels({before, r.state_row, 1, panels + column * h, product + column, r.product_row, r.rows,
                         share.until - share.from, h, false});
      }
    } else if (i > 0) {
      multiply_panels({r.h, r.compact_row, 1, panels, product, r.product_row, r.rows, gh, h, false, 0, x});
    }
    (p_.gru ? recurrent_table().gru : recurrent_table().lstm)(r);
    if (share.parts > 1) share.meeting->wait(share.parts * (i + 1));
  }
}

void Recurrent::backward(const RecurrentOperands<float>& o, void* scratch) const {
  auto *panels = static_cast<float*>(scratch), *first = panels + panels_, *dinner = first + first_;
  const int64_t h = p_.width, gh = p_.gates() * h, rows = p_.samples * p_.steps;
  pack(o, panels);
  auto task = [&](int64_t i) { run_backward(o, panels, p_.samples * i / tasks_, p_.samples * (i + 1) / tasks_); };
  parallel_for(tasks_, task);
  auto sum_up = [&](int64_t i) {
    const int64_t column = i * kColumns, count = std::min(kColumns, h - column);
    double sums[kColumns] = {};
    for (const float* row = dinner + column; row < dinner + rows * h; row += h) {
      for (int64_t j = 0; j < count; ++j) sums[j] += static_cast<double>(row[j]);
    }
    std::copy_n(sums, count, o.dinside + column);
  };
  if (p_.gru) parallel_for(ceil_div(h, kColumns), sum_up);
  if (weight_products_.empty()) {
    std::fill_n(o.dw, gh * h, 0.0f);
    return;
  }
  // First steps' rows of dx stand aside meanwhile.
  const auto first_row = [&](float* t, int64_t sample, int64_t width) {
    return t + (sample * p_.steps + (p_.reverse ? p_.steps - 1 : 0)) * width;
  };
  for (int64_t n = 0; n < p_.samples; ++n) {
    std::copy_n(first_row(o.dx, n, gh), gh, first + n * gh);
    std::fill_n(first_row(o.dx, n, gh), gh, 0.0f);
    if (p_.gru) std::fill_n(first_row(dinner, n, h), h, 0.0f);
  }
  float* rest = dinner + dinner_;
  const int64_t later = p_.reverse ? 0 : 1;
  const float* states = o.y + (1 - later) * h;
  weight_products_[0].run(o.dx + later * gh, states, o.dw, nullptr, nullptr, rest);
  if (p_.gru) weight_products_[1].run(dinner + later * h, states, o.dw + 2 * h * h, nullptr, nullptr, rest);
  for (int64_t n = 0; n < p_.samples; ++n) std::copy_n(first + n * gh, gh, first_row(o.dx, n, gh));
}

// `scratch` as in backward().
void Recurrent::run_backward(const RecurrentOperands<float>& o, float* scratch, int64_t first, int64_t last) const {
  const int64_t h = p_.width, gh = p_.gates() * h;
  RecurrentRows r = rows_of(o, first, last);
  r.dz = static_cast<float*>(thread_scratch(thread_bytes_));
  r.dh = r.dz + r.rows * r.product_row;
  r.dc = r.dh + r.rows * r.compact_row;
  std::fill(r.dh, r.dc + r.rows * r.compact_row, 0.0f);
  float* dinner = scratch + panels_ + first_;
  for (int64_t i = p_.steps - 1; i >= 0; --i) {
    const int64_t t = p_.reverse ? p_.steps - 1 - i : i, at = first * p_.steps + t, earlier = p_.reverse ? h : -h;
    r.step = t;
    r.gates = o.gates + at * gh;
    r.inner = o.inner + at * h;
    r.dy = o.dy + at * h;
    r.y_before = i > 0 ? o.y + at * h + earlier : nullptr;
    r.inner_before = i > 0 ? o.inner + at * h + earlier : nullptr;
    r.dx = o.dx + at * gh;
    if (p_.gru) r.dinner = dinner + at * h;
    (p_.gru ? recurrent_table().gru_grad : recurrent_table().lstm_grad)(r);
    const Ahead<float> next{r.gates + earlier * p_.gates(), r.rows, gh, r.gates_row};
    if (i > 0) multiply_panels({r.dz, r.product_row, 1, scratch, r.dh, r.compact_row, r.rows, h, gh, true, 0, next});
  }
}

}  // namespace freight::cpu
