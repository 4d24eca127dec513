// Reads signatures from the op table and from the field lists of attributes; see signature.h.
#include "freight/ir/signature.h"

#include <algorithm>
#include <complex>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/ir/fused_pattern.h"

namespace freight {

namespace {

std::string number_list(const Array& a) {
  std::string out = "[";
  const auto put = [&](const auto& numbers) {
    for (const auto v : numbers) out += cat(out.size() > 1 ? "," : "", v);
  };
  if (is_complex(a.dtype())) {
    const auto shortest = [&](double part) {
      return a.dtype() == DType::c64 ? cat(static_cast<float>(part)) : cat(part);
    };
    for (const auto v : a.to_vector<std::complex<double>>())
      out += cat(out.size() > 1 ? "," : "", "(", shortest(v.real()), ",", shortest(v.imag()), ")");
  } else if (a.dtype() == DType::u64) {
    put(a.to_vector<uint64_t>());
  } else if (a.dtype() == DType::f64) {
    put(a.to_vector<double>());
  } else if (is_floating(a.dtype())) {
    put(a.to_vector<float>());
  } else {
    put(a.to_vector<int64_t>());
  }
  return out + "]";
}

// Collects the fields of an attribute struct.
struct FieldTexts {
  std::vector<OpAttribute> fields;
  void put(std::string_view n, const char* kind, std::string text) {
    fields.push_back({std::string(n), kind, std::move(text)});
  }
  void operator()(std::string_view n, const int64_t& v) { put(n, "integer", cat(v)); }
  void operator()(std::string_view n, const double& v) { put(n, "number", cat(v)); }
  void operator()(std::string_view n, const bool& v) { put(n, "flag", cat(v)); }
  void operator()(std::string_view n, const DType& v) { put(n, "element type", cat(v)); }
  void operator()(std::string_view n, const Shape& v) { put(n, "integers", cat(v)); }
  void operator()(std::string_view n, const std::string& v) { put(n, "text", quoted_text(v)); }
  void operator()(std::string_view n, const FusedKind& v) { put(n, "pattern", pattern_of(v).name); }
  void operator()(std::string_view n, const Array& v) { put(n, "elements", v.defined() ? number_list(v) : ""); }
  void operator()(std::string_view, const Type&) {}                          // printed as the result type
  void operator()(std::string_view, const std::shared_ptr<const Graph>&) {}  // printed as a body
};

std::vector<OpValue> values_of(std::string_view list) {
  std::vector<OpValue> values;
  for (const std::string& part : split(std::string(list), ',')) {
    OpValue v{part.substr(std::min(part.find_first_not_of(' '), part.size()))};
    v.name.erase(v.name.find_last_not_of(' ') + 1);
    const auto ends_with = [&](std::string_view mark) {
      const bool found = v.name.ends_with(mark);
      if (found) v.name.resize(v.name.size() - mark.size());
      return found;
    };
    v.many = ends_with("...");
    v.optional = ends_with("?");
    if (!v.name.empty()) values.push_back(v);
  }
  return values;
}

}  // namespace

std::string quoted_text(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::vector<OpAttribute> attributes_of(const Attrs& a) {
  FieldTexts f;
  std::visit([&](const auto& s) { visit_fields(s, f); }, a);
  return std::move(f.fields);
}

OpSignature signature(Op op) {
  const std::string_view text = info(op).signature;
  const size_t arrow = text.find("->");
  return {values_of(text.substr(0, arrow)), attributes_of(info(op).attrs), values_of(text.substr(arrow + 2))};
}

int operand_of(Op op, std::string_view name) {
  const std::vector<OpValue> operands = signature(op).operands;
  const auto at = std::find_if(operands.begin(), operands.end(), [&](const OpValue& v) { return v.name == name; });
  return at == operands.end() ? -1 : static_cast<int>(at - operands.begin());
}

}  // namespace freight
