// `freight ops`: lists the functions that users call and the ops of graphs, with their arguments, defaults and meaning.
#include <cstdio>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/ir/signature.h"
#include "freight/ops/signature.h"
#include "options.h"
#include "text_table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

Json default_json(const ArgumentValue& a) {
  return std::visit(
      [](const auto& v) -> Json {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, DType>) return to_string(v);
        if constexpr (std::is_arithmetic_v<V> || std::is_same_v<V, std::string>) return v;
        if constexpr (std::is_same_v<V, std::vector<int64_t>>) return v;
        return nullptr;
      },
      a);
}

Json names_of(DTypes types) {
  Json names = Json::array();
  for (const DType t : types.list()) names.push_back(to_string(t));
  return names;
}

Json function_json(const Signature& s) {
  Json parameters = Json::array();
  for (const Parameter& p : s.parameters) {
    Json j = {{"name", p.name}, {"kind", name(p.kind)}, {"required", p.required}};
    if (!p.required) j["default"] = default_json(p.usual);
    if (!p.choices.empty()) j["choices"] = p.choices;
    j["type"] = p.type;
    if (!p.dtypes.empty()) j["dtypes"] = names_of(p.dtypes);
    if (!p.options.empty()) j["options"] = p.options;
    parameters.push_back(std::move(j));
  }
  return {{"name", s.name},           {"callee", s.callee},   {"header", s.header},        {"doc", s.doc},
          {"parameters", parameters}, {"results", s.results}, {"many", s.results.empty()}, {"on_host", s.on_host}};
}

Json values_json(const std::vector<OpValue>& values) {
  Json list = Json::array();
  for (const OpValue& v : values) list.push_back({{"name", v.name}, {"optional", v.optional}, {"many", v.many}});
  return list;
}

Json op_json(Op op) {
  const OpSignature s = signature(op);
  Json attributes = Json::array();
  for (const OpAttribute& a : s.attributes) {
    attributes.push_back({{"name", a.name}, {"kind", a.kind}, {"default", a.text}});
  }
  return {{"name", name(op)},
          {"doc", info(op).doc},
          {"operands", values_json(s.operands)},
          {"attributes", attributes},
          {"results", values_json(s.results)}};
}

std::string op_text(Op op) {
  std::string text = cat(name(op), ": ", info(op).signature), list;
  for (const OpAttribute& a : signature(op).attributes) {
    list += cat(list.empty() ? " {" : ", ", a.name, a.text.empty() ? "" : "=", a.text);
  }
  return text + list + (list.empty() ? "" : "}");
}

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i) ops.push_back(static_cast<Op>(i));
  return ops;
}

void need_known(const std::string& wanted) {
  std::vector<std::string> names;
  for (const Signature& s : public_functions()) names.push_back(s.name);
  for (const Op op : all_ops()) names.emplace_back(name(op));
  fail(ErrorKind::usage, wanted.c_str(), "no function or op of this name",
       did_you_mean(wanted, names, "; freight ops lists them"));
}

}  // namespace

int ops_command(const Args& args) {
  std::string wanted;
  bool json = false, graph = false;
  Options o("ops", "Lists the functions on tensors and the ops of graphs with their arguments, defaults and meaning.",
            "[NAME] [options]", "  freight ops conv2d    the arguments of one function");
  o.positional("name", &wanted, "only the function or op of this name", false);
  o.add("--graph", &graph, "list the ops of graphs in text form instead of the functions");
  o.add("--json", &json, "print JSON: functions, ops");
  if (o.parse(args) == Options::Outcome::done) return 0;

  Json functions = Json::array(), ops = Json::array();
  std::vector<std::vector<std::string>> function_rows, op_rows;
  for (const Signature& s : public_functions()) {
    if (!wanted.empty() && s.name != wanted) continue;
    functions.push_back(function_json(s));
    function_rows.push_back({to_string(s), s.doc, types_text(s)});
  }
  for (const Op op : all_ops()) {
    if (!wanted.empty() && wanted != name(op)) continue;
    ops.push_back(op_json(op));
    op_rows.push_back({op_text(op), info(op).doc});
  }
  if (functions.empty() && ops.empty()) need_known(wanted);
  if (json) {
    std::printf("%s\n", Json({{"functions", functions}, {"ops", ops}}).dump(2).c_str());
    return 0;
  }
  const bool show_ops = graph || function_rows.empty();
  const std::string text = show_ops ? text_table({"op", "gives"}, op_rows)
                                    : text_table({"function", "gives", "element types"}, function_rows);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace freight::app
