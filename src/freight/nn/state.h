// Named variables and their values: what state_dict of modules and optimizers gives, and how values are put back.
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/trace/variable.h"

namespace freight::nn {

// A variable under a name.
struct NamedVariable {
  std::string name;   // within the module or optimizer
  Variable variable;  // a handle
};
// Elements under a name.
struct NamedArray {
  std::string name;  // within the module or optimizer
  Array array;       // on the host
};

// The values that the variables have now, copied. A state_dict itself is handles: it follows what is trained on.
std::vector<NamedArray> values_of(const std::vector<NamedVariable>& state);

// The paths that lead to one variable, of each that several lead to: tied weights, a layer that is used twice.
std::vector<std::vector<std::string>> ties_of(const std::vector<NamedVariable>& state);
// Makes the variables of each such list one, whose values are the first's. Throws Error(checkpoint) naming `source` for
// paths that are not there, and variables of different types.
void tie(const std::vector<NamedVariable>& state, const std::vector<std::vector<std::string>>& ties,
         const std::string& source);

// How strict load_values is.
struct LoadOptions {
  bool strict = true;                 // false: names that only one side has are reported in the result
  std::string source = "state_dict";  // what errors call the entries
  bool adopt = false;                 // variables may take over the entries' memory, which nobody else uses then
};
// Names that one side alone has, in its order; both are empty after a strict load.
struct LoadResult {
  std::vector<std::string> missing, unexpected;  // of the holder; of the entries
};
// The two sides as errors call them: "weights do not fit the model".
struct LoadSides {
  const char* entries = "weights";  // what is loaded
  const char* holder = "model";     // what it is loaded into
};

// Sets the variables to the entries of their names. Throws Error(checkpoint) that lists missing and unexpected names
// (where strict), names that stand twice among the entries, entries of another shape or kind of number, and paths to
// one variable that have different values; also where no name fits at all, strict or not. Nothing is changed then.
// PyTorch's num_batches_tracked entries are ignored where no variable has the name; else they may be integers.
LoadResult load_values(const std::vector<NamedVariable>& variables, const std::vector<NamedArray>& entries,
                       const LoadOptions& options, const LoadSides& sides = {});
// The same with the values that other variables have. Variables that would be loaded from themselves alone are refused:
// they are handles, no copy of what was there before.
LoadResult load_values(const std::vector<NamedVariable>& variables, const std::vector<NamedVariable>& entries,
                       const LoadOptions& options, const LoadSides& sides = {});

}  // namespace freight::nn
