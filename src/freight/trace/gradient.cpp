// grad: the reverse pass of passes/grad.cpp on the trace of the loss, with messages that name what is at fault.
#include "freight/passes/passes.h"
#include "freight/trace/tracer.h"

namespace freight {

namespace {

// `names[i]` is how messages call entry i; `wrt[i]` may be invalid: the trace has not read it.
std::vector<Tensor> gradients(const In& loss, const std::vector<Value>& wrt, const std::vector<std::string>& names,
                              const std::vector<Type>& types, const GradOptions& options) {
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
  for (Value v : wrt) {
    if (v.valid()) present.push_back(v);
  }
  const std::vector<Value> found = grad(tape.graph(), l.impl()->value, present);
  std::vector<Tensor> out;
  size_t next = 0;
  for (size_t i = 0; i < wrt.size(); ++i) {
    const Value g = wrt[i].valid() ? found[next++] : Value{};
    if (g.valid()) {
      out.push_back(tape.wrap(g));
    } else if (options.allow_unused) {
      out.push_back(trace::constant(0, types[i]));
    } else {
      trace::fail_here("grad", "the loss does not depend on ", names[i], " ", types[i],
                       ": leave it out, or set allow_unused for a zero gradient");
    }
  }
  return out;
}

}  // namespace

std::vector<Tensor> grad(const In& loss, const std::vector<Variable>& parameters, const GradOptions& options) {
  const Frame frame(loss.where);
  trace::Trace& tape = trace::current();
  std::vector<Value> wrt;
  std::vector<std::string> names;
  std::vector<Type> types;
  for (const Variable& p : parameters) {
    wrt.push_back(tape.use(p.impl()).leaf);
    names.push_back(cat("parameter '", p.name(), "'"));
    types.push_back(p.type());
  }
  return gradients(loss, wrt, names, types, options);
}

std::vector<Tensor> grad(const In& loss, const std::vector<Tensor>& tensors, const GradOptions& options) {
  const Frame frame(loss.where);
  const trace::Trace& tape = trace::current();
  std::vector<Value> wrt;
  std::vector<std::string> names;
  std::vector<Type> types;
  for (size_t i = 0; i < tensors.size(); ++i) {
    types.push_back(tensors[i].type());
    wrt.push_back(tape.find(tensors[i]));
    names.push_back(cat("tensor ", i));
  }
  return gradients(loss, wrt, names, types, options);
}

}  // namespace freight
