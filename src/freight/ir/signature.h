// The signature of an op: its operands, attributes and results by name. Nothing is declared here: operands and results
// are read from the `signature` column of the op table, attributes from the fields of the op's attribute struct. The
// text form of graphs and listings take their names from here.
#pragma once
#include <string>
#include <vector>

#include "freight/ir/op.h"

namespace freight {

struct OpValue {
  std::string name;
  bool optional = false;  // missing from some nodes
  bool many = false;      // one or more (any number where optional)
  friend bool operator==(const OpValue&, const OpValue&) = default;
};
struct OpAttribute {
  std::string name;
  const char* kind;  // "integer", "integers", "number", "flag", "element type", "pattern", "elements", "text"
  std::string text;  // the value in the text form; of a signature, the default
};
struct OpSignature {
  std::vector<OpValue> operands;
  std::vector<OpAttribute> attributes;
  std::vector<OpValue> results;
};

OpSignature signature(Op op);
// The number of the operand with that name, if no optional one is before it; -1 if none has it.
int operand_of(Op op, std::string_view name);
// The attributes that stand between braces in the text form, with their values; types and bodies are written elsewhere.
std::vector<OpAttribute> attributes_of(const Attrs& a);
// A string as the text form writes it: in quotes, with \ before quotes and backslashes.
std::string quoted_text(const std::string& s);

}  // namespace freight
