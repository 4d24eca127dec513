// pad and concat: strided copies, and the choice of the family that lowers a step.
#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/linalg_kernels.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/pattern_kernels.h"
#include "freight/backend/gpu/scalar.h"
#include "freight/base/error.h"

namespace freight::gpu {

Lowered lower_pad(const StepSpec& spec) {
  const auto& a = attrs<PadAttrs>(*spec.node);
  const Operand &x = spec.in[0], &y = spec.out[0];
  KernelText text;
  const Elements from = text.in(spec, 0), to = text.out(spec, 0);
  text.begin_elements(y.type.numel());
  text.line("idx_t rest = e, from = 0, to = 0; int inside = 1;");
  for (int i = y.type.shape.rank(); i-- > 0;) {
    const std::string given = text.number(x.type.shape[i]), low = text.number(a.low[i]),
                      step = text.number(a.interior[i] + 1);
    text.line("{ ", text.split("rest", y.type.shape[i], "q", "c"), "const idx_t s = c - ", low, ", k = s / ", step,
              "; rest = q;");
    text.line("  inside = inside && s >= 0 && k * ", step, " == s && k < ", given, ";");
    text.line("  from += k * ", text.number(x.layout.strides[i]), "; to += c * ", text.number(y.layout.strides[i]),
              "; }");
  }
  text.line(value_type(to.dtype), " value = ", literal(a.value, to.dtype), ";");
  text.line("if (inside) value = ", from.load("from"), ";");
  text.line(to.store("to", "value"));
  return text.finish_step("pad", largest_span(spec));  // a view may reach further than what is made of it
}

Lowered lower_concat(const StepSpec& spec) {
  const auto axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Operand& y = spec.out[0];
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = "concat"};
  const Node copy{.op = Op::copy, .attrs = NoAttrs{}, .inputs = {}, .outputs = {}, .scope = {}, .where = {}};
  size_t offset = 0;
  for (size_t i = 0; i < spec.in.size(); ++i) {
    // One copy per input, into its part of the result.
    const StepSpec part{nullptr, &copy, {spec.in[i]}, {{spec.in[i].type, y.layout}}};
    for (Launch& launch : lower_region(part).launches) {
      for (Argument& argument : launch.arguments) {
        const bool reads = argument.operand == 0;
        argument.operand = static_cast<int>(reads ? i : spec.in.size());
        if (!reads) argument.offset += offset;
      }
      lowered.launches.push_back(std::move(launch));
    }
    offset += static_cast<size_t>(spec.in[i].type.shape[axis] * y.layout.strides[axis]) * size_of(y.type.dtype);
  }
  return lowered;
}

Lowered lower(const StepSpec& spec) {
  const Op op = spec.node->op;
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) {
      if (!is_complex(o.type.dtype)) continue;
      fail(ErrorKind::device, name(op), "GPU backends have no kernel for ", o.type.dtype, ": got ", o.type,
           "; run ops on complex numbers on the CPU");
    }
  }
  if (is_pointwise(op) || is_reduce(op)) return lower_region(spec);
  switch (info(op).kind) {
    case OpKind::fused: return pattern_of(*spec.node).product ? lower_pattern(spec) : lower_region(spec);
    case OpKind::movement:
      if (op == Op::pad) return lower_pad(spec);
      if (op == Op::concat) return lower_concat(spec);
      if (op == Op::copy || op == Op::offload || op == Op::fetch) return lower_region(spec);
      break;
    case OpKind::contract: return lower_matmul(spec);
    case OpKind::convolve: return lower_conv(spec);
    case OpKind::pool: return op == Op::max_pool_grad ? lower_index(spec) : lower_pool(spec);
    case OpKind::index: return lower_index(spec);
    case OpKind::composite: return lower_attention(spec);
    case OpKind::linalg:
      if (has_factorization(op)) return lower_factorization(spec, kLocalBytes);
      break;
    default: break;
  }
  no_kernel(op);
}

void no_kernel(Op op) {
  fail(ErrorKind::device, name(op),
       "GPU backends have no kernel for this op; compute it on the CPU: x.to_device(\"cpu\")");
}

}  // namespace freight::gpu
