// Executes compiled tile programs. A task is a block of rows (of one piece of columns); tasks are independent, each
// leaves the partial results of its accumulations in scratch, and these are combined in fixed order afterwards.
#include <algorithm>
#include <cstring>
#include <limits>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/backend/cpu/kernels/tile_chain.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

using Kind = TileStep::Kind;

class Kernel final : public TileKernel {
 public:
  explicit Kernel(const TileProgram& program) : k_(compile_tiles(program)), table_(f32_table()) {
    reserve_thread_scratch(k_.slot_bytes);
  }

  size_t scratch_bytes() const override { return k_.scratch; }

  void run(void* const* operands, void* scratch) const override {
    parallel_for(k_.tasks, k_.parallel, [&](int64_t t) { run_task(t, operands, static_cast<char*>(scratch)); });
    for (const TileSum& sum : k_.sums) {
      parallel_for(k_.outer_kept * k_.pieces, k_.tasks * (sum.keeps_row ? k_.piece : 1) > 32768,
                   [&](int64_t g) { combine_group(sum, g, operands, static_cast<char*>(scratch)); });
    }
  }

 private:
  // The tile at hand: where it starts and how many elements each extent has.
  struct Tile {
    int64_t row = 0, col = 0, rows = 0, cols = 0;
    int64_t count[4] = {1, 0, 0, 0};
    int64_t start[4] = {0, 0, 0, 0};
    void move_to(int64_t to, int64_t height, int64_t width) {
      row = to;
      rows = height;
      count[kRow] = rows;
      count[kCol] = cols;
      count[kFull] = rows * cols;
      start[kRow] = row;
      start[kCol] = col;
      start[kFull] = row * width + col;
    }
  };

  static constexpr int64_t kFlushAdds = 32;  // additions between two flushes of an f32 sum into f64

  static void move(const std::vector<TileMove>& moves, int64_t start, void* const* operands, void** pointers) {
    for (const TileMove& m : moves) {
      pointers[m.pointer] = static_cast<char*>(operands[m.operand]) + start * static_cast<int64_t>(m.element);
    }
  }

  void run_task(int64_t t, void* const* operands, char* scratch) const {
    void* pointers[kMaxPointers];
    char* registers = static_cast<char*>(thread_scratch(k_.slot_bytes));
    for (size_t i = 0; i < k_.slots.size(); ++i) pointers[i] = registers + k_.slots[i];
    for (size_t i = 0; i < k_.constants.size(); ++i) {
      pointers[k_.slots.size() + i] = const_cast<int64_t*>(&k_.constants[i]);
    }
    // All pieces of a row go to the same thread, which more often than not has made what it reads of them.
    const int64_t piece = t % k_.pieces, block = t / k_.pieces % k_.tasks_per_group;
    const int64_t b = t / k_.pieces / k_.tasks_per_group;
    const int64_t first = b * k_.rows + block * k_.task_rows;
    const int64_t end = std::min(first + k_.task_rows, (b + 1) * k_.rows);
    Tile tile;
    tile.col = piece * k_.piece;
    tile.cols = std::min(k_.piece, k_.width - tile.col);
    tile.move_to(first, k_.tile_rows, k_.width);
    move(k_.setup_moves, 0, operands, pointers);
    move(k_.col_moves, tile.col, operands, pointers);
    for (const TileSum& sum : k_.sums) clear(sum, tile, pointers);
    for (const TileStep& s : k_.setup) execute(s, tile, operands, pointers);
    if (k_.strip_rows > 0) {
      const int64_t strips = (end - first) / k_.strip_rows, rest = (end - first) % k_.strip_rows;
      if (strips > 0) run_strips(tile, first, k_.strip_rows, strips, operands, pointers);
      run_strips(tile, end - rest, rest, 1, operands, pointers);
    } else {
      run_tiles(tile, first, end, operands, pointers);
    }
    const int64_t part = (b * k_.pieces + piece) * k_.tasks_per_group + block;
    for (const TileSum& sum : k_.sums) finish(sum, part, tile, pointers, scratch);
  }

  void run_tiles(Tile& tile, int64_t row, int64_t end, void* const* operands, void** pointers) const {
    for (int64_t tiles = 1; row < end; row += k_.tile_rows, ++tiles) {
      tile.move_to(row, std::min(k_.tile_rows, end - row), k_.width);
      move(k_.row_moves, tile.row, operands, pointers);
      move(k_.full_moves, tile.start[kFull], operands, pointers);
      for (const TileStep& s : k_.body) execute(s, tile, operands, pointers);
      if (tiles % kFlushAdds == 0) flush_all(tile, pointers);
    }
  }

  void run_strips(Tile& tile, int64_t row, int64_t rows, int64_t strips, void* const* operands, void** pointers) const {
    const int64_t end = row + rows;
    for (int64_t added = k_.tile_rows; row < end; row += k_.tile_rows, added += k_.tile_rows) {
      tile.move_to(row, std::min(k_.tile_rows, end - row), k_.width);
      move(k_.full_moves, tile.start[kFull], operands, pointers);
      const ChainStrips s{.strips = static_cast<size_t>(strips),
                          .apart = static_cast<size_t>(k_.strip_rows * k_.width),
                          .rows = static_cast<size_t>(tile.rows),
                          .width = static_cast<size_t>(k_.width)};
      for (const TileStep& step : k_.body) {
        if (step.kind == Kind::chain) {
          chains_.run_strips(links(step), pointers, s);
        } else {
          load_strips(step, tile, strips, operands, pointers);
        }
      }
      if (added >= kFlushAdds) flush_all(tile, pointers), added = 0;
    }
  }

  void load_strips(const TileStep& s, Tile tile, int64_t strips, void* const* operands, void** p) const {
    void* const start = p[s.dst];
    for (int64_t i = 0; i < strips; ++i, tile.move_to(tile.row + k_.strip_rows, tile.rows, k_.width)) {
      p[s.dst] = static_cast<float*>(start) + i * k_.strip_rows * k_.width;
      execute(s, tile, operands, p);
    }
    p[s.dst] = start;
  }

  void execute(const TileStep& s, const Tile& tile, void* const* operands, void** p) const {
    const int64_t count = tile.count[s.extent], start = tile.start[s.extent];
    const size_t n = static_cast<size_t>(count);
    const size_t size = s.reg == Reg::f32 ? 4 : 8;
    switch (s.kind) {
      case Kind::chain: chains_.run(links(s), p, n); return;
      case Kind::generic:
        generic::run(s.call, p[s.dst], p[s.a], s.b < 0 ? nullptr : p[s.b], s.c < 0 ? nullptr : p[s.c], n);
        return;
      case Kind::load:
      case Kind::store:
      case Kind::index:
      case Kind::random: {
        const Access& a = k_.accesses[static_cast<size_t>(s.aux)];
        char* base = a.operand < 0 ? nullptr : static_cast<char*>(operands[a.operand]);
        char* reg = static_cast<char*>(p[s.kind == Kind::store ? s.a : s.dst]);
        const int64_t element = static_cast<int64_t>(size_of(a.dtype));
        each_run(a, start, count, [&](int64_t offset, int64_t stride, int64_t done, int64_t run) {
          char* at = reg + static_cast<size_t>(done) * size;
          if (s.kind == Kind::load) {
            load(at, s.reg, base + offset * element, a.dtype, stride, run);
          } else if (s.kind == Kind::store) {
            store(s, base + offset * element, a.dtype, stride, at, run);
          } else if (s.kind == Kind::index) {
            generic::index(at, s.reg, offset, stride, static_cast<size_t>(run));
          } else {
            draw(reinterpret_cast<float*>(at), s, reinterpret_cast<const int64_t*>(base), offset, stride, run);
          }
        });
        return;
      }
      case Kind::row_reduce:
        if (s.reg == Reg::f32) {
          table_.row_reduce[s.aux](static_cast<float*>(p[s.dst]), static_cast<const float*>(p[s.a]),
                                   static_cast<size_t>(tile.rows), static_cast<size_t>(tile.cols));
        } else {
          generic::row_reduce(p[s.dst], s.reg, p[s.a], s.aux, static_cast<size_t>(tile.rows),
                              static_cast<size_t>(tile.cols));
        }
        return;
      case Kind::expand_rows:
      case Kind::fill: {  // as of one row
        const int64_t rows = s.kind == Kind::fill ? 1 : tile.rows, cols = s.kind == Kind::fill ? count : tile.cols;
        if (size == 4) {
          table_.expand_rows(static_cast<float*>(p[s.dst]), static_cast<const float*>(p[s.a]),
                             static_cast<size_t>(rows), static_cast<size_t>(cols));
        } else {
          for (int64_t r = 0; r < rows; ++r) {
            std::fill_n(static_cast<int64_t*>(p[s.dst]) + r * cols, cols, static_cast<const int64_t*>(p[s.a])[r]);
          }
        }
        return;
      }
      case Kind::expand_cols:
        for (int64_t r = 0; r < tile.rows; ++r) {
          std::memcpy(static_cast<char*>(p[s.dst]) + static_cast<size_t>(r * tile.cols) * size, p[s.a],
                      static_cast<size_t>(tile.cols) * size);
        }
        return;
      case Kind::accumulate: {
        const TileSum& sum = k_.sums[static_cast<size_t>(s.aux)];
        generic::accumulate(p[sum.wide], s.reg, p[s.a], sum.reduction, n);
        return;
      }
      case Kind::simple:
      case Kind::link: return;  // parts of chains
    }
  }

  const ChainLink* links(const TileStep& chain) const { return &k_.links[static_cast<size_t>(chain.aux)]; }

  void load(void* dst, Reg reg, const void* src, DType dtype, int64_t stride, int64_t n) const {
    const size_t count = static_cast<size_t>(n);
    if (reg == Reg::f32 && (stride == 1 || n == 1)) {
      if (dtype == DType::f32) {
        std::memcpy(dst, src, count * 4);
        return;
      }
      if (dtype == DType::bf16 || dtype == DType::u8 || dtype == DType::boolean) {
        (dtype == DType::bf16 ? table_.load_bf16 : table_.load_u8)(dst, src, nullptr, nullptr, count);
        return;
      }
    }
    generic::load(dst, reg, src, dtype, stride, count);
  }

  void store(const TileStep& s, void* dst, DType dtype, int64_t stride, const void* src, int64_t n) const {
    const size_t count = static_cast<size_t>(n);
    if (s.reg == Reg::f32 && (stride == 1 || n == 1)) {
      if (dtype == DType::f32) {
        std::memcpy(dst, src, count * 4);
        return;
      }
      if (dtype == DType::bf16 || dtype == DType::boolean) {
        (dtype == DType::bf16 ? table_.store_bf16 : table_.store_bool)(dst, src, nullptr, nullptr, count);
        return;
      }
    }
    generic::store(dst, dtype, stride, src, s.reg, count);
  }

  void draw(float* dst, const TileStep& s, const int64_t* key, int64_t index, int64_t stride, int64_t n) const {
    const uint64_t seed = static_cast<uint64_t>(key[0]), step = static_cast<uint64_t>(key[s.key_stride]);
    const uint32_t stream = static_cast<uint32_t>(s.number);
    if (s.call.op == Op::random_uniform) {
      table_.uniform(dst, seed, (static_cast<uint64_t>(stream) << 32) ^ step, static_cast<uint64_t>(index),
                     static_cast<uint64_t>(stride), static_cast<size_t>(n));
      return;
    }
    for (int64_t i = 0; i < n; ++i, index += stride)
      dst[i] = random_normal(seed, step, stream, static_cast<uint64_t>(index));
  }

  // --- accumulations ---

  // Sums that the tile's elements go to: one each, and those that a flush leaves of them.
  int64_t lanes(const TileSum& s, const Tile& t) const {
    return k_.strip_rows > 0 && s.narrow >= 0 ? t.cols : k_.tile_rows * t.cols;
  }
  int64_t wide_lanes(const TileSum& s, const Tile& t) const {
    return s.keeps_row && s.narrow >= 0 && s.reduction == 0 ? t.cols : lanes(s, t);
  }

  void clear(const TileSum& sum, const Tile& tile, void** p) const {
    const int64_t n = wide_lanes(sum, tile);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const double identity = sum.reduction == 0 ? 0.0 : sum.reduction == 1 ? -kInf : kInf;
    const auto fill_edge = [&]<class I>(I) {
      const I edge = sum.reduction == 0   ? 0
                     : sum.reduction == 1 ? std::numeric_limits<I>::min()
                                          : std::numeric_limits<I>::max();
      std::fill_n(static_cast<I*>(p[sum.wide]), n, edge);
    };
    if (sum.reg == Reg::i64) return fill_edge(int64_t{});
    if (sum.reg == Reg::u64) return fill_edge(uint64_t{});
    std::fill_n(static_cast<double*>(p[sum.wide]), n, identity);
    if (sum.narrow < 0) return;
    const float start = static_cast<float>(identity);
    table_.expand_rows(static_cast<float*>(p[sum.narrow]), &start, 1, static_cast<size_t>(lanes(sum, tile)));
  }

  void flush(const TileSum& sum, const Tile& tile, void** p) const {
    if (sum.narrow < 0 || sum.reduction != 0) return;
    const int64_t n = lanes(sum, tile), wide = wide_lanes(sum, tile);
    for (int64_t i = 0; i < n; i += wide) {
      table_.flush(static_cast<double*>(p[sum.wide]), static_cast<float*>(p[sum.narrow]) + i,
                   static_cast<size_t>(wide));
    }
  }

  void flush_all(const Tile& tile, void** p) const {
    for (const TileSum& sum : k_.sums) flush(sum, tile, p);
  }

  // Folds the lanes of a task and leaves [cols] or one number in scratch; the parts of one (b, piece) one behind the
  // other.
  void finish(const TileSum& sum, int64_t part, const Tile& tile, void** p, char* scratch) const {
    int64_t n = wide_lanes(sum, tile);
    flush(sum, tile, p);
    if (sum.narrow >= 0 && sum.reduction != 0) {
      const float* narrow = static_cast<const float*>(p[sum.narrow]);
      for (int64_t i = 0; i < n; ++i) static_cast<double*>(p[sum.wide])[i] = static_cast<double>(narrow[i]);
    }
    char* wide = static_cast<char*>(p[sum.wide]);
    const int64_t kept = sum.keeps_row ? tile.cols : 1;
    const auto add = [&](int64_t from, int64_t count) { fold(sum, wide, wide + from * 8, count); };
    for (; n % (2 * kept) == 0; n /= 2) add(n / 2, n / 2);
    for (int64_t i = kept; i < n; i += kept) add(i, kept);
    std::memcpy(partial(sum, part, scratch), wide, static_cast<size_t>(kept) * 8);
  }

  // dst = reduction of dst and a, both f64 or integers.
  void fold(const TileSum& sum, void* dst, const void* a, int64_t n) const {
    const size_t count = static_cast<size_t>(n);
    if (!holds_integers(sum.reg) && sum.reduction == 0) {
      table_.add_f64(static_cast<double*>(dst), static_cast<const double*>(a), count);
    } else {
      generic::accumulate(dst, register_of_sums(sum.reg), a, sum.reduction, count);
    }
  }

  char* partial(const TileSum& sum, int64_t part, char* scratch) const {
    return scratch + sum.partials + static_cast<size_t>(part * (sum.keeps_row ? k_.piece : 1)) * 8;
  }

  // Combines the tasks of one (b, piece) and stores the result.
  void combine_group(const TileSum& sum, int64_t g, void* const* operands, char* scratch) const {
    const int64_t piece = g % k_.pieces, b = g / k_.pieces;
    const int64_t col = sum.keeps_row ? piece * k_.piece : 0;
    const int64_t kept = sum.keeps_row ? std::min(k_.piece, k_.width - col) : 1;
    const Reg reg = register_of_sums(sum.reg);
    // Without kept rows all pieces of a row belong to one result: the first group combines them all.
    if (!sum.keeps_row && piece != 0) return;
    const int64_t tasks = k_.tasks_per_group * (sum.keeps_row ? 1 : k_.pieces);
    const int64_t first = g * k_.tasks_per_group;
    char* total = partial(sum, first, scratch);
    for (int64_t t = 1; t < tasks; ++t) {
      fold(sum, total, partial(sum, first + t, scratch), kept);
    }
    char* base = static_cast<char*>(operands[sum.out.operand]);
    const int64_t element = static_cast<int64_t>(size_of(sum.out.dtype));
    each_run(sum.out, b * (sum.keeps_row ? k_.width : 1) + col, kept,
             [&](int64_t offset, int64_t stride, int64_t done, int64_t n) {
               generic::store(base + offset * element, sum.out.dtype, stride, total + done * 8, reg,
                              static_cast<size_t>(n));
             });
  }

  CompiledTiles k_;
  const F32Table& table_;
  const ChainTable& chains_ = chain_table();
};

// The first condition of a `where` that is one element in memory for the whole space; -1 where there is none.
int one_condition(const TileProgram& p) {
  if (p.space.numel() == 1) return -1;
  for (const TileValue& v : p.values) {
    if (v.kind != TileValue::Kind::op || v.op != Op::where) continue;
    const TileValue& condition = p.values[static_cast<size_t>(v.a)];
    if (condition.kind == TileValue::Kind::input && condition.dtype == DType::boolean &&
        std::all_of(condition.strides.begin(), condition.strides.end(), [](int64_t s) { return s == 0; })) {
      return v.a;
    }
  }
  return -1;
}

// The program where the condition holds, or where it does not: who read a `where` of it reads one of its operands.
TileProgram decided(TileProgram p, int condition, bool holds) {
  std::vector<int> stands;
  const auto replace = [&](int& v) { v = v < 0 ? v : stands[static_cast<size_t>(v)]; };
  for (TileValue& v : p.values) {
    for (int* operand : {&v.a, &v.b, &v.c}) replace(*operand);
    const bool chosen = v.kind == TileValue::Kind::op && v.op == Op::where && v.a == condition;
    stands.push_back(chosen ? (holds ? v.b : v.c) : static_cast<int>(stands.size()));
  }
  for (TileStore& s : p.stores) replace(s.value);
  for (TileAccumulate& s : p.sums) replace(s.value);
  return p;
}

// A program that one element decides is two: the element is read once per run, and neither pays for the other. So the
// loop of an update that takes effect only where the loss is finite is that of one that always does.
class EitherKernel final : public TileKernel {
 public:
  EitherKernel(const TileProgram& program, int condition)
      : yes_(decided(program, condition, true)),
        no_(decided(program, condition, false)),
        operand_(program.values[static_cast<size_t>(condition)].operand) {}
  size_t scratch_bytes() const override { return std::max(yes_.scratch_bytes(), no_.scratch_bytes()); }
  void run(void* const* operands, void* scratch) const override {
    const bool holds = *static_cast<const uint8_t*>(operands[operand_]) != 0;
    (holds ? yes_ : no_).run(operands, scratch);
  }

 private:
  Kernel yes_, no_;
  int operand_;
};

}  // namespace

std::unique_ptr<TileKernel> TileKernel::compile(const TileProgram& program) {
  const int condition = one_condition(program);
  if (condition >= 0) return std::make_unique<EitherKernel>(program, condition);
  return std::make_unique<Kernel>(program);
}

}  // namespace freight::cpu
