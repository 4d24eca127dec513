// From tile programs to steps: collapses dimensions, splits the space into rows and columns, finds what is the
// same in all rows, selects loops, allocates slots and decides which operands are read and written in place.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "freight/backend/cpu/kernels/activations.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scalar_expression.h"
#include "freight/backend/cpu/kernels/tile_chain.h"
#include "freight/backend/cpu/kernels/tile_compiled.h"
#include "freight/base/error.h"

namespace freight::cpu {

namespace {

constexpr int64_t kTileElements = 1024;  // 4 KiB of f32 per register
constexpr int64_t kLineElements = 16;    // a cache line of f32
// Longer rows are cut into pieces: runs of memory that are long enough to come at the full rate.
constexpr int64_t kLongRow = 4096;
// From here on the last vector of a row may be a part of one in strips of rows.
constexpr int64_t kWideRow = 64;
// Where rows are reduced, one of so many elements is a tile by itself: what it has once needs no expansion then.
constexpr int64_t kWholeRow = 256;
// A program is cut into about so many tasks where the limits below allow it; a large one has more.
constexpr int64_t kWantedTasks = 64;
// The smallest and the largest task of a program without sums, and the smallest of one with sums, in elements.
constexpr int64_t kSmallTask = 4096, kLargeTask = 32768, kSumTask = 16384;
// The fewest rows of a task with sums: each task leaves up to a row of them to be combined.
constexpr int64_t kSumRows = 64;
// The largest task in strips of rows, whose slots are as long as the task.
constexpr int64_t kLargeStripTask = 262144;
// Figures of work count operations on elements: kSmallWork makes a task worth it though it is smaller than kSmallTask,
// an exponential counts as kHeavy, and below kSerialWork the fork and join of threads do not pay.
constexpr double kSmallWork = 16384, kHeavy = 20, kSerialWork = 50000;

using Kind = TileStep::Kind;

class Compiler {
 public:
  enum class Strips : uint8_t { tried, refused };
  Compiler(const TileProgram& program, Strips strips)
      : p_(with_activations(with_expressions(program))), strips_(strips) {}

  // Nothing where strips of rows were tried and do not fit.
  std::optional<CompiledTiles> run() {
    fold_casts();
    compare_before_relu();
    mark_live();
    compare_indices_in_f32();
    collapse_dimensions();
    find_rows();
    find_extents();
    choose_tiles();
    fuse_pairs();
    for (size_t i = 0; i < p_.values.size(); ++i) {
      if (live_[i] && !fused_[i]) emit_value(static_cast<int>(i));
    }
    emit_sums();
    emit_stores();
    k_.setup = make_chains(k_.setup, virtuals_, k_.sums, {.keep = true, .strips = k_.strip_rows > 0});
    k_.body = make_chains(k_.body, virtuals_, k_.sums, {.strips = k_.strip_rows > 0});
    if (k_.strip_rows > 0 && !fits_strips()) return std::nullopt;
    place_registers(k_, virtuals_);
    k_.setup = join_links(k_.setup, k_.links);
    k_.body = join_links(k_.body, k_.links);
    return std::move(k_);
  }

 private:
  using Where = TileRegister::Where;

  TileValue& value(int v) { return p_.values[static_cast<size_t>(v)]; }
  Reg reg_of(int v) { return regs_[static_cast<size_t>(v)]; }
  Extent& extent(int v) { return extents_[static_cast<size_t>(v)]; }

  // Notes the register type of every value, and makes a cast of an input to a floating type an input that the load
  // casts: its register type is the cast's, its dtype that in memory. A further cast is so only where the first one
  // rounds nothing: 0.1 of f64 that has been f32 is another number. A cast that rounds to 16 bits stays an operation.
  void fold_casts() {
    std::vector<bool> rounded(p_.values.size());
    for (size_t i = 0; i < p_.values.size(); ++i) {
      TileValue& v = p_.values[i];
      regs_.push_back(register_type(v.dtype));
      if (v.kind != TileValue::Kind::op || v.op != Op::cast || !is_floating(v.dtype)) continue;
      const TileValue source = value(v.a);
      if (source.kind != TileValue::Kind::input || rounded[static_cast<size_t>(v.a)]) continue;
      if (rounds(source.dtype, v.dtype) && !rounded_by_stores(p_, static_cast<int>(i))) continue;
      rounded[i] = regs_[i] == Reg::f32 && register_type(source.dtype) != Reg::f32;
      v = source;
    }
  }

  bool is_op(int v, Op op) { return v >= 0 && value(v).kind == TileValue::Kind::op && value(v).op == op; }
  bool is_constant(int v) { return value(v).kind == TileValue::Kind::constant; }
  bool is_zero(int v) { return is_constant(v) && value(v).number == 0 && !std::signbit(value(v).number); }

  // relu(x) > c is x > c where c is not negative: the mask of a gradient needs no relu. One that is stored is compared
  // itself: a chain has it at hand, where x would have to be kept.
  void compare_before_relu() {
    const auto stored = [&](int v) {
      return std::any_of(p_.stores.begin(), p_.stores.end(), [&](const TileStore& s) { return s.value == v; });
    };
    for (TileValue& v : p_.values) {
      if (v.kind == TileValue::Kind::op && v.op == Op::gt && is_op(v.a, Op::relu) && !stored(v.a) && is_constant(v.b) &&
          value(v.b).number >= 0) {
        v.a = value(v.a).a;
      }
    }
  }

  void mark_live() {
    uses_.assign(p_.values.size(), 0);
    live_.assign(p_.values.size(), false);
    const auto use = [&](int v) {
      if (v < 0) return;
      ++uses_[static_cast<size_t>(v)];
      live_[static_cast<size_t>(v)] = true;
    };
    for (const TileStore& s : p_.stores) use(s.value);
    for (const TileAccumulate& s : p_.sums) use(s.value);
    for (size_t i = p_.values.size(); i-- > 0;) {
      if (!live_[i]) continue;
      use(p_.values[i].a);
      use(p_.values[i].b);
      use(p_.values[i].c);
    }
  }

  // An integer in memory (a label) is compared with the number of a column in f32, which has all numbers below 2^24,
  // and no larger integer becomes one of these.
  void compare_indices_in_f32() {
    const auto is_index = [&](int i) {
      double last = 0;
      for (int k = 0; k < p_.space.rank() && value(i).strides.rank() > 0; ++k)
        last += static_cast<double>(value(i).strides[k]) * static_cast<double>(p_.space[k] - 1);
      return value(i).kind == TileValue::Kind::index && last < 0x1p24;
    };
    for (const TileValue& v : p_.values) {
      if (v.kind != TileValue::Kind::op || (v.op != Op::eq && v.op != Op::ne) || v.a == v.b) continue;
      int label = v.a, index = v.b;
      if (!is_index(index)) std::swap(label, index);
      const auto only_here = [&](int i) { return uses_[static_cast<size_t>(i)] == 1 && holds_integers(reg_of(i)); };
      if (!is_index(index) || value(label).kind != TileValue::Kind::input || !only_here(label) || !only_here(index))
        continue;
      regs_[static_cast<size_t>(label)] = regs_[static_cast<size_t>(index)] = Reg::f32;
    }
  }

  // Drops extents of 1 and merges dimensions that every operand walks alike.
  void collapse_dimensions() {
    std::vector<Strides*> all;
    for (TileValue& v : p_.values) {
      if (v.strides.rank() > 0) all.push_back(&v.strides);
    }
    for (TileStore& s : p_.stores) all.push_back(&s.strides);
    for (TileAccumulate& s : p_.sums) all.push_back(&s.strides);
    FREIGHT_CHECK(p_.space.numel() > 0, "a tile program over nothing");
    for (Strides* s : all) FREIGHT_CHECK(s->rank() == p_.space.rank(), "strides of a tile operand");
    const auto drop = [&](int i) {
      if (i >= p_.space.rank() - p_.row_dims) --p_.row_dims;
      p_.space.erase(i);
      for (Strides* s : all) s->erase(i);
      for (TileAccumulate& s : p_.sums) s.keep.erase(s.keep.begin() + i);
    };
    has_rows_ = p_.row_dims > 0;
    for (int i = p_.space.rank() - 1; i >= 0; --i) {
      if (p_.space[i] == 1) drop(i);
    }
    for (int i = p_.space.rank() - 2; i >= 0; --i) {
      if (i + 1 == p_.space.rank() - p_.row_dims) continue;  // rows begin here
      bool merge = true;
      for (const Strides* s : all) merge = merge && (*s)[i] == (*s)[i + 1] * p_.space[i + 1];
      for (const TileAccumulate& s : p_.sums) {
        merge = merge && s.keep[static_cast<size_t>(i)] == s.keep[static_cast<size_t>(i) + 1];
      }
      if (!merge) continue;
      const int64_t both = p_.space[i] * p_.space[i + 1];
      p_.space[i + 1] = both;
      drop(i);
    }
  }

  // Finds which dimensions are B, M and R. Where nothing is reduced by rows, a row is the last dimension; where sums
  // keep that one, the dimensions before it that they keep as well belong to the row, too.
  void find_rows() {
    const int rank = p_.space.rank();
    outer_ = rank - p_.row_dims;
    if (!has_rows_ && rank > 0) {
      outer_ = rank - 1;
      const auto same_as_last = [&](int i) {
        return std::all_of(p_.sums.begin(), p_.sums.end(), [&](const TileAccumulate& s) {
          return s.keep[static_cast<size_t>(i)] == s.keep[static_cast<size_t>(rank) - 1];
        });
      };
      const bool kept =
          std::any_of(p_.sums.begin(), p_.sums.end(), [](const TileAccumulate& s) { return s.keep.back(); });
      while (kept && outer_ > 0 && same_as_last(outer_ - 1)) --outer_;
    }
    const auto kept_by_all = [&](int i) {
      return std::all_of(p_.sums.begin(), p_.sums.end(),
                         [&](const TileAccumulate& s) { return s.keep[static_cast<size_t>(i)]; });
    };
    while (!p_.sums.empty() && leading_ < outer_ && kept_by_all(leading_)) ++leading_;
    for (int i = 0; i < rank; ++i) {
      (i < leading_ ? k_.outer_kept : i < outer_ ? k_.rows : k_.width) *= p_.space[i];
      for (const TileAccumulate& s : p_.sums) {
        const bool keep = s.keep[static_cast<size_t>(i)];
        const bool wanted = i < leading_ || (i >= outer_ && s.keep.back());
        if (keep != wanted) {
          fail(ErrorKind::device, "tile", "accumulations keep different dimensions of ", p_.space);
        }
      }
    }
  }

  void choose_tiles() {
    const int64_t width = k_.width;
    k_.piece = k_.width;
    const int64_t longest = one_row() ? kTileElements : kLongRow;
    if (!has_rows_ && width > longest) {
      k_.piece = round_up(ceil_div(width, ceil_div(width, longest)), kLineElements);
      k_.pieces = ceil_div(width, k_.piece);
    }
    if (k_.pieces == 1) k_.tile_rows = std::clamp<int64_t>(kTileElements / width, 1, k_.rows);
    if (has_rows_ && width >= kWholeRow) k_.tile_rows = 1;
    const int64_t elements = k_.outer_kept * k_.rows * width, groups = k_.outer_kept * k_.pieces;
    const auto small = static_cast<int64_t>(kSmallWork / work_);
    int64_t task = std::clamp(elements / kWantedTasks, std::clamp(small, kTileElements, kSmallTask), kLargeTask);
    if (!p_.sums.empty()) task = std::max({kSumTask, ceil_div(elements, kWantedTasks), kSumRows * k_.piece});
    const bool strips = strips_ == Strips::tried && sums_of_columns();
    if (strips) task = std::clamp(task, kSumRows * k_.piece, std::max(kSumRows * k_.piece, kLargeStripTask));
    k_.task_rows = round_up(ceil_div(task, k_.piece), strips ? kGroup : k_.tile_rows);
    if (strips) k_.strip_rows = ceil_div(std::min(k_.task_rows, k_.rows), kGroup);
    k_.tasks_per_group = ceil_div(k_.rows, k_.task_rows);
    k_.tasks = groups * k_.tasks_per_group;
    k_.parallel = work_ * static_cast<double>(elements) > kSerialWork && k_.tasks > 1;
  }

  // Rows are cut into strips for sums that keep a row in which vectors are filled wholly or nearly so.
  bool sums_of_columns() {
    const bool keep_rows = std::any_of(p_.sums.begin(), p_.sums.end(),
                                       [](const TileAccumulate& s) { return !s.keep.empty() && s.keep.back(); });
    return keep_rows && k_.pieces == 1 && k_.rows >= kGroup && (k_.width % kLineElements == 0 || k_.width >= kWideRow);
  }

  Extent extent_of(const Strides& strides) {
    int e = kScalar;
    for (int i = 0; i < strides.rank(); ++i) {
      if (strides[i] != 0) e |= i < outer_ ? kRow : kCol;
    }
    if (e == kCol && one_row()) e = kFull;  // the tile is a piece of that row: the body makes it
    return static_cast<Extent>(e);
  }

  bool tile_of_one_row() const { return k_.tile_rows == 1 && k_.strip_rows == 0; }
  bool one_row() const { return k_.outer_kept * k_.rows == 1; }

  void find_extents() {
    for (size_t i = 0; i < p_.values.size(); ++i) {
      const TileValue& v = p_.values[i];
      int e = kScalar;
      for (int operand : {v.a, v.b, v.c}) e |= operand >= 0 ? extents_[static_cast<size_t>(operand)] : 0;
      if (v.kind == TileValue::Kind::row_reduce) e = kRow;
      if (v.kind == TileValue::Kind::input || v.kind == TileValue::Kind::index || v.kind == TileValue::Kind::random) {
        e = extent_of(v.strides);
      }
      extents_.push_back(static_cast<Extent>(e));
      if (live_[i] && e == kFull) work_ += is_heavy(v.op) && v.kind != TileValue::Kind::input ? kHeavy : 1;
    }
    work_ += static_cast<double>(p_.stores.size() + p_.sums.size());
  }

  // Marks values that the step of their only reader makes itself, where that has the same extent:
  //   the product of add(mul(a, b), c) and sub(c, mul(a, b)), and, in strips of rows, of a sum of products;
  //   the condition x > 0, or one that lies in memory, of where(condition, y, 0).
  void fuse_pairs() {
    fused_.assign(p_.values.size(), false);
    for (size_t i = 0; i < p_.values.size(); ++i) {
      const TileValue& v = p_.values[i];
      if (!live_[i] || v.kind != TileValue::Kind::op || regs_[i] != Reg::f32) continue;
      if (v.op == Op::add || v.op == Op::sub) {
        if (is_only_product(v.b, extents_[i])) {
          fused_[static_cast<size_t>(v.b)] = true;
        } else if (v.op == Op::add && is_only_product(v.a, extents_[i])) {
          fused_[static_cast<size_t>(v.a)] = true;
          std::swap(p_.values[i].a, p_.values[i].b);
        }
      } else if (v.op == Op::where && is_zero(v.c) && uses_[static_cast<size_t>(v.a)] == 1 &&
                 extent(v.a) == extents_[i] && (is_positive_test(v.a) || is_mask_in_memory(v.a))) {
        fused_[static_cast<size_t>(v.a)] = true;
      }
    }
    for (const TileAccumulate& a : p_.sums) {
      if (k_.strip_rows > 0 && a.op == Op::sum && reg_of(a.value) == Reg::f32 && is_only_product(a.value, kFull)) {
        fused_[static_cast<size_t>(a.value)] = true;
      }
    }
  }
  bool is_only_product(int v, Extent e) {
    return !p_.round_each && !value(v).shared && (is_op(v, Op::mul) || is_op(v, Op::square)) &&
           uses_[static_cast<size_t>(v)] == 1 && extent(v) == e && reg_of(v) == Reg::f32;
  }
  bool is_positive_test(int v) {
    return is_op(v, Op::gt) && is_zero(value(v).b) && extent(value(v).a) == extent(v) && reg_of(value(v).a) == Reg::f32;
  }
  bool is_mask_in_memory(int v) {
    const TileValue& m = value(v);
    return m.kind == TileValue::Kind::input && m.dtype == DType::boolean &&
           make_access(m.operand, m.dtype, m.strides, extent(v)).linear();
  }
  // Makes s read the factors of a product that it computes itself. The first is a vector: the one that has the extent
  // of the result, or, if neither has, is expanded to it.
  void take_factors(int product, Extent e, TileStep& s) {
    int a = value(product).a, b = is_op(product, Op::square) ? a : value(product).b;
    if (extent(a) != e) std::swap(a, b);
    s.a = vector_operand(a, e);
    bool scalar = false;
    s.b = link_operand(b, e, scalar);
    s.call.scalars |= scalar ? 2 : 0;
  }

  // --- emission ---

  int new_register(Reg reg, Extent e) {
    virtuals_.push_back({});
    virtuals_.back().reg = reg;
    virtuals_.back().extent = e;
    return static_cast<int>(virtuals_.size()) - 1;
  }
  TileRegister& at(int v) { return virtuals_[static_cast<size_t>(v)]; }
  bool varies(Extent e) const { return (e & kRow) != 0; }
  void emit(const TileStep& s) { (varies(s.extent) ? k_.body : k_.setup).push_back(s); }

  Access make_access(int operand, DType dtype, const Strides& strides, Extent e) const {
    Access access{operand, dtype, e, {}, {}};
    const int rank = p_.space.rank(), from = e == kCol ? outer_ : 0, to = e == kRow ? outer_ : rank;
    for (int i = from; i < to && e != kScalar; ++i) {
      const int last = access.shape.rank() - 1;
      if (last >= 0 && access.stride[last] == strides[i] * p_.space[i]) {
        access.shape[last] *= p_.space[i];
        access.stride[last] = strides[i];
      } else {
        access.shape.push_back(p_.space[i]);
        access.stride.push_back(strides[i]);
      }
    }
    return access;
  }
  int new_access(int operand, DType dtype, const Strides& strides, Extent e) {
    k_.accesses.push_back(make_access(operand, dtype, strides, e));
    return static_cast<int>(k_.accesses.size()) - 1;
  }
  const Access& access(int i) { return k_.accesses[static_cast<size_t>(i)]; }

  int in_place(int access_number, Reg reg) {
    const int v = new_register(reg, access(access_number).extent);
    at(v).where = Where::operand;
    at(v).access = access_number;
    at(v).dtype = access(access_number).dtype;
    return v;
  }
  // Tells whether a store may lie on the memory of an input.
  static bool may_overwrite(const TileStore& store, const TileValue& input) {
    return input.kind == TileValue::Kind::input && input.dtype == store.dtype && input.strides == store.strides;
  }
  // An input that is stored as it is must be copied first where another store may overwrite it.
  bool overwritten_before_use(int v) {
    const auto stores = [&](auto f) { return std::any_of(p_.stores.begin(), p_.stores.end(), f); };
    return stores([&](const TileStore& s) { return s.value == v; }) &&
           stores([&](const TileStore& s) { return s.value != v && may_overwrite(s, value(v)); });
  }
  // The register of value v as an operand of a result with extent e; `scalar` receives whether it is one element for
  // all.
  int operand(int v, Extent e, bool& scalar) {
    const Extent own = extent(v);
    scalar = own != e && (own == kScalar || (own == kRow && tile_of_one_row()));
    return scalar ? virtual_of_[static_cast<size_t>(v)] : vector_operand(v, e);
  }
  // The same for a link, which in strips of rows reads an element per column as it does one for all.
  int link_operand(int v, Extent e, bool& one) {
    one = k_.strip_rows > 0 && e == kFull && extent(v) == kCol;
    return one ? virtual_of_[static_cast<size_t>(v)] : operand(v, e, one);
  }
  // The same with one element for each of the result, to which v is expanded if need be.
  int vector_operand(int v, Extent e) {
    const Extent own = extent(v);
    if (own == e) return virtual_of_[static_cast<size_t>(v)];
    if (own == kCol && tile_of_one_row()) return virtual_of_[static_cast<size_t>(v)];
    const auto key = std::make_pair(v, e);
    if (const auto it = expanded_.find(key); it != expanded_.end()) return it->second;
    TileStep s;
    s.kind = own == kScalar ? Kind::fill : own == kRow ? Kind::expand_rows : Kind::expand_cols;
    s.reg = reg_of(v);
    s.a = virtual_of_[static_cast<size_t>(v)];
    s.dst = new_register(s.reg, e);
    s.extent = e;
    // A value that does not vary is expanded once per task, to the full tile.
    (varies(own) ? k_.body : k_.setup).push_back(s);
    return expanded_[key] = s.dst;
  }

  void emit_value(int i) {
    const TileValue& v = value(i);
    virtual_of_.resize(p_.values.size(), -1);
    int& result = virtual_of_[static_cast<size_t>(i)];
    switch (v.kind) {
      case TileValue::Kind::constant: {
        result = new_register(reg_of(i), kScalar);
        at(result).where = Where::constant;
        if (reg_of(i) == Reg::f32) {
          at(result).bits = std::bit_cast<uint32_t>(static_cast<float>(v.number));
        } else if (reg_of(i) == Reg::f64) {
          at(result).bits = std::bit_cast<int64_t>(v.number);
        } else if (reg_of(i) == Reg::u64) {
          at(result).bits = std::bit_cast<int64_t>(element_cast<uint64_t>(v.number));
        } else {
          at(result).bits = element_cast<int64_t>(v.number);
        }
        return;
      }
      case TileValue::Kind::input: {
        const int a = new_access(v.operand, v.dtype, v.strides, extent(i));
        const bool direct =
            stored_as_held(v.dtype, reg_of(i)) || (extent(i) == kFull && links_convert(v.dtype, reg_of(i)));
        if (access(a).linear() && direct && !overwritten_before_use(i)) {
          result = in_place(a, reg_of(i));
        } else {
          result = emit_access(Kind::load, a, i);
        }
        return;
      }
      case TileValue::Kind::index:
        result = emit_access(Kind::index, new_access(-1, DType::i64, v.strides, extent(i)), i);
        return;
      case TileValue::Kind::random:
        result = emit_access(Kind::random, new_access(v.operand, DType::i64, v.strides, extent(i)), i);
        return;
      case TileValue::Kind::row_reduce: {
        TileStep s;
        s.kind = Kind::row_reduce;
        s.extent = kFull;
        s.reg = reg_of(i);
        s.aux = reduction_index(v.op);
        s.a = vector_operand(v.a, kFull);
        s.dst = result = new_register(s.reg, kRow);
        k_.body.push_back(s);
        return;
      }
      case TileValue::Kind::function: {
        TileStep s;
        s.form = Form::function;
        s.function = v.function;
        s.extent = extent(i);
        s.a = vector_operand(v.a, s.extent);
        s.dst = result = new_register(Reg::f32, s.extent);
        emit(s);
        return;
      }
      case TileValue::Kind::op: break;
    }
    result = emit_op(i);
  }

  int emit_access(Kind kind, int access_number, int i) {
    TileStep s;
    s.kind = kind;
    s.extent = extent(i);
    s.reg = reg_of(i);
    s.aux = access_number;
    s.number = value(i).number;
    s.key_stride = value(i).key_stride;
    s.call.op = value(i).op;
    s.dst = new_register(s.reg, s.extent);
    emit(s);
    return s.dst;
  }

  int emit_op(int i) {
    const TileValue& v = value(i);
    const Extent e = extent(i);
    const Reg in = reg_of(v.op == Op::where ? v.b : v.a), out = reg_of(i);
    const bool moves_only = v.op == Op::cast || v.op == Op::stop_gradient || v.op == Op::copy;
    const DType from = value(v.a).dtype;
    const bool exact = v.dtype != DType::boolean && (!rounds(from, v.dtype) || rounded_by_stores(p_, i));
    if (moves_only && in == out && (v.dtype == from || (in == Reg::f32 && exact))) {
      return virtual_of_[static_cast<size_t>(v.a)];
    }
    TileStep s;
    s.extent = e;
    s.reg = out;
    if (in != Reg::f32 || out != Reg::f32 || !simd(v, e, s)) {
      bool scalar[3] = {};
      s.kind = Kind::generic;
      s.a = operand(v.a, e, scalar[0]);
      if (v.b >= 0) s.b = operand(v.b, e, scalar[1]);
      if (v.c >= 0) s.c = operand(v.c, e, scalar[2]);
      s.call = {v.op, in, out, v.dtype, scalar[0] | scalar[1] << 1 | scalar[2] << 2};
      s.call.loop = scalar[0] && (v.b < 0 || v.op == Op::where) ? nullptr : f64_loop(s.call);
      if (!generic::supports(v.op, in)) {
        fail(ErrorKind::usage, name(v.op), "no such operation on ", to_string(from), " elements");
      }
    }
    s.dst = new_register(out, e);
    emit(s);
    return s.dst;
  }

  // Makes s a simple step if there are links for v.
  bool simd(const TileValue& v, Extent e, TileStep& s) {
    const ChainTable& table = chain_table();
    const size_t op = static_cast<size_t>(v.op);
    bool sa = false, sb = false, sc = false;
    s.call.op = v.op;
    s.call.dtype = v.dtype;
    if (v.op == Op::where && fused_[static_cast<size_t>(v.a)]) {
      const TileValue& condition = value(v.a);
      const bool mask = condition.kind == TileValue::Kind::input;
      s.form = mask ? Form::keep_where : Form::keep_where_positive;
      s.a = mask ? in_place(new_access(condition.operand, condition.dtype, condition.strides, e), Reg::f32)
                 : vector_operand(condition.a, e);
      s.b = vector_operand(v.b, e);
    } else if (v.op == Op::where) {
      s.form = Form::where;
      s.a = vector_operand(v.a, e);
      s.b = link_operand(v.b, e, sb);
      s.c = link_operand(v.c, e, sc);
    } else if (v.b >= 0 && fused_[static_cast<size_t>(v.b)]) {  // v.b = mul(a, b) of the same extent
      s.form = v.op == Op::add ? Form::mul_add : Form::mul_sub_from;
      take_factors(v.b, e, s);
      s.c = link_operand(v.a, e, sc);
    } else if (v.b < 0) {
      if (!table.unary[op].whole) return false;
      s.a = vector_operand(v.a, e);
    } else {
      if (!table.binary[op][0][0].whole) return false;
      s.form = Form::binary;  // one operand at least has the extent e, which is the union of both
      s.a = link_operand(v.a, e, sa);
      s.b = link_operand(v.b, e, sb);
    }
    s.call.scalars |= (sa ? 1 : 0) | (sb ? 2 : 0) | (sc ? 4 : 0);
    return true;
  }

  // Puts s right behind the last step that makes what it reads, which a chain may still have in registers there.
  void emit_behind(const TileStep& s) {
    const auto made = std::find_if(k_.body.rbegin(), k_.body.rend(),
                                   [&](const TileStep& t) { return t.dst >= 0 && (t.dst == s.a || t.dst == s.b); });
    k_.body.insert(made == k_.body.rend() ? k_.body.end() : made.base(), s);
  }

  void emit_sums() {
    for (const TileAccumulate& a : p_.sums) {
      TileSum sum;
      sum.reduction = reduction_index(a.op);
      sum.reg = reg_of(a.value);
      sum.keeps_row = !a.keep.empty() && a.keep.back() && outer_ < p_.space.rank();
      const Extent lanes = k_.strip_rows > 0 && sum.reg == Reg::f32 ? kCol : kFull;
      sum.wide = new_register(register_of_sums(sum.reg), lanes);
      at(sum.wide).pinned = true;
      if (sum.reg == Reg::f32) {
        sum.narrow = new_register(Reg::f32, lanes);
        at(sum.narrow).pinned = true;
      }
      // The result walks B, then the row where it is kept.
      Access out{a.operand, a.dtype, kFull, {}, {}};
      for (int i = 0; i < p_.space.rank(); ++i) {
        if (i >= leading_ && (i < outer_ || !sum.keeps_row)) continue;
        out.shape.push_back(p_.space[i]);
        out.stride.push_back(a.strides[i]);
      }
      sum.out = out;
      sum.partials = k_.scratch;
      k_.scratch += static_cast<size_t>(k_.tasks * (sum.keeps_row ? k_.piece : 1)) * 8;
      k_.scratch = (k_.scratch + 63) & ~size_t{63};
      TileStep s;
      s.kind = Kind::accumulate;
      s.extent = kFull;
      s.reg = sum.reg;
      s.aux = static_cast<int>(k_.sums.size());
      if (fused_[static_cast<size_t>(a.value)]) {
        take_factors(a.value, s.extent, s);
      } else {
        s.a = vector_operand(a.value, s.extent);
      }
      emit_behind(s);
      k_.sums.push_back(sum);
    }
  }

  // True where a step after the one that defines v reads an operand that the store may lie on.
  bool read_after(int v, const TileStore& store) {
    const auto hit = [&](int access_number) {
      return std::any_of(p_.values.begin(), p_.values.end(), [&](const TileValue& input) {
        return input.operand == access(access_number).operand && may_overwrite(store, input);
      });
    };
    bool defined = false;
    for (const TileStep& s : k_.body) {
      for (int r : {s.a, s.b, s.c}) {
        if (defined && r >= 0 && at(r).where == Where::operand && hit(at(r).access)) return true;
      }
      if (defined && s.kind == Kind::load && hit(s.aux)) return true;
      defined = defined || s.dst == v;
    }
    return !defined;  // a constant, an operand or a value of `setup` is there all the time
  }

  void emit_stores() {
    std::vector<TileStep> late;
    for (const TileStore& store : p_.stores) {
      // The one row of a space is stored by the body even where it is one element.
      const Extent e = static_cast<Extent>(extent_of(store.strides) | (one_row() ? kRow : kScalar));
      FREIGHT_CHECK(varies(e) && ((e & kCol) || k_.pieces == 1), "a tile store must cover all rows");
      FREIGHT_CHECK((e | extent(store.value)) == e, "a stored value has more elements than its result");
      const int a = new_access(store.operand, store.dtype, store.strides, e);
      TileStep s;
      s.kind = Kind::store;
      s.extent = e;
      s.reg = reg_of(store.value);
      s.aux = a;
      s.a = vector_operand(store.value, e);
      s.stream = store.stream && (store.dtype == DType::f32 || store.dtype == DType::bf16);
      const bool linear = access(a).linear(), early = !read_after(s.a, store);
      if (linear && early && !s.stream && at(s.a).where == Where::slot && !at(s.a).pinned &&
          stored_as_held(store.dtype, s.reg)) {
        at(s.a).where = Where::operand;
        at(s.a).access = a;
        at(s.a).dtype = store.dtype;
        continue;
      }
      if (linear && s.reg == Reg::f32 && (store.dtype == DType::f32 || links_convert(store.dtype, s.reg))) {
        s.b = in_place(a, s.reg);
      }
      if (early && s.b >= 0) {
        emit_behind(s);
      } else {
        late.push_back(s);
      }
    }
    k_.body.insert(k_.body.end(), late.begin(), late.end());
  }

  // --- registers and pointers ---

  // Only loads and chains run in strips: they find slots of the body there as they find operands.
  bool fits_strips() {
    const auto fits = [](const TileStep& s) {
      return s.extent == kFull && s.reg == Reg::f32 && (s.kind == Kind::link || s.kind == Kind::load);
    };
    return std::all_of(k_.body.begin(), k_.body.end(), fits) &&
           std::none_of(k_.setup.begin(), k_.setup.end(),
                        [&](const TileStep& s) { return s.dst >= 0 && varies(at(s.dst).extent); });
  }

  TileProgram p_;
  const Strips strips_;
  CompiledTiles k_;
  int outer_ = 0, leading_ = 0;  // the first dimension of R, of M
  double work_ = 0;              // operations per element
  bool has_rows_ = false;        // row reductions need rows whole
  std::vector<Reg> regs_;
  std::vector<int> uses_;
  std::vector<bool> live_, fused_;
  std::vector<Extent> extents_;
  std::vector<int> virtual_of_;  // by value: its virtual register
  std::vector<TileRegister> virtuals_;
  std::map<std::pair<int, Extent>, int> expanded_;
};

}  // namespace

CompiledTiles compile_tiles(const TileProgram& program) {
  if (std::optional<CompiledTiles> tiles = Compiler(program, Compiler::Strips::tried).run()) return std::move(*tiles);
  return std::move(*Compiler(program, Compiler::Strips::refused).run());
}

}  // namespace freight::cpu
