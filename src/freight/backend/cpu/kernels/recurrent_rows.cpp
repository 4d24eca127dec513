// See recurrent_rows.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/recurrent_rows.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/recurrent_rows.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V one_less(V x) { return hn::Sub(hn::Set(D(), 1.0f), x); }
// Derivatives by their results.
HWY_INLINE V sigmoid_slope(V y) { return hn::Mul(y, one_less(y)); }
HWY_INLINE V tanh_slope(V y) { return hn::NegMulAdd(y, y, hn::Set(D(), 1.0f)); }

// A vector of a row: from column j on, and at the row's end fewer numbers than lanes.
struct Lane {
  int64_t j;
  size_t count;
  bool whole;
  HWY_INLINE V operator()(const float* row) const {
    return whole ? hn::LoadU(D(), row + j) : hn::MaskedLoad(hn::FirstN(D(), count), D(), row + j);
  }
  HWY_INLINE V or_zero(const float* row) const { return row ? (*this)(row) : hn::Zero(D()); }
  HWY_INLINE void put(V v, float* row) const {
    if (whole) {
      hn::StoreU(v, D(), row + j);
    } else {
      hn::BlendedStore(v, hn::FirstN(D(), count), D(), row + j);
    }
  }
};

template <class F>
HWY_INLINE void each_lane(const RecurrentRows& r, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t j = r.from; j < r.until; j += lanes) {
    f(Lane{j, static_cast<size_t>(std::min(lanes, r.until - j)), j + lanes <= r.until});
  }
}

HWY_INLINE bool ended(const RecurrentRows& r, int64_t i) { return r.counts && r.counts[i] <= r.step; }
HWY_INLINE const float* row_of(const float* p, int64_t i, ptrdiff_t stride) { return p ? p + i * stride : nullptr; }

// Gates i f g o, of which f is stored as 1 - f: c = f c + i g, h = o tanh(c).
void lstm(const RecurrentRows& r) {
  const int64_t w = r.width;
  for (int64_t i = 0; i < r.rows; ++i) {
    const float *x = r.x + i * r.gates_row, *z = r.product + i * r.product_row;
    float *gates = r.gates + i * r.gates_row, *cells = r.inner + i * r.state_row, *y = r.y + i * r.state_row;
    float *h = r.h + i * r.compact_row, *c = r.c + i * r.compact_row;
    const bool stays = ended(r, i);
    each_lane(r, [&](Lane at) HWY_ATTR {
      const auto sum = [&](int64_t k) HWY_ATTR { return hn::Add(at(x + k * w), at(z + k * w)); };
      const V in = sigmoid_f32(sum(0)), forget = sigmoid_f32(sum(1)), fresh = tanh_f32(sum(2)),
              out = sigmoid_f32(sum(3));
      at.put(in, gates);
      at.put(one_less(forget), gates + w);
      at.put(fresh, gates + 2 * w);
      at.put(out, gates + 3 * w);
      V cell = at(c), state = at(h);
      if (!stays) {
        cell = hn::MulAdd(forget, cell, hn::Mul(in, fresh));
        state = hn::Mul(out, tanh_f32(cell));
        at.put(cell, c);
        at.put(state, h);
      }
      at.put(cell, cells);
      at.put(state, y);
    });
  }
}

// Gates r z n, of which z is stored as 1 - z: n = tanh(x_n + r inner), h = n + z (h - n).
void gru(const RecurrentRows& r) {
  const int64_t w = r.width;
  for (int64_t i = 0; i < r.rows; ++i) {
    const float *x = r.x + i * r.gates_row, *z = r.product + i * r.product_row;
    float *gates = r.gates + i * r.gates_row, *inners = r.inner + i * r.state_row, *y = r.y + i * r.state_row;
    float* h = r.h + i * r.compact_row;
    const bool stays = ended(r, i);
    each_lane(r, [&](Lane at) HWY_ATTR {
      const V reset = sigmoid_f32(hn::Add(at(x), at(z))), update = sigmoid_f32(hn::Add(at(x + w), at(z + w)));
      const V inner = hn::Add(at(z + 2 * w), at(r.inside));
      const V fresh = tanh_f32(hn::MulAdd(reset, inner, at(x + 2 * w)));
      at.put(reset, gates);
      at.put(one_less(update), gates + w);
      at.put(fresh, gates + 2 * w);
      at.put(inner, inners);
      V state = at(h);
      if (!stays) {
        state = hn::MulAdd(update, hn::Sub(state, fresh), fresh);
        at.put(state, h);
      }
      at.put(state, y);
    });
  }
}

// A step behind the last token: the state's gradient goes on to the step before, the gates have none.
HWY_INLINE void pass_on(const RecurrentRows& r, int64_t i, int64_t gates) {
  const float* dy = r.dy + i * r.state_row;
  float* dh = r.dh + i * r.compact_row;
  each_lane(r, [&](Lane at) HWY_ATTR { at.put(hn::Add(at(dh), at(dy)), dh); });
  std::fill_n(r.dx + i * r.gates_row, gates * r.width, 0.0f);
  std::fill_n(r.dz + i * r.product_row, gates * r.width, 0.0f);
}

void lstm_grad(const RecurrentRows& r) {
  const int64_t w = r.width;
  for (int64_t i = 0; i < r.rows; ++i) {
    if (ended(r, i)) {
      pass_on(r, i, 4);
      continue;
    }
    const float *gates = r.gates + i * r.gates_row, *cells = r.inner + i * r.state_row, *dy = r.dy + i * r.state_row;
    const float* cells_before = row_of(r.inner_before, i, r.state_row);
    float *dx = r.dx + i * r.gates_row, *dz = r.dz + i * r.product_row;
    float *dh = r.dh + i * r.compact_row, *dc = r.dc + i * r.compact_row;
    each_lane(r, [&](Lane at) HWY_ATTR {
      const V in = at(gates), forget = one_less(at(gates + w)), fresh = at(gates + 2 * w), out = at(gates + 3 * w);
      const V squashed = tanh_f32(at(cells)), g = hn::Add(at(dh), at(dy));
      const V dcell = hn::MulAdd(hn::Mul(g, out), tanh_slope(squashed), at(dc));
      const auto both = [&](V v, int64_t k) HWY_ATTR {
        at.put(v, dx + k * w);
        at.put(v, dz + k * w);
      };
      both(hn::Mul(hn::Mul(dcell, fresh), sigmoid_slope(in)), 0);
      both(hn::Mul(hn::Mul(dcell, at.or_zero(cells_before)), sigmoid_slope(forget)), 1);
      both(hn::Mul(hn::Mul(dcell, in), tanh_slope(fresh)), 2);
      both(hn::Mul(hn::Mul(g, squashed), sigmoid_slope(out)), 3);
      at.put(hn::Mul(dcell, forget), dc);
      at.put(hn::Zero(D()), dh);
    });
  }
}

void gru_grad(const RecurrentRows& r) {
  const int64_t w = r.width;
  for (int64_t i = 0; i < r.rows; ++i) {
    float* dinner = r.dinner + i * r.state_row;
    if (ended(r, i)) {
      pass_on(r, i, 3);
      std::fill_n(dinner, w, 0.0f);
      continue;
    }
    const float *gates = r.gates + i * r.gates_row, *inners = r.inner + i * r.state_row, *dy = r.dy + i * r.state_row;
    const float* y_before = row_of(r.y_before, i, r.state_row);
    float *dx = r.dx + i * r.gates_row, *dz = r.dz + i * r.product_row, *dh = r.dh + i * r.compact_row;
    each_lane(r, [&](Lane at) HWY_ATTR {
      const V reset = at(gates), update = one_less(at(gates + w)), fresh = at(gates + 2 * w);
      const V g = hn::Add(at(dh), at(dy)), before = at.or_zero(y_before);
      const V dfresh = hn::Mul(hn::Mul(g, one_less(update)), tanh_slope(fresh));
      const V dreset = hn::Mul(hn::Mul(dfresh, at(inners)), sigmoid_slope(reset));
      const V dupdate = hn::Mul(hn::Mul(g, hn::Sub(before, fresh)), sigmoid_slope(update));
      const V din = hn::Mul(dfresh, reset);
      at.put(dreset, dx);
      at.put(dupdate, dx + w);
      at.put(dfresh, dx + 2 * w);
      at.put(dreset, dz);
      at.put(dupdate, dz + w);
      at.put(din, dz + 2 * w);
      at.put(din, dinner);
      at.put(hn::Mul(g, update), dh);
    });
  }
}

RecurrentTable make_recurrent_table() { return {lstm, gru, lstm_grad, gru_grad}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(RecurrentTable, recurrent_table, make_recurrent_table)
}  // namespace freight::cpu
#endif
