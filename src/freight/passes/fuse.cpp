// Fusion. First epilogues: bias, residual and activation move into the matmul or convolution that feeds them. Then
// regions: pointwise and reduce nodes over one iteration shape become one `fused` node, which reads every operand once.
//
// A region has an iteration shape S and at most one set of reduced axes. Its reduce results are read inside it only
// when its rows (the reduced elements of one result) lie together in memory and are short: then the row is in cache
// when it is read again (softmax, layer norm). Free nodes (is_free) are repeated in every region. Steps that a backend
// makes of a region and the product beside it come later: Backend::fuse_patterns.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "freight/ir/reads_whole.h"
#include "freight/passes/passes.h"
#include "freight/passes/placement.h"

namespace freight::passes {

namespace {

constexpr int64_t kMaxRow = 16384;  // elements of a row that may be read twice

// ---- Epilogues ----

class EpiloguePass {
 public:
  EpiloguePass(const Graph& graph, const Backend& backend) : backend_(backend), r_(graph), uses_(graph.use_counts()) {}

  Graph run() {
    find_chains();
    for (const NodeId i : r_.src.node_ids()) {
      const Node& n = r_.src.node(i);
      const auto it = chains_.find(i);
      if (swallowed_[i]) continue;
      if (it == chains_.end()) {
        r_.copy(n);
        continue;
      }
      const Chain& c = it->second;
      const Node& core = r_.src.node(c.core);
      Attrs a = core.attrs;
      epilogue_of(a) = c.epilogue;
      ValueList in = r_(core.inputs);
      if (c.bias.valid()) in.push_back(r_(c.bias));
      if (c.residual.valid()) in.push_back(r_(c.residual));
      Value y = r_.dst.add(core.op, std::move(a), in, core)[0];
      const Shape& shape = r_.src.type(n.out()).shape;
      if (r_.dst.type(y).shape != shape) y = r_.dst.add(Op::reshape, ShapeAttrs{shape}, {y}, n)[0];
      r_.replace(n.out(), y);
    }
    return dead_code(r_.finish());
  }

 private:
  struct Chain {
    NodeId core;  // the matmul or convolution
    Epilogue epilogue;
    Value bias, residual;
  };

  static Epilogue& epilogue_of(Attrs& a) {
    if (auto* m = std::get_if<MatmulAttrs>(&a)) return m->epilogue;
    return std::get<ConvAttrs>(a).epilogue;
  }

  // The only node that reads v; invalid where there are others, or none.
  NodeId only_reader(Value v) const { return uses_[v] == 1 ? reader_[v] : NodeId{}; }

  // A region that has a reader of v makes v itself: it is a broadcast, or a pointwise result with no other reader.
  // The sum with such a value is left to that region, so that v is never stored; as a residual it would be.
  bool made_in_regions(Value v) const {
    const Op op = r_.src.def(v).op;
    return op == Op::broadcast || (is_pointwise(op) && uses_[v] == 1);
  }

  // The node v sigmoid(v) where nothing else reads v; else invalid.
  NodeId silu_of(Value v) const {
    if (uses_[v] != 2 || !reader_[v].valid()) return {};
    const Node& product = r_.src.node(reader_[v]);
    if (product.op != Op::mul || (product.in(0) != v && product.in(1) != v)) return {};
    const Value other = product.in(product.in(0) == v ? 1 : 0);
    const Node& d = r_.src.def(other);
    return d.op == Op::sigmoid && d.in(0) == v && uses_[other] == 1 ? reader_[v] : NodeId{};
  }

  // True where n splits the rows of a product into more axes: a layer of (N, T, C) is a product of (N T, C).
  bool splits_rows(const Node& n, const Shape& from) const {
    const Shape& to = r_.src.type(n.out()).shape;
    return n.op == Op::reshape && from.rank() == 2 && to.rank() > 2 && to[to.rank() - 1] == from[1];
  }

  // A chain core -> (split into more axes) -> (+ bias) -> (+ residual) -> (relu) -> (minimum), or silu, ends at the
  // node that the fused core replaces: there every operand of the chain has been made. A residual has the core's own
  // axes. The backend is asked after each part, so that a chain ends before the first one that it does not take.
  void find_chains() {
    const Graph& g = r_.src;
    reader_ = ByValue<NodeId>(g);
    swallowed_ = ByNode<bool>(g);
    ByNode<bool> claimed(g);
    for (const NodeId i : g.node_ids()) {
      for (Value v : g.node(i).inputs) reader_[v] = i;
    }
    for (const NodeId i : g.node_ids()) {
      const Node& core = g.node(i);
      if (core.op != Op::matmul && core.op != Op::conv) continue;
      Attrs attributes = core.attrs;
      const Epilogue& e = epilogue_of(attributes);
      if (e.bias || e.residual || e.activates()) continue;  // a graph that was read as text may have them already
      Shape shape = g.type(core.out()).shape;
      Chain c;
      c.core = i;
      NodeId at = i;
      std::vector<NodeId> path{at};
      if (const NodeId next = only_reader(core.out()); next.valid() && splits_rows(g.node(next), shape)) {
        path.push_back(at = next);
        shape = g.type(g.node(at).out()).shape;
      }
      const int channel = core.op == Op::conv ? 1 : shape.rank() - 1;
      const size_t bare = path.size();
      for (;;) {
        const Value v = g.node(at).out();
        if (const NodeId product = silu_of(v); product.valid() && !c.epilogue.relu && !c.epilogue.bounded()) {
          Chain longer = c;
          longer.epilogue.silu = true;
          if (claimed[product] || !backend_.has_epilogue(g, core, longer.epilogue)) break;
          c = longer;
          for (const Value in : g.node(product).inputs) {
            if (in != v) path.push_back(g.node_of(in));
          }
          path.push_back(at = product);
          break;
        }
        const NodeId next = only_reader(v);
        if (!next.valid() || claimed[next]) break;  // two contractions may feed one sum
        const Node& n = g.node(next);
        Chain longer = c;
        double most = 0;
        if (c.epilogue.bounded()) break;  // the last part
        if (n.op == Op::add && !c.epilogue.relu) {
          const Value other = n.in(0) == v ? n.in(1) : n.in(0);
          const Value bias = channel_vector(g, other, channel, shape);
          if (bias.valid() && !c.epilogue.bias && !c.epilogue.residual) {
            longer.epilogue.bias = true;
            longer.bias = bias;
          } else if (bare == 1 && !c.epilogue.residual && info(g.def(other).op).kind != OpKind::leaf &&
                     !made_in_regions(other)) {
            longer.epilogue.residual = true;
            longer.residual = other;
          } else {
            break;
          }
        } else if (n.op == Op::relu && !c.epilogue.relu) {
          longer.epilogue.relu = true;
        } else if (n.op == Op::minimum && splat_value(g, n.in(0) == v ? n.in(1) : n.in(0), most)) {
          longer.epilogue.most = most;
          if (!longer.epilogue.bounded()) break;  // by infinity, or by NaN
        } else {
          break;
        }
        if (!backend_.has_epilogue(g, core, longer.epilogue)) break;
        c = longer;
        at = next;
        path.push_back(at);
      }
      if (path.size() == bare) continue;
      for (const NodeId k : path) swallowed_[k] = claimed[k] = true;
      swallowed_[at] = false;
      chains_[at] = c;
    }
  }

  const Backend& backend_;
  Rewriter r_;
  ByValue<int> uses_;
  ByValue<NodeId> reader_;  // the last one
  ByNode<bool> swallowed_;
  std::map<NodeId, Chain> chains_;
};

// ---- Regions ----

// True where n reads or makes a value without arithmetic (computes() in base/dtype.h). Ops that move or compare
// such values, or convert them, are steps of their own.
bool carries(const Graph& g, const Node& n) {
  const auto carried = [&](Value v) { return !computes(g.type(v).dtype); };
  return std::any_of(n.inputs.begin(), n.inputs.end(), carried) ||
         std::any_of(n.outputs.begin(), n.outputs.end(), carried);
}

// Free nodes cost nothing inside a region, so that every reader repeats them. A cast from 16 bits to f32 is one: its
// readers read the narrow value from memory and widen it themselves.
bool is_free(const Graph& g, const Node& n) {
  if (carries(g, n)) return false;
  if (n.op == Op::constant) return !attrs<ConstantAttrs>(n).data.defined();
  if (n.op == Op::cast)
    return g.type(n.out()).dtype == DType::f32 && wide(g.type(n.in(0)).dtype) != g.type(n.in(0)).dtype;
  return n.op == Op::broadcast || n.op == Op::iota;
}
// Nodes that regions are made of. Each has one result.
bool is_fusable(const Graph& g, const Node& n) {
  return ((is_pointwise(n.op) && !is_free(g, n)) || is_reduce(n.op)) && !carries(g, n);
}

// Names a region of the pass below.
struct RegionId {
  int32_t id = -1;
  bool valid() const { return id >= 0; }
  size_t index() const { return static_cast<size_t>(id); }
  friend bool operator==(RegionId, RegionId) = default;
};

struct Region {
  Shape shape;                // S
  Shape axes;                 // reduced axes; empty: none
  bool rows = false;          // the axes are innermost in memory and short
  std::vector<NodeId> nodes;  // ascending
  bool has(NodeId node) const { return std::binary_search(nodes.begin(), nodes.end(), node); }
};

class RegionPass {
 public:
  RegionPass(const Graph& graph, const Backend& backend, States states)
      : g_(graph), is_result_(graph), frozen_(frozen_values(graph, states)) {
    for (Value v : g_.results()) is_result_[v] = true;
    // The layouts that the values would get unfused tell which reduced axes are innermost.
    const PlacedGraph placed = layout(graph, backend);
    find_channels_last(placed);
  }

  Graph run() {
    collect();
    find_ancestors();
    for (const NodeId i : g_.node_ids()) {
      if (!region_[i].valid()) continue;
      for (Value v : sources_[i]) {
        const NodeId p = g_.node_of(v);
        if (region_[p].valid()) merge(p, i);
      }
    }
    siblings();
    return emit();
  }

 private:
  bool frozen(NodeId node) const { return frozen_[g_.node(node).out()]; }
  Region& region_at(NodeId node) { return regions_[region_[node]]; }

  // Notes which values the layout pass makes channels-last; all others count as row-major. Both are guesses, since the
  // fused graph may get other layouts: after a wrong one a region reduces axes that are not innermost, which is slower,
  // but as correct.
  void find_channels_last(const PlacedGraph& placed) {
    // The layout pass adds copies, so values are found by walking both graphs in step.
    channels_last_ = ByValue<bool>(g_);
    size_t at = 0;
    for (const Node& n : placed.graph.nodes) {
      if (at >= g_.nodes.size()) break;
      const Node& mine = g_.nodes[at];
      if (n.op != mine.op || n.outputs.size() != mine.outputs.size()) continue;  // a copy in between
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        const Shape& s = placed.graph.type(n.outputs[k]).shape;
        const Strides& t = placed.place(n.outputs[k]).layout.strides;
        channels_last_[mine.outputs[k]] = s.rank() >= 3 && !placed.place(n.outputs[k]).layout.blocked &&
                                          same_layout(s, {t, nullptr}, Layout::channels_last(s)) &&
                                          !same_layout(s, {t, nullptr}, Layout::row_major(s));
      }
      ++at;
    }
  }

  // How many elements the axes hold.
  static int64_t row_of(const Shape& shape, const Shape& axes) {
    int64_t row = 1;
    for (int64_t a : axes) row *= shape[static_cast<int>(a)];
    return row;
  }

  // True where the axes are the fastest ones of `shape` in memory: a row is contiguous, all others step over rows.
  static bool innermost(const Shape& shape, const Shape& axes, bool channels_last) {
    const Strides strides = channels_last ? channels_last_strides(shape) : contiguous_strides(shape);
    const int64_t row = row_of(shape, axes);
    for (int i = 0; i < shape.rank(); ++i) {
      const bool kept = shape[i] != 1 && std::find(axes.begin(), axes.end(), i) == axes.end();
      if (kept && strides[i] < row) return false;
    }
    return true;
  }

  // The operands behind free nodes.
  ValueList find_sources(const Node& n) const {
    ValueList found;
    std::vector<Value> stack(n.inputs.rbegin(), n.inputs.rend());
    while (!stack.empty()) {
      const Value v = stack.back();
      stack.pop_back();
      if (free_[g_.node_of(v)]) {
        const Node& d = g_.def(v);
        stack.insert(stack.end(), d.inputs.begin(), d.inputs.end());
      } else {
        found.push_back(v);
      }
    }
    return found;
  }

  void collect() {
    region_ = ByNode<RegionId>(g_);
    seen_ = ByNode<int32_t>(g_);
    sources_ = ByNode<ValueList>(g_);
    readers_ = ByNode<std::vector<NodeId>>(g_);
    reach_ = ByNode<NodeId>(g_);
    inner_ = ByValue<Value>(g_);
    counted_ = ByValue<int32_t>(g_);
    for (const NodeId i : g_.node_ids()) {
      free_.push_back(is_free(g_, g_.node(i)));
    }
    // A value that a region repeats lies in no memory, and so cannot be read whole.
    for (const Node& n : g_.nodes) {
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        if (reads_whole(n, static_cast<int>(k))) free_[g_.node_of(n.inputs[k])] = false;
      }
    }
    for (const NodeId i : g_.node_ids()) {
      const Node& n = g_.node(i);
      for (Value v : n.inputs) readers_[g_.node_of(v)].push_back(i);
      if (!is_fusable(g_, n)) continue;
      sources_[i] = find_sources(n);
      Region r;
      r.nodes = {i};
      if (is_reduce(n.op)) {
        r.shape = g_.type(n.in(0)).shape;
        r.axes = attrs<AxesAttrs>(n).axes;
        r.rows = row_of(r.shape, r.axes) <= kMaxRow && innermost(r.shape, r.axes, channels_last_[n.in(0)]);
      } else {
        r.shape = g_.type(n.out()).shape;
      }
      region_[i] = {static_cast<int32_t>(regions_.size())};
      regions_.push_back(std::move(r));
    }
  }

  static Shape reduced(const Shape& s, const Shape& axes) {
    Shape out = s;
    for (int64_t a : axes) out[static_cast<int>(a)] = 1;
    return out;
  }

  // Which nodes each one depends on: a triangle of bits, one row per node, made by one pass over the graph. Merging
  // regions adds paths and removes none, so that a path found here needs no search. Larger graphs always search.
  static constexpr size_t kMaxTriangle = 16384;
  void find_ancestors() {
    const size_t count = g_.nodes.size();
    if (count > kMaxTriangle) return;
    first_word_ = ByNode<size_t>(g_);
    size_t words = 0;
    for (const NodeId i : g_.node_ids()) {
      first_word_[i] = words;
      words += (i.index() + 63) / 64;
    }
    ancestors_.assign(words, 0);
    for (const NodeId i : g_.node_ids()) {
      uint64_t* mine = ancestors_.data() + first_word_[i];
      for (Value v : g_.node(i).inputs) {
        const NodeId maker = g_.node_of(v);
        const size_t p = maker.index();
        const uint64_t* theirs = ancestors_.data() + first_word_[maker];
        for (size_t w = 0; w < (p + 63) / 64; ++w) mine[w] |= theirs[w];
        mine[p / 64] |= uint64_t{1} << p % 64;
      }
    }
  }
  bool is_ancestor(NodeId node, NodeId of) const {
    if (first_word_.empty() || node >= of) return false;
    const size_t n = node.index();
    return ancestors_[first_word_[of] + n / 64] >> n % 64 & 1;
  }

  // Joins the regions of producer p and reader n where that is sound; the union keeps p's region number.
  void merge(NodeId p, NodeId n) {
    const RegionId rp = region_[p], rn = region_[n];
    if (rp == rn || frozen(p) != frozen(n)) return;  // what runs once does not join what runs each time
    Region joined;
    if (!compatible(regions_[rp], regions_[rn], joined)) return;
    if (operands(joined, rp, rn) > kMaxOperands) return;
    if (path_outside(rp, rn) || path_outside(rn, rp)) return;
    for (const NodeId k : joined.nodes) region_[k] = rp;
    regions_[rp] = std::move(joined);
    regions_[rn].nodes.clear();
    const Region& whole = regions_[rp];
    const auto count = static_cast<int32_t>(g_.nodes.size());
    for (int32_t i = whole.nodes.front().id + 1; i <= count; i += i & -i) {
      reach_[{i - 1}] = std::max(reach_[{i - 1}], whole.nodes.back());
    }
  }

  // `node`, or the last member of the regions that begin at it or before.
  NodeId reach(NodeId node) const {
    NodeId last = node;
    for (int32_t i = node.id + 1; i > 0; i &= i - 1) last = std::max(last, reach_[{i - 1}]);
    return last;
  }

  bool compatible(const Region& a, const Region& b, Region& joined) const {
    const Region* frame = &a;  // the one whose shape and axes the union has
    if (a.shape == b.shape) {
      if (!a.axes.empty() && !b.axes.empty() && a.axes != b.axes) return false;
      if (a.axes.empty()) frame = &b;
    } else if (!a.axes.empty() && a.rows && b.axes.empty() && b.shape == reduced(a.shape, a.axes)) {
      // b works on a's row results
    } else if (!b.axes.empty() && b.rows && a.axes.empty() && a.shape == reduced(b.shape, b.axes)) {
      frame = &b;
    } else {
      return false;
    }
    if (a.nodes.size() + b.nodes.size() > kMaxNodes) return false;
    joined = {frame->shape, frame->axes, frame->rows, {}};
    joined.nodes.resize(a.nodes.size() + b.nodes.size());
    std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), joined.nodes.begin());
    return (joined.axes.empty() || joined.rows || !reads_own_reduction(joined)) && !makes_what_it_reads_whole(joined);
  }

  // Two random numbers have the shape of a key: what makes the key would then pass for a producer of their elements.
  bool makes_what_it_reads_whole(const Region& r) const {
    for (const NodeId k : r.nodes) {
      const Node& n = g_.node(k);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (reads_whole(n, static_cast<int>(i)) && r.has(g_.node_of(n.inputs[i]))) return true;
      }
    }
    return false;
  }

  bool reads_own_reduction(const Region& r) const {
    for (const NodeId k : r.nodes) {
      for (Value v : sources_[k]) {
        const NodeId p = g_.node_of(v);
        if (is_reduce(g_.node(p).op) && r.has(p)) return true;
      }
    }
    return false;
  }

  // A path from region `from` to region `to` with at least one node outside both. Regions are single units.
  bool path_outside(RegionId from, RegionId to) {
    const int32_t round = ++rounds_;
    const auto seen = [&](NodeId node) { return std::exchange(seen_[node], round) == round; };
    std::vector<NodeId>& stack = stack_;
    stack.clear();
    const NodeId last = horizon(regions_[to].nodes.back());
    const auto leave = [&](NodeId node) {
      for (const NodeId reader : readers_[node]) {
        if (reader <= last) stack.push_back(reader);
      }
    };
    // First hop: readers outside both regions, also behind free nodes, which belong to their readers.
    std::vector<NodeId>& direct = direct_;
    direct.clear();
    const auto leave_region = [&](NodeId node) {
      for (const NodeId reader : readers_[node]) {
        if (reader > last || region_[reader] == from || region_[reader] == to) continue;
        (free_[reader] ? stack : direct).push_back(reader);
      }
    };
    for (const NodeId k : regions_[from].nodes) leave_region(k);
    while (!stack.empty()) {
      const NodeId k = stack.back();
      stack.pop_back();
      leave_region(k);
    }
    for (const NodeId k : direct) {
      for (const NodeId member : regions_[to].nodes) {
        if (is_ancestor(k, member)) return true;
      }
    }
    stack.swap(direct);
    while (!stack.empty()) {
      const NodeId k = stack.back();
      stack.pop_back();
      if (seen(k)) continue;
      const RegionId r = region_[k];
      if (r == to) return true;
      if (r.valid()) {  // a region is entered whole
        for (const NodeId member : regions_[r].nodes) {
          seen(member);
          leave(member);
        }
      } else {
        leave(k);
      }
    }
    return false;
  }

  // Returns a node behind which no path leads back to `node`. Readers come later in the list than what they read; but a
  // path that enters a region goes on from all of its members, the earlier ones, too.
  NodeId horizon(NodeId node) const {
    for (NodeId last = reach(node); last > node; last = reach(node)) node = last;
    return node;
  }

  // The operands of the union r of two regions.
  size_t operands(const Region& r, RegionId a, RegionId b) {
    const int32_t round = ++rounds_;
    size_t count = 0;
    for (const NodeId k : r.nodes) {
      for (Value v : sources_[k]) {
        const RegionId from = region_[g_.node_of(v)];
        if (from != a && from != b && std::exchange(counted_[v], round) != round) ++count;
      }
    }
    // How many results are read outside is not known before the region is complete: four are assumed, or one per node
    // where there are fewer. More are no fault, since kMaxNodes bounds them.
    return count + std::min<size_t>(r.nodes.size(), 4);
  }

  // Regions that read the same whole tensor run as one pass over it.
  void siblings() {
    for (const Value v : g_.value_ids()) {
      const Shape& s = g_.type(v).shape;
      if (s.numel() < 2) continue;
      NodeId first;
      for (const NodeId reader : readers_[g_.node_of(v)]) {
        if (!region_[reader].valid()) continue;
        const Node& n = g_.node(reader);
        if (std::find(n.inputs.begin(), n.inputs.end(), v) == n.inputs.end()) continue;
        if (region_at(reader).shape != s) continue;
        if (!first.valid()) {
          first = reader;
        } else {
          merge(first, reader);
        }
      }
    }
  }

  // Rebuilds the graph with one fused node per region, in an order in which each comes after those it reads.
  Graph emit() {
    const size_t count = g_.nodes.size();
    ByNode<NodeId> unit(g_);  // named by its first node
    ByNode<int32_t> missing(g_);
    for (const NodeId i : g_.node_ids()) unit[i] = region_[i].valid() ? region_at(i).nodes.front() : i;
    ByNode<std::vector<NodeId>> after(g_);
    for (const NodeId i : g_.node_ids()) {
      for (Value v : region_[i].valid() ? sources_[i] : g_.node(i).inputs) {
        const NodeId p = unit[g_.node_of(v)];
        if (p == unit[i]) continue;
        after[p].push_back(unit[i]);
        ++missing[unit[i]];
      }
    }
    const ByNode<bool> needed = needed_outside_regions();
    Rewriter r(g_);
    std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;  // the first in the list comes first
    for (const NodeId i : g_.node_ids()) {
      if (unit[i] == i && missing[i] == 0) ready.push(i);
    }
    size_t emitted = 0;
    while (!ready.empty()) {
      const NodeId u = ready.top();
      ready.pop();
      if (region_[u].valid()) {
        emit_region(r, region_at(u));
        emitted += region_at(u).nodes.size();
      } else {
        if (needed[u]) r.copy(g_.node(u));
        ++emitted;
      }
      for (const NodeId next : after[u]) {
        if (--missing[next] == 0) ready.push(next);
      }
    }
    FREIGHT_CHECK(emitted == count, "fusion made a cycle");
    return dead_code(r.finish());
  }

  // Free nodes whose only readers are regions live in the bodies alone.
  ByNode<bool> needed_outside_regions() const {
    ByNode<bool> needed(g_);
    for (const NodeId i : g_.node_ids().reversed()) {
      const Node& n = g_.node(i);
      if (!free_[i] || is_result_[n.out()]) needed[i] = true;
      if (!needed[i] || region_[i].valid()) continue;
      for (Value v : n.inputs) needed[g_.node_of(v)] = true;
    }
    return needed;
  }

  void emit_region(Rewriter& r, const Region& region) {
    auto body = std::make_shared<Graph>();
    std::vector<Value> inputs, seen;
    // The body's value for v: made inside, repeated (free nodes), or a new input.
    const auto get = [&](auto&& self, Value v) -> Value {
      Value& have = inner_[v];
      if (have.valid()) return have;
      seen.push_back(v);
      if (free_[g_.node_of(v)]) {
        const Node& d = g_.def(v);
        ValueList in;
        for (Value x : d.inputs) in.push_back(self(self, x));
        return inner_[v] = body->add(d.op, d.attrs, in)[0];
      }
      FREIGHT_CHECK(!region.has(g_.node_of(v)), "region out of order");
      inputs.push_back(v);
      return have = body->add(Op::input, LeafAttrs{"", g_.type(v)}, {})[0];
    };
    std::vector<Value> results;
    for (const NodeId k : region.nodes) {
      const Node& n = g_.node(k);
      ValueList in;
      for (Value v : n.inputs) in.push_back(get(get, v));
      seen.push_back(n.out());
      inner_[n.out()] = body->add(n.op, n.attrs, in)[0];
      if (read_outside(n.out(), region)) {
        results.push_back(n.out());
        body->outputs.push_back(inner_[n.out()]);
      }
    }
    for (Value v : seen) inner_[v] = {};
    const Node& last = g_.node(region.nodes.back());
    const auto out = r.dst.add(Op::fused, FusedAttrs{body}, r(inputs), last);
    for (size_t i = 0; i < out.size(); ++i) r.replace(results[i], out[i]);
  }

  bool read_outside(Value v, const Region& region) const {
    if (is_result_[v]) return true;
    // Through free nodes: another region repeats the free node and so reads v; any other reader has the free node made
    // as a step, which reads v.
    std::vector<NodeId> stack(readers_[g_.node_of(v)]);
    while (!stack.empty()) {
      const NodeId k = stack.back();
      stack.pop_back();
      if (free_[k]) {
        const Node& n = g_.node(k);
        const auto& next = readers_[k];
        stack.insert(stack.end(), next.begin(), next.end());
        if (is_result_[n.out()]) return true;
      } else if (!region.has(k)) {
        return true;
      }
    }
    return false;
  }

  const Graph& g_;
  ByValue<bool> is_result_;  // an output, or the next value of a state
  ByValue<bool> frozen_;
  ByNode<bool> free_;                   // is_free, and read whole by none
  ByNode<ValueList> sources_;           // of nodes that regions are made of
  std::vector<NodeId> stack_, direct_;  // of that search
  ByValue<Value> inner_;                // of a region's body while that is made, else invalid
  ByNode<int32_t> seen_;                // the number of the last search for a path that came by
  ByValue<int32_t> counted_;            // the same of counts of operands
  int32_t rounds_ = 0;
  ById<RegionId, Region> regions_;
  ByNode<RegionId> region_;              // invalid: none
  ByNode<NodeId> reach_;                 // reach() as a tree of maxima (Fenwick 1994), by first members
  ByNode<std::vector<NodeId>> readers_;  // nodes that read any of its results
  ByValue<bool> channels_last_;
  ByNode<size_t> first_word_;  // the first word of its row in the triangle; empty: no triangle
  std::vector<uint64_t> ancestors_;
};

}  // namespace

Graph fuse(const Graph& graph, const Backend& backend, States states) {
  const Graph with_epilogues = EpiloguePass(graph, backend).run();
  return RegionPass(with_epilogues, backend, states).run();
}

}  // namespace freight::passes
