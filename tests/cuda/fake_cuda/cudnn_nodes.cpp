// See cudnn_nodes.h. Values are kept by name and by place in memory, so that a view is the same places under another
// name. What nothing wrote is NaN.
#include "tests/cuda/fake_cuda/cudnn_nodes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"
#include "tests/cuda/fake_cuda/numbers.h"

namespace fake {

namespace {

using namespace cudnn;
using Tensor = NodeWork::Tensor;
using Node = NodeWork::Node;
using Place = std::array<int64_t, 4>;

Tensor tensor(const Descriptor& d, std::string& why) {
  Tensor t;
  t.extents = values<int64_t>(d, kExtents), t.strides = values<int64_t>(d, kTensorStrides);
  if (t.extents.size() != 4 || t.strides.size() != 4 || values<int64_t>(d, kName).empty() ||
      values<int64_t>(d, kAlignment).empty() || values<int>(d, kTypeOf).empty()) {
    why = "a tensor without four extents and strides, name, alignment or type";
    return t;
  }
  const auto flag = [&](int name) { return !values<char>(d, name).empty() && values<char>(d, name)[0] != 0; };
  t.id = values<int64_t>(d, kName)[0];
  t.alignment = values<int64_t>(d, kAlignment)[0];
  t.type = values<int>(d, kTypeOf)[0];
  t.made_inside = flag(kVirtual), t.number = flag(kByValue);
  return t;
}

// The attributes of an operation: its kind, inputs and result.
struct Form {
  int type, kind, mode;  // mode: of the kind
  std::vector<int> in;
  int out;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {{kPointwise, kPointwiseOf, kModeOfPointwise, {kXOf, kBOf, kTOf}, kYOf},
                                           {kProduct, kProductOf, -1, {kLeftOf, kRightOf}, kProductTo},
                                           {kReduction, kReductionOf, kModeOfReduction, {kReducedOf}, kReducedTo},
                                           {kView, -1, -1, {kViewedOf}, kViewedTo}};
  return kForms;
}

// How many operands a mode reads; 0 where it is not played.
size_t operands_of(int mode) {
  switch (mode) {
    case kAdd:
    case kMul:
    case kDiv:
    case kSub:
    case kGreaterOrEqual: return 2;
    case kExp:
    case kLog:
    case kIndex: return 1;
    case kSelect: return 3;
    default: return 0;
  }
}

Node node(const Descriptor& d, std::string& why) {
  Node n;
  n.type = d.type;
  const auto form = std::find_if(forms().begin(), forms().end(), [&](const Form& f) { return f.type == d.type; });
  if (form == forms().end()) {
    why = "an operation that is not played";
    return n;
  }
  if (form->kind >= 0) {
    const Descriptor* kind = part(d, form->kind);
    if (!kind) {
      why = "an operation without its kind";
      return n;
    }
    if (form->mode >= 0) n.mode = values<int>(*kind, form->mode).at(0);
    if (d.type == kPointwise && !values<int64_t>(*kind, kAxisOfPointwise).empty())
      n.axis = values<int64_t>(*kind, kAxisOfPointwise)[0];
  }
  for (const int name : form->in) {
    if (const Descriptor* x = part(d, name)) n.in.push_back(tensor(*x, why));
  }
  if (const Descriptor* y = part(d, form->out)) {
    n.out = tensor(*y, why);
  } else {
    why = "an operation without a result";
  }
  const size_t need = d.type == kPointwise ? operands_of(n.mode) : d.type == kProduct ? 2 : 1;
  if (n.in.size() != need) why = "an operation with too few or too many operands, or of a mode that is not played";
  return n;
}

std::vector<Node> nodes_of(const Descriptor& graph, std::string& why) {
  std::vector<Node> nodes;
  const auto it = graph.parts.find(kOperations);
  if (it == graph.parts.end()) return nodes;
  for (const Descriptor* d : it->second) nodes.push_back(node(*d, why));
  return nodes;
}

template <class F>
void for_each_place(const std::vector<int64_t>& e, const F& f) {
  for (int64_t a = 0; a < e[0]; ++a) {
    for (int64_t b = 0; b < e[1]; ++b) {
      for (int64_t c = 0; c < e[2]; ++c) {
        for (int64_t d = 0; d < e[3]; ++d) f(Place{a, b, c, d});
      }
    }
  }
}
// Axes of one element are spread.
size_t at(const Tensor& t, const Place& p) {
  int64_t offset = 0;
  for (size_t i = 0; i < 4; ++i) offset += t.extents[i] == 1 ? 0 : p[i] * t.strides[i];
  return static_cast<size_t>(offset);
}
size_t room(const Tensor& t) {
  return at(t, {t.extents[0] - 1, t.extents[1] - 1, t.extents[2] - 1, t.extents[3] - 1}) + 1;
}

int stored_as(int type) { return type == kBFloat16 ? kBF16 : type == kHalf ? kF16 : kF32; }
double rounded(int type, double value) {
  if (type == kInt || type == kBool) return value;
  char bytes[8];
  store(stored_as(type), bytes, 0, value);
  return load(stored_as(type), bytes, 0);
}
bool narrow(const Tensor& t) { return t.type == kHalf || t.type == kBFloat16; }

bool spreads_to(const Tensor& x, const Tensor& y) {
  for (size_t i = 0; i < 4; ++i) {
    if (x.extents[i] != 1 && x.extents[i] != y.extents[i]) return false;
  }
  return true;
}

std::string misfit(const Node& n) {
  const Tensor &x = n.in[0], &y = n.out;
  if (y.number) return "a number as a result";
  if (n.type == kPointwise) {
    for (const Tensor& t : n.in) {
      if (!spreads_to(t, y)) return "operands that do not spread to the result";
    }
    if (n.mode == kIndex && (n.axis < 0 || n.axis > 3 || y.type != kInt)) return "an index without an axis, or not i32";
    if (n.mode == kGreaterOrEqual && y.type != kBool) return "a comparison that is not boolean";
    if (n.mode == kSelect && n.in[2].type != kBool) return "a choice by what is not boolean";
  } else if (n.type == kProduct) {
    const Tensor& b = n.in[1];
    if (x.extents[0] != b.extents[0] || x.extents[1] != b.extents[1] || x.extents[3] != b.extents[2] ||
        y.extents != std::vector<int64_t>{x.extents[0], x.extents[1], x.extents[2], b.extents[3]})
      return "a product of matrices that do not fit";
    if (!narrow(b) || (narrow(x) ? x.type != b.type : !x.made_inside)) return "a product of operands of these types";
  } else if (n.type == kReduction) {
    if (!spreads_to(y, x) || (n.mode != kSum && n.mode != kMax)) return "a reduction that does not fit";
  } else if (room(x) != room(y)) {
    return "a view of another size";
  }
  return "";
}

}  // namespace

bool has_nodes(const Descriptor& graph) {
  const auto it = graph.parts.find(kOperations);
  return it != graph.parts.end() && std::none_of(it->second.begin(), it->second.end(), [](const Descriptor* d) {
           return d->type >= kForward && d->type <= kInputGradient;
         });
}

std::string misfit_of_nodes(const Descriptor& graph) {
  std::string why;
  const std::vector<Node> nodes = nodes_of(graph, why);
  std::map<int64_t, Tensor> known;
  std::set<int64_t> made;
  for (const Node& n : nodes) {
    if (!why.empty()) return why;
    if (why = misfit(n); !why.empty()) return why;
    std::vector<Tensor> all = n.in;
    all.push_back(n.out);
    for (const Tensor& t : all) {
      const Tensor& first = known.emplace(t.id, t).first->second;
      if (first.extents != t.extents || first.strides != t.strides || first.type != t.type)
        return "two tensors of one name";
    }
    for (const Tensor& t : n.in) {
      if (t.made_inside && made.count(t.id) == 0) return "an operand that no operation before it makes";
    }
    if (!made.insert(n.out.id).second) return "a tensor that two operations make";
  }
  return why;
}

bool knows_nodes(const Descriptor& graph) {
  std::string why;
  for (const Node& n : nodes_of(graph, why)) {
    if (n.type != kProduct) continue;
    for (const Tensor& t : {n.in[0], n.in[1], n.out}) {
      const int64_t width = t.strides[2] == 1 ? t.extents[2] : t.extents[3];
      if (!t.made_inside && (!narrow(t) || width % 8 != 0 || width > 128)) return false;
    }
  }
  return true;
}

NodeWork::NodeWork(const Descriptor& graph, const std::vector<int64_t>& ids, const std::vector<void*>& addresses,
                   std::string& why)
    : nodes_(nodes_of(graph, why)) {
  const auto bind = [&](Tensor& t) {
    if (t.made_inside) return;
    const auto it = std::find(ids.begin(), ids.end(), t.id);
    t.address = it == ids.end() ? nullptr : addresses.at(static_cast<size_t>(it - ids.begin()));
    if (t.number) {
      if (!t.address || machine().on_device(t.address))
        why = "a number that does not lie on the host";
      else
        std::memcpy(&t.value, t.address, sizeof t.value);
    } else if (!machine().on_device(t.address)) {
      why = "a tensor does not lie on the device";
    } else if (reinterpret_cast<uintptr_t>(t.address) % static_cast<uintptr_t>(t.alignment) != 0) {
      why = "a tensor is less aligned than was said";
    }
  };
  for (Node& n : nodes_) {
    for (Tensor& t : n.in) bind(t);
    bind(n.out);
  }
}

void NodeWork::run() const {
  Machine& m = machine();
  if (m.lost()) return;
  m.at_work = "cudnnBackendExecute";
  ++m.told.library_attentions;
  if (workspace_bytes > 0) {
    m.write(workspace, static_cast<unsigned>(workspace_bytes));
    std::memset(workspace, 0xff, workspace_bytes);
  }
  std::map<int64_t, std::vector<double>> memory;  // by name, then by place
  const auto values_of = [&](const Tensor& t) -> std::vector<double>& {
    const auto [it, is_new] = memory.try_emplace(t.id, room(t), std::numeric_limits<double>::quiet_NaN());
    if (!is_new || t.made_inside) return it->second;
    if (t.number) {
      it->second[0] = t.value;
      return it->second;
    }
    const size_t size = size_of(stored_as(t.type));
    for_each_place(t.extents, [&](const Place& p) {
      m.read(static_cast<char*>(t.address) + at(t, p) * size, static_cast<unsigned>(size));
      it->second[at(t, p)] = load(stored_as(t.type), t.address, at(t, p));
    });
    return it->second;
  };
  for (const Node& n : nodes_) {
    std::vector<std::vector<double>*> in;
    for (const Tensor& t : n.in) in.push_back(&values_of(t));
    const Tensor &y = n.out, &x = n.in[0];
    std::vector<double> out(room(y), std::numeric_limits<double>::quiet_NaN());
    const auto operand = [&](size_t i, const Place& p) { return (*in[i])[at(n.in[i], p)]; };
    if (n.type == kPointwise) {
      for_each_place(y.extents, [&](const Place& p) {
        const double a = n.mode == kIndex ? static_cast<double>(p[static_cast<size_t>(n.axis)]) : operand(0, p);
        const double b = n.in.size() > 1 ? operand(1, p) : 0;
        double& to = out[at(y, p)];
        switch (n.mode) {
          case kAdd: to = a + b; break;
          case kSub: to = a - b; break;
          case kMul: to = a * b; break;
          case kDiv: to = a / b; break;
          case kExp: to = std::exp(a); break;
          case kLog: to = std::log(a); break;
          case kGreaterOrEqual: to = a >= b; break;
          case kSelect: to = operand(2, p) != 0 ? a : b; break;
          default: to = a;
        }
      });
    } else if (n.type == kProduct) {
      const Tensor& b = n.in[1];
      for_each_place(y.extents, [&](const Place& p) {
        double sum = 0;
        for (int64_t k = 0; k < x.extents[3]; ++k) {  // on tensor cores: of operands of the second's type
          sum += rounded(b.type, operand(0, {p[0], p[1], p[2], k})) * operand(1, {p[0], p[1], k, p[3]});
        }
        out[at(y, p)] = sum;
      });
    } else if (n.type == kReduction) {
      std::fill(out.begin(), out.end(), n.mode == kMax ? -std::numeric_limits<double>::infinity() : 0.0);
      for_each_place(x.extents, [&](const Place& p) {
        double& to = out[at(y, p)];
        to = n.mode == kMax ? std::max(to, operand(0, p)) : to + operand(0, p);
      });
    } else {
      out = *in[0];
    }
    for (double& v : out) v = rounded(y.type, v);
    if (!y.made_inside) {
      const size_t size = size_of(stored_as(y.type));
      for_each_place(y.extents, [&](const Place& p) {
        m.write(static_cast<char*>(y.address) + at(y, p) * size, static_cast<unsigned>(size));
        store(stored_as(y.type), y.address, at(y, p), out[at(y, p)]);
      });
    }
    memory[y.id] = std::move(out);
  }
}

}  // namespace fake
