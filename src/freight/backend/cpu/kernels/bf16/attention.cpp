// See bf16/attention.h. Blocks of scores stay in the panels' order: rows are queries, 32 columns keys.
#include "freight/backend/cpu/kernels/bf16/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"
#ifdef __x86_64__
#include "freight/backend/cpu/kernels/bf16/simd.h"
#endif

namespace freight::cpu {

namespace {

constexpr int64_t kSide = Bf16Table::kSide, kPiece = Bf16Table::kPiece, kBlock = Bf16Table::kBlock;
constexpr int64_t kKeyBlocks = 4;     // of a pass of the gradient
constexpr int64_t kQueryBlocks = 16;  // of a task forward: the keys are packed once for them

// The scores of a block: which keys of row r's query count, of those that are left.
struct Seen {
  int64_t first = 0, more = 0;  // of the block's first query; of each further one, at most `keys`
  int64_t keys = 0, rows = kSide;
  int64_t of(int64_t r) const { return r < rows ? std::clamp<int64_t>(first + r * more, 0, keys) : 0; }
};

#ifdef __x86_64__

// The lanes of a half of the panels' order whose lines come before `seen`.
FREIGHT_AVX512 inline __mmask16 counts(int64_t seen, int half) {
  const __m512i lines = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                                         _mm512_set1_epi32(4 * half));
  return _mm512_cmplt_epi32_mask(lines, _mm512_set1_epi32(static_cast<int>(std::clamp<int64_t>(seen, 0, kSide))));
}

// Products become scores: scale product + bias.
FREIGHT_AVX512 void add_bias(ScoreBlock& b) {
  const __m512 by = _mm512_set1_ps(b.scale);
  for (int64_t r = 0; r < b.rows; ++r) {
    const __m512 left = _mm512_load_ps(b.bias + r * b.bias_row),
                 right = _mm512_load_ps(b.bias + r * b.bias_row + kRows);
    float* s = b.scores + place(r) * kSide;  // halves of the panels' order: see counts()
    const auto add = [&](float* to, __m512 bias)
                         FREIGHT_AVX512 { _mm512_store_ps(to, _mm512_fmadd_ps(_mm512_load_ps(to), by, bias)); };
    add(s, _mm512_shuffle_f32x4(left, right, 0x88));
    add(s + kRows, _mm512_shuffle_f32x4(left, right, 0xdd));
  }
  b.scale = 1;
}

// The largest score of each row so far.
FREIGHT_AVX512 void maxima(const float* scores, const Seen& seen, float scale, float* top) {
  const __m512 hidden = _mm512_set1_ps(-INFINITY), by = _mm512_set1_ps(scale);
  for (int64_t r = 0; r < kSide; ++r) {
    const float* s = scores + place(r) * kSide;
    const int64_t count = seen.of(r);
    const __m512 a = _mm512_mask_mul_ps(hidden, counts(count, 0), by, _mm512_load_ps(s));
    const __m512 b = _mm512_mask_mul_ps(hidden, counts(count, 1), by, _mm512_load_ps(s + kRows));
    top[r] = std::max(top[r], _mm512_reduce_max_ps(_mm512_max_ps(a, b)));
  }
}

// Scores become weights exp(scale score - shift[r]) as a piece of a left operand; sums[r] grows by theirs.
FREIGHT_AVX512 void weights(const float* scores, const Seen& seen, float scale, const float* shift, float* sums,
                            Bf16* out) {
  for (int64_t r = 0; r < kSide; ++r) {
    const float* s = scores + place(r) * kSide;
    const int64_t count = seen.of(r);
    const __m512 m = _mm512_set1_ps(shift[r]), by = _mm512_set1_ps(scale);
    const __m512 a = _mm512_maskz_mov_ps(counts(count, 0), exp_f32(_mm512_fmsub_ps(_mm512_load_ps(s), by, m)));
    const __m512 b = _mm512_maskz_mov_ps(counts(count, 1), exp_f32(_mm512_fmsub_ps(_mm512_load_ps(s + kRows), by, m)));
    sums[r] += _mm512_reduce_add_ps(_mm512_add_ps(a, b));
    _mm512_store_si512(out + place(r) * kSide, narrowed(a, b));
  }
}

// Scores and dp become p = exp(b.scale score - lse[r]) and scale p (dp - delta[r]), pieces of left operands.
FREIGHT_AVX512 void gradient(const ScoreBlock& b, const float* dp, const Seen& seen, float scale, const float* lse,
                             const float* delta, Bf16* p_out, Bf16* ds_out) {
  const __m512 by = _mm512_set1_ps(b.scale), ds_by = _mm512_set1_ps(scale);
  for (int64_t r = 0; r < kSide; ++r) {
    const int64_t at = place(r) * kSide, count = seen.of(r);
    if (count == 0) {
      std::memset(p_out + at, 0, kSide * sizeof(Bf16));
      std::memset(ds_out + at, 0, kSide * sizeof(Bf16));
      continue;
    }
    const __m512 m = _mm512_set1_ps(lse[r]), mean = _mm512_set1_ps(delta[r]);
    const auto half = [&](int h, __m512& ds) FREIGHT_AVX512 {
      const __m512 s = _mm512_load_ps(b.scores + at + h * kRows), g = _mm512_load_ps(dp + at + h * kRows);
      const __m512 p = _mm512_maskz_mov_ps(counts(count, h), exp_f32(_mm512_fmsub_ps(s, by, m)));
      ds = _mm512_mul_ps(_mm512_mul_ps(_mm512_sub_ps(g, mean), p), ds_by);
      return p;
    };
    __m512 ds0, ds1;
    const __m512 p0 = half(0, ds0), p1 = half(1, ds1);
    _mm512_store_si512(p_out + at, narrowed(p0, p1));
    _mm512_store_si512(ds_out + at, narrowed(ds0, ds1));
  }
}

// Row r of the sums times factor[r].
FREIGHT_AVX512 void scale_rows(float* sums, const float* factor) {
  for (int64_t r = 0; r < kSide; ++r) {
    float* s = sums + place(r) * kSide;
    const __m512 f = _mm512_set1_ps(factor[r]);
    _mm512_store_ps(s, _mm512_mul_ps(f, _mm512_load_ps(s)));
    _mm512_store_ps(s + kRows, _mm512_mul_ps(f, _mm512_load_ps(s + kRows)));
  }
}

// Sum of a b over d numbers.
FREIGHT_AVX512 float dot(const Bf16* a, const Bf16* b, int64_t d) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < d; j += kRows) {
    const __mmask16 some = first(d - j);
    sum = _mm512_fmadd_ps(widened(_mm256_maskz_loadu_epi16(some, a + j)),
                          widened(_mm256_maskz_loadu_epi16(some, b + j)), sum);
  }
  return _mm512_reduce_add_ps(sum);
}

#else  // never called: bf16_table() is null

constexpr int64_t place(int64_t line) { return line; }
void add_bias(ScoreBlock&) {}
void maxima(const float*, const Seen&, float, float*) {}
void weights(const float*, const Seen&, float, const float*, float*, Bf16*) {}
void gradient(const ScoreBlock&, const float*, const Seen&, float, const float*, const float*, Bf16*, Bf16*) {}
void scale_rows(float*, const float*) {}
float dot(const Bf16*, const Bf16*, int64_t) { return 0; }

#endif

using Side = Bf16Table::Operand;

// `rows` rows of d numbers, 32 at a time, as panels along their numbers: each `deep` pieces.
void pack_rows(Bf16* to, const Bf16* from, int64_t row, int64_t rows, int64_t d, Side side) {
  const int64_t deep = ceil_div(d, Bf16Table::kSteps);
  for (int64_t i = 0; i < rows; i += kSide, to += deep * kPiece)
    bf16_table()->pack(to, {from + i * row, 1, row, d, std::min(kSide, rows - i)}, side);
}

// The same rows as steps of a right operand: panels of 32 of their numbers, `pieces` apart.
void pack_steps(Bf16* to, const Bf16* from, int64_t row, int64_t rows, int64_t d, int64_t pieces) {
  for (int64_t j = 0; j < d; j += kSide, to += pieces * kPiece)
    bf16_table()->pack(to, {from + j, row, 1, rows, std::min(kSide, d - j)}, Side::right);
}

// Rows and columns of a piece exchanged: rows of the first are steps of the second.
void turn(Bf16* to, const Bf16* piece) {
  static const auto kSteps = [] {
    std::array<int32_t, kSide> at{};
    for (int64_t i = 0; i < kSide; ++i) at[static_cast<size_t>(i)] = static_cast<int32_t>(place(i) * kSide);
    return at;
  }();
  bf16_table()->pack(to, {piece, 0, 1, kSide, kSide, kSteps.data()}, Side::left);
}

// Memory of a thread, in blocks.
template <class T>
T* take(char*& from, int64_t count) {
  T* const at = reinterpret_cast<T*>(from);
  from += ceil_div(count * static_cast<int64_t>(sizeof(T)), 64) * 64;
  return at;
}

}  // namespace

Bf16Attention::Bf16Attention(const AttentionProblem& problem, bool gradient) : p_(problem) {
  deep_ = ceil_div(p_.width, kSide);
  query_blocks_ = ceil_div(p_.queries, kSide);
  key_blocks_ = ceil_div(p_.keys, kSide);
  const int64_t pieces = gradient ? (4 * query_blocks_ + 3 * kKeyBlocks) * deep_ + (2 * query_blocks_ + 2) * kKeyBlocks
                                  : (2 * key_blocks_ + 1) * deep_ + key_blocks_;
  const int64_t sums = (gradient ? 2 + query_blocks_ * deep_ : key_blocks_) + 2;
  thread_bytes_ = static_cast<size_t>(pieces * kPiece) * sizeof(Bf16) +
                  static_cast<size_t>(sums * kBlock) * sizeof(float) +
                  static_cast<size_t>(2 * query_blocks_ * kSide + 4 * kSide) * sizeof(float);
  reserve_thread_scratch(thread_bytes_);
}

void Bf16Attention::forward(const AttentionOperands& o) const {
  const int64_t chunks = ceil_div(query_blocks_, kQueryBlocks);
  parallel_for(p_.samples * p_.heads * chunks, [&](int64_t i) {
    queries(o, i / chunks, query_blocks_ * (i % chunks) / chunks, query_blocks_ * (i % chunks + 1) / chunks);
  });
}

void Bf16Attention::backward(const AttentionOperands& o) const {
  parallel_for(p_.samples * p_.heads, [&](int64_t head) { gradients(o, head); });
}

// `first` and `last` count blocks.
void Bf16Attention::queries(const AttentionOperands& o, int64_t head, int64_t first, int64_t last) const {
  const Bf16Table& table = *bf16_table();
  const int64_t b = head / p_.heads, h = head % p_.heads, d = p_.width, keys = p_.keys_of(o.lengths, b);
  const int64_t used = p_.causal ? std::min({keys, last * kSide, p_.queries}) : keys,
                used_blocks = ceil_div(used, kSide);
  char* memory = static_cast<char*>(thread_scratch(thread_bytes_));
  Bf16 *k = take<Bf16>(memory, key_blocks_ * deep_ * kPiece), *v = take<Bf16>(memory, key_blocks_ * deep_ * kPiece);
  Bf16 *q = take<Bf16>(memory, deep_ * kPiece), *p = take<Bf16>(memory, key_blocks_ * kPiece);
  float *scores = take<float>(memory, key_blocks_ * kBlock), *sums = take<float>(memory, kBlock),
        *bias = take<float>(memory, kBlock);
  const float scale = o.mask.data ? 1 : p_.scale;  // a mask's scores are scaled already
  pack_rows(k, o.k.at<Bf16>(b, h), o.k.row, used, d, Side::right);
  pack_steps(v, o.v.at<Bf16>(b, h), o.v.row, used, d, used_blocks);
  table.begin();
  for (int64_t i = first; i < last; ++i) {
    const int64_t row = i * kSide, rows = std::min(kSide, p_.queries - row);
    const int64_t blocks = p_.causal ? std::min(used_blocks, i + 1) : used_blocks;
    const auto seen = [&](int64_t j) {
      return Seen{.first = p_.causal ? row + 1 - j * kSide : kSide,
                  .more = p_.causal ? 1 : 0,
                  .keys = std::min(kSide, keys - j * kSide),
                  .rows = rows};
    };
    pack_rows(q, o.q.at<Bf16>(b, h) + row * o.q.row, o.q.row, rows, d, Side::left);
    float top[kSide], total[kSide] = {};
    std::fill_n(top, kSide, -INFINITY);
    int64_t from = 0, to = 0;  // the blocks of keys outside of which the mask hides all
    for (int64_t j = 0; j < blocks; ++j) {
      ScoreBlock block{
          .scores = scores + j * kBlock, .row = kSide, .rows = rows, .keys = seen(j).keys, .scale = p_.scale};
      if (!o.mask.read(b, h, row, j * kSide, bias, block)) {
        std::fill_n(block.scores, kBlock, -INFINITY);
        continue;
      }
      if (to == 0) from = j;
      to = j + 1;
      table.block(q, k + j * deep_ * kPiece, deep_, block.scores, false);
      if (block.bias) add_bias(block);
      maxima(block.scores, seen(j), scale, top);
    }
    to = std::max<int64_t>(to, 1);
    for (float& t : top) t = t == -INFINITY ? 0 : t;  // no key is seen
    for (int64_t j = from; j < to; ++j) weights(scores + j * kBlock, seen(j), scale, top, total, p + j * kPiece);
    for (int64_t r = 0; r < rows; ++r)
      o.lse[head * p_.queries + row + r] = total[r] == 0 ? 0 : top[r] + std::log(total[r]);
    for (int64_t r = 0; r < kSide; ++r) total[r] = r < rows && total[r] != 0 ? 1 / total[r] : 0;
    for (int64_t c = 0; c < deep_; ++c) {
      table.block(p + from * kPiece, v + (c * used_blocks + from) * kPiece, to - from, sums, false);
      scale_rows(sums, total);
      table.finish(sums, {.to = o.y.at<Bf16>(b, h) + row * o.y.row + c * kSide,
                          .row = o.y.row,
                          .rows = rows,
                          .columns = std::min(kSide, d - c * kSide)});
    }
  }
  table.end();
}

void Bf16Attention::gradients(const AttentionOperands& o, int64_t head) const {
  const Bf16Table& table = *bf16_table();
  const int64_t b = head / p_.heads, h = head % p_.heads, d = p_.width, t = p_.queries;
  const int64_t keys = p_.keys_of(o.lengths, b), used = p_.causal ? std::min(keys, t) : keys;
  const Bf16 *q = o.q.at<Bf16>(b, h), *k = o.k.at<Bf16>(b, h), *v = o.v.at<Bf16>(b, h), *dy = o.dy.at<Bf16>(b, h);
  char* memory = static_cast<char*>(thread_scratch(thread_bytes_));
  const int64_t all = query_blocks_ * deep_ * kPiece, some = kKeyBlocks * deep_ * kPiece;
  // Queries and dy as rows, and as steps; keys and values of a pass as columns, keys as steps.
  Bf16 *q_rows = take<Bf16>(memory, all), *dy_rows = take<Bf16>(memory, all), *q_steps = take<Bf16>(memory, all),
       *dy_steps = take<Bf16>(memory, all), *k_columns = take<Bf16>(memory, some),
       *v_columns = take<Bf16>(memory, some), *k_steps = take<Bf16>(memory, some),
       *turned = take<Bf16>(memory, 2 * query_blocks_ * kKeyBlocks * kPiece);
  Bf16 *p = take<Bf16>(memory, kPiece), *ds = take<Bf16>(memory, kKeyBlocks * kPiece);
  float *scores = take<float>(memory, kBlock), *dp = take<float>(memory, kBlock), *sums = take<float>(memory, kBlock),
        *bias = take<float>(memory, kBlock), *dq = take<float>(memory, query_blocks_ * deep_ * kBlock),
        *delta = take<float>(memory, query_blocks_ * kSide);
  const float* lse = o.lse + head * t;
  pack_rows(q_rows, q, o.q.row, t, d, Side::left);
  pack_rows(dy_rows, dy, o.dy.row, t, d, Side::left);
  pack_steps(q_steps, q, o.q.row, t, d, query_blocks_);
  pack_steps(dy_steps, dy, o.dy.row, t, d, query_blocks_);
  // dL/ds = p (dp - delta), delta = sum(p dp) = y dy; d lse/ds = p.
  for (int64_t i = 0; i < t; ++i) {
    delta[i] = dot(o.y.at<Bf16>(b, h) + i * o.y.row, dy + i * o.dy.row, d) - (o.dlse ? o.dlse[head * t + i] : 0);
  }
  const auto put = [&](const float* from, const Heads& to, int64_t row, int64_t rows, int64_t c) {
    table.finish(from, {.to = to.at<Bf16>(b, h) + row * to.row + c * kSide,
                        .row = to.row,
                        .rows = rows,
                        .columns = std::min(kSide, d - c * kSide)});
  };
  for (int64_t j = used; j < p_.keys; ++j) {  // seen by no query
    std::fill_n(o.dk.at<Bf16>(b, h) + j * o.dk.row, d, Bf16{0});
    std::fill_n(o.dv.at<Bf16>(b, h) + j * o.dv.row, d, Bf16{0});
  }
  table.begin();
  for (int64_t key = 0; key < used; key += kKeyBlocks * kSide) {
    const int64_t count = std::min(kKeyBlocks * kSide, used - key), blocks = ceil_div(count, kSide);
    pack_rows(k_columns, k + key * o.k.row, o.k.row, count, d, Side::right);
    pack_rows(v_columns, v + key * o.v.row, o.v.row, count, d, Side::right);
    pack_steps(k_steps, k + key * o.k.row, o.k.row, count, d, kKeyBlocks);
    const int64_t start = p_.causal ? key / kSide : 0;  // the first block of queries that sees any
    for (int64_t i = start; i < query_blocks_; ++i) {
      const int64_t row = i * kSide, rows = std::min(kSide, t - row);
      const int64_t meets = p_.causal ? std::min(blocks, i + 1 - start) : blocks;
      for (int64_t j = 0; j < meets; ++j) {
        const int64_t at = key + j * kSide;
        const Seen seen{.first = p_.causal ? row + 1 - at : kSide,
                        .more = p_.causal ? 1 : 0,
                        .keys = std::min(kSide, keys - at),
                        .rows = rows};
        Bf16 *p_turned = turned + (j * query_blocks_ + i) * kPiece,
             *ds_turned = p_turned + kKeyBlocks * query_blocks_ * kPiece;
        ScoreBlock block{.scores = scores, .row = kSide, .rows = rows, .keys = seen.keys, .scale = p_.scale};
        if (!o.mask.read(b, h, row, at, bias, block)) {
          for (Bf16* piece : {p_turned, ds_turned, ds + j * kPiece}) std::fill_n(piece, kPiece, Bf16{0});
          continue;
        }
        table.block(q_rows + i * deep_ * kPiece, k_columns + j * deep_ * kPiece, deep_, scores, false);
        table.block(dy_rows + i * deep_ * kPiece, v_columns + j * deep_ * kPiece, deep_, dp, false);
        if (block.bias) add_bias(block);
        gradient(block, dp, seen, p_.scale, lse + row, delta + row, p, ds + j * kPiece);
        turn(p_turned, p);
        turn(ds_turned, ds + j * kPiece);
      }
      for (int64_t c = 0; c < deep_; ++c)
        table.block(ds, k_steps + c * kKeyBlocks * kPiece, meets, dq + (i * deep_ + c) * kBlock, key > 0);
    }
    for (int64_t j = 0; j < blocks; ++j) {
      const int64_t begin = p_.causal ? start + j : 0;  // earlier queries do not see this block
      for (int64_t c = 0; c < deep_; ++c) {
        const int64_t at = (j * query_blocks_ + begin) * kPiece, steps = (c * query_blocks_ + begin) * kPiece;
        const int64_t rows = std::min(kSide, count - j * kSide);
        table.block(turned + at, dy_steps + steps, query_blocks_ - begin, sums, false);
        put(sums, o.dv, key + j * kSide, rows, c);
        table.block(turned + kKeyBlocks * query_blocks_ * kPiece + at, q_steps + steps, query_blocks_ - begin, sums,
                    false);
        put(sums, o.dk, key + j * kSide, rows, c);
      }
    }
  }
  for (int64_t i = 0; i < query_blocks_; ++i) {
    for (int64_t c = 0; c < deep_; ++c)
      put(dq + (i * deep_ + c) * kBlock, o.dq, i * kSide, std::min(kSide, t - i * kSide), c);
  }
  table.end();
}

}  // namespace freight::cpu
