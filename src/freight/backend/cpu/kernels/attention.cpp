// See attention.h. Products: gemm.h; the rest: attention_rows.h.
#include "freight/backend/cpu/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/tile_chain.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kKeys = ScoreBlock::kMostKeys, kQueries = 48;  // of a block
// Queries that are taken at a time where a causal mask cuts through a block: less is computed in vain.
constexpr int64_t kFewQueries = 12;
constexpr int64_t kChunk = 6 * kQueries;  // queries of a task at most; its keys and values are packed once
constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Floats that a thread needs.
int64_t forward_scratch(int64_t d) {
  return panel_size(d, kKeys) + panel_size(kKeys, d) + 2 * kQueries * kKeys + kChunk;
}
int64_t backward_scratch(int64_t d, int64_t t) {
  return 2 * panel_size(d, kKeys) + panel_size(kKeys, d) + 2 * panel_size(kQueries, d) + 3 * kQueries * kKeys + t +
         (3 * t + 2 * kKeys) * d;
}

// The number, of `count` keys from j on, of those that any of the `rows` queries from i on sees.
int64_t seen_keys(const AttentionProblem& p, int64_t i, int64_t rows, int64_t j, int64_t count) {
  return p.causal ? std::clamp<int64_t>(i + rows - j, 0, count) : count;
}

// True if a query from i on does not see all of the `count` keys from j on.
bool cuts(const AttentionProblem& p, int64_t i, int64_t j, int64_t count) { return p.causal && i + 1 < j + count; }

ScoreBlock block(const AttentionProblem& p, float* scores, int64_t i, int64_t rows, int64_t j, int64_t keys) {
  return {.scores = scores,
          .row = kKeys,
          .rows = rows,
          .keys = keys,
          .first_seen = p.causal ? i + 1 - j : keys,
          .more = p.causal ? 1 : 0,
          .scale = p.scale};
}

void copy_rows(float* to, ptrdiff_t to_row, const float* from, ptrdiff_t from_row, int64_t rows, int64_t d) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_row, d, to + r * to_row);
}

}  // namespace

Attention::Attention(const AttentionProblem& problem, bool gradient)
    : p_(problem),
      thread_bytes_(static_cast<size_t>(gradient ? backward_scratch(p_.width, p_.queries) : forward_scratch(p_.width)) *
                    sizeof(float)) {
  reserve_thread_scratch(thread_bytes_);
}

void Attention::forward(const AttentionOperands& o) const {
  const int64_t chunks = ceil_div(p_.queries, kChunk), blocks = ceil_div(p_.queries, kQueries);
  const auto start = [&](int64_t i) { return std::min(blocks * i / chunks * kQueries, p_.queries); };
  auto task = [&](int64_t i) { queries(o, i / chunks, start(i % chunks), start(i % chunks + 1)); };
  parallel_for(p_.samples * p_.heads * chunks, task);
}

void Attention::backward(const AttentionOperands& o) const {
  parallel_for(p_.samples * p_.heads, [&](int64_t head) { gradients(o, head); });
}

int64_t AttentionProblem::keys_of(const void* lengths, int64_t b) const {
  if (!lengths) return keys;
  const int64_t n = wide_lengths ? static_cast<const int64_t*>(lengths)[b] : static_cast<const int32_t*>(lengths)[b];
  return std::clamp<int64_t>(n, 1, keys);
}

bool AttentionMask::read(int64_t b, int64_t h, int64_t i, int64_t j, float* bias, ScoreBlock& block) const {
  if (!data) return true;
  const int64_t at = b * batch + h * head + i * row + j;
  const void* from = static_cast<const char*>(data) + at * (added ? sizeof(float) : 1);
  return attention_table().read_mask(block, bias, from, row, added);
}

// lse holds the running maximum until the end.
void Attention::queries(const AttentionOperands& o, int64_t head, int64_t first, int64_t last) const {
  const int64_t b = head / p_.heads, h = head % p_.heads, keys = p_.keys_of(o.lengths, b), d = p_.width;
  const float *q = o.q.at(b, h), *k = o.k.at(b, h), *v = o.v.at(b, h);
  float *y = o.y.at(b, h), *lse = o.lse + head * p_.queries;
  float *k_panels = static_cast<float*>(thread_scratch(thread_bytes_)), *v_panels = k_panels + panel_size(d, kKeys);
  float *p = v_panels + panel_size(kKeys, d), *bias = p + kQueries * kKeys, *sums = bias + kQueries * kKeys;
  std::fill(lse + first, lse + last, kHidden);
  std::fill_n(sums, last - first, 0.0f);
  bool begun[kChunk / kQueries] = {};  // blocks of queries of which y has numbers, where there is a mask
  for (int64_t j = 0; j < (p_.causal ? std::min(keys, last) : keys); j += kKeys) {
    const int64_t count = std::min(kKeys, keys - j);
    pack_columns(k_panels, k + j * o.k.row, 1, o.k.row, d, count);
    pack_columns(v_panels, v + j * o.v.row, o.v.row, 1, count, d);
    int64_t rows = 0;
    for (int64_t i = first; i < last; i += rows) {
      rows = std::min(!o.mask.data && cuts(p_, i, j, count) ? kFewQueries : kQueries, last - i);
      const int64_t seen = seen_keys(p_, i, rows, j, count);
      ScoreBlock scores = block(p_, p, i, rows, j, seen);
      if (seen == 0 || !o.mask.read(b, h, i, j, bias, scores)) continue;
      multiply_panels({q + i * o.q.row, o.q.row, 1, k_panels, p, kKeys, rows, seen, d, false});
      attention_table().weights(scores, lse + i, sums + i - first, y + i * o.y.row, o.y.row, d);
      bool& met = begun[(i - first) / kQueries];
      const bool adds = o.mask.data ? met : j > 0;  // without a mask all queries see the first keys
      multiply_panels({p, kKeys, 1, v_panels, y + i * o.y.row, o.y.row, rows, d, seen, adds, count});
      met = true;
    }
  }
  for (int64_t i = first; i < last; ++i) {
    const float sum = sums[i - first];
    if (sum == 0) {
      std::fill_n(y + i * o.y.row, d, 0.0f);
      lse[i] = 0;
    } else {
      scale(y + i * o.y.row, 1 / sum, d);
      lse[i] += std::log(sum);
    }
  }
}

// Numbers that are read and added to again and again lie together: rows that lie a multiple of many lines apart
// meet on few sets of the caches.
void Attention::gradients(const AttentionOperands& o, int64_t head) const {
  const int64_t b = head / p_.heads, h = head % p_.heads, keys = p_.keys_of(o.lengths, b), d = p_.width, t = p_.queries;
  const float *q = o.q.at(b, h), *k = o.k.at(b, h), *v = o.v.at(b, h);
  const float *y = o.y.at(b, h), *dy = o.dy.at(b, h);
  const float *lse = o.lse + head * t, *dlse = o.dlse ? o.dlse + head * t : nullptr;
  float *dq = o.dq.at(b, h), *dk = o.dk.at(b, h), *dv = o.dv.at(b, h);
  float *kt = static_cast<float*>(thread_scratch(thread_bytes_)), *vt = kt + panel_size(d, kKeys),
        *k_panels = vt + panel_size(d, kKeys);
  float *q_panels = k_panels + panel_size(kKeys, d), *dy_panels = q_panels + panel_size(kQueries, d);
  float *p = dy_panels + panel_size(kQueries, d), *ds = p + kQueries * kKeys, *bias = ds + kQueries * kKeys,
        *delta = bias + kQueries * kKeys;
  // dL/ds = p (dp - delta), delta = sum(p dp) = y dy; d lse/ds = p.
  float *q_rows = delta + t, *dy_rows = q_rows + t * d, *dq_rows = dy_rows + t * d, *dk_rows = dq_rows + t * d,
        *dv_rows = dk_rows + kKeys * d;
  copy_rows(q_rows, d, q, o.q.row, t, d);
  copy_rows(dy_rows, d, dy, o.dy.row, t, d);
  std::fill_n(dq_rows, t * d, 0.0f);
  attention_table().dots(delta, y, o.y.row, dy_rows, d, t, d);
  for (int64_t i = 0; dlse && i < t; ++i) delta[i] -= dlse[i];
  const int64_t used = p_.causal ? std::min(keys, t) : keys;
  for (int64_t j = used; j < p_.keys; ++j) {  // seen by no query
    std::fill_n(dk + j * o.dk.row, d, 0.0f);
    std::fill_n(dv + j * o.dv.row, d, 0.0f);
  }
  for (int64_t j = 0; j < used; j += kKeys) {
    const int64_t count = std::min(kKeys, used - j);
    const int64_t start = p_.causal ? j / kQueries * kQueries : 0;
    pack_columns(kt, k + j * o.k.row, 1, o.k.row, d, count);
    pack_columns(vt, v + j * o.v.row, 1, o.v.row, d, count);
    pack_columns(k_panels, k + j * o.k.row, o.k.row, 1, count, d);
    std::fill_n(dk_rows, count * d, 0.0f);
    std::fill_n(dv_rows, count * d, 0.0f);
    for (int64_t i = start; i < t; i += kQueries) {
      const int64_t rows = std::min(kQueries, t - i), seen = seen_keys(p_, i, rows, j, count);
      ScoreBlock scores = block(p_, p, i, rows, j, seen);
      if (!o.mask.read(b, h, i, j, bias, scores)) continue;
      const int64_t few = cuts(p_, i, j, count) ? kFewQueries : rows;
      for (int64_t r = 0; r < rows; r += few) {
        const int64_t some = std::min(few, rows - r), meets = seen_keys(p_, i + r, some, j, count);
        multiply_panels({q_rows + (i + r) * d, d, 1, kt, p + r * kKeys, kKeys, some, meets, d, false});
        multiply_panels({dy_rows + (i + r) * d, d, 1, vt, ds + r * kKeys, kKeys, some, meets, d, false});
      }
      attention_table().gradients(scores, ds, lse + i, delta + i);
      pack_columns(q_panels, q_rows + i * d, d, 1, rows, d);
      pack_columns(dy_panels, dy_rows + i * d, d, 1, rows, d);
      multiply_panels({p, 1, kKeys, dy_panels, dv_rows, d, seen, d, rows, true});
      multiply_panels({ds, 1, kKeys, q_panels, dk_rows, d, seen, d, rows, true});
      for (int64_t r = 0; r < rows; r += few) {
        const int64_t some = std::min(few, rows - r), meets = seen_keys(p_, i + r, some, j, count);
        multiply_panels({ds + r * kKeys, kKeys, 1, k_panels, dq_rows + (i + r) * d, d, some, d, meets, true, count});
      }
    }
    copy_rows(dk + j * o.dk.row, o.dk.row, dk_rows, d, count, d);
    copy_rows(dv + j * o.dv.row, o.dv.row, dv_rows, d, count, d);
  }
  copy_rows(dq, o.dq.row, dq_rows, d, t, d);
}

}  // namespace freight::cpu
