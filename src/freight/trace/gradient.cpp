// grad: the reverse pass of passes/grad.cpp on the trace of the loss and on what it was computed from before, with
// messages that name what is at fault.
#include "freight/passes/passes.h"
#include "freight/trace/thread_context.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

// A leaf whose gradient is wanted: its value in the trace, invalid where the trace has not read it, and its name in
// messages.
struct Wanted {
  Value value;
  std::string name;
  Type type;
  bool assigned = false;  // a variable that has another value since
  // One of the two is set: the value is its.
  const trace::VariableImpl* variable = nullptr;
  const trace::TensorImpl* tensor = nullptr;
};

// Finds the loss in the trace, with its history.
Value value_of_loss(trace::Trace& tape, const Tensor& loss) {
  tape.need_no_walk("grad");
  if (!loss.defined()) {
    trace::fail_here("grad", "the loss is a plain number or an undefined tensor, Tensor(): compute it from tensors");
  }
  if (loss.numel() != 1 || !is_floating(loss.dtype())) {
    trace::fail_here("grad", "the loss must be one floating number: got ", loss.type(), "; use mean() or sum()");
  }
  const Value value = tape.value_of(loss);
  return tape.mode() == trace::Trace::Mode::eager ? tape.recall(value) : value;
}

// The gradient that a function of on_gradient makes of another.
Value changed(trace::Trace& tape, const trace::GradientHook& hook, Value gradient) {
  const Node node = tape.graph().def(hook.value);  // a copy: the graph grows below
  const trace::ScopeInstead scope(node.scope);
  const Type need = tape.graph().type(gradient);
  const Tensor got = (*hook.function)(tape.wrap(gradient));
  const std::string at = node.location(), which = at.empty() ? "" : cat(" at ", at);
  if (!got.defined()) {
    trace::fail_here("on_gradient", "the function", which, " returned an undefined tensor, Tensor(), for a gradient ",
                     need, ": return its replacement, or the gradient itself");
  }
  if (!(got.type() == need)) {
    trace::fail_here("on_gradient", "the function", which, " returned another type than the gradient's: expected ",
                     need, ", got ", got.type());
  }
  return tape.value_of(got, "on_gradient");
}

// In a compiled function a tensor from outside is a constant. Outside a gradient goes back through it, so that the same
// lines would have another result there.
void need_no_lost_history(trace::Trace& tape, Value loss, const std::vector<Wanted>& wanted) {
  if (tape.mode() == trace::Trace::Mode::eager) return;
  for (const Wanted& w : wanted) {
    const auto lost = tape.constant_made_of(loss, w.variable, w.tensor);
    if (!lost) continue;
    trace::fail_here("grad", "the loss depends on ", w.name, " also by a tensor ", lost->type,
                     " that was computed from it outside of the compiled function, where it is a constant: compute "
                     "that tensor inside, or hand in its detach()");
  }
}

std::vector<Tensor> gradients(trace::Trace& tape, Value loss, const std::vector<Wanted>& wanted,
                              const GradOptions& options) {
  need_no_lost_history(tape, loss, wanted);
  std::vector<Value> present;
  for (const Wanted& w : wanted) {
    if (w.value.valid()) present.push_back(w.value);
  }
  std::vector<GradientChange> changes;
  for (const trace::GradientHook& h : tape.gradient_hooks()) {
    changes.push_back({h.value, [&tape, h](Value g) { return changed(tape, h, g); }});
  }
  std::vector<Value> found;
  {
    const trace::OnePiece piece;
    const trace::Trace::Walk walk(tape);
    found = grad(tape.graph(), loss, present, {}, tape.aliases(), changes);
  }
  std::vector<Tensor> out;
  size_t next = 0;
  const bool some = std::any_of(found.begin(), found.end(), [](Value g) { return g.valid(); });
  for (const Wanted& w : wanted) {
    const Value g = w.value.valid() ? found[next++] : Value{};
    if (g.valid()) {
      out.push_back(tape.wrap(g));
    } else if (options.allow_unused || (options.unused && some)) {
      if (options.unused) options.unused->push_back(out.size());
      out.push_back(tape.wrap(tape.graph().add(Op::constant, ConstantAttrs{w.type, 0, {}}, {})[0]));
    } else {
      const bool leaf = tape.graph().def(loss).op == Op::input;
      trace::fail_here("grad", "the loss does not depend on ", w.name, " ", w.type,
                       w.assigned ? ", whose value was assigned after the loss was computed: compute it again, or take "
                                    "the gradient before"
                       : leaf ? ": it has no history (detached, made from an array or by a compiled function); take "
                                "the gradient where it is computed"
                              : ": remove it or freeze it; in C++ allow_unused gives zeros");
    }
  }
  return out;
}

// The gradients of a loss on the loss's device, each moved to where its leaf lies. `settle` runs what the leaves have
// pending elsewhere, `wanted_in` finds them in the trace, and `home` is the device of leaf i, "" where it lies on none.
template <class Settle, class WantedIn, class Home>
std::vector<Tensor> gradients_at_home(const In& loss, const GradOptions& options, Settle settle, WantedIn wanted_in,
                                      Home home) {
  const Frame frame(loss.where);
  const trace::Device device = trace::device_of_operands("grad", {loss.tensor});
  trace::settle(loss.tensor, device);
  settle(device);
  std::vector<Tensor> found;
  {
    const trace::Session session(device);
    const Value value = value_of_loss(*session, loss.tensor);
    found = gradients(*session, value, wanted_in(*session), options);
  }
  for (size_t i = 0; !trace::compiling() && i < found.size(); ++i) {
    if (const std::string at = home(i); !at.empty()) found[i] = found[i].to_device(at);
  }
  return found;
}

}  // namespace

std::vector<Tensor> grad(const In& loss, const std::vector<Variable>& parameters, const GradOptions& options) {
  return gradients_at_home(
      loss, options,
      [&](trace::Device device) {
        // Assignments that are pending on other devices come first: gradients are with respect to the present values.
        for (const Variable& p : parameters) {
          if (!trace::compiling() && p.impl()->device != device) trace::settle_elsewhere(*p.impl(), device);
        }
      },
      [&](trace::Trace& tape) {
        std::vector<Wanted> wanted;
        for (const Variable& p : parameters) {
          const trace::StateUse& use = tape.use(p.impl());
          wanted.push_back({use.read, cat("parameter '", p.name(), "'"), p.type(), use.assigned(), p.impl().get()});
        }
        return wanted;
      },
      [&](size_t i) { return parameters[i].impl()->device ? parameters[i].device() : std::string(); });
}

std::vector<Tensor> grad(const In& loss, const std::vector<Tensor>& tensors, const GradOptions& options) {
  return gradients_at_home(
      loss, options,
      [&](trace::Device device) {
        for (const Tensor& t : tensors) trace::settle(t, device);
      },
      [&](trace::Trace& tape) {
        std::vector<Wanted> wanted;
        for (const Tensor& t : tensors) {
          const Type type = t.type();  // refuses an undefined tensor
          wanted.push_back({tape.find(t), cat("tensor ", wanted.size()), type, false, nullptr, t.impl().get()});
        }
        return wanted;
      },
      [&](size_t i) { return tensors[i].impl()->follows ? std::string() : tensors[i].device(); });
}

// A view of the same shape is nothing to the plan, and a node to the gradient: x may have other readers.
Tensor as_new(const In& x) { return trace::add(Op::reshape, ShapeAttrs{x.tensor.shape()}, {x.tensor})[0]; }

void Readings::end() {
  auto& all = trace::thread_context().readings;
  all.erase(all.end() - static_cast<std::ptrdiff_t>(count_), all.end());
  count_ = 0;
}

Tensor Readings::read(const Variable& variable) {
  trace::ThreadContext& context = trace::thread_context();
  Tensor value = as_new(variable.value());
  context.readings.push_back({variable.impl().get(), context.recording.get(), value});
  ++count_;
  return value;
}

Tensor on_gradient(const In& x, std::function<Tensor(const Tensor&)> f) {
  const Frame frame(x.where);
  if (x.is_number) trace::fail_here("on_gradient", "a plain number has no gradient: expected a tensor");
  const Tensor t = trace::tensor_of(x, "on_gradient");
  if (!f) trace::fail_here("on_gradient", "the function is empty: expected one that takes a gradient and returns one");
  if (!is_floating(t.dtype())) trace::fail_here("on_gradient", "only floating tensors have gradients: got ", t.type());
  const trace::Device device = trace::compiling() ? nullptr : trace::device_of_operands("on_gradient", {t});
  trace::settle(t, device);
  const trace::Session tape(device);
  const Tensor y = tape->add(Op::reshape, ShapeAttrs{t.shape()}, {t})[0];
  tape->add_gradient_hook(y.impl()->value, std::move(f));
  return y;
}

}  // namespace freight
