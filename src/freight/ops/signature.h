// The signatures of the public functions of ops/*.h as data: names, kinds and defaults of arguments, names of results,
// one line on what a function gives, and a call by values. Bindings, listings and docs/functions.md read them; the
// headers keep the declarations, and tests/ops/signature_test.cpp proves that both say the same. Fields of options
// structs are arguments of their own. The declarations: functions.cpp.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "freight/base/dtypes.h"
#include "freight/trace/tensor.h"

namespace freight {

// Stands for an argument that is left out, or has no default.
struct NotGiven {
  friend bool operator==(NotGiven, NotGiven) = default;
};
// A value of any kind of argument.
using ArgumentValue = std::variant<NotGiven, Tensor, std::vector<Tensor>, int64_t, double, bool, std::string, DType,
                                   std::vector<int64_t>>;

// An argument of a function.
struct Parameter {
  // The kinds of values.
  enum class Kind {
    tensor,    // a tensor, or a number
    tensors,   // a list of tensors
    integer,   // a whole number
    integers,  // a list of whole numbers
    axes,      // a whole number, or a list of them; an empty list means all axes
    extents,   // a list of whole numbers, one per spatial axis, or one that stands for all of them
    number,    // a whole number counts as one, too
    flag,
    choice,  // one of `choices`
    dtype,
    text,
  };
  std::string name;                       // as in the headers
  Kind kind = Kind::tensor;               // of its values
  bool required = true;                   // it has no default
  ArgumentValue usual = NotGiven{};       // the default; NotGiven of what is not required: none, as for a bias
  std::vector<std::string> choices = {};  // words, in order
  std::string type = {};                  // in C++, without const and &: "In", "Axis", "Shape"
  std::string options = {};               // the struct whose field it is; "" for an argument of its own
  // The element types of a tensor, or of those in a list: what the function computes in, or moves. Empty for other
  // kinds. Tensors that may be of more types than one need not all agree: a function that wants equal types says so
  // itself.
  DTypes dtypes = {};
};

// A function on tensors.
struct Signature {
  std::string name;                   // "softmax"; of operators the array API's word: "add" of operator+
  std::string callee;                 // in C++: "softmax", "operator+"
  std::string header;                 // "neural.h"
  std::string doc;                    // one line on the result
  std::vector<Parameter> parameters;  // in order
  std::vector<std::string> results;   // names, in order; none: a list of tensors
  bool on_host = false;               // shapes of results depend on elements that the host reads: not in compiled steps
  // For invoke(): one value per parameter.
  std::function<std::vector<Tensor>(const std::vector<ArgumentValue>& values, SourceLine at)> call = {};
};

// In the order of the headers. Overloads of one name (`arange`) stand side by side and differ in what they require; a
// tensor that one overload lacks and the other has at the same place (the bias of conv2d) is one parameter.
const std::vector<Signature>& public_functions();
// All overloads of a name; none where there is no such function.
std::vector<const Signature*> functions_named(const std::string& name);

// Calls a function with values in the order of its parameters; those that are left out, or missing at the end, have
// their defaults. Throws Error(usage) that names function and parameter where a required one is left out, there are too
// many, or a value is of another kind; the function itself throws what it throws. Nodes carry `at` as their source
// line.
std::vector<Tensor> invoke(const Signature& function, const std::vector<ArgumentValue>& values,
                           SourceLine at = SourceLine::current());

// "integer", "list of integers", ...
const char* name(Parameter::Kind kind);
// The default as documents show it: "-1", "mean", "none"; "" of a required parameter.
std::string default_text(const Parameter& p);
// The element types of the tensors: "floating", or "all; index: integers" where those named take others than the first.
std::string types_text(const Signature& s);
// "softmax(x, axis = -1) -> y".
std::string to_string(const Signature& s);

}  // namespace freight
