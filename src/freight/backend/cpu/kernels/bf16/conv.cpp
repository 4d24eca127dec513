// See bf16/conv.h.
#include "freight/backend/cpu/kernels/bf16/conv.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "freight/backend/cpu/kernels/bf16/convert.h"
#include "freight/backend/cpu/kernels/bf16/tiles.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kSteps = Bf16Table::kSteps, kSums = Bf16Tiles::kSums, kLanes = Bf16Table::kSide / 2;
constexpr int64_t kDepth = 384;  // pixels that are multiplied at once: their tiles stay in the first-level cache
constexpr int64_t kFew = Bf16Tiles::kMost / 2;
constexpr int64_t kAhead = 34;         // pixels behind the last one whose places are read
constexpr int64_t kGroups = 8;         // of pixels, at most: as many threads have work, and sums are added in one order
constexpr int64_t kGroupSteps = 2048;  // pixels that are worth sums of their own

// Pixels from one row of a sequence to the next, or rows from one image to the next: a margin of zeros that follows may
// be the next one's first.
int64_t pitch(int64_t size, int64_t out, int64_t taps, int64_t stride, int64_t pad) {
  const int64_t seen = out + (taps - 1) / stride;
  int64_t zeros = seen, end = 0;
  for (int64_t phase = 0; phase < std::min(stride, taps); ++phase) {
    zeros = std::min(zeros, phase < pad ? ceil_div(pad - phase, stride) : 0);
    if (size + pad > phase) end = std::max(end, ceil_div(size + pad - phase, stride));
  }
  return std::max({out, seen - zeros, std::min(seen, end)});
}

// Pixels of a row of a sequence: where the first that is none of a margin lies, and how many there are.
struct Pixels {
  const Bf16* from = nullptr;
  int64_t begin = 0, end = 0;
  ptrdiff_t step = 0;
};

}  // namespace

// A thread's.
struct Bf16GradWeight::Memory {
  const Bf16** at;       // where a sequence's pixels lie
  Bf16* lines;           // rows of x whose channels lie together, with their margins
  Bf16 *rows, *columns;  // packed
  float* sums;
};

Bf16GradWeight::Bf16GradWeight(const ConvProblem& problem) : p_(problem) {
  together_ = p_.c < kLanes;
  const int64_t kw = together_ ? 1 : p_.kw, stride_w = together_ ? 1 : p_.stride_w;
  taps_ = p_.kh * kw;
  lines_ = together_ ? p_.kw * p_.c : p_.c;
  if (together_) width_ = (p_.ow - 1) * p_.stride_w + p_.kw;
  row_ = together_ ? round_up(p_.ow, 2) : pitch(p_.w, p_.ow, p_.kw, p_.stride_w, p_.pad_w);
  image_ = row_ * pitch(p_.h, p_.oh, p_.kh, p_.stride_h, p_.pad_h);
  steps_ = (p_.n - 1) * image_ + p_.oh * row_;
  halo_ = round_up((p_.kh - 1) / p_.stride_h * row_ + (kw - 1) / stride_w, 2);
  zeros_.resize(static_cast<size_t>(round_up(std::max(lines_, p_.o), kSide)));
  row_tiles_ = ceil_div(p_.o, kLanes);
  column_tiles_ = ceil_div(lines_, kLanes);
  panels_ = ceil_div(lines_, kSide);

  const int64_t phases_w = std::min(kw, stride_w);
  for (int64_t i = 0; i < std::min(p_.kh, p_.stride_h); ++i)
    for (int64_t j = 0; j < phases_w; ++j) phases_.push_back({i, j});
  std::vector<Tap> taps;
  for (int64_t i = 0; i < taps_; ++i) {
    const int64_t ki = i / kw, kj = i % kw;
    taps.push_back({i, ki % p_.stride_h * phases_w + kj % stride_w, ki / p_.stride_h * row_ + kj / stride_w});
  }
  std::sort(taps.begin(), taps.end(), [](const Tap& a, const Tap& b) {
    return std::tuple(a.phase, a.shift % 2, a.shift) < std::tuple(b.phase, b.shift % 2, b.shift);
  });
  tap_at_.resize(taps.size());
  for (size_t i = 0; i < taps.size(); ++i) {
    tap_at_[static_cast<size_t>(taps[i].number)] = static_cast<int64_t>(i) * kSums;
    int64_t& stream = stream_of(taps[i]);
    if (stream >= 0) continue;
    stream = streams_;
    streams_ += 2;
  }
  share_work();
  place_columns(taps);
}

int64_t& Bf16GradWeight::stream_of(const Tap& tap) {
  Phase& phase = phases_[static_cast<size_t>(tap.phase)];
  return tap.shift % 2 == 0 ? phase.even : phase.odd;
}

// Sums, and packed pixels, that share the second-level cache.
void Bf16GradWeight::share_work() {
  const int64_t cache = cache_bytes(), threads = thread_count();
  const int64_t panel_sums = 2 * row_tiles_ * taps_ * kSums;
  const int64_t most = cache * 5 / 8 / (panel_sums * static_cast<int64_t>(sizeof(float)));
  const bool few = panels_ <= most && (panels_ == 1 || steps_ >= 2 * kGroupSteps);
  tasks_ = few ? 1 : std::min(round_up(ceil_div(panels_, std::max<int64_t>(most, 1)), threads), panels_);
  panel_block_ = ceil_div(panels_, tasks_);
  const int64_t groups = std::clamp<int64_t>(steps_ / kGroupSteps, 2, kGroups);
  const int64_t pixel = (panel_block_ * streams_ + (few ? row_tiles_ : 0)) * kLanes * 2;
  const int64_t share = std::max(ceil_div(steps_, few ? groups : threads), std::min(kDepth, ceil_div(steps_, 2)));
  chunk_ = std::min(std::max<int64_t>(cache / 4 / pixel / kDepth, 1) * kDepth, round_up(share, kSteps));
  groups_ = few ? std::min(groups, ceil_div(steps_, chunk_)) : 0;

  stream_ = (chunk_ + halo_) * kLanes;
  at_numbers_ = round_up(chunk_ + halo_ + kAhead, kSide);
  line_numbers_ = round_up(((chunk_ + halo_) / row_ + 2) * width_ * p_.c, kSide);
  const int64_t sums = few ? groups_ * column_tiles_ * row_tiles_ * taps_ * kSums : panel_block_ * panel_sums;
  const int64_t packed = row_numbers() + line_numbers_ + panel_block_ * streams_ * stream_;
  const auto bytes = [](int64_t n, size_t each) { return static_cast<size_t>(n) * each; };
  scratch_bytes_ = few ? bytes(sums, sizeof(float)) : bytes(ceil_div(steps_, chunk_) * row_numbers(), sizeof(Bf16));
  thread_bytes_ =
      bytes(at_numbers_, sizeof(Bf16*)) + bytes(packed, sizeof(Bf16)) + bytes(few ? 0 : sums, sizeof(float));
  reserve_thread_scratch(thread_bytes_);
}

// Many taps of one tile are multiplied at once: their numbers are the same but for a few. Else tiles by two tiles of
// rows.
void Bf16GradWeight::place_columns(const std::vector<Tap>& taps) {
  const int64_t tiles = 2 * panel_block_, parts = ceil_div(taps_, Bf16Tiles::kMost);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    for (const Tap& t : taps)
      column_at_.push_back((tile / 2 * streams_ + stream_of(t) + tile % 2) * stream_ + t.shift / 2 * kSide);
  }
  if (taps_ > kFew) {
    for (int64_t i = 0; i < tiles * parts; ++i) cuts_.push_back(i / parts * taps_ + taps_ * (i % parts) / parts);
  } else {
    for (int64_t i = 0; i < tiles * taps_; i += kFew) cuts_.push_back(i);
  }
  cuts_.push_back(tiles * taps_);
}

Bf16GradWeight::Memory Bf16GradWeight::memory() const {
  Memory m{};
  m.at = static_cast<const Bf16**>(thread_scratch(thread_bytes_));
  m.lines = reinterpret_cast<Bf16*>(m.at + at_numbers_);
  m.rows = m.lines + line_numbers_;
  m.columns = m.rows + row_numbers();
  m.sums = reinterpret_cast<float*>(m.columns + panel_block_ * streams_ * stream_);
  return m;
}

int64_t Bf16GradWeight::chunk_steps(int64_t chunk) const {
  return round_up(std::min(chunk_, steps_ - chunk * chunk_), kSteps);
}

// `row` says where the pixels of row i of image n lie; there is none behind the last image.
template <class Row>
void Bf16GradWeight::place(const Bf16** at, int64_t begin, int64_t steps, const Row& row) const {
  const int64_t rows = image_ / row_;
  for (int64_t step = 0; step < steps;) {
    const int64_t line = (begin + step) / row_, first = (begin + step) % row_,
                  last = std::min(row_, first + steps - step);
    const Pixels p = line / rows < p_.n ? row(line / rows, line % rows) : Pixels{};
    const int64_t from = std::clamp(p.begin, first, last), to = std::clamp(p.end, from, last);
    const Bf16** out = at + step - first;
    std::fill(out + first, out + from, zeros_.data());
    for (int64_t j = from; j < to; ++j) out[j] = p.from + (j - p.begin) * p.step;
    std::fill(out + to, out + last, zeros_.data());
    step += last - first;
  }
  std::fill_n(at + steps, kAhead, zeros_.data());
}

// dy's channels as rows of the product.
void Bf16GradWeight::pack_rows(const Bf16* dy, int64_t chunk, const Bf16** at, Bf16* rows) const {
  const int64_t steps = chunk_steps(chunk), tile = chunk_ * kLanes;
  place(at, chunk * chunk_, steps, [&](int64_t n, int64_t i) {
    return i < p_.oh ? Pixels{dy + (n * p_.oh + i) * p_.ow * p_.o, 0, p_.ow, p_.o} : Pixels{};
  });
  for (int64_t step = 0; step < steps; step += kSteps) {
    for (int64_t o = 0; o < p_.o; o += kSide) {
      bf16_table()->tiles->pack(rows + o / kLanes * tile + step * kLanes,
                                {at + step, o, kSteps, std::min(kSide, p_.o - o), tile}, Bf16Table::Operand::left);
    }
  }
}

void Bf16GradWeight::pack_columns(const Bf16* x, const Task& task, int64_t chunk, const Memory& memory) const {
  const int64_t steps = chunk_steps(chunk) + halo_;
  for (const Phase& phase : phases_) {
    Bf16* lines = memory.lines;
    place(memory.at, chunk * chunk_, steps, [&](int64_t n, int64_t i) -> Pixels {
      const int64_t y = i * p_.stride_h + phase.row - p_.pad_h;
      if (y < 0 || y >= p_.h) return {};
      const Bf16* line = x + (n * p_.h + y) * p_.w * p_.c;
      if (!together_) {
        const int64_t before = p_.pad_w - phase.column, begin = before > 0 ? ceil_div(before, p_.stride_w) : 0;
        const int64_t end = p_.w + before > 0 ? ceil_div(p_.w + before, p_.stride_w) : 0;
        return {line + (begin * p_.stride_w - before) * p_.c, begin, end, p_.stride_w * p_.c};
      }
      const int64_t before = std::min(p_.pad_w, width_), seen = std::min(p_.w, width_ - before);
      Bf16* const to = lines;
      std::fill_n(to, before * p_.c, Bf16{0});
      std::memcpy(to + before * p_.c, line, static_cast<size_t>(seen * p_.c) * sizeof(Bf16));
      lines = std::fill_n(to + (before + seen) * p_.c, (width_ - before - seen) * p_.c, Bf16{0});
      return {to, 0, p_.ow, p_.stride_w * p_.c};
    });
    const int64_t late = phase.even < 0 ? 1 : 0, stream = late == 1 ? phase.odd : phase.even;
    const ptrdiff_t odd = late == 0 && phase.odd >= 0 ? (phase.odd - phase.even) * stream_ : 0;
    for (int64_t step = 0; step < steps; step += kSteps) {
      for (int64_t q = task.panel0; q < task.panel1; ++q) {
        bf16_table()->tiles->pack(memory.columns + ((q - task.panel0) * streams_ + stream) * stream_ + step * kLanes,
                                  {memory.at + step + late, q * kSide, std::min(kSteps, steps - step),
                                   std::min(kSide, lines_ - q * kSide), stream_, odd},
                                  Bf16Table::Operand::right);
      }
    }
  }
}

// With several groups dy is the operand; with one, what was packed of all chunks. Sums lie by rows, columns and taps.
void Bf16GradWeight::multiply(const Bf16* x, const Bf16* dy, const Task& task, const Memory& memory,
                              float* sums) const {
  const Bf16Table& table = *bf16_table();
  const int64_t columns = (std::min(task.panel1 * 2, column_tiles_) - task.panel0 * 2) * taps_;
  const int64_t at_once = taps_ > kFew ? 1 : 2, tile = chunk_ * kLanes;
  table.begin();
  for (int64_t chunk = task.chunk0; chunk < task.chunk1; ++chunk) {
    const int64_t steps = chunk_steps(chunk);
    if (!packed_before()) pack_rows(dy, chunk, memory.at, memory.rows);
    pack_columns(x, task, chunk, memory);
    const Bf16* const rows = packed_before() ? dy + chunk * row_numbers() : memory.rows;
    const int64_t depth = round_up(ceil_div(steps, std::max<int64_t>((steps + kDepth / 2) / kDepth, 1)), kSteps);
    for (int64_t step = 0; step < steps; step += depth) {
      const int64_t pieces = ceil_div(std::min(depth, steps - step), kSteps);
      for (const int64_t* cut = cuts_.data(); *cut < columns; ++cut) {
        Bf16Tiles t;
        t.count = static_cast<int>(std::min(cut[1], columns) - *cut);
        for (int64_t k = 0; k < t.count; ++k)
          t.b[k] = memory.columns + column_at_[static_cast<size_t>(*cut + k)] + step * kLanes;
        for (int64_t r = 0; r < row_tiles_; r += at_once) {
          const bool two = at_once == 2 && r + 1 < row_tiles_;
          t.a = rows + r * tile + step * kLanes;
          t.a2 = two ? t.a + tile : nullptr;
          t.sums = sums + (r * columns + *cut) * kSums;
          t.sums2 = t.sums + columns * kSums;
          t.next = at_once * columns * kSums;
          table.tiles->multiply(t, pieces, chunk > task.chunk0 || step > 0);
        }
      }
    }
  }
  table.end();
}

// Stores all taps of one tile of rows and one of columns.
void Bf16GradWeight::finish(const float* sums, int64_t row_tile, int64_t column_tile, Bf16* dw) const {
  const auto line = [](int64_t tile, int64_t i, int64_t lines) {
    const int64_t panel = tile / 2 * kSide;
    return panel + (lines - panel > kLanes ? Bf16TileTable::line(tile % 2, i) : i);
  };
  int32_t at[kLanes];  // in a row of dw, the first tap's
  for (int64_t j = 0; j < kLanes; ++j) {
    const int64_t q = line(column_tile, j, lines_);
    at[j] = q < lines_ ? static_cast<int32_t>(q % p_.c * p_.kh * p_.kw + q / p_.c) : -1;
  }
  const auto each_row = [&](const auto& finish_row) {
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t o = line(row_tile, i, p_.o);
      if (o < p_.o) finish_row(i, dw + o * p_.c * p_.kh * p_.kw);
    }
  };
  const auto sums_of = [&](int64_t tap) { return sums + tap_at_[static_cast<size_t>(tap)]; };
  if (taps_ > kFew && !together_) {
    each_row([&](int64_t i, Bf16* to) {
      for (int64_t tap = 0; tap < taps_; tap += kLanes) {
        const float* rows[kLanes];
        for (int64_t k = 0; k < kLanes; ++k) rows[k] = sums_of(std::min(tap + k, taps_ - 1)) + i * kLanes;
        bf16_table()->tiles->finish(rows, std::min(kLanes, taps_ - tap), to + tap, at);
      }
    });
    return;
  }
  constexpr int64_t kRun = 4;  // lines that follow each other in a tile
  for (int64_t tap = 0; tap < taps_; ++tap) {
    Bf16 block[kSums];
    native_conversion().store(block, sums_of(tap), nullptr, nullptr, kSums);
    each_row([&](int64_t i, Bf16* to) {
      to += together_ ? tap * p_.kw : tap;
      const Bf16* const row = block + i * kLanes;
      for (int64_t j = 0; j < kLanes; j += kRun) {
        if (at[j + 1] == at[j] + 1 && at[j + kRun - 1] == at[j] + kRun - 1) {
          std::memcpy(to + at[j], row + j, kRun * sizeof(Bf16));
          continue;
        }
        for (int64_t k = j; k < j + kRun; ++k) {
          if (at[k] >= 0) to[at[k]] = row[k];
        }
      }
    });
  }
}

void Bf16GradWeight::run(const Bf16* x, const Bf16* dy, Bf16* dw, void* scratch) const {
  const int64_t chunks = ceil_div(steps_, chunk_), tile = taps_ * kSums;
  if (!packed_before()) {
    auto* sums = static_cast<float*>(scratch);
    const int64_t group = row_tiles_ * column_tiles_ * tile;
    parallel_for(groups_, [&](int64_t i) {
      multiply(x, dy, {0, panels_, chunks * i / groups_, chunks * (i + 1) / groups_}, memory(), sums + i * group);
    });
    parallel_for(row_tiles_ * column_tiles_, [&](int64_t t) {
      float* const sum = sums + t * tile;
      for (int64_t i = 1; i < groups_; ++i) {
        for (int64_t j = 0; j < tile; ++j) sum[j] += sum[i * group + j];
      }
      finish(sum, t / column_tiles_, t % column_tiles_, dw);
    });
    return;
  }
  auto* rows = static_cast<Bf16*>(scratch);
  parallel_for(chunks, [&](int64_t i) { pack_rows(dy, i, memory().at, rows + i * row_numbers()); });
  parallel_for(tasks_, [&](int64_t i) {
    const int64_t panel0 = panels_ * i / tasks_, panel1 = panels_ * (i + 1) / tasks_;
    const Memory m = memory();
    multiply(x, rows, {panel0, panel1, 0, chunks}, m, m.sums);
    const int64_t first = 2 * panel0, count = std::min(2 * panel1, column_tiles_) - first;
    for (int64_t t = 0; t < row_tiles_ * count; ++t) finish(m.sums + t * tile, t / count, first + t % count, dw);
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
