// See conv_chain.h.
#include "freight/backend/cpu/kernels/conv_chain.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/pixels.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// Numbers between the convolutions that a thread keeps at a time: with the weights they fill half a second-level cache
// of 1 MiB.
constexpr int64_t kKept = 64 << 10;
constexpr int64_t kTasksPerThread = 8;  // from so many on it does not matter that some have one more than others

int64_t whole_panels(int64_t columns) { return panel_size(1, columns); }

// True where threads that shared an image's rows would have unequal parts and expand many rows twice. mobilenet_v2 b1
// on two cores of a Zen 4, ms: 3.70 never so, 3.60 up to 7 rows, 3.69 up to 14.
constexpr int64_t kFewRows = 7;
bool shares_channels(const ConvProblem& d, int64_t threads) {
  return d.n % threads != 0 && d.oh <= kFewRows && d.c % whole_panels(1) == 0;
}

constexpr int64_t kScaled = 48;  // pixels that are scaled before the last product reads them

// A 1x1 convolution of pixels of `channels` numbers, of which `kind` says what it does beside.
PanelProduct<float> product_of(const ChainProduct& kind, const float* pixels, int64_t count, int64_t channels,
                               const float* weight, const float* bias) {
  PanelProduct<float> p{};
  p.a = pixels;
  p.m = count;
  p.a_row = p.k = channels;
  p.a_step = 1;
  p.panels = weight;
  p.bias = bias;
  p.relu = kind.relu;
  p.most = kind.most;
  return p;
}

}  // namespace

ConvChain::ConvChain(const ConvChainProblem& problem)
    : p_(problem), depthwise_(problem.depthwise, Filter::stored, false) {
  const ConvProblem& d = p_.depthwise;
  const int64_t threads = thread_count();
  while (slices_ < d.oh && d.n * slices_ % threads != 0 && d.n * slices_ < kTasksPerThread * threads) ++slices_;
  const bool expands = p_.expand.channels > 0, projects = p_.project.channels > 0;
  const int64_t of_first = expands ? std::max<int64_t>(d.kh - d.stride_h, 0) * d.w : 0;
  const int64_t of_each = (expands ? d.stride_h * d.w : 0) + (projects ? d.ow : 0);
  const int64_t most = of_each > 0 ? std::max<int64_t>((kKept / d.c - of_first) / of_each, 1) : d.oh;
  const int64_t slice_rows = ceil_div(d.oh, slices_);
  rows_ = ceil_div(slice_rows, ceil_div(slice_rows, most));
  by_channels_ = expands && shares_channels(d, threads);
  shares_image_ = by_channels_ || (gated() && slices_ > 1);
  ring_ = !expands || by_channels_ ? d.h : std::min(d.h, (rows_ - 1) * d.stride_h + d.kh);
  ring_floats_ = expands ? ring_ * d.w * d.c : 0;
  row_floats_ = !projects ? 0 : (gated() || by_channels_ ? d.oh : rows_) * d.ow * d.c;
  sum_floats_ = gated() ? (d.oh + 1) * d.c + whole_panels(p_.squeeze.channels) : 0;
  if (expands) bias_floats_ += whole_panels(d.c);
  if (projects) bias_floats_ += whole_panels(p_.project.channels);
  if (gated()) bias_floats_ += whole_panels(d.c) + whole_panels(p_.squeeze.channels);
  // What threads do not share each of them has.
  thread_bytes_ = static_cast<size_t>(by_channels_    ? 0
                                      : shares_image_ ? ring_floats_
                                                      : ring_floats_ + row_floats_ + sum_floats_) *
                  sizeof(float);
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
}

size_t ConvChain::scratch_bytes() const {
  const int64_t all = ring_floats_ + row_floats_ + sum_floats_;
  return static_cast<size_t>(bias_floats_ + (shares_image_ ? all : 0)) * sizeof(float);
}

void ConvChain::run(const ConvChainOperands& operands, void* scratch) const {
  const ConvProblem& d = p_.depthwise;
  ConvChainOperands o = operands;
  auto* to = static_cast<float*>(scratch);
  const auto fill_up = [&](const float*& bias, int64_t channels) {
    if (!bias) return;
    std::copy_n(bias, channels, to);
    std::fill(to + channels, to + whole_panels(channels), 0.0f);
    bias = to;
    to += whole_panels(channels);
  };
  fill_up(o.expand_bias, d.c);
  fill_up(o.squeeze_bias, p_.squeeze.channels);
  fill_up(o.excite_bias, d.c);
  fill_up(o.project_bias, p_.project.channels);
  if (shares_image_) {
    for (int64_t image = 0; image < d.n; ++image) shared(o, image, between(to));
    return;
  }
  parallel_for(d.n * slices_, [&](int64_t task) {
    const int64_t image = task / slices_, i = task % slices_;
    auto* const memory = thread_bytes_ > 0 ? static_cast<float*>(thread_scratch(thread_bytes_)) : nullptr;
    const Between b = between(memory);
    slice(o, image, i * d.oh / slices_, (i + 1) * d.oh / slices_, b);
    if (gated()) project(o, b.rows, image * d.oh * d.ow, d.oh * d.ow, gate(o, b.sums));
  });
}

// An image whose rows or, of one of few rows, channels the threads share up to the last product, and of that the
// pixels.
void ConvChain::shared(const ConvChainOperands& o, int64_t image, const Between& b) const {
  const ConvProblem& d = p_.depthwise;
  const int64_t threads = thread_count();
  if (by_channels_) {
    const int64_t panel = whole_panels(1), panels = d.c / panel, parts = std::min(threads, panels);
    parallel_for(
        parts, [&](int64_t i) { channels(o, image, panels * i / parts * panel, panels * (i + 1) / parts * panel, b); });
  } else {
    parallel_for(slices_, [&](int64_t i) {
      Between mine = b;
      if (thread_bytes_ > 0) mine.expanded = static_cast<float*>(thread_scratch(thread_bytes_));
      slice(o, image, i * d.oh / slices_, (i + 1) * d.oh / slices_, mine);
    });
  }
  if (p_.project.channels == 0) return;
  const float* const by = gated() ? gate(o, b.sums) : nullptr;
  const int64_t pixels = d.oh * d.ow, shares = std::min(threads, pixels);
  parallel_for(shares, [&](int64_t i) {
    const int64_t first = pixels * i / shares, end = pixels * (i + 1) / shares;
    project(o, b.rows + first * d.c, image * pixels + first, end - first, by);
  });
}

// Pixels of the expanded image in channels [first, end), which begin with a panel.
void ConvChain::expand(const ConvChainOperands& o, int64_t pixel, int64_t pixels, int64_t first, int64_t end,
                       float* to) const {
  const int64_t in = p_.expand.channels;
  PanelProduct<float> p = product_of(p_.expand, o.x + pixel * in, pixels, in, o.expand + first * in,
                                     o.expand_bias ? o.expand_bias + first : nullptr);
  p.c = to + first;
  p.c_row = p_.depthwise.c;
  p.n = end - first;
  multiply_panels(p);
  if (p_.expand.silu) silu_in_place({to, pixels, p.c_row, first, end});
}

// Pixels of the result, of as many of the depthwise convolution, which are multiplied by the gate before, in place.
void ConvChain::project(const ConvChainOperands& o, float* from, int64_t pixel, int64_t pixels,
                        const float* gate) const {
  const int64_t c = p_.depthwise.c, step = gate ? kScaled : pixels;
  for (int64_t at = 0; at < pixels; at += step) {
    const int64_t count = std::min(step, pixels - at);
    if (gate) scale_pixels({from + at * c, count, c, 0, c}, gate);
    PanelProduct<float> p = product_of(p_.project, from + at * c, count, c, o.project, o.project_bias);
    p.c_row = p.n = p_.project.channels;
    p.c = o.y + (pixel + at) * p.n;
    p.residual = o.residual ? o.residual + (pixel + at) * p.n : nullptr;
    multiply_panels(p);
    if (p_.project.silu) silu_in_place(p.c, p.m * p.n);
  }
}

// What follows the depthwise convolution in channels [first, end) of some rows.
void ConvChain::finish_rows(const DepthwiseRows<float>& rows, int64_t first, int64_t end, float* sums) const {
  const ConvProblem& d = p_.depthwise;
  Pixels p{rows.y, (rows.to - rows.from) * d.ow, d.c, first, end};
  if (p_.depthwise_silu) silu_in_place(p);
  if (!gated()) return;
  // Row by row, so that the sums do not depend on how threads share the rows.
  p.pixels = d.ow;
  for (int64_t row = rows.from; row < rows.to; ++row, p.v += d.ow * d.c) sum_pixels(p, sums + row * d.c);
}

// What each channel is multiplied by, behind the sums of the rows.
const float* ConvChain::gate(const ConvChainOperands& o, float* sums) const {
  const int64_t c = p_.depthwise.c, rows = p_.depthwise.oh, squeezed = p_.squeeze.channels;
  float *const gate = sums + rows * c, *const hidden = gate + c;
  sum_pixels({sums, rows, c, 0, c}, gate);
  for (int64_t i = 0; i < c; ++i) gate[i] *= p_.mean;
  PanelProduct<float> p = product_of(p_.squeeze, gate, 1, c, o.squeeze, o.squeeze_bias);
  p.c = hidden;
  p.c_row = p.n = squeezed;
  multiply_panels(p);
  if (p_.squeeze.silu) silu_in_place(hidden, squeezed);
  PanelProduct<float> back = product_of({}, hidden, 1, squeezed, o.excite, o.excite_bias);
  back.c = gate;
  back.c_row = back.n = c;
  multiply_panels(back);
  sigmoid_in_place(gate, c);
  return gate;
}

// Rows [from, to) for one image: of the result, or with squeeze-excitation of the depthwise convolution.
void ConvChain::slice(const ConvChainOperands& o, int64_t image, int64_t from, int64_t to, const Between& b) const {
  const ConvProblem& d = p_.depthwise;
  const bool expands = p_.expand.channels > 0, projects = p_.project.channels > 0;
  int64_t made = std::max<int64_t>(from * d.stride_h - d.pad_h, 0);  // rows of the expanded image before this one are
  for (int64_t row = from; row < to; row += rows_) {
    const int64_t end = std::min(row + rows_, to);
    const int64_t seen = std::min(d.h, (end - 1) * d.stride_h - d.pad_h + d.kh);
    while (expands && made < seen) {
      const int64_t count = std::min(seen - made, ring_ - made % ring_);  // up to the end of the ring
      expand(o, (image * d.h + made) * d.w, count * d.w, 0, d.c, b.expanded + made % ring_ * d.w * d.c);
      made += count;
    }
    const int64_t pixel = (image * d.oh + row) * d.ow;
    const DepthwiseRows<float> rows{.x = expands ? b.expanded : o.x + image * d.h * d.w * d.c,
                                    .ring = ring_,
                                    .w = o.depthwise,
                                    .bias = o.depthwise_bias,
                                    .y = !projects ? o.y + pixel * d.c
                                         : gated() ? b.rows + row * d.ow * d.c
                                                   : b.rows,
                                    .from = row,
                                    .to = end};
    depthwise_.all_rows(rows, 0, d.c);
    finish_rows(rows, 0, d.c, b.sums);
    if (projects && !gated()) project(o, b.rows, pixel, (end - row) * d.ow, nullptr);
  }
}

// An image up to the depthwise convolution in channels [first, end), which begin with a panel.
void ConvChain::channels(const ConvChainOperands& o, int64_t image, int64_t first, int64_t end,
                         const Between& b) const {
  const ConvProblem& d = p_.depthwise;
  expand(o, image * d.h * d.w, d.h * d.w, first, end, b.expanded);
  const DepthwiseRows<float> rows{.x = b.expanded,
                                  .ring = d.h,
                                  .w = o.depthwise,
                                  .bias = o.depthwise_bias,
                                  .y = p_.project.channels > 0 ? b.rows : o.y + image * d.oh * d.ow * d.c,
                                  .from = 0,
                                  .to = d.oh};
  depthwise_.all_rows(rows, first, end);
  finish_rows(rows, first, end, b.sums);
}

}  // namespace freight::cpu
