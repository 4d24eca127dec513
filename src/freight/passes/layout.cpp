// Layouts and aliases; see placement.h. Pointwise and fused nodes read any strides and write in the order of their
// largest input; the backend is asked about everything else; a wish that is not met becomes a visible copy node.
#include <algorithm>
#include <numeric>

#include "freight/ir/fused_pattern.h"
#include "freight/passes/passes.h"
#include "freight/passes/placement.h"

namespace freight::passes {

namespace {

// Strides of `to` over the memory of (from, strides), or false where a copy is needed. Row-major element order is kept.
bool reshape_strides(const Shape& from, const Strides& strides, const Shape& to, Strides& out) {
  Shape f, fs;  // without extents of 1
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i] != 1) {
      f.push_back(from[i]);
      fs.push_back(strides[i]);
    }
  }
  out = Shape::filled(to.rank(), 0);
  if (to.numel() == 0) {
    out = contiguous_strides(to);
    return true;
  }
  int i = 0, j = 0;
  while (i < f.rank() || j < to.rank()) {
    // A group of source axes and a group of target axes with equal products.
    int i0 = i, j0 = j;
    int64_t pf = 1, pt = 1;
    if (i < f.rank()) pf = f[i++];
    if (j < to.rank()) pt = to[j++];
    while (pf != pt) {
      if (pf < pt) {
        if (i >= f.rank()) return false;
        pf *= f[i++];
      } else {
        if (j >= to.rank()) return false;
        pt *= to[j++];
      }
    }
    for (int k = i0; k + 1 < i; ++k) {
      if (fs[k] != f[k + 1] * fs[k + 1]) return false;
    }
    int64_t step = i > i0 ? fs[i - 1] : 1;
    for (int k = j - 1; k >= j0; --k) {
      out[k] = step;
      step *= to[k];
    }
  }
  return true;
}

class LayoutPass {
 public:
  LayoutPass(const Graph& graph, const Backend& backend, const LayoutOptions& options)
      : backend_(backend), r_(graph), frozen_(frozen_values(graph, options.states)), options_(options) {}

  PlacedGraph run() {
    const Graph& g = r_.src;
    r_.dst.nodes.reserve(g.nodes.size());
    prefers_row_major_ = ByValue<bool>(g);
    for (Value v : g.results()) prefers_row_major_[v] = true;
    for (const Node& n : g.nodes) {
      if (n.op == Op::all_reduce) prefers_row_major_[n.in(0)] = true;
    }
    for (const Node& n : g.nodes) visit(n);
    PlacedGraph placed;
    placed.graph = r_.finish();
    settle_outputs(placed.graph);
    placed.places = std::move(places_);
    return placed;
  }

 private:
  Place& place(Value v) { return places_[v]; }

  // Records the places of a node just added.
  void put(const ValueList& out, const std::vector<Layout>& layouts, Graph& g) {
    places_.resize(g.values.size());
    copies_.resize(g.values.size());
    for (size_t i = 0; i < out.size(); ++i) place(out[i]) = {layouts[i], out[i], 0};
  }

  // The value in the wanted layout: itself, an earlier copy, or a new copy node.
  Value in_layout(Value v, const Layout& wanted, const Node& user) {
    const Type type = r_.dst.type(v);
    // Formats of a library are made from dense memory.
    if (wanted.blocked && !place(v).layout.blocked && !is_dense(type.shape, place(v).layout)) {
      v = in_layout(v, Layout::row_major(type.shape), user);
    }
    if (same_layout(type.shape, place(v).layout, wanted)) return v;
    for (Value c : copies_[v]) {
      if (same_layout(type.shape, place(c).layout, wanted)) return c;
    }
    const auto out = r_.dst.add(Op::copy, NoAttrs{}, {v}, user);
    put(out, {wanted}, r_.dst);
    copies_[v].push_back(out[0]);
    return out[0];
  }

  void visit(const Node& n) {
    const OpKind kind = info(n.op).kind;
    if (kind == OpKind::leaf) {
      add(n, r_(n.inputs), {Layout::row_major(r_.src.type(n.out()).shape)});
    } else if (kind == OpKind::view && backend_.aliases_views()) {
      alias(n);
    } else if (n.op == Op::offload || n.op == Op::fetch) {
      keep_layout(n);
    } else if (backend_.fuses() && !product_in(n) &&
               (is_pointwise(n.op) || kind == OpKind::reduce || n.op == Op::fused || n.op == Op::copy)) {
      follow_largest_input(n);
    } else {
      ask_backend(n);
    }
  }

  void add(const Node& n, const ValueList& inputs, const std::vector<Layout>& layouts) {
    const auto out = r_.dst.add(n.op, n.attrs, inputs, n);
    for (size_t i = 0; i < out.size(); ++i) r_.replace(n.outputs[i], out[i]);
    put(out, layouts, r_.dst);
  }

  void alias(const Node& n) {
    Value x = r_(n.in(0));
    if (place(x).layout.blocked) x = in_layout(x, Layout::row_major(r_.dst.type(x).shape), n);
    const Shape in = r_.dst.type(x).shape, to = r_.src.type(n.out()).shape;
    const Place from = place(x);
    Place view = from;
    Strides& s = view.layout.strides;
    if (n.op == Op::reshape) {
      if (!reshape_strides(in, from.layout.strides, to, s)) {
        x = in_layout(x, Layout::row_major(in), n);
        view = place(x);
        reshape_strides(in, place(x).layout.strides, to, view.layout.strides);
      }
    } else if (n.op == Op::transpose) {
      const Shape& perm = attrs<PermAttrs>(n).perm;
      for (int i = 0; i < perm.rank(); ++i) s[i] = from.layout.strides[static_cast<int>(perm[i])];
    } else if (n.op == Op::broadcast) {
      for (int i = 0; i < to.rank(); ++i) {
        if (in[i] != to[i]) s[i] = 0;
      }
    } else {
      const auto& a = attrs<SliceAttrs>(n);
      for (int i = 0; i < to.rank(); ++i) {
        view.offset += a.start[i] * from.layout.strides[i];
        s[i] = from.layout.strides[i] * a.step[i];
      }
      if (to.numel() == 0) view.offset = from.offset;
    }
    add(n, {x}, {view.layout});
    place(r_(n.out())) = view;
  }

  // The bytes as they lie, where none that belongs to something else lies between them.
  void keep_layout(const Node& n) {
    Value x = r_(n.in(0));
    const Shape& shape = r_.dst.type(x).shape;
    const Layout& l = place(x).layout;
    if (prefers_row_major_[n.out()] || !(l.blocked || is_dense(shape, l))) {
      x = in_layout(x, Layout::row_major(shape), n);
    }
    add(n, {x}, {place(x).layout});
  }

  void follow_largest_input(const Node& n) {
    ValueList inputs = r_(n.inputs);
    for (Value& v : inputs) {
      if (place(v).layout.blocked) v = in_layout(v, Layout::row_major(r_.dst.type(v).shape), n);
    }
    // The leader: the largest input that covers memory densely; among equals channels-last wins over row-major.
    const Shape* shape = nullptr;
    std::vector<int> order;
    int64_t best = -1;
    bool best_plain = true;
    for (Value v : inputs) {
      const Shape& s = r_.dst.type(v).shape;
      const Layout& l = place(v).layout;
      const bool plain = same_layout(s, l, Layout::row_major(s));
      bool broadcast = false;
      for (int i = 0; i < s.rank(); ++i) broadcast = broadcast || (s.numel() > 1 && s[i] > 1 && l.strides[i] == 0);
      if (broadcast || s.numel() < best || (s.numel() == best && !(best_plain && !plain))) continue;
      best = s.numel();
      best_plain = plain;
      order = memory_order(s, l.strides);
      shape = &s;
    }
    std::vector<Layout> layouts;
    for (Value v : n.outputs) {
      const Shape& s = r_.src.type(v).shape;
      const bool plain = prefers_row_major_[v] || !shape || s.rank() != static_cast<int>(order.size());
      layouts.push_back(plain ? Layout::row_major(s) : Layout{permuted_strides(s, order), nullptr});
    }
    add(n, inputs, layouts);
  }

  void ask_backend(const Node& n) {
    ValueList inputs = r_(n.inputs);
    std::vector<Layout> given;
    for (Value v : inputs) given.push_back(place(v).layout);
    FrozenInputs frozen{{}, options_.deterministic, options_.rule};
    for (Value v : n.inputs) frozen.inputs.push_back(frozen_[v]);
    const LayoutPlan plan = options_.states == States::frozen ? backend_.layouts_of_frozen(r_.src, n, given, frozen)
                                                              : backend_.layouts(r_.src, n, given);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = in_layout(inputs[i], plan.in[i], n);
    add(n, inputs, plan.out);
  }

  // Each output of the graph needs memory of its own, row-major: anything else gets a final copy. Likewise the next
  // value of a state must not be a leaf or a view.
  void settle_outputs(Graph& g) {
    ByValue<bool> taken(g);
    const auto own = [&](Value v) {
      const Place& p = place(v);
      const Shape& s = g.type(v).shape;
      const bool fine = p.root == v && info(g.def(v).op).kind != OpKind::leaf && !taken[v] &&
                        same_layout(s, p.layout, Layout::row_major(s));
      if (fine) {
        taken[v] = true;
        return v;
      }
      const auto out = g.add(Op::copy, NoAttrs{}, {v}, g.def(v));
      put(out, {Layout::row_major(g.type(v).shape)}, g);
      taken.resize(g.values.size(), true);
      return out[0];
    };
    for (Update& u : g.updates) u.next = own(u.next);
    for (Value& v : g.outputs) v = own(v);
  }

  const Backend& backend_;
  Rewriter r_;
  ByValue<bool> frozen_;  // of the old graph
  LayoutOptions options_;
  ByValue<Place> places_;
  ByValue<ValueList> copies_;
  ByValue<bool> prefers_row_major_;
};

}  // namespace

PlacedGraph layout(const Graph& graph, const Backend& backend, const LayoutOptions& options) {
  return LayoutPass(graph, backend, options).run();
}

}  // namespace freight::passes
