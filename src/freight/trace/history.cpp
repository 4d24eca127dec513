// Eager traces that have run leave this. A trace is kept while somebody holds a tensor that it made and a gradient
// can be asked for through it: while the tensor depends on the present value of a variable or on another tensor that
// is held. A gradient recalls what it needs into the trace that is being recorded. Elements that are there are read,
// the others computed again.
#include <algorithm>
#include <map>

#include "freight/trace/thread_context.h"
#include "freight/trace/tracer.h"

namespace freight::trace {

namespace {

std::atomic<uint64_t> g_order{0};

// True where a user holds a handle; `own` references are the caller's.
bool held_by_user(const std::shared_ptr<TensorImpl>& tensor, int own) {
  return tensor.use_count() - own > tensor->captures.load(std::memory_order_relaxed);
}

}  // namespace

std::mutex& history_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::atomic<int>& HeldVersion::count() {
  static std::atomic<int> count{0};
  return count;
}

// --- versions of variables ---

const std::shared_ptr<Version>& VariableImpl::version() {
  if (!version_) version_ = std::make_shared<Version>();
  return version_;
}

void VariableImpl::supersede(const Array& overwritten) {
  if (!version_) return;
  if (version_.use_count() > 1 && !version_->saved.defined()) {
    version_->saved = overwritten.defined() ? overwritten : Array(type.dtype, type.shape, materialize()).clone();
  }
  version_->stale = true;
  version_.reset();
}

void Trace::release_versions() {
  for (StateUse& s : states_) {
    s.before = {};
    s.after = {};
  }
}

// Tells tensors that are values of variables which they are.
void Trace::tell_versions(const std::vector<std::shared_ptr<TensorImpl>>& live) const {
  for (const StateUse& s : states_) {
    for (const auto& tensor : live) {
      const bool is_old = tensor->value == s.leaf, is_new = s.assigned() && tensor->value == s.read;
      const HeldVersion& version = is_new ? s.after : s.before;
      if (!(is_old || is_new) || !version) continue;
      tensor->variable = s.variable;
      tensor->version = version;
    }
  }
}

// --- keeping ---

void Trace::add_source(const std::shared_ptr<TensorImpl>& tensor, Value value) {
  sources_.push_back({tensor, value});
  source_index_[tensor.get()] = value;
  ++tensor->captures;
}

Trace::~Trace() { forget(); }

void Trace::forget() {
  release_versions();
  std::vector<std::shared_ptr<TensorImpl>> here;
  auto& leaving = thread_context().leaving;
  const bool outermost = !leaving;
  if (outermost) leaving = &here;
  for (Source& s : sources_) {
    --s.tensor->captures;
    leaving->push_back(std::move(s.tensor));
  }
  sources_.clear();
  source_index_.clear();
  captured_ = {};
  graph_ = {};
  pending_ = {};
  states_ = {};
  state_index_.clear();
  old_versions_.clear();
  aliases_ = {};
  gradient_hooks_ = {};
  for (const Recalled& r : recalled_) --r.trace->recalled_by_;
  recalled_.clear();
  if (!outermost) return;
  while (!here.empty()) {
    const auto next = std::move(here.back());
    here.pop_back();
  }
  leaving = nullptr;
}

// True where the variable's value of this moment (after the run, where it has not happened yet) is this value.
bool Trace::has_now(const StateUse& s, Value value) const {
  const bool is_new = s.assigned() && value == s.read;
  if (!done_) return value.valid() && (is_new || !s.assigned());
  const HeldVersion& version = is_new ? s.after : s.before;
  return value.valid() && version && !version->stale;
}

bool Trace::worth_keeping() const {
  if (recalled_by_ > 0) return true;
  std::vector<bool> leads(graph_.values.size()), live(graph_.values.size()), named(graph_.values.size());
  const auto floating = [&](Value v) { return is_floating(graph_.type(v).dtype); };
  for (const Source& s : sources_) {
    const auto& made_by = s.tensor->trace;
    const bool recallable = made_by && made_by.get() != this && made_by->kept_;
    if (floating(s.value) && (held_by_user(s.tensor, 0) || recallable)) leads[s.value.index()] = true;
  }
  for (const StateUse& s : states_) {
    if (!floating(s.leaf)) continue;
    if (has_now(s, s.leaf)) leads[s.leaf.index()] = true;
    if (has_now(s, s.read)) leads[s.read.index()] = true;
  }
  bool any = false;
  for (const auto& weak : pending_) {
    const auto tensor = weak.lock();
    if (!tensor || !floating(tensor->value)) continue;
    any = live[tensor->value.index()] = true;
    if (held_by_user(tensor, done_ ? 1 : 2)) named[tensor->value.index()] = true;
  }
  if (!any) return false;
  for (const Node& n : graph_.nodes) {
    const bool through =
        info(n.op).vjp && std::any_of(n.inputs.begin(), n.inputs.end(), [&](Value v) { return leads[v.index()]; });
    for (Value v : n.outputs) {
      if (through && floating(v)) {
        if (live[v.index()]) return true;
        leads[v.index()] = true;
      }
      if (named[v.index()]) leads[v.index()] = true;
    }
  }
  return false;
}

// After the run, before tensors are marked as evaluated.
void Trace::settle_history(const std::vector<std::shared_ptr<TensorImpl>>& live) {
  std::unique_lock lock(history_mutex());
  for (StateUse& s : states_) {
    if (s.assigned() && s.read.valid()) s.after = HeldVersion(s.variable->version());
  }
  tell_versions(live);
  for (const auto& tensor : live) {
    if (tensor->version && !tensor->version->saved.defined()) tensor->version->saved = tensor->array;  // spares a copy
  }
  if (!kept_) {
    lock.unlock();
    forget();
    return;
  }
  order_ = ++g_order;
  ThreadContext& context = thread_context();
  context.kept.push_back(weak_from_this());
  if (context.kept.size() <= context.most_kept) return;
  std::vector<std::shared_ptr<Trace>> worth, not_worth;
  for (const auto& weak : context.kept) {
    auto trace = weak.lock();
    if (!trace || !trace->kept_) continue;
    if (trace.get() == this || trace->worth_keeping()) {
      worth.push_back(std::move(trace));
    } else {
      trace->kept_ = false;  // seen by the younger ones
      not_worth.push_back(std::move(trace));
    }
  }
  context.kept.assign(worth.begin(), worth.end());
  context.most_kept = std::max<size_t>(4, 2 * context.kept.size());
  for (const auto& trace : not_worth) trace->forget();
}

// --- recalling ---

// Builds the graph of a trace anew, with the history of one of its values in front.
class Recall {
 public:
  explicit Recall(Trace& into) : into_(into) {
    for (const Trace::Recalled& r : into.recalled_) part(r.trace).needed = r.needed;
  }

  Value run(Value value) {
    const bool found = need_all(value);
    if (!found) return value;
    std::vector<RecalledTrace*> older;
    for (auto& [trace, p] : parts_) {
      if (trace != &into_) older.push_back(&p);
    }
    std::sort(older.begin(), older.end(),
              [](RecalledTrace* a, RecalledTrace* b) { return a->trace->order_ < b->trace->order_; });
    for (RecalledTrace* p : older) copy(*p);
    RecalledTrace& own = parts_.at(&into_);
    copy(own);
    commit(own, older);
    return own.given[value.index()];
  }

 private:
  struct Origin {
    Trace* trace = nullptr;
    Value value;
  };
  struct RecalledTrace {
    Trace* trace;
    std::shared_ptr<Trace> keep;     // null for the trace itself
    std::vector<bool> needed;        // by value of the trace, as the next three
    std::vector<Value> here, given;  // its definition, and what readers get: a leaf where there is one
    std::vector<Origin> origin;      // where it was recalled from
    std::unordered_map<int32_t, const Trace::Source*> sources;  // by value, as the next two
    std::unordered_map<int32_t, std::vector<std::shared_ptr<TensorImpl>>> evaluated;
    std::unordered_map<int32_t, std::pair<std::shared_ptr<VariableImpl>, std::shared_ptr<Version>>> states;
  };

  RecalledTrace& part(const std::shared_ptr<Trace>& trace) {
    RecalledTrace& p = part(*trace);
    if (trace.get() != &into_) p.keep = trace;
    return p;
  }
  RecalledTrace& part(Trace& trace) {
    const auto [it, fresh] = parts_.try_emplace(&trace);
    RecalledTrace& p = it->second;
    if (!fresh) return p;
    const size_t n = trace.graph_.values.size();
    p.trace = &trace;
    p.needed.resize(n);
    p.here.resize(n);
    p.given.resize(n);
    p.origin.resize(n);
    for (const Trace::Source& s : trace.sources_) p.sources[s.value.id] = &s;
    for (const Trace::Recalled& r : trace.recalled_) {
      for (size_t i = 0; i < r.here.size(); ++i) {
        if (r.here[i].valid()) p.origin[r.here[i].index()] = {r.trace.get(), Value{static_cast<int32_t>(i)}};
      }
    }
    for (const StateUse& s : trace.states_) {
      p.states[s.leaf.id] = {s.variable, s.before.get()};
      if (s.after) p.states[s.read.id] = {s.variable, s.after.get()};
    }
    if (&trace == &into_) return p;
    for (const auto& weak : trace.pending_) {
      if (auto tensor = weak.lock()) p.evaluated[tensor->value.id].push_back(tensor);
    }
    return p;
  }

  // Marks all that `value` was computed from. Whether anything of it lies in older traces and was not recalled so far.
  bool need_all(Value value) {
    bool found = false;
    std::vector<Origin> stack{{&into_, value}};
    part(into_);
    while (!stack.empty()) {
      const Origin at = stack.back();
      stack.pop_back();
      RecalledTrace& p = parts_.at(at.trace);
      if (p.needed[at.value.index()]) continue;
      p.needed[at.value.index()] = true;
      found = found || at.trace != &into_;
      const auto need = [&](const std::shared_ptr<Trace>& trace, Value v) {
        part(trace);
        stack.push_back({trace.get(), v});
      };
      if (const Origin from = p.origin[at.value.index()]; from.trace) {
        for (const Trace::Recalled& r : at.trace->recalled_) {
          if (r.trace.get() == from.trace) need(r.trace, from.value);
        }
        continue;
      }
      if (const auto s = p.sources.find(at.value.id); s != p.sources.end()) {
        const auto& made_by = s->second->tensor->trace;
        if (made_by && made_by->kept_ && !s->second->tensor->version) need(made_by, s->second->tensor->value);
        continue;
      }
      if (p.states.count(at.value.id) > 0) continue;
      for (Value v : at.trace->graph_.def(at.value).inputs) stack.push_back({at.trace, v});
    }
    return found;
  }

  // Appends what is needed of an older trace, or all of the trace itself.
  void copy(RecalledTrace& p) {
    const bool own = p.trace == &into_;
    for (const Node& n : p.trace->graph_.nodes) {
      if (!own && std::none_of(n.outputs.begin(), n.outputs.end(), [&](Value v) { return p.needed[v.index()]; }))
        continue;
      if (bound(p, n.out(), n)) continue;
      std::vector<Value> in;
      for (Value v : n.inputs) in.push_back(p.given[v.index()]);
      const std::vector<Value> made = graph_.add(n.op, n.attrs, in, n);
      for (size_t i = 0; i < made.size(); ++i) define(p, n.outputs[i], made[i]);
    }
  }

  // Values that are not computed here: recalled from elsewhere, elements that are there, states.
  bool bound(RecalledTrace& p, Value v, const Node& n) {
    if (p.origin[v.index()].trace) {
      for (Value out : n.outputs) {
        const Origin from = p.origin[out.index()];
        if (from.trace) p.here[out.index()] = p.given[out.index()] = parts_.at(from.trace).given[from.value.index()];
      }
      return true;
    }
    const auto give = [&](Value here) {
      p.here[v.index()] = p.given[v.index()] = here;
      const auto e = p.evaluated.find(v.id);
      if (e == p.evaluated.end()) return true;
      for (const auto& tensor : e->second) name(tensor, here);
      return true;
    };
    if (const auto s = p.sources.find(v.id); s != p.sources.end()) return give(source(s->second->tensor));
    const auto s = p.states.find(v.id);
    if (s == p.states.end() || (p.trace == &into_ && n.op != Op::state)) return false;
    return give(version(s->second.first, s->second.second));
  }

  void define(RecalledTrace& p, Value old, Value now) {
    p.here[old.index()] = p.given[old.index()] = now;
    const Value leaf = stand_for(p, old, now);
    if (leaf.valid()) p.given[old.index()] = leaf;
  }

  // A leaf for the tensors that hold the elements of this value, which leads on to its definition; none: invalid.
  Value stand_for(const RecalledTrace& p, Value old, Value now) {
    const auto e = p.evaluated.find(old.id);
    if (e == p.evaluated.end()) return {};
    const Value leaf = source(e->second[0]);
    for (const auto& tensor : e->second) name(tensor, leaf);
    aliases_.push_back({leaf, now});
    return leaf;
  }

  void name(const std::shared_ptr<TensorImpl>& tensor, Value value) {
    if (leaves_.try_emplace(tensor.get(), value).second) sources_.push_back({tensor, value});
  }

  // The value that readers of an evaluated tensor get.
  Value source(const std::shared_ptr<TensorImpl>& tensor) {
    const auto it = leaves_.find(tensor.get());
    if (it != leaves_.end()) return it->second;
    const Value value = tensor->version ? version(tensor->variable, tensor->version.get()) : add_leaf(tensor);
    name(tensor, value);
    return value;
  }

  Value add_leaf(const std::shared_ptr<TensorImpl>& tensor) {
    std::swap(into_.graph_, graph_);
    std::swap(into_.captured_, captured_);
    const Value leaf = tensor->version ? into_.capture_elements(*tensor) : into_.capture(tensor);
    std::swap(into_.graph_, graph_);
    std::swap(into_.captured_, captured_);
    return leaf;
  }

  // A value that a variable has or had: its leaf where this trace reads the same.
  Value version(const std::shared_ptr<VariableImpl>& variable, const std::shared_ptr<Version>& version) {
    const auto own = into_.state_index_.find(variable.get());
    const bool present =
        own == into_.state_index_.end() ? !version->stale : into_.states_[own->second].before.get() == version;
    if (present) return state_leaf(variable, version);
    Value& leaf = old_versions_[version.get()];
    if (!leaf.valid()) {
      const auto tensor = std::make_shared<TensorImpl>();
      tensor->type = variable->type;
      tensor->variable = variable;
      tensor->version = HeldVersion(version);
      tensor->evaluate_to(version->saved);
      leaf = add_leaf(tensor);
      name(tensor, leaf);
    }
    return leaf;
  }

  Value state_leaf(const std::shared_ptr<VariableImpl>& variable, const std::shared_ptr<Version>& version) {
    const auto [it, fresh] = state_index_.try_emplace(variable.get(), states_.size());
    if (fresh) {
      const Value leaf = graph_.add(Op::state, LeafAttrs{variable->name, variable->type}, {}, scope(), where())[0];
      states_.push_back({variable, leaf, leaf, leaf, HeldVersion(version), {}});
    }
    return states_[it->second].leaf;
  }

  void commit(RecalledTrace& own, const std::vector<RecalledTrace*>& older) {
    const auto now = [&](Value v) { return v.valid() ? own.given[v.index()] : v; };
    for (const StateUse& s : into_.states_) {
      StateUse& mine = states_[state_index_.at(s.variable.get())];
      mine.next = now(s.next);
      mine.read = now(s.read);
    }
    for (const auto& weak : into_.pending_) {
      if (const auto tensor = weak.lock()) tensor->value = now(tensor->value);
    }
    into_.sound_ = now(into_.sound_);
    std::vector<GradientHook> hooks;
    for (const RecalledTrace* p : older) add_hooks(*p, hooks);
    add_hooks(own, hooks);
    into_.gradient_hooks_ = std::move(hooks);
    into_.states_ = std::move(states_);
    into_.state_index_ = std::move(state_index_);
    into_.graph_ = std::move(graph_);
    into_.captured_ = std::move(captured_);
    into_.captured_bytes_ = 0;
    for (const Array& a : into_.captured_) into_.captured_bytes_ += a.bytes();
    into_.aliases_ = std::move(aliases_);
    const std::vector<Trace::Source> before = std::move(into_.sources_);
    into_.sources_.clear();
    into_.source_index_.clear();
    for (const Trace::Source& s : before) name(s.tensor, now(s.value));
    for (const Trace::Source& s : sources_) into_.add_source(s.tensor, s.value);
    for (const Trace::Source& s : before) --s.tensor->captures;
    into_.old_versions_ = std::move(old_versions_);
    for (const Trace::Recalled& r : into_.recalled_) --r.trace->recalled_by_;
    into_.recalled_.clear();
    for (RecalledTrace* p : older) {
      ++p->trace->recalled_by_;
      into_.recalled_.push_back({p->keep, std::move(p->needed), std::move(p->here)});
    }
  }

  // Those of nodes that are here now. What was recalled from elsewhere has its hooks there.
  static void add_hooks(const RecalledTrace& p, std::vector<GradientHook>& hooks) {
    for (const GradientHook& h : p.trace->gradient_hooks_) {
      const Value here = p.here[h.value.index()];
      if (here.valid() && !p.origin[h.value.index()].trace) hooks.push_back({here, h.function});
    }
  }

  Trace& into_;
  std::map<Trace*, RecalledTrace> parts_;
  Graph graph_;
  std::vector<Array> captured_;
  std::vector<Trace::Source> sources_;
  std::vector<StateUse> states_;
  std::unordered_map<const VariableImpl*, size_t> state_index_;
  std::vector<Alias> aliases_;
  std::unordered_map<const TensorImpl*, Value> leaves_;
  std::unordered_map<const Version*, Value> old_versions_;
};

// Marks by value what a gradient of `value` would go back to.
std::vector<bool> Trace::ancestors(Value value) const {
  std::vector<bool> marked(graph_.values.size());
  marked[value.index()] = true;
  for (const Alias& a : aliases_) {  // a leaf that is read leads on to its definition
    if (a.leaf == value) marked[a.definition.index()] = true;
  }
  for (auto n = graph_.nodes.rbegin(); n != graph_.nodes.rend(); ++n) {
    if (!info(n->op).vjp) continue;
    if (std::none_of(n->outputs.begin(), n->outputs.end(), [&](Value v) { return marked[v.index()]; })) continue;
    for (Value v : n->inputs) {
      marked[v.index()] = true;
      for (const Alias& a : aliases_) {
        if (a.leaf == v) marked[a.definition.index()] = true;
      }
    }
  }
  return marked;
}

std::shared_ptr<TensorImpl> Trace::constant_made_of(Value loss, const VariableImpl* variable,
                                                    const TensorImpl* tensor) {
  const std::lock_guard lock(history_mutex());
  const auto is_value = [&](const TensorImpl& t) {
    return variable && t.version && !t.version->stale && t.variable.get() == variable;
  };
  const bool any = std::any_of(sources_.begin(), sources_.end(), [](const Source& s) {
    return s.tensor->version || (s.tensor->trace && s.tensor->trace->kept_);
  });
  if (!any) return nullptr;
  const std::vector<bool> of_loss = ancestors(loss);
  for (const Source& outside : sources_) {
    if (!of_loss[outside.value.index()] || outside.tensor.get() == tensor) continue;
    if (is_value(*outside.tensor)) return outside.tensor;
    std::vector<const TensorImpl*> open{outside.tensor.get()}, seen;
    while (!open.empty()) {
      const TensorImpl& t = *open.back();
      open.pop_back();
      if (!t.trace || !t.trace->kept_ || t.version || std::find(seen.begin(), seen.end(), &t) != seen.end()) continue;
      seen.push_back(&t);
      const Trace& made_by = *t.trace;
      const std::vector<bool> marked = made_by.ancestors(t.value);
      for (const StateUse& s : made_by.states_) {
        const bool read = (marked[s.leaf.index()] && made_by.has_now(s, s.leaf)) ||
                          (s.read.valid() && marked[s.read.index()] && made_by.has_now(s, s.read));
        if (read && s.variable.get() == variable) return outside.tensor;
      }
      for (const Source& s : made_by.sources_) {
        if (!marked[s.value.index()]) continue;
        if (s.tensor.get() == tensor || is_value(*s.tensor)) return outside.tensor;
        open.push_back(s.tensor.get());
      }
    }
  }
  return nullptr;
}

Value Trace::recall(Value value) {
  const std::lock_guard lock(history_mutex());
  return Recall(*this).run(value);
}

}  // namespace freight::trace
