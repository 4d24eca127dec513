// See conv_chain.h.
#include "freight/backend/cpu/kernels/conv_chain.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/silu.h"
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

// Of channels [first, end) of so many pixels.
void silu_of_pixels(float* v, int64_t pixels, int64_t channels, int64_t first, int64_t end) {
  if (end - first == channels) return silu_in_place(v, pixels * channels);
  for (int64_t i = 0; i < pixels; ++i) silu_in_place(v + i * channels + first, end - first);
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
  ring_ = expands ? std::min(d.h, (rows_ - 1) * d.stride_h + d.kh) : d.h;
  ring_floats_ = expands ? ring_ * d.w * d.c : 0;
  bias_floats_ = (expands ? whole_panels(d.c) : 0) + (projects ? whole_panels(p_.project.channels) : 0);
  if (expands && shares_channels(d, threads)) {
    ring_floats_ = d.h * d.w * d.c;
    shared_floats_ = ring_floats_ + (projects ? d.oh * d.ow * d.c : 0);
    return;
  }
  thread_bytes_ = static_cast<size_t>(ring_floats_ + (projects ? rows_ * d.ow * d.c : 0)) * sizeof(float);
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
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
  fill_up(o.project_bias, p_.project.channels);
  if (shared_floats_ > 0) {
    for (int64_t image = 0; image < d.n; ++image) by_channels(o, image, to);
    return;
  }
  parallel_for(d.n * slices_, [&](int64_t task) {
    const int64_t i = task % slices_;
    slice(o, task / slices_, i * d.oh / slices_, (i + 1) * d.oh / slices_);
  });
}

// Pixels of the expanded image in channels [first, end), which begin with a panel.
void ConvChain::expand(const ConvChainOperands& o, int64_t pixel, int64_t pixels, int64_t first, int64_t end,
                       float* to) const {
  const int64_t in = p_.expand.channels;
  PanelProduct<float> p{};
  p.a = o.x + pixel * in;
  p.a_row = p.k = in;
  p.a_step = 1;
  p.panels = o.expand + first * in;
  p.c = to + first;
  p.c_row = p_.depthwise.c;
  p.m = pixels;
  p.n = end - first;
  p.bias = o.expand_bias ? o.expand_bias + first : nullptr;
  p.relu = p_.expand.relu;
  p.most = p_.expand.most;
  multiply_panels(p);
  if (p_.expand.silu) silu_of_pixels(to, pixels, p.c_row, first, end);
}

// Pixels of the result, of as many of the depthwise convolution.
void ConvChain::project(const ConvChainOperands& o, const float* from, int64_t pixel, int64_t pixels) const {
  PanelProduct<float> p{};
  p.a = from;
  p.a_row = p.k = p_.depthwise.c;
  p.a_step = 1;
  p.panels = o.project;
  p.c_row = p.n = p_.project.channels;
  p.c = o.y + pixel * p.n;
  p.m = pixels;
  p.bias = o.project_bias;
  p.residual = o.residual ? o.residual + pixel * p.n : nullptr;
  p.relu = p_.project.relu;
  p.most = p_.project.most;
  multiply_panels(p);
  if (p_.project.silu) silu_in_place(p.c, pixels * p.n);
}

// Rows [from, to) of the result for one image.
void ConvChain::slice(const ConvChainOperands& o, int64_t image, int64_t from, int64_t to) const {
  const ConvProblem& d = p_.depthwise;
  const bool expands = p_.expand.channels > 0, projects = p_.project.channels > 0;
  auto* const ring = thread_bytes_ > 0 ? static_cast<float*>(thread_scratch(thread_bytes_)) : nullptr;
  float* const between = ring + ring_floats_;
  int64_t made = std::max<int64_t>(from * d.stride_h - d.pad_h, 0);  // rows of the expanded image before this one are
  for (int64_t row = from; row < to; row += rows_) {
    const int64_t end = std::min(row + rows_, to);
    const int64_t seen = std::min(d.h, (end - 1) * d.stride_h - d.pad_h + d.kh);
    while (expands && made < seen) {
      const int64_t count = std::min(seen - made, ring_ - made % ring_);  // up to the end of the ring
      expand(o, (image * d.h + made) * d.w, count * d.w, 0, d.c, ring + made % ring_ * d.w * d.c);
      made += count;
    }
    const int64_t pixel = (image * d.oh + row) * d.ow;
    const DepthwiseRows<float> rows{.x = expands ? ring : o.x + image * d.h * d.w * d.c,
                                    .ring = ring_,
                                    .w = o.depthwise,
                                    .bias = o.depthwise_bias,
                                    .y = projects ? between : o.y + pixel * d.c,
                                    .from = row,
                                    .to = end};
    depthwise_.all_rows(rows, 0, d.c);
    if (p_.depthwise_silu) silu_in_place(rows.y, (end - row) * d.ow * d.c);
    if (projects) project(o, between, pixel, (end - row) * d.ow);
  }
}

// An image of few rows: the threads share the channels up to the last product, and of that the pixels.
void ConvChain::by_channels(const ConvChainOperands& o, int64_t image, float* scratch) const {
  const ConvProblem& d = p_.depthwise;
  const int64_t threads = thread_count(), panel = whole_panels(1), panels = d.c / panel;
  const int64_t parts = std::min(threads, panels), pixels = d.oh * d.ow, shares = std::min(threads, pixels);
  float* const between = scratch + ring_floats_;
  parallel_for(parts, [&](int64_t i) {
    const int64_t first = panels * i / parts * panel, end = panels * (i + 1) / parts * panel;
    expand(o, image * d.h * d.w, d.h * d.w, first, end, scratch);
    const DepthwiseRows<float> rows{.x = scratch,
                                    .ring = d.h,
                                    .w = o.depthwise,
                                    .bias = o.depthwise_bias,
                                    .y = p_.project.channels > 0 ? between : o.y + image * pixels * d.c,
                                    .from = 0,
                                    .to = d.oh};
    depthwise_.all_rows(rows, first, end);
    if (p_.depthwise_silu) silu_of_pixels(rows.y, pixels, d.c, first, end);
  });
  if (p_.project.channels == 0) return;
  parallel_for(shares, [&](int64_t i) {
    const int64_t first = pixels * i / shares, end = pixels * (i + 1) / shares;
    project(o, between + first * d.c, image * pixels + first, end - first);
  });
}

}  // namespace freight::cpu
