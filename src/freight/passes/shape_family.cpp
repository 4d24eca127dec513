// See shape_family.h. A graph's numbers are its extents, the integers and the reals of its attributes, in the order of
// the nodes; all else is its structure. What must hold for a shape to be derived is checked, not assumed: each number
// of its source is what the formulas say, and no two sizes are equal that differ in general.
#include "freight/passes/shape_family.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/ir/attrs_internal.h"

namespace freight::passes {

namespace {

constexpr size_t kMostFamilies = 8;     // of one structure
constexpr size_t kMostNodes = 1 << 16;  // of all that is kept, bodies included: some 30 MB
constexpr size_t kNodeBytes = 512;
constexpr size_t kLeastNodes = 32;  // that a graph counts as

// ---- Structure and numbers ----

bool alike(const Graph& a, const Graph& b);

struct Alike {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
  bool operator()(const int64_t&, const int64_t&) const { return true; }
  bool operator()(const double&, const double&) const { return true; }
  bool operator()(const Shape& a, const Shape& b) const { return a.rank() == b.rank(); }
  bool operator()(const Type& a, const Type& b) const { return a.dtype == b.dtype && a.shape.rank() == b.shape.rank(); }
  bool operator()(const Array& a, const Array& b) const {
    if (a.defined() != b.defined() || a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
    return !a.defined() || a.storage() == b.storage() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  }
  bool operator()(const std::shared_ptr<const Graph>& a, const std::shared_ptr<const Graph>& b) const {
    return a == b || (a && b && alike(*a, *b));
  }
};

// Equal but for numbers; names, scopes and source lines count, since a derived graph has those of the family.
bool alike(const Graph& a, const Graph& b) {
  if (a.nodes.size() != b.nodes.size() || a.outputs != b.outputs || a.updates != b.updates) return false;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    if (x.op != y.op || x.inputs != y.inputs || x.outputs != y.outputs || x.scope != y.scope || x.where != y.where)
      return false;
    if (!fields_match(x.attrs, y.attrs, Alike{})) return false;
    for (Value v : x.outputs) {
      if (!Alike{}(a.type(v), b.type(v))) return false;
    }
  }
  return true;
}

uint64_t structure_key(const Graph& graph, const std::string& circumstances) {
  uint64_t h = std::hash<std::string>{}(circumstances);
  for (const Node& n : graph.nodes) {
    h = hash_combine(h, static_cast<uint64_t>(n.op));
    for (Value v : n.inputs) h = hash_combine(h, static_cast<uint64_t>(v.id));
  }
  return h;
}

template <class V>
struct NumberFields {
  V& visitor;
  template <class T>
  void operator()(T& field) const {
    using F = std::remove_const_t<T>;
    if constexpr (std::is_same_v<F, int64_t>) visitor.integer(field);
    if constexpr (std::is_same_v<F, double>) visitor.real(field);
    if constexpr (std::is_same_v<F, Shape>) each(field);
    if constexpr (std::is_same_v<F, Type>) each(field.shape);
    if constexpr (std::is_same_v<F, std::shared_ptr<const Graph>>) visitor.body(field);
  }
  template <class S>
  void each(S& shape) const {
    for (auto& extent : shape) visitor.integer(extent);
  }
};

// Calls visitor.integer, .real and .body for all numbers and bodies of the graph, which may be const.
template <class G, class V>
void visit_numbers(G& graph, V& visitor) {
  const NumberFields<V> fields{visitor};
  for (auto& n : graph.nodes) {
    std::visit([&](auto& a) { std::apply([&](auto&... field) { (fields(field), ...); }, a.fields()); }, n.attrs);
    for (Value v : n.outputs) fields.each(graph.values[v].type.shape);
  }
}

struct Numbers {
  std::vector<int64_t> integers = {};
  std::vector<double> reals = {};

  explicit Numbers(const Graph& graph) { visit_numbers(graph, *this); }
  void integer(int64_t i) { integers.push_back(i); }
  void real(double r) { reals.push_back(r); }
  void body(const std::shared_ptr<const Graph>& b) { visit_numbers(*b, *this); }
};

// The memory that a graph keeps, counted in nodes: those of bodies, too, and the elements of constants.
size_t count_nodes(const Graph& graph) {
  size_t count = graph.nodes.size();
  for (const Node& n : graph.nodes) {
    if (const auto* c = std::get_if<ConstantAttrs>(&n.attrs); c && c->data.defined())
      count += c->data.bytes() / kNodeBytes;
    if (const auto* f = std::get_if<FusedAttrs>(&n.attrs)) count += count_nodes(*f->body);
  }
  return count;
}

// ---- Formulas of one extent t ----

struct Line {
  int64_t start = 0, slope = 0;  // at t = 0
  int64_t at(int64_t t) const { return start + slope * t; }
};
using Product = std::vector<Line>;  // of extents: a number of elements

int64_t value(const Product& product, int64_t t) {
  int64_t all = 1;
  for (const Line& l : product) all *= l.at(t);
  return all;
}

// A real of attributes: itself, or what a mean over so many elements multiplies by, or their number.
struct Real {
  enum class Kind : uint8_t { constant, inverse, inverse_f32, count };
  Kind kind = Kind::constant;
  double constant = 0;
  Product elements = {};

  double at(int64_t t) const {
    const auto count = static_cast<double>(value(elements, t));
    switch (kind) {
      case Kind::constant: return constant;
      case Kind::inverse: return 1.0 / count;
      case Kind::inverse_f32: return static_cast<double>(static_cast<float>(1.0 / count));
      case Kind::count: return count;
    }
    return constant;
  }
};

// The zeros are one.
uint64_t bits_of(double r) { return std::bit_cast<uint64_t>(r == 0 ? 0.0 : r); }
bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

// The numbers of a graph: those that stay, and the formulas of those that change, by number.
struct Formulas {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::pair<size_t, Line>> lines = {};
  std::vector<std::pair<size_t, Real>> changing_reals = {};

  bool hold(const Numbers& n, int64_t t) const {
    if (n.integers.size() != integers.size() || n.reals.size() != reals.size()) return false;
    size_t line = 0, real = 0;
    for (size_t i = 0; i < integers.size(); ++i) {
      const bool changes = line < lines.size() && lines[line].first == i;
      if (n.integers[i] != (changes ? lines[line++].second.at(t) : integers[i])) return false;
    }
    for (size_t i = 0; i < reals.size(); ++i) {
      const bool changes = real < changing_reals.size() && changing_reals[real].first == i;
      if (!same_bits(n.reals[i], changes ? changing_reals[real++].second.at(t) : reals[i])) return false;
    }
    return true;
  }
};

// Three shapes of one structure and what became of them, by t.
using Three = std::array<const Numbers*, 3>;
using Places = std::array<int64_t, 3>;  // their t

// Nothing where a number is no line with a whole slope through all three, as half an extent, rounded, is none.
std::optional<Formulas> fit_integers(const Three& of, const Places& t) {
  Formulas f{of[0]->integers, of[0]->reals};
  for (size_t i = 0; i < f.integers.size(); ++i) {
    const int64_t low = of[0]->integers[i], middle = of[1]->integers[i], high = of[2]->integers[i];
    if (low == middle && low == high) continue;
    const int64_t slope = (high - low) / (t[2] - t[0]);
    const Line line{low - slope * t[0], slope};
    if (line.at(t[1]) != middle || line.at(t[2]) != high) return std::nullopt;
    f.lines.emplace_back(i, line);
  }
  return f;
}

bool fit_reals(Formulas& f, const Three& of, const Places& t, const std::vector<Product>& counts) {
  for (size_t i = 0; i < f.reals.size(); ++i) {
    const auto holds = [&](const Real& r) {
      bool all = true;
      for (size_t k = 0; k < 3; ++k) all = all && same_bits(r.at(t[k]), of[k]->reals[i]);
      return all;
    };
    if (holds({Real::Kind::constant, f.reals[i]})) continue;
    std::optional<Real> found;
    for (const Product& p : counts) {
      for (const auto kind : {Real::Kind::inverse, Real::Kind::inverse_f32, Real::Kind::count}) {
        const Real r{kind, 0, p};
        if (!found && holds(r)) found = r;
      }
    }
    if (!found) return false;
    f.changing_reals.emplace_back(i, *found);
  }
  return true;
}

// Sizes that passes compare, each once: those that are equal for all three shapes are one. They are extents and numbers
// of elements of all values, and where slices and pads begin and end.
class Sizes {
 public:
  explicit Sizes(const Places& t) : t_(t) {
    note({Line{0, 0}});
    note({Line{1, 0}});
  }
  // `formulas` are the graph's.
  void add(const Graph& graph, const Formulas& formulas) {
    at_ = line_ = 0;
    formulas_ = &formulas;
    walk(graph);
  }
  std::vector<Product> list() const {
    std::vector<Product> all;
    for (const auto& [values, product] : found_) all.push_back(product);
    return all;
  }

 private:
  friend struct NumberFields<Sizes>;
  void note(const Product& p) { found_.insert({{value(p, t_[0]), value(p, t_[1]), value(p, t_[2])}, p}); }
  // The numbers of nodes are passed in the order of visit_numbers().
  void walk(const Graph& graph) {
    ByValue<Product> extents(graph);
    for (const Node& n : graph.nodes) {
      own_.clear();
      std::visit([&](auto& a) { std::apply([&](auto&... x) { (NumberFields<Sizes>{*this}(x), ...); }, a.fields()); },
                 n.attrs);
      if (n.op == Op::slice || n.op == Op::pad) {
        for (const Line& l : own_) note({l});
      }
      if (n.op == Op::pad) {  // where its input ends; `low` stands first
        const Product& in = extents[n.in(0)];
        for (size_t i = 0; i < in.size(); ++i) note({Line{own_[i].start + in[i].start, own_[i].slope + in[i].slope}});
      }
      for (Value v : n.outputs) {
        Product& elements = extents[v];
        for (int i = 0; i < graph.type(v).shape.rank(); ++i) {
          elements.push_back(next());
          note({elements.back()});
        }
        note(elements);
      }
    }
  }
  Line next() {
    const size_t i = at_++;
    const auto& lines = formulas_->lines;
    if (line_ < lines.size() && lines[line_].first == i) return lines[line_++].second;
    return {formulas_->integers[i], 0};
  }
  void integer(int64_t) { own_.push_back(next()); }
  void real(double) {}
  void body(const std::shared_ptr<const Graph>& b) { walk(*b); }

  Places t_;
  const Formulas* formulas_ = nullptr;
  size_t at_ = 0, line_ = 0;
  std::vector<Line> own_;  // of the attributes of the node
  std::map<std::array<int64_t, 3>, Product> found_;
};

// Puts the numbers for t into a graph that has those of the family. Bodies in which nothing changes stay shared.
class Writer {
 public:
  Writer(const Formulas& formulas, int64_t t) : f_(formulas), t_(t) {}
  void integer(int64_t& i) {
    if (line_ < f_.lines.size() && f_.lines[line_].first == at_) i = f_.lines[line_++].second.at(t_);
    ++at_;
  }
  void real(double& r) {
    if (real_ < f_.changing_reals.size() && f_.changing_reals[real_].first == reals_at_)
      r = f_.changing_reals[real_++].second.at(t_);
    ++reals_at_;
  }
  void body(std::shared_ptr<const Graph>& b) {
    const size_t integers = at_, reals = reals_at_;
    const Count count(*b);
    const bool changes = (line_ < f_.lines.size() && f_.lines[line_].first < integers + count.integers) ||
                         (real_ < f_.changing_reals.size() && f_.changing_reals[real_].first < reals + count.reals);
    if (!changes) {
      at_ += count.integers;
      reals_at_ += count.reals;
      return;
    }
    auto own = std::make_shared<Graph>(*b);
    visit_numbers(*own, *this);
    b = std::move(own);
  }

 private:
  struct Count {
    size_t integers = 0, reals = 0;
    explicit Count(const Graph& graph) { visit_numbers(graph, *this); }
    void integer(int64_t) { ++integers; }
    void real(double) { ++reals; }
    void body(const std::shared_ptr<const Graph>& b) { visit_numbers(*b, *this); }
  };
  const Formulas& f_;
  int64_t t_;
  size_t at_ = 0, reals_at_ = 0, line_ = 0, real_ = 0;
};

// Types say what the formulas do not know: an extent that is rounded may have looked like a line.
bool consistent(const Graph& graph) {
  try {
    verify(graph, "shape_family");
  } catch (const Error&) {
    return false;
  }
  return true;
}

struct Member {
  std::shared_ptr<const Graph> source, lowered;
  Numbers numbers;  // of the source
};

}  // namespace

struct ShapeFamilies::Family {
  std::vector<Member> members = {};  // up to three; none once there are formulas

  std::shared_ptr<const Graph> lowered = {};
  size_t parameter = 0;       // the number of the integer of the source that is t
  int64_t low = 0, high = 0;  // the least t and the greatest that the passes have seen
  Formulas source = {}, result = {};
  std::vector<Product> sizes = {};
  std::vector<Real> reals = {};

  bool ready() const { return lowered != nullptr; }
  size_t nodes() const {
    size_t count = kLeastNodes + (lowered ? count_nodes(*lowered) : 0);
    for (const Member& m : members) count += count_nodes(*m.source) + count_nodes(*m.lowered);
    return count;
  }
  // The t of a source, where it is a shape of this family.
  std::optional<int64_t> place(const Numbers& n) const {
    if (!ready() || n.integers.size() <= parameter) return std::nullopt;
    const int64_t t = n.integers[parameter];
    return source.hold(n, t) ? std::optional(t) : std::nullopt;
  }
  // Two sizes are equal for this t that are not equal for each, or two reals.
  bool coincide(int64_t t) const {
    std::vector<int64_t> values;
    for (const Product& p : sizes) values.push_back(value(p, t));
    std::sort(values.begin(), values.end());
    if (std::adjacent_find(values.begin(), values.end()) != values.end()) return true;
    std::vector<uint64_t> bits;
    for (const Real& r : reals) bits.push_back(bits_of(r.at(t)));
    std::sort(bits.begin(), bits.end());
    return std::adjacent_find(bits.begin(), bits.end()) != bits.end();
  }
  Graph make(int64_t t) const {
    Graph graph = *lowered;
    Writer writer(result, t);
    visit_numbers(graph, writer);
    return graph;
  }
  // Finds the formulas of three members; false where there are none.
  bool fit() {
    const std::vector<int64_t>&a = members[0].numbers.integers, &b = members[1].numbers.integers;
    const auto differs = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    if (differs == a.end()) return false;
    parameter = static_cast<size_t>(differs - a.begin());
    const auto t_of = [&](const Member& m) { return m.numbers.integers[parameter]; };
    std::vector<const Member*> by_t;
    for (const Member& m : members) by_t.push_back(&m);
    std::sort(by_t.begin(), by_t.end(), [&](const Member* x, const Member* y) { return t_of(*x) < t_of(*y); });
    const Places t{t_of(*by_t[0]), t_of(*by_t[1]), t_of(*by_t[2])};
    if (t[0] == t[1] || t[1] == t[2]) return false;
    const Numbers results[] = {Numbers(*by_t[0]->lowered), Numbers(*by_t[1]->lowered), Numbers(*by_t[2]->lowered)};
    const Three of_sources{&by_t[0]->numbers, &by_t[1]->numbers, &by_t[2]->numbers};
    const Three of_results{&results[0], &results[1], &results[2]};
    std::optional<Formulas> s = fit_integers(of_sources, t), r = fit_integers(of_results, t);
    if (!s || !r) return false;
    Sizes all(t);
    all.add(*by_t[0]->source, *s);
    all.add(*by_t[0]->lowered, *r);
    sizes = all.list();
    if (!fit_reals(*s, of_sources, t, sizes) || !fit_reals(*r, of_results, t, sizes)) return false;
    gather_reals({&*s, &*r}, t);
    source = std::move(*s);
    result = std::move(*r);
    lowered = by_t[0]->lowered;
    low = t[0];
    high = t[2];
    members.clear();
    return true;
  }

 private:
  void gather_reals(const std::vector<const Formulas*>& all, const Places& t) {
    std::set<std::array<uint64_t, 3>> seen;
    const auto add = [&](const Real& r) {
      if (seen.insert({bits_of(r.at(t[0])), bits_of(r.at(t[1])), bits_of(r.at(t[2]))}).second) reals.push_back(r);
    };
    add({Real::Kind::constant, 0});
    add({Real::Kind::constant, 1});
    for (const Formulas* f : all) {
      size_t next = 0;
      for (size_t i = 0; i < f->reals.size(); ++i) {
        const bool changes = next < f->changing_reals.size() && f->changing_reals[next].first == i;
        add(changes ? f->changing_reals[next++].second : Real{Real::Kind::constant, f->reals[i]});
      }
    }
  }
};

ShapeFamilies::StructureGroup* ShapeFamilies::find(uint64_t key, const Graph& source,
                                                   const std::string& circumstances) {
  const auto [first, last] = known_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (it->second.circumstances == circumstances && alike(*it->second.source, source)) return &it->second;
  }
  return nullptr;
}

Graph ShapeFamilies::lowered(const Graph& source, const std::string& circumstances, const Lower& lower) {
  const uint64_t key = structure_key(source, circumstances);
  std::vector<std::shared_ptr<const Family>> families;
  {
    const std::lock_guard lock(mutex_);
    if (const StructureGroup* kin = find(key, source, circumstances))
      families.assign(kin->families.begin(), kin->families.end());
  }
  if (!families.empty()) {
    const Numbers numbers(source);
    for (const auto& f : families) {
      const std::optional<int64_t> t = f->place(numbers);
      if (!t || *t < f->low || *t > f->high || f->coincide(*t)) continue;
      Graph graph = f->make(*t);
      if (!consistent(graph)) continue;
      if (env::get("FREIGHT_VERIFY") == "1") {
        const Graph by_passes = lower(source);
        FREIGHT_CHECK(print(graph) == print(by_passes), "a shape's graph was derived as\n", print(graph),
                      "but the passes make it\n", print(by_passes));
      }
      const std::lock_guard lock(mutex_);
      ++stats_.derived;
      return graph;
    }
  }
  Graph graph = lower(source);
  const std::lock_guard lock(mutex_);
  ++stats_.lowered;
  add(key, source, circumstances, graph);
  return graph;
}

void ShapeFamilies::add(uint64_t key, const Graph& source, const std::string& circumstances, const Graph& lowered) {
  const size_t size = count_nodes(source) + count_nodes(lowered);
  if (size > kMostNodes / kMostFamilies) return;
  if (nodes_ + size > kMostNodes) {
    known_.clear();
    nodes_ = 0;
  }
  StructureGroup* kin = find(key, source, circumstances);
  const auto own = std::make_shared<const Graph>(source);
  if (!kin) kin = &known_.insert({key, StructureGroup{own, circumstances, {}}})->second;
  Member member{own, std::make_shared<const Graph>(lowered), Numbers(source)};
  const auto replace = [&](std::shared_ptr<const Family>& f, Family now) {
    nodes_ = nodes_ + now.nodes() - f->nodes();
    f = std::make_shared<const Family>(std::move(now));
  };
  for (auto& f : kin->families) {
    if (const std::optional<int64_t> t = f->place(member.numbers)) {
      if (*t >= f->low && *t <= f->high) return;
      // Beyond a shape that became another graph the formulas may hold again, but not between.
      if (!alike(*f->lowered, lowered) || !f->result.hold(Numbers(lowered), *t)) return;
      Family wider = *f;
      wider.low = std::min(wider.low, *t);
      wider.high = std::max(wider.high, *t);
      return replace(f, std::move(wider));
    }
    if (f->ready() || !alike(*f->members[0].lowered, lowered)) continue;
    const auto same = [&](const Member& m) {
      return m.numbers.integers == member.numbers.integers && m.numbers.reals == member.numbers.reals;
    };
    if (std::any_of(f->members.begin(), f->members.end(), same)) return;
    Family more = *f;
    more.members.push_back(member);
    if (more.members.size() == 3 && !more.fit()) continue;
    return replace(f, std::move(more));
  }
  Family alone;
  alone.members.push_back(std::move(member));
  nodes_ += alone.nodes();
  kin->families.push_front(std::make_shared<const Family>(std::move(alone)));
  if (kin->families.size() <= kMostFamilies) return;
  nodes_ -= kin->families.back()->nodes();
  kin->families.pop_back();
}

ShapeFamilies::Stats ShapeFamilies::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void ShapeFamilies::clear() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  nodes_ = 0;
  stats_ = {};
}

ShapeFamilies& shape_families() {
  static ShapeFamilies families;
  return families;
}

}  // namespace freight::passes
