// grad: the reverse pass of passes/grad.cpp on the trace of the loss and on what it was computed from before, with
// messages that name what is at fault.
#include "freight/passes/passes.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

// What a gradient is wanted for: a value of the trace, invalid where it has not read it, as messages call it.
struct Wanted {
  Value value;
  std::string name;
  Type type;
  bool assigned = false;  // a variable that has another value since
};

// What the loss is in the trace, with its history.
Value value_of_loss(trace::Trace& tape, const Tensor& loss) {
  if (!loss.defined()) trace::fail_here("grad", "the loss is a plain number: compute it from tensors");
  if (loss.numel() != 1 || !is_floating(loss.dtype())) {
    trace::fail_here("grad", "the loss must be one floating number: got ", loss.type(), "; use mean() or sum()");
  }
  const Value value = tape.value_of(loss);
  return tape.mode() == trace::Trace::Mode::eager ? tape.recall(value) : value;
}

std::vector<Tensor> gradients(trace::Trace& tape, Value loss, const std::vector<Wanted>& wanted,
                              const GradOptions& options) {
  std::vector<Value> present;
  for (const Wanted& w : wanted) {
    if (w.value.valid()) present.push_back(w.value);
  }
  const std::vector<Value> found = grad(tape.graph(), loss, present, {}, tape.aliases());
  std::vector<Tensor> out;
  size_t next = 0;
  for (const Wanted& w : wanted) {
    const Value g = w.value.valid() ? found[next++] : Value{};
    if (g.valid()) {
      out.push_back(tape.wrap(g));
    } else if (options.allow_unused) {
      out.push_back(tape.wrap(tape.graph().add(Op::constant, ConstantAttrs{w.type, 0, {}}, {})[0]));
    } else {
      const bool leaf = tape.graph().def(loss).op == Op::input;
      trace::fail_here("grad", "the loss does not depend on ", w.name, " ", w.type,
                       w.assigned ? ", whose value was assigned after the loss was computed: compute it again, or take "
                                    "the gradient before"
                       : leaf ? ": it has no history (detached, made from an array or by a compiled function); take "
                                "the gradient where it is computed"
                              : ": leave it out, or set allow_unused for a zero gradient");
    }
  }
  return out;
}

}  // namespace

std::vector<Tensor> grad(const In& loss, const std::vector<Variable>& parameters, const GradOptions& options) {
  const Frame frame(loss.where);
  const trace::Device device = trace::device_of_operands("grad", {loss.tensor});
  trace::settle(loss.tensor, device);
  // Assignments that are pending on other devices come first: gradients are with respect to the present values.
  for (const Variable& p : parameters) {
    if (!trace::compiling() && p.impl()->device != device) trace::settle_elsewhere(*p.impl(), device);
  }
  std::vector<Tensor> found;
  {
    const trace::Session session(device);
    const Value value = value_of_loss(*session, loss.tensor);
    std::vector<Wanted> wanted;
    for (const Variable& p : parameters) {
      const trace::StateUse& use = session->use(p.impl());
      wanted.push_back({use.read, cat("parameter '", p.name(), "'"), p.type(), use.assigned()});
    }
    found = gradients(*session, value, wanted, options);
  }
  for (size_t i = 0; !trace::compiling() && i < found.size(); ++i) {
    if (parameters[i].impl()->device) found[i] = found[i].to_device(parameters[i].device());
  }
  return found;
}

std::vector<Tensor> grad(const In& loss, const std::vector<Tensor>& tensors, const GradOptions& options) {
  const Frame frame(loss.where);
  const trace::Device device = trace::device_of_operands("grad", {loss.tensor});
  trace::settle(loss.tensor, device);
  for (const Tensor& t : tensors) trace::settle(t, device);
  std::vector<Tensor> found;
  {
    const trace::Session session(device);
    const Value value = value_of_loss(*session, loss.tensor);
    std::vector<Wanted> wanted;
    for (const Tensor& t : tensors) {
      const Type type = t.type();  // refuses an undefined tensor
      wanted.push_back({session->find(t), cat("tensor ", wanted.size()), type});
    }
    found = gradients(*session, value, wanted, options);
  }
  for (size_t i = 0; !trace::compiling() && i < found.size(); ++i) {
    if (!tensors[i].impl()->follows) found[i] = found[i].to_device(tensors[i].device());
  }
  return found;
}

}  // namespace freight
