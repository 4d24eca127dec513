// See onnx_extents_internal.h.
#include <cmath>

#include "freight/base/strings.h"
#include "freight/deploy/onnx_extents_internal.h"

namespace freight::deploy::onnx {

namespace {

// " (enc.fc1)"; the layers of a file know no lines of a program.
std::string at(const Node& n) { return n.location().empty() ? "" : cat(" (", n.location(), ")"); }

}  // namespace

// The formula is bilinear, so two batches, or two batches by two lengths, determine it; further probes must agree.
std::optional<Formula> Family::fit(const std::vector<int64_t>& seen) const {
  const bool lengths = probes_.size() > 2;
  const int64_t n0 = probes_[0].batch, dn = probes_[1].batch - n0;
  const int64_t t0 = probes_[0].length, dt = lengths ? probes_[2].length - t0 : 1;
  const auto divides = [](int64_t a, int64_t b) { return a % b == 0; };
  const int64_t mixed = lengths ? seen[3] - seen[2] - seen[1] + seen[0] : 0;
  if (!divides(mixed, dn * dt)) return {};
  Formula f;
  f.nt = mixed / (dn * dt);
  const int64_t per_n = seen[1] - seen[0], per_t = lengths ? seen[2] - seen[0] : 0;
  if (!divides(per_n, dn) || !divides(per_t, dt)) return {};
  f.n = per_n / dn - f.nt * t0;
  f.t = per_t / dt - f.nt * n0;
  f.fixed = seen[0] - f.n * n0 - f.t * t0 - f.nt * n0 * t0;
  for (size_t i = 0; i < probes_.size(); ++i) {
    if (f.at(probes_[i].batch, probes_[i].length) != seen[i]) return {};
  }
  return f;
}

std::optional<Count> Family::count(size_t i) const {
  for (const bool inverse : {false, true}) {
    std::vector<int64_t> seen;
    for (const Probe& p : probes_) {
      const double value = attrs<ConstantAttrs>(p.graph.nodes[i]).value;
      const double number = inverse ? std::round(1 / value) : value;
      constexpr double kMost = 0x1p22;  // up to it f32 tells the inverses of integers apart
      if (!(std::abs(number) < kMost) || number != std::floor(number)) break;
      if (inverse && !(std::abs(value * number - 1) < 1e-7)) break;
      seen.push_back(static_cast<int64_t>(number));
    }
    if (seen.size() < probes_.size()) continue;
    if (const auto formula = fit(seen)) return Count{*formula, inverse};
  }
  return {};
}

// True of a node that is the same in all probes, but for extents.
bool Family::alike(size_t i) const {
  const Node& first = probes_[0].graph.nodes[i];
  for (const Probe& p : probes_) {
    const Node& n = p.graph.nodes[i];
    if (n.op != first.op || n.inputs != first.inputs || n.outputs != first.outputs) return false;
    switch (n.op) {
      case Op::input:
      case Op::state:
      case Op::iota:
      case Op::reshape:
      case Op::broadcast:
      case Op::check_index: break;  // extents of the results or the operands, which are compared as such
      case Op::scatter_add:
      case Op::scatter_elements_add:
        if (attrs<ScatterAttrs>(n).axis != attrs<ScatterAttrs>(first).axis) return false;
        break;
      case Op::constant: {
        const auto &a = attrs<ConstantAttrs>(n), &b = attrs<ConstantAttrs>(first);
        if (a.data.defined() || b.data.defined()) {
          if (!equal(n.attrs, first.attrs)) return false;
        } else if (a.value != b.value && !(std::isnan(a.value) && std::isnan(b.value)) && !count(i)) {
          return false;
        }
        break;
      }
      case Op::conv_grad_input: {  // names the shape of its result
        auto same = attrs<ConvAttrs>(n);
        same.shape = attrs<ConvAttrs>(first).shape;
        if (!equal(Attrs(same), first.attrs)) return false;
        break;
      }
      case Op::slice:
        if (attrs<SliceAttrs>(n).step != attrs<SliceAttrs>(first).step) return false;
        break;
      default:
        if (!equal(n.attrs, first.attrs)) return false;
    }
  }
  if (first.op != Op::slice) return true;
  for (int k = 0; k < attrs<SliceAttrs>(first).start.rank(); ++k) {
    std::vector<int64_t> starts, limits;
    for (const Probe& p : probes_) {
      starts.push_back(attrs<SliceAttrs>(p.graph.nodes[i]).start[k]);
      limits.push_back(attrs<SliceAttrs>(p.graph.nodes[i]).limit[k]);
    }
    if (!fit(starts) || !fit(limits)) return false;
  }
  return true;
}

std::optional<Family> Family::of(std::vector<Probe> probes, std::string& why) {
  Family f(std::move(probes));
  const Graph& first = f.graph();
  for (const Probe& p : f.probes_) {
    if (p.graph.nodes.size() == first.nodes.size() && p.graph.values.size() == first.values.size() &&
        p.graph.outputs == first.outputs) {
      continue;
    }
    why = cat("its graph for batches of ", p.batch, " has other operations than for ", f.probes_[0].batch);
    if (p.length != f.probes_[0].length) why = cat("it has other operations for each length of text");
    return {};
  }
  for (size_t i = 0; i < first.nodes.size(); ++i) {
    const Node& n = first.nodes[i];
    if (!f.alike(i)) {
      why = cat(name(n.op), " changes with the size of the batch or the text", at(n));
      return {};
    }
  }
  f.extents_ = ByValue<std::vector<Formula>>(first);
  for (const Value v : first.value_ids()) {
    for (int k = 0; k < first.type(v).shape.rank(); ++k) {
      std::vector<int64_t> seen;
      for (const Probe& p : f.probes_) {
        const Shape& s = p.graph.type(v).shape;
        seen.push_back(k < s.rank() ? s[k] : -1);
      }
      const std::optional<Formula> extent = f.fit(seen);
      if (!extent) {
        const Node& n = first.def(v);
        why = cat("a size of ", name(n.op), " follows no simple formula of the batch and the length", at(n));
        return {};
      }
      f.extents_[v].push_back(*extent);
    }
  }
  return f;
}

}  // namespace freight::deploy::onnx
