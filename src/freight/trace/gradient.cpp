// grad: the reverse pass of passes/grad.cpp on the trace of the loss, with messages that name what is at fault.
#include "freight/passes/passes.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

// What a gradient is wanted for: a value of the trace, invalid where it has not read it, as messages call it.
struct Wanted {
  Value value;
  std::string name;
  Type type;
};

std::vector<Tensor> gradients(const In& loss, const std::vector<Wanted>& wanted, const GradOptions& options) {
  trace::Trace& tape = trace::current();
  const Tensor& l = loss.tensor;
  if (!l.defined() || l.impl()->trace.get() != &tape) {
    trace::fail_here("grad", "the loss is not in the current trace: it was already evaluated or is a plain number; ",
                     "take gradients before reading the loss on the host");
  }
  if (l.numel() != 1 || !is_floating(l.dtype())) {
    trace::fail_here("grad", "the loss must be one floating number: got ", l.type(), "; use mean() or sum()");
  }
  std::vector<Value> present;
  for (const Wanted& w : wanted) {
    if (w.value.valid()) present.push_back(w.value);
  }
  const std::vector<Value> found = grad(tape.graph(), l.impl()->value, present);
  std::vector<Tensor> out;
  size_t next = 0;
  for (const Wanted& w : wanted) {
    const Value g = w.value.valid() ? found[next++] : Value{};
    if (g.valid()) {
      out.push_back(tape.wrap(g));
    } else if (options.allow_unused) {
      out.push_back(trace::constant(0, w.type));
    } else {
      trace::fail_here("grad", "the loss does not depend on ", w.name, " ", w.type,
                       ": leave it out, or set allow_unused for a zero gradient");
    }
  }
  return out;
}

}  // namespace

std::vector<Tensor> grad(const In& loss, const std::vector<Variable>& parameters, const GradOptions& options) {
  const Frame frame(loss.where);
  std::vector<Wanted> wanted;
  for (const Variable& p : parameters) {
    wanted.push_back({trace::current().use(p.impl()).leaf, cat("parameter '", p.name(), "'"), p.type()});
  }
  return gradients(loss, wanted, options);
}

std::vector<Tensor> grad(const In& loss, const std::vector<Tensor>& tensors, const GradOptions& options) {
  const Frame frame(loss.where);
  std::vector<Wanted> wanted;
  for (const Tensor& t : tensors) {
    const Type type = t.type();  // refuses an undefined tensor
    wanted.push_back({trace::current().find(t), cat("tensor ", wanted.size()), type});
  }
  return gradients(loss, wanted, options);
}

}  // namespace freight
