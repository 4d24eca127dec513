// Finds the chains of a program (tile_chain.h): chooses the link for each step by what lies in the accumulator, and
// writes to memory what a later link cannot take from there.
#include <map>
#include <set>

#include "freight/backend/cpu/kernels/tile_chain.h"

namespace freight::cpu {

namespace {

using Kind = TileStep::Kind;

class Chains {
 public:
  Chains(std::vector<TileRegister>& registers, const std::vector<TileSum>& sums, const ChainOptions& options)
      : registers_(registers), sums_(sums), options_(options) {}

  std::vector<TileStep> run(const std::vector<TileStep>& steps) {
    for (const TileStep& s : steps) {
      if (is_link(s)) {
        open(s.extent);
        add(s);
      } else {
        add_between(s);
      }
    }
    close();
    return std::move(out_);
  }

 private:
  TileRegister& at(int v) { return registers_[static_cast<size_t>(v)]; }

  static bool is_link(const TileStep& s) {
    return s.kind == Kind::simple ||
           (s.reg == Reg::f32 && (s.kind == Kind::accumulate || (s.kind == Kind::store && s.b >= 0)));
  }

  void open(Extent extent) {
    if (open_ && extent_ == extent) return;
    close();
    open_ = true;
    extent_ = extent;
    start_ = out_.size();
    made_.clear();
    x_ = -1;
  }
  void close() {
    if (open_) push(table_.end);
    open_ = false;
  }

  // A step that is no link goes before the open chain if it can: it needs nothing that the chain makes, and writes to
  // no operand, which the chain may still read in place of the result.
  void add_between(TileStep s) {
    bool before = open_ && s.kind != Kind::store && s.kind != Kind::accumulate &&
                  (s.dst < 0 || at(s.dst).where != TileRegister::Where::operand);
    for (int* r : {&s.a, &s.b, &s.c}) {
      if (*r < 0) continue;
      before = before && !made_.contains(*r) && !packed(*r);
      if (packed(*r)) *r = as_floats(*r);
      in_memory(*r);
    }
    if (!before) {
      close();
      out_.push_back(s);
      return;
    }
    insert(start_++, s);
  }

  void insert(size_t place, const TileStep& s) {
    out_.insert(out_.begin() + static_cast<std::ptrdiff_t>(place), s);
    for (auto& [v, made_at] : in_register_) made_at += made_at >= place;
  }

  void push(const LinkFns& fns, int a = -1, int b = -1) {
    TileStep s;
    s.kind = Kind::link;
    s.extent = extent_;
    s.fns = fns;
    s.a = a;
    s.b = b;
    s.by_column = (by_column(a) ? 1 : 0) | (by_column(b) ? 2 : 0);
    out_.push_back(s);
  }
  bool by_column(int v) { return v >= 0 && options_.strips && extent_ == kFull && at(v).extent == kCol; }
  // A link that leaves v in the accumulator.
  void make(int v, const LinkFns& fns, int a = -1, int b = -1) {
    push(fns, a, b);
    x_ = v;
    in_register_[v] = out_.size() - 1;
    made_.insert(v);
    if (options_.keep || at(v).where == TileRegister::Where::operand) in_memory(v);
  }

  // Sees to it that v lies in memory: written behind the link that makes it.
  int in_memory(int v) {
    const auto it = in_register_.find(v);
    if (it == in_register_.end()) return v;
    TileStep s = out_[it->second];
    s.fns = table_.store;
    s.a = s.b = -1;
    s.dst = v;
    const size_t place = it->second + 1;
    in_register_.erase(it);
    start_ += start_ >= place;
    insert(place, s);
    return v;
  }

  // Operands in memory that are no f32.
  bool packed(int v) {
    return at(v).where == TileRegister::Where::operand && at(v).dtype != DType::f32 && at(v).reg == Reg::f32;
  }

  // v in the accumulator.
  void bring(int v) {
    if (x_ == v) return;
    const From from = form(v, false);
    push(is_bytes(v) ? table_.load_bytes : table_.load[static_cast<int>(from)], in_memory(v));
    x_ = v;
  }
  bool is_bytes(int v) { return packed(v) && at(v).dtype != DType::bf16; }
  From form(int v, bool one) { return one ? From::one : packed(v) ? From::half : From::vector; }

  // A copy of v in f32.
  int as_floats(int v) {
    const auto [it, fresh] = copies_.try_emplace(v, -1);
    if (!fresh) return it->second;
    open(kFull);
    const int copy = static_cast<int>(registers_.size());
    registers_.push_back({});
    it->second = copy;
    make(copy, is_bytes(v) ? table_.load_bytes : table_.load[static_cast<int>(From::half)], v);
    in_memory(copy);
    return copy;
  }

  // An operand that a link reads from memory; it is made f32 where `links` has none for its form.
  struct Read {
    int v;
    size_t from;
  };
  template <class Has>
  Read read(int v, bool one, Has&& has) {
    if (!one && packed(v) && (is_bytes(v) || !has(form(v, one)))) v = as_floats(v);
    return {in_memory(v), static_cast<size_t>(form(v, one))};
  }
  Read read(int v, bool one, const LinkFns (&row)[kFroms]) {
    return read(v, one, [&](From f) { return row[static_cast<size_t>(f)].whole != nullptr; });
  }
  Read read_floats(int v, bool one) {
    return read(v, one, [](From) { return false; });
  }

  void add(const TileStep& s) {
    if (s.kind == Kind::store) return add_store(s);
    if (s.kind == Kind::accumulate) return add_sum(s);
    const bool one_a = s.call.scalars & 1, one_b = s.call.scalars & 2, one_c = s.call.scalars & 4;
    switch (s.form) {
      case Form::unary:
        bring(s.a);
        make(s.dst, unary(s.call));
        return;
      case Form::function:
        bring(s.a);
        make(s.dst, table_.function[static_cast<size_t>(s.function)]);
        return;
      case Form::binary: return add_binary(s, one_a, one_b);
      case Form::where: {
        const Read b = read_floats(s.b, one_b), c = read_floats(s.c, one_c);
        bring(s.a);
        make(s.dst, table_.where[b.from][c.from], b.v, c.v);
        return;
      }
      case Form::mul_add: return add_product(s, one_b, one_c, table_.mul_add, table_.add_product);
      case Form::mul_sub_from: return add_product(s, one_b, one_c, table_.sub_from, table_.sub_product);
      case Form::keep_where_positive: {
        const bool last = x_ == s.b && s.a != s.b;
        const LinkFns(&row)[kFroms] = last ? table_.keep_where_positive : table_.keep_positive;
        const Read other = read(last ? s.a : s.b, false, row);
        bring(last ? s.b : s.a);
        make(s.dst, row[other.from], other.v);
        return;
      }
      case Form::keep_where:
        bring(s.b);
        make(s.dst, table_.keep_where, s.a);
        return;
    }
  }

  const LinkFns& unary(const generic::Call& call) const {
    if (call.op == Op::cast && call.dtype == DType::bf16) return table_.round_bf16;
    if (call.op == Op::cast && call.dtype == DType::f16) return table_.round_f16;
    return table_.unary[static_cast<size_t>(call.op)];
  }

  void add_binary(const TileStep& s, bool one_a, bool one_b) {
    const bool right = one_a || (x_ == s.b && !one_b && s.a != s.b);
    const LinkFns(&row)[kFroms] = table_.binary[static_cast<size_t>(s.call.op)][right];
    const Read other = read(right ? s.a : s.b, right ? one_a : one_b, row);
    bring(right ? s.b : s.a);
    make(s.dst, row[other.from], other.v);
  }

  // With the accumulator as a factor, or as what the product is added to.
  void add_product(const TileStep& s, bool one_b, bool one_c, const LinkFns (&factor)[kFroms][kFroms],
                   const LinkFns (&sum)[kFroms][kFroms]) {
    int a = s.a, b = s.b;
    const bool to_sum = x_ == s.c && !one_c && s.c != a && s.c != b;
    if (!one_b && (to_sum ? packed(b) : x_ == b || (packed(b) && x_ != a))) std::swap(a, b);
    if (to_sum) {
      const Read first = read(a, false, [&](From f) { return sum[static_cast<size_t>(f)][0].whole != nullptr; });
      const Read second = read(b, one_b, sum[first.from]);
      bring(s.c);
      make(s.dst, sum[first.from][second.from], first.v, second.v);
      return;
    }
    const Read second = read_floats(b, one_b);
    const Read third = read(s.c, one_c, factor[second.from]);
    bring(a);
    make(s.dst, factor[second.from][third.from], second.v, third.v);
  }

  void add_store(const TileStep& s) {
    bring(s.a);
    const DType to = at(s.b).dtype;
    push(to == DType::f32    ? (s.stream ? table_.stream : table_.store)
         : to == DType::bf16 ? (s.stream ? table_.stream_half : table_.store_half)
                             : table_.store_bytes,
         s.b);
  }

  void add_sum(const TileStep& s) {
    const TileSum& sum = sums_[static_cast<size_t>(s.aux)];
    int a = s.a, b = s.b;
    if (b < 0 || a == b) {
      bring(a);
      push(b >= 0            ? table_.fold_strips_square
           : options_.strips ? table_.fold_strips[sum.reduction]
                             : table_.fold[sum.reduction],
           sum.narrow);
      return;
    }
    const bool one = s.call.scalars & 2;
    if (!one && x_ == b) std::swap(a, b);
    const Read other = read(b, one, table_.fold_strips_product);
    bring(a);
    push(table_.fold_strips_product[other.from], sum.narrow, other.v);
  }

  const ChainTable& table_ = chain_table();
  std::vector<TileRegister>& registers_;
  const std::vector<TileSum>& sums_;
  const ChainOptions options_;
  std::vector<TileStep> out_;
  bool open_ = false;
  Extent extent_ = kFull;              // of the open chain
  size_t start_ = 0;                   // of the open chain
  int x_ = -1;                         // what the accumulator holds
  std::set<int> made_;                 // by the open chain
  std::map<int, size_t> in_register_;  // what lies in no memory: where it is made
  std::map<int, int> copies_;          // in f32, of operands in other forms
};

}  // namespace

std::vector<TileStep> make_chains(const std::vector<TileStep>& steps, std::vector<TileRegister>& registers,
                                  const std::vector<TileSum>& sums, const ChainOptions& options) {
  return Chains(registers, sums, options).run(steps);
}

size_t end_of_chain(const std::vector<TileStep>& steps, size_t i) {
  const LinkFn end = chain_table().end.whole;
  while (steps[i].kind == Kind::link && steps[i].fns.whole != end) ++i;
  return i;
}

std::vector<TileStep> join_links(const std::vector<TileStep>& steps, std::vector<ChainLink>& links) {
  std::vector<TileStep> joined;
  for (size_t i = 0; i < steps.size(); ++i) {
    joined.push_back(steps[i]);
    if (steps[i].kind != Kind::link) continue;
    joined.back().kind = Kind::chain;
    joined.back().aux = static_cast<int>(links.size());
    const size_t end = end_of_chain(steps, i);
    for (size_t k = i; k <= end; ++k)
      links.push_back({steps[k].fns, steps[k].dst >= 0 ? steps[k].dst : steps[k].a, steps[k].b, steps[k].by_column});
    i = end;
  }
  return joined;
}

void scale(float* y, float factor, int64_t n) {
  const ChainTable& t = chain_table();
  const ChainLink links[] = {{t.load[0], 0}, {t.binary[static_cast<int>(Op::mul)][0][2], 1}, {t.store, 0}, {t.end}};
  void* const pointers[] = {y, &factor};
  t.run(links, pointers, static_cast<size_t>(n));
}

}  // namespace freight::cpu
