// Calls of functions by their signatures, and signatures as text; see signature.h.
#include "freight/ops/signature.h"

#include <algorithm>
#include <map>

#include "freight/base/error.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

using Kind = Parameter::Kind;

bool is_kind(const Parameter& p, const ArgumentValue& a) {
  const bool whole = std::holds_alternative<int64_t>(a), list = std::holds_alternative<std::vector<int64_t>>(a);
  switch (p.kind) {
    case Kind::tensor:
      if (const auto* t = std::get_if<Tensor>(&a)) return t->defined();
      return p.type == "In" && (whole || std::holds_alternative<double>(a));
    case Kind::tensors: return std::holds_alternative<std::vector<Tensor>>(a);
    case Kind::integer: return whole;
    case Kind::integers: return list;
    case Kind::axes:
    case Kind::extents: return whole || list;
    case Kind::number: return whole || std::holds_alternative<double>(a);
    case Kind::flag: return std::holds_alternative<bool>(a);
    case Kind::choice: {
      const auto* word = std::get_if<std::string>(&a);
      return word && std::find(p.choices.begin(), p.choices.end(), *word) != p.choices.end();
    }
    case Kind::dtype: return std::holds_alternative<DType>(a);
    case Kind::text: return std::holds_alternative<std::string>(a);
  }
  return false;
}

std::string whole_list(const std::vector<int64_t>& v) {
  std::string out = "[";
  for (const int64_t x : v) out += cat(out.size() > 1 ? ", " : "", x);
  return out + "]";
}

// A value as messages and documents show it.
std::string shown(const ArgumentValue& a) {
  return std::visit(
      [](const auto& v) -> std::string {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, NotGiven>) return "none";
        if constexpr (std::is_same_v<V, Tensor>) return v.defined() ? to_string(v.type()) : "an undefined tensor";
        if constexpr (std::is_same_v<V, std::vector<Tensor>>) return cat("a list of ", v.size(), " tensors");
        if constexpr (std::is_same_v<V, std::vector<int64_t>>) return whole_list(v);
        if constexpr (std::is_arithmetic_v<V> || std::is_same_v<V, std::string> || std::is_same_v<V, DType>)
          return cat(v);
      },
      a);
}

std::string needed(const Parameter& p) {
  return p.kind == Kind::choice ? "one of " + join(p.choices, ", ") : std::string(name(p.kind));
}

}  // namespace

std::vector<const Signature*> functions_named(const std::string& name) {
  std::vector<const Signature*> found;
  for (const Signature& s : public_functions()) {
    if (s.name == name) found.push_back(&s);
  }
  return found;
}

std::vector<Tensor> invoke(const Signature& function, const std::vector<ArgumentValue>& values, SourceLine at) {
  const std::vector<Parameter>& parameters = function.parameters;
  if (values.size() > parameters.size()) {
    fail(ErrorKind::usage, function.name.c_str(), "too many arguments: expected at most ", parameters.size(), ", got ",
         values.size(), ": ", to_string(function));
  }
  std::vector<ArgumentValue> complete;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    const bool given = i < values.size() && !std::holds_alternative<NotGiven>(values[i]);
    if (!given && p.required) {
      fail(ErrorKind::usage, function.name.c_str(), "argument ", p.name, " is missing: expected ", needed(p));
    }
    if (given && !is_kind(p, values[i])) {
      fail(ErrorKind::usage, function.name.c_str(), "argument ", p.name, ": expected ", needed(p), ", got ",
           shown(values[i]));
    }
    complete.push_back(given ? values[i] : p.usual);
  }
  return function.call(complete, at);
}

const char* name(Parameter::Kind kind) {
  switch (kind) {
    case Kind::tensor: return "tensor";
    case Kind::tensors: return "list of tensors";
    case Kind::integer: return "integer";
    case Kind::integers: return "list of integers";
    case Kind::axes: return "integer or list of integers";
    case Kind::extents: return "integer or list of integers";
    case Kind::number: return "number";
    case Kind::flag: return "true or false";
    case Kind::choice: return "choice";
    case Kind::dtype: return "element type";
    case Kind::text: return "text";
  }
  return "";
}

std::string default_text(const Parameter& p) {
  if (p.required) return "";
  const auto* list = std::get_if<std::vector<int64_t>>(&p.usual);
  return p.kind == Kind::axes && list && list->empty() ? "all" : shown(p.usual);
}

std::string types_text(const Signature& s) {
  std::vector<std::string> parts;
  DTypes first;
  std::map<std::string, std::vector<std::string>> others;
  for (const Parameter& p : s.parameters) {
    if (p.dtypes.empty() || p.dtypes == first) continue;
    if (first.empty()) {
      first = p.dtypes;
    } else {
      others[to_string(p.dtypes)].push_back(p.name);
    }
  }
  if (!first.empty()) parts.push_back(to_string(first));
  for (const auto& [types, names] : others) parts.push_back(cat(join(names, ", "), ": ", types));
  return join(parts, "; ");
}

std::string to_string(const Signature& s) {
  std::string out = s.name + "(";
  for (const Parameter& p : s.parameters) {
    out += cat(&p == s.parameters.data() ? "" : ", ", p.name, p.required ? "" : " = ", default_text(p));
  }
  return cat(out, ") -> ", s.results.empty() ? "list" : join(s.results, ", "));
}

}  // namespace freight
