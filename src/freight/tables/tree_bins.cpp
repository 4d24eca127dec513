// See tree_bins.h. Rows are taken in parts of kBinnedRows. Trees, columns and rows change places by transposing bytes.
#include "freight/tables/tree_bins.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#if defined(__x86_64__)
#include <immintrin.h>

// GCC 12 takes the undefined operands inside its own header for a fault.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace freight::tables {

namespace {

constexpr int64_t kBinnedRows = 16;  // rows of a part
constexpr int64_t kAskedRows = 8;    // whose registers stay while the nodes of a block pass by
constexpr int64_t kBinnedParts = 8;  // that meet a block while it is in the first cache
constexpr size_t kRowBytes = 64;     // of a register
constexpr size_t kPivots = 64;       // of a column
constexpr uint8_t kNever = 255;      // no byte is above it

bool processor_can() {
#if defined(__x86_64__)
  static const bool can =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi");
  return can;
#else
  return false;
#endif
}

// The deepest leaf of a tree; more than `most` where that is passed, or where a node splits words.
int levels_of(const store::Tree& tree, int most) {
  std::vector<std::pair<size_t, int>> open = {{0, 0}};
  int levels = 0;
  while (!open.empty()) {
    const auto [at, level] = open.back();
    open.pop_back();
    const store::TreeNode& node = tree.nodes[at];
    if (node.left < 0) continue;
    if (node.words || level == most) return most + 1;
    levels = std::max(levels, level + 1);
    open.emplace_back(static_cast<size_t>(node.left), level + 1);
    open.emplace_back(static_cast<size_t>(node.right), level + 1);
  }
  return levels;
}

}  // namespace

// Rows on their way through a block.
struct alignas(kRowBytes) BinnedTrees::Work {
  uint8_t left[kBinnedParts][kBinnedRows][kRowBytes];   // bytes of rows: 0 where a cell is missing,
  uint8_t right[kBinnedParts][kBinnedRows][kRowBytes];  // or kNever
  uint64_t answers[1 << kMostLevels][kAskedRows];       // by node: trees of which each row goes right
  uint8_t leaves[kBinnedRows][kRowBytes];               // (rows, trees), then transposed
  bool missing[kBinnedParts];
};

BinnedTrees::BinnedTrees(const std::vector<store::Tree>& trees) {
  std::vector<int> levels;
  for (const store::Tree& tree : trees) {
    levels.push_back(levels_of(tree, kMostLevels));
    if (levels.back() > kMostLevels) return;
  }
  if (trees.empty() || !processor_can() || !lay_columns(trees)) return;
  for (size_t begin = 0; begin < trees.size(); begin += kTrees) {
    const size_t count = std::min<size_t>(kTrees, trees.size() - begin);
    Block block{.levels = *std::max_element(levels.begin() + begin, levels.begin() + begin + count),
                .nodes = nodes_.size(),
                .leaves = leaves_.size(),
                .groups = {}};
    nodes_.resize(nodes_.size() + block.asked());
    leaves_.resize(leaves_.size() + count * block.leaves_each());
    for (size_t t = 0; t < count; ++t) plant(trees[begin + t], t, block);
    blocks_.push_back(std::move(block));
  }
}

// False where the splits need more bytes than a register has.
bool BinnedTrees::lay_columns(const std::vector<store::Tree>& trees) {
  std::map<int64_t, std::vector<float>> splits;
  for (const store::Tree& tree : trees) {
    for (const store::TreeNode& node : tree.nodes) {
      if (node.left >= 0) splits[node.column].push_back(static_cast<float>(node.value));
    }
  }
  for (auto& [from, all] : splits) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (size_t begin = 0; begin < all.size(); begin += kMostSplits) {
      const size_t count = std::min(kMostSplits, all.size() - begin);
      Column column{.from = from, .first = all[begin], .begin = splits_.size()};
      while (count >= kPivots * column.each) column.each *= 2;
      splits_.insert(splits_.end(), all.begin() + begin, all.begin() + begin + count);
      splits_.resize(column.begin + kPivots * column.each, std::numeric_limits<float>::infinity());
      for (size_t i = 1; i <= kPivots; ++i) pivots_.push_back(splits_[column.begin + i * column.each - 1]);
      columns_.push_back(column);
    }
  }
  return columns_.size() <= kRowBytes;
}

// The byte of a row and the place among its splits that answer for a node.
std::pair<uint8_t, uint8_t> BinnedTrees::question(const store::TreeNode& node) const {
  const auto split = static_cast<float>(node.value);
  const auto after = std::upper_bound(
      columns_.begin(), columns_.end(), std::pair(node.column, split),
      [](const auto& asked, const Column& column) { return asked < std::pair(column.from, column.first); });
  const Column& column = *(after - 1);
  const auto first = splits_.begin() + static_cast<ptrdiff_t>(column.begin);
  const auto place = std::lower_bound(first, first + static_cast<ptrdiff_t>(kPivots * column.each), split) - first;
  const auto byte = static_cast<size_t>(&column - columns_.data()) + (node.missing_left ? 0 : kRowBytes);
  return {static_cast<uint8_t>(byte), static_cast<uint8_t>(place)};
}

void BinnedTrees::plant(const store::Tree& tree, size_t t, Block& block) {
  struct Open {
    size_t from = 0, level = 0, place = 0;  // place: within the level
  };
  const auto levels = static_cast<size_t>(block.levels);
  float* const leaves = leaves_.data() + block.leaves + t * block.leaves_each();
  std::vector<Open> open = {{}};
  while (!open.empty()) {
    const Open at = open.back();
    open.pop_back();
    const store::TreeNode& node = tree.nodes[at.from];
    if (node.left < 0) {  // it stands for all that would be below it
      const size_t below = size_t{1} << (levels - at.level);
      std::fill_n(leaves + at.place * below, below, static_cast<float>(node.value));
      continue;
    }
    Nodes& asked = nodes_[block.nodes + (size_t{1} << at.level) - 1 + at.place];
    std::tie(asked.byte[t], asked.bin[t]) = question(node);
    open.push_back({static_cast<size_t>(node.left), at.level + 1, 2 * at.place});
    open.push_back({static_cast<size_t>(node.right), at.level + 1, 2 * at.place + 1});
  }
  block.groups.push_back(tree.group);
}

#if defined(__x86_64__)
#define FREIGHT_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

namespace {

// 16 x 64 bytes, in each quarter of a line by itself: byte j of line i becomes byte i of line j. Each pass moves the
// highest bit of a byte's address (line, place) to its end.
FREIGHT_VBMI inline void transpose_bytes(uint8_t (*lines)[kRowBytes]) {
  __m512i from[16], to[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) from[i] = _mm512_load_si512(lines[i]);
#pragma GCC unroll 4
  for (int pass = 0; pass < 4; ++pass) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      to[2 * i] = _mm512_unpacklo_epi8(from[i], from[i + 8]);
      to[2 * i + 1] = _mm512_unpackhi_epi8(from[i], from[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) from[i] = to[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(lines[i], from[i]);
}

// The line in which transpose_bytes() leaves or takes a column or tree, and its place there.
inline uint8_t* across(uint8_t (*lines)[kRowBytes], size_t i) { return lines[i % 16] + i / 16 * 16; }

// Counts for each of sixteen features how many of a column's splits are at most it, to `bytes`; tells which are
// missing.
FREIGHT_VBMI inline __mmask16 count_splits(__m512 x, const float* pivots, const float* splits, size_t each,
                                           uint8_t* bytes) {
  const __m512 p0 = _mm512_loadu_ps(pivots), p1 = _mm512_loadu_ps(pivots + 16), p2 = _mm512_loadu_ps(pivots + 32),
               p3 = _mm512_loadu_ps(pivots + 48);
  __m512i at = _mm512_setzero_si512();
#pragma GCC unroll 6
  for (int step = 32; step > 0; step /= 2) {
    const __m512i ask = _mm512_add_epi32(at, _mm512_set1_epi32(step - 1));
    const __m512 low = _mm512_permutex2var_ps(p0, ask, p1), high = _mm512_permutex2var_ps(p2, ask, p3);
    const __m512 pivot = _mm512_mask_blend_ps(_mm512_test_epi32_mask(ask, _mm512_set1_epi32(32)), low, high);
    at = _mm512_mask_add_epi32(at, _mm512_cmp_ps_mask(x, pivot, _CMP_GE_OQ), at, _mm512_set1_epi32(step));
  }
  at = _mm512_mullo_epi32(at, _mm512_set1_epi32(static_cast<int>(each)));
  for (auto step = static_cast<int>(each / 2); step > 0; step /= 2) {
    const __m512 split = _mm512_i32gather_ps(_mm512_add_epi32(at, _mm512_set1_epi32(step - 1)), splits, sizeof(float));
    at = _mm512_mask_add_epi32(at, _mm512_cmp_ps_mask(x, split, _CMP_GE_OQ), at, _mm512_set1_epi32(step));
  }
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes), _mm512_cvtepi32_epi8(at));
  return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}

// The answers of eight rows to `count` nodes.
template <bool kMissing, class Nodes>
FREIGHT_VBMI void ask(const Nodes* nodes, size_t count, const uint8_t (*left)[kRowBytes],
                      const uint8_t (*right)[kRowBytes], uint64_t (*answers)[kAskedRows]) {
  __m512i lefts[kAskedRows], rights[kAskedRows];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kAskedRows; ++r) {
    lefts[r] = _mm512_load_si512(left[r]);
    if constexpr (kMissing) rights[r] = _mm512_load_si512(right[r]);
  }
  for (size_t n = 0; n < count; ++n) {
    const __m512i byte = _mm512_load_si512(nodes[n].byte), bin = _mm512_load_si512(nodes[n].bin);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kAskedRows; ++r) {
      __m512i got;
      if constexpr (kMissing) {
        got = _mm512_permutex2var_epi8(lefts[r], byte, rights[r]);
      } else {
        got = _mm512_permutexvar_epi8(byte, lefts[r]);
      }
      answers[n][r] = _mm512_cmpgt_epu8_mask(got, bin);
    }
  }
}

// The leaves (rows, trees) that eight rows reach by their answers.
FREIGHT_VBMI void follow(const uint64_t (*answers)[kAskedRows], int levels, uint8_t (*leaves)[kRowBytes]) {
  __m512i way[BinnedTrees::kMostLevels], open[1 << (BinnedTrees::kMostLevels - 1)];
  for (int level = 0; level < levels; ++level) {
    const int first = (1 << level) - 1;
    for (int i = 0; i <= first; ++i) open[i] = _mm512_load_si512(answers[first + i]);
    for (int up = level - 1; up >= 0; --up) {
      for (int i = 0; i < 1 << up; ++i) {
        constexpr int kPick = 0xca;  // of the first operand's bits: the second's where they are set, else the third's
        open[i] = _mm512_ternarylogic_epi64(way[up], open[2 * i + 1], open[2 * i], kPick);
      }
    }
    way[level] = open[0];
  }
  alignas(kRowBytes) uint64_t right[BinnedTrees::kMostLevels][kAskedRows];
  for (int level = 0; level < levels; ++level) _mm512_store_si512(right[level], way[level]);
  for (int64_t r = 0; r < kAskedRows; ++r) {
    __m512i leaf = _mm512_setzero_si512();
    for (int level = 0; level < levels; ++level) {
      leaf = _mm512_add_epi8(leaf, leaf);
      leaf = _mm512_mask_sub_epi8(leaf, right[level][r], leaf, _mm512_set1_epi8(-1));
    }
    _mm512_store_si512(leaves[r], leaf);
  }
}

// The values of sixteen leaves of a tree that has 64, or else as many as a byte tells apart.
FREIGHT_VBMI inline __m512 values_of(const float* leaves, bool more, __m128i which) {
  const __m512i at = _mm512_cvtepu8_epi32(which);
  if (more) return _mm512_i32gather_ps(at, leaves, sizeof(float));
  const __m512 low = _mm512_permutex2var_ps(_mm512_loadu_ps(leaves), at, _mm512_loadu_ps(leaves + 16));
  const __m512 high = _mm512_permutex2var_ps(_mm512_loadu_ps(leaves + 32), at, _mm512_loadu_ps(leaves + 48));
  return _mm512_mask_blend_ps(_mm512_test_epi32_mask(at, _mm512_set1_epi32(32)), low, high);
}

// Adds to sums (groups, 16) what trees tell of the leaves that transpose_bytes() turned.
FREIGHT_VBMI void add_values(const float* values, size_t each, const std::vector<int64_t>& groups,
                             uint8_t (*leaves)[kRowBytes], float* sums) {
  for (size_t t = 0; t < groups.size(); ++t) {
    const __m128i which = _mm_load_si128(reinterpret_cast<const __m128i*>(across(leaves, t)));
    float* const sum = sums + groups[t] * kBinnedRows;
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), values_of(values + t * each, each > kPivots, which)));
  }
}

}  // namespace

// Sixteen rows, of which the last stands for those that there are not.
FREIGHT_VBMI void BinnedTrees::bin(const float* features, int64_t rows, int64_t columns, int64_t part,
                                   Work& work) const {
  uint8_t(*const left)[kRowBytes] = work.left[part];
  uint8_t(*const right)[kRowBytes] = work.right[part];
  const __m512i line = _mm512_min_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                        _mm512_set1_epi32(static_cast<int>(std::min(rows, kBinnedRows)) - 1));
  const __m512i at = _mm512_mullo_epi32(line, _mm512_set1_epi32(static_cast<int>(columns)));
  __mmask16 any = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const __m512 x = _mm512_i32gather_ps(at, features + column.from, sizeof(float));
    const __mmask16 missing =
        count_splits(x, pivots_.data() + c * kPivots, splits_.data() + column.begin, column.each, across(left, c));
    any |= missing;
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(across(left, c)));
    const __m128i gone = _mm512_cvtepi32_epi8(_mm512_maskz_set1_epi32(missing, kNever));
    _mm_store_si128(reinterpret_cast<__m128i*>(across(right, c)), _mm_or_si128(bytes, gone));
  }
  transpose_bytes(left);
  if (any != 0) transpose_bytes(right);
  work.missing[part] = any != 0;
}

void BinnedTrees::add_block(const Block& block, int64_t part, Work& work, float* sums) const {
  const Nodes* const nodes = nodes_.data() + block.nodes;
  for (int64_t r = 0; r < kBinnedRows; r += kAskedRows) {
    const auto asked = work.missing[part] ? &ask<true, Nodes> : &ask<false, Nodes>;
    asked(nodes, block.asked(), work.left[part] + r, work.right[part] + r, work.answers);
    follow(work.answers, block.levels, work.leaves + r);
  }
  transpose_bytes(work.leaves);
  add_values(leaves_.data() + block.leaves, block.leaves_each(), block.groups, work.leaves, sums);
}
#else
void BinnedTrees::bin(const float*, int64_t, int64_t, int64_t, Work&) const {}
void BinnedTrees::add_block(const Block&, int64_t, Work&, float*) const {}
#endif

void BinnedTrees::add(const float* features, int64_t rows, int64_t columns, float* sums, int64_t groups) const {
  const auto work = std::make_unique<Work>();
  std::vector<float> lanes(static_cast<size_t>(kBinnedParts * kBinnedRows * groups));  // (parts, groups, lanes)
  for (int64_t begin = 0; begin < rows; begin += kBinnedParts * kBinnedRows) {
    const int64_t count = std::min(rows - begin, kBinnedParts * kBinnedRows),
                  parts = (count + kBinnedRows - 1) / kBinnedRows;
    const auto lane = [&](int64_t row, int64_t group) -> float& {
      return lanes[static_cast<size_t>((row / kBinnedRows * groups + group) * kBinnedRows + row % kBinnedRows)];
    };
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t done = begin + part * kBinnedRows;
      bin(features + done * columns, rows - done, columns, part, *work);
    }
    for (int64_t i = 0; i < count * groups; ++i) lane(i / groups, i % groups) = sums[begin * groups + i];
    for (const Block& block : blocks_) {
      for (int64_t part = 0; part < parts; ++part) {
        add_block(block, part, *work, lanes.data() + part * groups * kBinnedRows);
      }
    }
    for (int64_t i = 0; i < count * groups; ++i) sums[begin * groups + i] = lane(i / groups, i % groups);
  }
}

}  // namespace freight::tables
