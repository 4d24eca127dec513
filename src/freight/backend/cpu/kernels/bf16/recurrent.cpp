// See bf16/recurrent.h. Samples are rows of left operands, hidden numbers columns of right ones; both lie in the order
// of memory, not in the panels' one, so that a gate's numbers meet its sums as they are.
#include "freight/backend/cpu/kernels/bf16/recurrent.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "freight/backend/cpu/kernels/bf16/dots.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"
#ifdef __x86_64__
#include "freight/backend/cpu/kernels/bf16/simd.h"
#endif

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kPiece = Bf16Table::kPiece, kBlock = Bf16Table::kBlock;
constexpr int64_t kLeastRows = 8;   // samples of a task
constexpr int64_t kStretch = 512;   // steps of the weights' gradient that are packed at once
constexpr int64_t kMostSums = 256;  // blocks of it that a task holds, or nearly
// Up to so many samples, dot products are faster than AMX's tiles, whose time for a block of 32 x 32 sums is that of
// two or three rows of dot products.
constexpr int64_t kDotSamples = 2;

// A step of some samples and 32 of their hidden numbers, or fewer. Pointers are to the first sample's.
struct StepBlock {
  int64_t samples = 0, numbers = 0;
  ptrdiff_t gate = 0, gates_row = 0, state_row = 0;  // from gate to gate; from sample to sample
  ptrdiff_t gates_next = 0, state_next = 0;          // to what the next step reads
  const int32_t* counts = nullptr;
  int64_t step = 0;
  // Forward: x, sums (of h before by the weights, a block per gate), inside, state (cells or states) -> gates, inner,
  // y, state, h (a piece of a panel); `before`: h of the step before.
  const Bf16 *x = nullptr, *before = nullptr;
  const float *sums = nullptr, *inside = nullptr;
  Bf16 *gates = nullptr, *inner = nullptr, *y = nullptr, *h = nullptr;
  float* state = nullptr;
  // Backward: gates, inner, dy, what the step before left (null: zeros), dh, dc -> dx; dz, pieces of a panel, from gate
  // to gate `dz_gate` apart; of a GRU dinner; what reaches the step before by itself in dh and dc.
  const Bf16 *dy = nullptr, *y_before = nullptr, *inner_before = nullptr;
  Bf16 *dx = nullptr, *dz = nullptr, *dinner = nullptr;
  ptrdiff_t dz_gate = 0;
  float *dh = nullptr, *dc = nullptr;
};

#ifdef __x86_64__

FREIGHT_AVX512 inline __m512 one_less(__m512 x) { return _mm512_sub_ps(_mm512_set1_ps(1), x); }

// 1 / (1 + exp(-x)) to 5e-7 of it and of what it lacks of 1; `by` is log2(e), or twice that. No number stays none.
FREIGHT_AVX512 inline __m512 sigmoid(__m512 x, float by = kLog2E) {
  const __m512 least = _mm512_set1_ps(-126), most = _mm512_set1_ps(126), t = _mm512_mul_ps(x, _mm512_set1_ps(-by));
  const __m512 d = _mm512_add_ps(exp2_f32(_mm512_max_ps(least, _mm512_min_ps(most, t))), _mm512_set1_ps(1));
  const __m512 y = _mm512_rcp14_ps(d);
  return _mm512_mul_ps(y, _mm512_fnmadd_ps(d, y, _mm512_set1_ps(2)));
}
FREIGHT_AVX512 inline __m512 tanh(__m512 x) {
  return _mm512_fmsub_ps(sigmoid(x, 2 * kLog2E), _mm512_set1_ps(2), _mm512_set1_ps(1));
}
// Derivatives by their results.
FREIGHT_AVX512 inline __m512 sigmoid_slope(__m512 y) { return _mm512_fnmadd_ps(y, y, y); }
FREIGHT_AVX512 inline __m512 tanh_slope(__m512 y) { return _mm512_fnmadd_ps(y, y, _mm512_set1_ps(1)); }

FREIGHT_AVX512 inline __m256i rounded(__m512 v) { return (__m256i)_mm512_cvtneps_pbh(v); }
FREIGHT_AVX512 inline __m512 times(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }

// A lane has those of 16 numbers from j on that there are.
struct Lane {
  int64_t j;
  __mmask16 some;
  FREIGHT_AVX512 __m512 operator()(const Bf16* row) const { return widened(_mm256_maskz_loadu_epi16(some, row + j)); }
  FREIGHT_AVX512 __m512 or_zero(const Bf16* row) const { return row ? (*this)(row) : _mm512_setzero_ps(); }
  FREIGHT_AVX512 void put(__m256i bits, Bf16* row) const { _mm256_mask_storeu_epi16(row + j, some, bits); }
  FREIGHT_AVX512 void put(__m512 v, Bf16* row) const { put(rounded(v), row); }
};

// Rows of blocks and of pieces, which have room for all 32.
FREIGHT_AVX512 inline __m512 at(const float* block, int64_t row, Lane l) {
  return _mm512_load_ps(block + row * kSide + l.j);
}
FREIGHT_AVX512 inline void put(__m512 v, float* block, int64_t row, Lane l) {
  _mm512_store_ps(block + row * kSide + l.j, v);
}
FREIGHT_AVX512 inline void put(__m256i bits, Bf16* piece, int64_t row, Lane l) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(piece + row * kSide + l.j), bits);
}

inline bool ended(const StepBlock& p, int64_t i) { return p.counts && p.counts[i] <= p.step; }
inline const Bf16* row_of(const Bf16* p, int64_t i, ptrdiff_t stride) { return p ? p + i * stride : nullptr; }
FREIGHT_AVX512 inline void ask(const Bf16* p) { _mm_prefetch(p, _MM_HINT_T1); }

// Gates i f g o, of which f is stored as 1 - f: c = f c + i g, h = o tanh(c).
FREIGHT_AVX512 void lstm(const StepBlock& p) {
  for (int64_t i = 0; i < p.samples; ++i) {
    const Bf16* x = p.x + i * p.gates_row;
    Bf16 *gates = p.gates + i * p.gates_row, *cells = p.inner + i * p.state_row, *y = p.y + i * p.state_row;
    const bool stays = ended(p, i);
    for (int64_t k = 0; k < 4; ++k) ask(x + p.gates_next + k * p.gate);
    ask(y + p.state_next);
    ask(cells + p.state_next);
    for (int64_t j = 0; j < p.numbers; j += kRows) {
      const Lane l{j, first(p.numbers - j)};
      const auto sum = [&](int64_t k)
                           FREIGHT_AVX512 { return _mm512_add_ps(at(p.sums + k * kBlock, i, l), l(x + k * p.gate)); };
      const __m512 in = sigmoid(sum(0)), forget = sigmoid(sum(1)), fresh = tanh(sum(2)), out = sigmoid(sum(3));
      l.put(in, gates);
      l.put(one_less(forget), gates + p.gate);
      l.put(fresh, gates + 2 * p.gate);
      l.put(out, gates + 3 * p.gate);
      __m512 cell = at(p.state, i, l);
      __m256i h = _mm256_load_si256(reinterpret_cast<const __m256i*>(p.before + i * kSide + j));
      if (!stays) {
        cell = _mm512_fmadd_ps(forget, cell, times(in, fresh));
        put(cell, p.state, i, l);
        h = rounded(times(out, tanh(cell)));
      }
      put(h, p.h, i, l);
      l.put(h, y);
      l.put(cell, cells);
    }
  }
}

// Gates r z n, of which z is stored as 1 - z: n = tanh(x_n + r inner), h = n + z (h - n).
FREIGHT_AVX512 void gru(const StepBlock& p) {
  for (int64_t i = 0; i < p.samples; ++i) {
    const Bf16* x = p.x + i * p.gates_row;
    Bf16 *gates = p.gates + i * p.gates_row, *inners = p.inner + i * p.state_row, *y = p.y + i * p.state_row;
    const bool stays = ended(p, i);
    for (int64_t k = 0; k < 3; ++k) ask(x + p.gates_next + k * p.gate);
    ask(y + p.state_next);
    ask(inners + p.state_next);
    for (int64_t j = 0; j < p.numbers; j += kRows) {
      const Lane l{j, first(p.numbers - j)};
      const __m512 reset = sigmoid(_mm512_add_ps(at(p.sums, i, l), l(x)));
      const __m512 update = sigmoid(_mm512_add_ps(at(p.sums + kBlock, i, l), l(x + p.gate)));
      const __m512 inner = _mm512_add_ps(at(p.sums + 2 * kBlock, i, l), _mm512_maskz_loadu_ps(l.some, p.inside + j));
      const __m512 fresh = tanh(_mm512_fmadd_ps(reset, inner, l(x + 2 * p.gate)));
      l.put(reset, gates);
      l.put(one_less(update), gates + p.gate);
      l.put(fresh, gates + 2 * p.gate);
      l.put(inner, inners);
      __m512 state = at(p.state, i, l);
      if (!stays) {
        state = _mm512_fmadd_ps(update, _mm512_sub_ps(state, fresh), fresh);
        put(state, p.state, i, l);
      }
      put(rounded(state), p.h, i, l);
      l.put(state, y);
    }
  }
}

// A step behind the last token: the state's gradient goes on to the step before, the gates have none.
FREIGHT_AVX512 inline void pass_on(const StepBlock& p, int64_t i, int64_t gates) {
  for (int64_t j = 0; j < p.numbers; j += kRows) {
    const Lane l{j, first(p.numbers - j)};
    put(_mm512_add_ps(at(p.dh, i, l), l(p.dy + i * p.state_row)), p.dh, i, l);
    for (int64_t k = 0; k < gates; ++k) {
      l.put(_mm256_setzero_si256(), p.dx + i * p.gates_row + k * p.gate);
      put(_mm256_setzero_si256(), p.dz + k * p.dz_gate, i, l);
    }
    if (p.dinner) l.put(_mm256_setzero_si256(), p.dinner + i * p.state_row);
  }
}

FREIGHT_AVX512 void lstm_grad(const StepBlock& p) {
  for (int64_t i = 0; i < p.samples; ++i) {
    const Bf16 *gates = p.gates + i * p.gates_row, *cells = p.inner + i * p.state_row, *dy = p.dy + i * p.state_row;
    const Bf16* cells_before = row_of(p.inner_before, i, p.state_row);
    for (int64_t k = 0; k < 4; ++k) ask(gates + p.gates_next + k * p.gate);
    ask(cells + 2 * p.state_next);
    ask(dy + p.state_next);
    if (ended(p, i)) {
      pass_on(p, i, 4);
      continue;
    }
    for (int64_t j = 0; j < p.numbers; j += kRows) {
      const Lane l{j, first(p.numbers - j)};
      const __m512 in = l(gates), loses = l(gates + p.gate), fresh = l(gates + 2 * p.gate), out = l(gates + 3 * p.gate);
      const __m512 squashed = tanh(l(cells)), g = _mm512_add_ps(at(p.dh, i, l), l(dy)), forget = one_less(loses);
      const __m512 dcell = _mm512_fmadd_ps(times(g, out), tanh_slope(squashed), at(p.dc, i, l));
      const auto both = [&](__m512 v, int64_t k) FREIGHT_AVX512 {
        const __m256i bits = rounded(v);
        l.put(bits, p.dx + i * p.gates_row + k * p.gate);
        put(bits, p.dz + k * p.dz_gate, i, l);
      };
      both(times(times(dcell, fresh), sigmoid_slope(in)), 0);
      both(times(times(dcell, l.or_zero(cells_before)), times(forget, loses)), 1);
      both(times(times(dcell, in), tanh_slope(fresh)), 2);
      both(times(times(g, squashed), sigmoid_slope(out)), 3);
      put(times(dcell, forget), p.dc, i, l);
      put(_mm512_setzero_ps(), p.dh, i, l);
    }
  }
}

FREIGHT_AVX512 void gru_grad(const StepBlock& p) {
  for (int64_t i = 0; i < p.samples; ++i) {
    const Bf16 *gates = p.gates + i * p.gates_row, *inners = p.inner + i * p.state_row, *dy = p.dy + i * p.state_row;
    const Bf16* y_before = row_of(p.y_before, i, p.state_row);
    Bf16* dx = p.dx + i * p.gates_row;
    for (int64_t k = 0; k < 3; ++k) ask(gates + p.gates_next + k * p.gate);
    ask(inners + p.state_next);
    ask(dy + p.state_next);
    if (ended(p, i)) {
      pass_on(p, i, 3);
      continue;
    }
    for (int64_t j = 0; j < p.numbers; j += kRows) {
      const Lane l{j, first(p.numbers - j)};
      const __m512 reset = l(gates), renews = l(gates + p.gate), fresh = l(gates + 2 * p.gate);
      const __m512 g = _mm512_add_ps(at(p.dh, i, l), l(dy)), update = one_less(renews);
      const __m512 dfresh = times(times(g, renews), tanh_slope(fresh));
      const __m512 change = _mm512_sub_ps(l.or_zero(y_before), fresh);
      const __m256i dreset = rounded(times(times(dfresh, l(inners)), sigmoid_slope(reset)));
      const __m256i dupdate = rounded(times(times(g, change), times(update, renews)));
      const __m256i din = rounded(times(dfresh, reset));
      l.put(dreset, dx);
      l.put(dupdate, dx + p.gate);
      l.put(dfresh, dx + 2 * p.gate);
      put(dreset, p.dz, i, l);
      put(dupdate, p.dz + p.dz_gate, i, l);
      put(din, p.dz + 2 * p.dz_gate, i, l);
      l.put(din, p.dinner + i * p.state_row);
      put(times(g, update), p.dh, i, l);
    }
  }
}

// A piece of a right operand, lines in the order of memory: 32 steps of a line side by side, lines `line_stride` apart.
FREIGHT_AVX512 void pack_steps(Bf16* to, const float* from, int64_t line_stride, int64_t steps, int64_t lines) {
  alignas(64) Bf16 pairs[kPiece / 2];
  for (int64_t line = 0; line < kSide; line += kRows, to += kPiece / 2) {
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t some = line + i < lines ? steps : 0;
      const float* row = from + std::min(line + i, lines - 1) * line_stride;
      const __m512 low = _mm512_maskz_loadu_ps(first(some), row);
      const __m512 high = _mm512_maskz_loadu_ps(first(some - kRows), row + kRows);
      _mm512_store_si512(pairs + i * kSide, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
    constexpr ptrdiff_t kRow = kSide * sizeof(Bf16);
    transpose(to, pairs, 4 * kRow, kRow);
  }
}

// The same of 32 lines side by side, steps `step_stride` apart.
FREIGHT_AVX512 void pack_lines(Bf16* to, const float* from, int64_t step_stride, int64_t steps, int64_t lines) {
  for (int64_t line = 0; line < kSide; line += kRows) {
    const auto bits = [&](int64_t step) FREIGHT_AVX512 {
      const __mmask16 some = step < steps ? first(lines - line) : 0;
      const float* row = from + std::min(step, steps - 1) * step_stride + line;
      return _mm512_cvtepu16_epi32(rounded(_mm512_maskz_loadu_ps(some, row)));
    };
    for (int64_t step = 0; step < Bf16Table::kSteps; step += 2, to += kSide)
      _mm512_store_si512(to, _mm512_or_si512(bits(step), _mm512_slli_epi32(bits(step + 1), 16)));
  }
}

// Some rows of a left operand by the panels of some gates: a block of sums per gate, rows in the order of memory. Each
// sum is one chain of additions, so that it is the same whatever rows are computed with it.
template <int kSomeRows, int kSomeGates>
FREIGHT_AVX512 void multiply_rows(const Bf16* a, const Bf16* b, int64_t pieces, float* sums) {
  __m512 acc[kSomeRows][kSomeGates][2];
#pragma GCC unroll 8
  for (int r = 0; r < kSomeRows; ++r) {
#pragma GCC unroll 4
    for (int k = 0; k < kSomeGates; ++k) acc[r][k][0] = acc[r][k][1] = _mm512_setzero_ps();
  }
  const int64_t gate = pieces * kPiece;
  for (int64_t i = 0; i < pieces; ++i, a += kPiece, b += kPiece) {
    for (int pair = 0; pair < kRows; ++pair) {
#pragma GCC unroll 4
      for (int k = 0; k < kSomeGates; ++k) {
        const Bf16* columns = b + k * gate + pair * kSide;
        const auto c0 = (__m512bh)_mm512_load_si512(columns);
        const auto c1 = (__m512bh)_mm512_load_si512(columns + kPiece / 2);
#pragma GCC unroll 8
        for (int r = 0; r < kSomeRows; ++r) {
          const auto x = (__m512bh)_mm512_set1_epi32(*reinterpret_cast<const int*>(a + r * kSide + 2 * pair));
          acc[r][k][0] = _mm512_dpbf16_ps(acc[r][k][0], x, c0);
          acc[r][k][1] = _mm512_dpbf16_ps(acc[r][k][1], x, c1);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kSomeRows; ++r) {
#pragma GCC unroll 4
    for (int k = 0; k < kSomeGates; ++k) {
      _mm512_store_ps(sums + k * kBlock + r * kSide, acc[r][k][0]);
      _mm512_store_ps(sums + k * kBlock + r * kSide + kRows, acc[r][k][1]);
    }
  }
}

// Few rows are multiplied by several gates at once: one gate alone has fewer chains of additions than the processor
// overlaps. At most 24 of the 32 registers hold sums.
template <int kSomeRows>
void multiply_gates(const Bf16* a, const Bf16* b, int64_t pieces, int64_t gates, float* sums) {
  constexpr int kMost = kSomeRows <= 3 ? 4 : kSomeRows <= 6 ? 2 : 1;
  constexpr decltype(&multiply_rows<kSomeRows, 1>) kByGates[] = {
      multiply_rows<kSomeRows, 1>, multiply_rows<kSomeRows, std::min(kMost, 2)>,
      multiply_rows<kSomeRows, std::min(kMost, 3)>, multiply_rows<kSomeRows, kMost>};
  for (int64_t k = 0, count = 0; k < gates; k += count) {
    count = std::min<int64_t>(kMost, gates - k);
    kByGates[count - 1](a, b + k * pieces * kPiece, pieces, sums + k * kBlock);
  }
}

// Unlike the table's block, which always has 32 rows, this computes those that there are.
void multiply_by_dots(const Bf16* a, int64_t rows, const Bf16* b, int64_t pieces, int64_t gates, float* sums) {
  constexpr decltype(&multiply_gates<1>) kByRows[] = {multiply_gates<1>, multiply_gates<2>, multiply_gates<3>,
                                                      multiply_gates<4>, multiply_gates<5>, multiply_gates<6>,
                                                      multiply_gates<7>, multiply_gates<8>};
  const int64_t tiles = ceil_div(rows, int64_t{std::size(kByRows)});
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t row = rows * i / tiles, count = rows * (i + 1) / tiles - row;
    kByRows[count - 1](a + row * kSide, b, pieces, gates, sums + row * kSide);
  }
}

// The sums of `rows` rows.
FREIGHT_AVX512 void sum_up(const Bf16* from, int64_t rows, int64_t width, float* to, int64_t column) {
  const Lane l{column, first(width - column)};
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < rows; ++i) sum = _mm512_add_ps(sum, l(from + i * width));
  _mm512_mask_storeu_ps(to + column, l.some, sum);
}

#else  // never called: bf16_table() is null

constexpr int64_t kRows = 16;
constexpr int64_t place(int64_t line) { return line; }
void lstm(const StepBlock&) {}
void gru(const StepBlock&) {}
void lstm_grad(const StepBlock&) {}
void gru_grad(const StepBlock&) {}
void pack_steps(Bf16*, const float*, int64_t, int64_t, int64_t) {}
void pack_lines(Bf16*, const float*, int64_t, int64_t, int64_t) {}
void multiply_by_dots(const Bf16*, int64_t, const Bf16*, int64_t, int64_t, float*) {}
void sum_up(const Bf16*, int64_t, int64_t, float*, int64_t) {}

#endif

}  // namespace

Bf16Recurrent::Bf16Recurrent(const RecurrentProblem& problem, bool gradient) : p_(problem), gradient_(gradient) {
  const int64_t h = p_.width, g = p_.gates();
  blocks_ = ceil_div(h, kSide);
  tasks_ = std::clamp<int64_t>(ceil_div(p_.samples, kLeastRows), 1, thread_count());
  tasks_ = std::max(tasks_, ceil_div(ceil_div(p_.samples, kSide), tasks_) * tasks_);
  const int64_t pieces = (gradient ? g : 2) * blocks_, sums = gradient ? 2 * blocks_ : blocks_ + g;
  thread_bytes_ =
      static_cast<size_t>(pieces * kPiece) * sizeof(Bf16) + static_cast<size_t>(sums * kBlock) * sizeof(float);
  reserve_thread_scratch(thread_bytes_);
  panels_ = g * blocks_ * blocks_ * kPiece;
  scratch_bytes_ = static_cast<size_t>(panels_) * sizeof(Bf16);
  if (!gradient) {
    dots_ = uses_dots() || p_.samples <= kDotSamples;
    shared_ = tasks_ == 1 && shares_steps(p_, blocks_);
    if (shared_) scratch_bytes_ += static_cast<size_t>(2 * blocks_ * kPiece) * sizeof(Bf16);
    return;
  }
  if (p_.gru) scratch_bytes_ += static_cast<size_t>(p_.samples * p_.steps * h) * sizeof(Bf16);
  const int64_t panels_of_dz = g * blocks_;
  weight_tasks_ =
      std::clamp(panels_of_dz * blocks_ / kMostSums, std::min<int64_t>(thread_count(), panels_of_dz), panels_of_dz);
  weight_bytes_ = static_cast<size_t>((blocks_ + 1) * kStretch * kSide) * sizeof(Bf16) +
                  static_cast<size_t>(ceil_div(panels_of_dz, weight_tasks_) * blocks_ * kBlock) * sizeof(float);
  reserve_thread_scratch(weight_bytes_);
}

// For h W', going forward, 32 hidden numbers have a panel of each gate. For dz W, going back: panels of 32 of them,
// whose steps are the hidden numbers of each gate.
void Bf16Recurrent::pack(const float* w, Bf16* panels) const {
  const int64_t h = p_.width, g = p_.gates();
  parallel_for(g * blocks_, [&](int64_t i) {
    const int64_t j = i / g * kSide, gate = i % g, some = std::min(kSide, h - j);
    for (int64_t k = 0; k < blocks_; ++k) {
      const int64_t at = k * kSide, others = std::min(kSide, h - at);
      Bf16* to = panels + (i * blocks_ + k) * kPiece;
      if (gradient_) {
        pack_lines(to, w + (gate * h + at) * h + j, h, others, some);
      } else {
        pack_steps(to, w + (gate * h + j) * h + at, h, others, some);
      }
    }
  });
}

void Bf16Recurrent::forward(const RecurrentOperands<Bf16>& o, void* scratch) const {
  auto* panels = static_cast<Bf16*>(scratch);
  pack(o.w, panels);
  if (shared_) {
    Bf16* states = panels + panels_;
    std::fill_n(states, 2 * blocks_ * kPiece, Bf16{0});
    return share_steps(p_, blocks_, [&](const RecurrentShare& share) { run_forward(o, panels, states, share); });
  }
  parallel_for(tasks_, [&](int64_t i) {
    auto* states = static_cast<Bf16*>(thread_scratch(thread_bytes_));
    std::fill_n(states, 2 * blocks_ * kPiece, Bf16{0});
    run_forward(o, panels, states, {p_.samples * i / tasks_, p_.samples * (i + 1) / tasks_, 0, blocks_});
  });
}

void Bf16Recurrent::run_forward(const RecurrentOperands<Bf16>& o, const Bf16* panels, Bf16* states,
                                const RecurrentShare& share) const {
  const Bf16Table& table = *bf16_table();
  const int64_t h = p_.width, g = p_.gates(), gh = g * h;
  Bf16 *before = states, *now = before + blocks_ * kPiece;
  // The thread's memory begins with its own states, if it shares no step.
  auto* state = reinterpret_cast<float*>(static_cast<Bf16*>(thread_scratch(thread_bytes_)) + 2 * blocks_ * kPiece);
  float* sums = state + blocks_ * kBlock;
  std::fill(state, sums + g * kBlock, 0.0f);
  StepBlock part{.samples = share.last - share.first,
                 .gate = h,
                 .gates_row = p_.steps * gh,
                 .state_row = p_.steps * h,
                 .counts = o.counts ? o.counts + share.first : nullptr,
                 .sums = sums};
  if (!dots_) table.begin();
  for (int64_t i = 0; i < p_.steps; ++i, std::swap(before, now)) {
    const int64_t t = p_.reverse ? p_.steps - 1 - i : i, at = share.first * p_.steps + t;
    part.step = t;
    part.state_next = i + 1 == p_.steps ? 0 : p_.reverse ? -h : h;
    part.gates_next = part.state_next * g;
    for (int64_t j = share.from; j < share.until; ++j) {
      // The first state, zeros, is multiplied, too: an infinite weight must give NaN.
      const Bf16* weights = panels + j * g * blocks_ * kPiece;
      if (dots_) {
        multiply_by_dots(before, part.samples, weights, blocks_, g, sums);
      } else {
        for (int64_t k = 0; k < g; ++k)
          table.block(before, weights + k * blocks_ * kPiece, blocks_, sums + k * kBlock, false);
      }
      part.numbers = std::min(kSide, h - j * kSide);
      part.x = o.x + at * gh + j * kSide;
      part.gates = o.gates + at * gh + j * kSide;
      part.inner = o.inner + at * h + j * kSide;
      part.y = o.y + at * h + j * kSide;
      part.inside = o.inside ? o.inside + j * kSide : nullptr;
      part.before = before + j * kPiece;
      part.h = now + j * kPiece;
      part.state = state + j * kBlock;
      (p_.gru ? gru : lstm)(part);
    }
    if (share.parts > 1) share.meeting->wait(share.parts * (i + 1));
  }
  if (!dots_) table.end();
}

void Bf16Recurrent::backward(const RecurrentOperands<Bf16>& o, void* scratch) const {
  auto *panels = static_cast<Bf16*>(scratch), *dinner = panels + panels_;
  const int64_t h = p_.width;
  pack(o.w, panels);
  parallel_for(tasks_, [&](int64_t i) {
    run_backward(o, panels, dinner, p_.samples * i / tasks_, p_.samples * (i + 1) / tasks_);
  });
  if (p_.gru) {
    parallel_for(ceil_div(h, int64_t{kRows}),
                 [&](int64_t i) { sum_up(dinner, p_.samples * p_.steps, h, o.dinside, i * kRows); });
  }
  if (p_.steps == 1) {
    std::fill_n(o.dw, p_.gates() * h * h, 0.0f);
    return;
  }
  const int64_t panels_of_dz = p_.gates() * blocks_;
  parallel_for(weight_tasks_, [&](int64_t i) {
    multiply_weights(o, dinner, panels_of_dz * i / weight_tasks_, panels_of_dz * (i + 1) / weight_tasks_);
  });
}

void Bf16Recurrent::run_backward(const RecurrentOperands<Bf16>& o, const Bf16* panels, Bf16* dinner, int64_t first,
                                 int64_t last) const {
  const Bf16Table& table = *bf16_table();
  const int64_t h = p_.width, g = p_.gates(), gh = g * h;
  auto* dz = static_cast<Bf16*>(thread_scratch(thread_bytes_));
  auto* dh = reinterpret_cast<float*>(dz + g * blocks_ * kPiece);
  float* dc = dh + blocks_ * kBlock;
  std::fill(dz, dz + g * blocks_ * kPiece, Bf16{0});
  std::fill(dh, dc + blocks_ * kBlock, 0.0f);
  StepBlock part{.samples = last - first,
                 .gate = h,
                 .gates_row = p_.steps * gh,
                 .state_row = p_.steps * h,
                 .counts = o.counts ? o.counts + first : nullptr,
                 .dz_gate = blocks_ * kPiece};
  table.begin();
  for (int64_t i = p_.steps - 1; i >= 0; --i) {
    const int64_t t = p_.reverse ? p_.steps - 1 - i : i, at = first * p_.steps + t, earlier = p_.reverse ? 1 : -1;
    part.step = t;
    part.state_next = i > 0 ? earlier * h : 0;
    part.gates_next = part.state_next * g;
    for (int64_t j = 0; j < blocks_; ++j) {
      const int64_t gates = at * gh + j * kSide, states = at * h + j * kSide;
      part.numbers = std::min(kSide, h - j * kSide);
      part.gates = o.gates + gates;
      part.inner = o.inner + states;
      part.dy = o.dy + states;
      part.y_before = i > 0 ? o.y + states + earlier * h : nullptr;
      part.inner_before = i > 0 ? o.inner + states + earlier * h : nullptr;
      part.dx = o.dx + gates;
      part.dz = dz + j * kPiece;
      part.dinner = p_.gru ? dinner + states : nullptr;
      part.dh = dh + j * kBlock;
      part.dc = dc + j * kBlock;
      (p_.gru ? gru_grad : lstm_grad)(part);
    }
    if (i == 0) break;
    for (int64_t j = 0; j < blocks_; ++j)
      table.block(dz, panels + j * g * blocks_ * kPiece, g * blocks_, dh + j * kBlock, true);
  }
  table.end();
}

// dw' = h' dz over all steps that have one before; `first` and `last` count panels of dz, which are blocks of a gate.
// The dz of a GRU's last gate is dinner, that of the others dx.
void Bf16Recurrent::multiply_weights(const RecurrentOperands<Bf16>& o, const Bf16* dinner, int64_t first,
                                     int64_t last) const {
  using Side = Bf16Table::Operand;
  const Bf16Table& table = *bf16_table();
  const int64_t h = p_.width, gh = p_.gates() * h, later = p_.steps - 1, steps = p_.samples * later;
  auto* states = static_cast<Bf16*>(thread_scratch(weight_bytes_));
  Bf16* dz = states + blocks_ * kStretch * kSide;
  auto* sums = reinterpret_cast<float*>(dz + kStretch * kSide);
  const auto row_of = [&](int64_t k) { return k / later * p_.steps + k % later + (p_.reverse ? 0 : 1); };
  std::array<int32_t, kStretch> states_at{}, gates_at{};
  const auto lines = [&](const Bf16* from, const std::array<int32_t, kStretch>& at, int64_t count, int64_t block) {
    return Bf16Lines{.from = from + block * kSide,
                     .steps = count,
                     .lines = std::min(kSide, h - block * kSide),
                     .steps_at = at.data()};
  };
  table.begin();
  for (int64_t k = 0; k < steps; k += kStretch) {
    const int64_t count = std::min(kStretch, steps - k), deep = ceil_div(count, kSide), row = row_of(k);
    for (int64_t i = 0; i < count; ++i) {
      const auto n = static_cast<int32_t>(row_of(k + i) - row);
      states_at[static_cast<size_t>(i)] = n * static_cast<int32_t>(h);
      gates_at[static_cast<size_t>(i)] = n * static_cast<int32_t>(gh);
    }
    const Bf16* before = o.y + (row + (p_.reverse ? 1 : -1)) * h;
    for (int64_t j = 0; j < blocks_; ++j)
      table.pack(states + j * deep * kPiece, lines(before, states_at, count, j), Side::left);
    float* s = sums;
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t gate = panel / blocks_, block = panel % blocks_;
      const bool inner = p_.gru && gate == 2;
      table.pack(dz,
                 inner ? lines(dinner + row * h, states_at, count, block)
                       : lines(o.dx + row * gh + gate * h, gates_at, count, block),
                 Side::right);
      for (int64_t j = 0; j < blocks_; ++j, s += kBlock) table.block(states + j * deep * kPiece, dz, deep, s, k > 0);
    }
  }
  table.end();
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t block = panel % blocks_ * kSide;
    float* rows = o.dw + (panel / blocks_ * h + block) * h;
    for (int64_t j = 0; j < h; j += kSide, sums += kBlock) {
      for (int64_t r = 0; r < std::min(kSide, h - block); ++r) {
        for (int64_t c = 0; c < std::min(kSide, h - j); ++c) rows[r * h + j + c] = sums[place(c) * kSide + place(r)];
      }
    }
  }
}

}  // namespace freight::cpu
