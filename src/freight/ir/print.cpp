// The text form of graphs (docs/graph-text.md); parse.cpp reads it back. Attributes equal to their default are left
// out.
#include <algorithm>

#include "freight/base/error.h"
#include "freight/ir/graph.h"
#include "freight/ir/infer.h"
#include "freight/ir/signature.h"

namespace freight {

namespace {

// "%3, %4".
std::string references(const std::vector<Value>& values) {
  std::string out;
  for (Value v : values) out += cat(out.empty() ? "%" : ", %", v.id);
  return out;
}

void print_into(std::string& out, const Graph& graph, const std::string& indent);

void print_node(std::string& out, const Graph& graph, const Node& n, const std::string& indent) {
  out += cat(indent, references(n.outputs), " = ", name(n.op));
  if (!n.inputs.empty()) out += cat("(", references(n.inputs), ")");
  if (n.op == Op::input || n.op == Op::state) {
    out += cat(" ", quoted_text(attrs<LeafAttrs>(n).name));
  } else {
    const std::vector<OpAttribute> now = attributes_of(n.attrs), defaults = attributes_of(info(n.op).attrs);
    std::string list;
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i].text != defaults[i].text) list += cat(list.empty() ? "" : ", ", now[i].name, "=", now[i].text);
    }
    if (!list.empty()) out += cat(" {", list, "}");
  }
  out += " : ";
  for (size_t i = 0; i < n.outputs.size(); ++i) out += cat(i ? ", " : "", graph.type(n.outputs[i]));
  if (!n.scope.empty()) out += cat(" @", quoted_text(n.scope));
  if (const auto* f = std::get_if<FusedAttrs>(&n.attrs); f && f->body) {
    out += " body {\n";
    print_into(out, *f->body, indent + "  ");
    out += indent + "}";
  }
  if (!n.where.empty()) out += cat("  # ", n.where);
  out += "\n";
}

void print_into(std::string& out, const Graph& graph, const std::string& indent) {
  for (const Node& n : graph.nodes) print_node(out, graph, n, indent);
  for (const Update& u : graph.updates) out += cat(indent, "update %", u.state.id, " = %", u.next.id, "\n");
  if (!graph.outputs.empty()) out += cat(indent, "return ", references(graph.outputs), "\n");
}

// The nodes around number `at`, for the verifier's message.
std::string neighborhood(const Graph& graph, size_t at) {
  std::string out;
  for (size_t i = at > 4 ? at - 4 : 0; i < std::min(graph.nodes.size(), at + 3); ++i) {
    out += i == at ? "> " : "  ";
    print_node(out, graph, graph.nodes[i], "");
  }
  return out;
}

}  // namespace

std::string print(const Graph& graph) {
  std::string out = "graph {\n";
  print_into(out, graph, "  ");
  return out + "}\n";
}

void verify(const Graph& graph, const char* after) {
  size_t at = 0;
  const auto bad = [&](const auto&... parts) {
    fail(ErrorKind::runtime, "verify", cat(parts...), *after ? cat(" after pass ", after) : "", " near\n",
         neighborhood(graph, at));
  };
  int32_t defined = 0;
  for (; at < graph.nodes.size(); ++at) {
    const Node& n = graph.nodes[at];
    for (Value v : n.inputs) {
      if (!v.valid() || v.id >= defined) bad(name(n.op), " reads %", v.id, " before its definition");
    }
    std::vector<Type> types;
    try {
      types = infer_types(n, input_types(graph, n));
    } catch (const Error& e) {
      bad(e.what());
    }
    if (types != output_types(graph, n)) bad(name(n.op), ": recorded result types differ from the inferred ones");
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const ValueInfo& info = graph.values[n.outputs[i]];
      if (n.outputs[i].id != defined++ || info.node.index() != at || info.index != static_cast<int32_t>(i)) {
        bad(name(n.op), ": result %", n.outputs[i].id, " is misnumbered");
      }
    }
    if (const auto* f = std::get_if<FusedAttrs>(&n.attrs)) verify(*f->body, after);
  }
  at = graph.nodes.empty() ? 0 : graph.nodes.size() - 1;
  for (Value v : graph.outputs) {
    if (!v.valid() || v.id >= defined) bad("output %", v.id, " does not exist");
  }
  for (const Update& u : graph.updates) {
    if (!u.state.valid() || u.state.id >= defined || graph.def(u.state).op != Op::state)
      bad("update of %", u.state.id, ", not a state");
    if (!u.next.valid() || u.next.id >= defined || !(graph.type(u.next) == graph.type(u.state))) {
      bad("update of state %", u.state.id, " with a value of another type");
    }
  }
}

}  // namespace freight
