// See state.h.
#include "freight/nn/state.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/listing.h"
#include "freight/base/strings.h"

namespace freight::nn {

namespace {

// PyTorch's BatchNorm has this counter, an integer there, also where the momentum is fixed.
bool is_counter(const std::string& name) { return ends_with(name, "num_batches_tracked"); }
bool passed_over(const std::string& name, const std::vector<NamedVariable>& variables) {
  return is_counter(name) &&
         std::none_of(variables.begin(), variables.end(), [&](const NamedVariable& v) { return v.name == name; });
}

// Whether the numbers of one can become those of the other. Bits of floats that are called integers would be converted
// without complaint, to numbers of 10^9.
bool same_kind(DType a, DType b) { return is_floating(a) == is_floating(b) && is_complex(a) == is_complex(b); }

// `others`: the names that only the other side has; the nearest of them is shown with each name.
std::string listed(const char* what, std::vector<std::string> names, const std::vector<std::string>& others = {}) {
  if (names.empty()) return {};
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    if (const std::string other = nearest(names[i], others); !other.empty()) {
      names[i] += cat(" (nearest: ", other, ")");
    }
  }
  return cat("; ", what, ": ", join_first(names, kShown));
}

// What a load is going to do, and what speaks against it.
struct Loading {
  std::vector<std::pair<Variable, Array>> fit;
  std::map<const void*, std::pair<std::string, Array>> first;  // by variable: its first path, and what it gets
  std::vector<std::string> misshapen, mistyped, different, repeated;
  LoadResult names;

  void take(const NamedVariable& v, const Array& given) {
    if (given.shape() != v.variable.shape()) {
      misshapen.push_back(cat(v.name, " (expected ", v.variable.shape(), ", got ", given.shape(), ")"));
      return;
    }
    const DType type = v.variable.type().dtype;
    if (!same_kind(type, given.dtype()) && !is_counter(v.name)) {
      mistyped.push_back(cat(v.name, " (expected ", type, ", got ", given.dtype(), ")"));
      return;
    }
    const Array values = given.cast(type);
    const auto [at, fresh] = first.try_emplace(v.variable.impl().get(), v.name, values);
    if (fresh) {
      fit.emplace_back(v.variable, values);
    } else if (std::memcmp(at->second.second.raw(), values.raw(), values.bytes()) != 0) {
      different.push_back(cat(at->second.first, " and ", v.name));
    }
  }
  std::string faults(bool strict) const {
    return cat(strict ? listed("missing", names.missing, names.unexpected) : "",
               strict ? listed("unexpected", names.unexpected, names.missing) : "", listed("given twice", repeated),
               listed("wrong shape", misshapen), listed("wrong type", mistyped),
               listed("tied in the model, but with different values", different));
  }
};

// The memory that variables have taken over: files of PyTorch may have one tensor under several names.
class TakenMemory {
 public:
  // False where some of it is taken.
  bool take(const Array& array) {
    const auto* const first = static_cast<const char*>(array.raw());
    const auto behind = ranges_.lower_bound(first);
    if (behind != ranges_.end() && behind->first < first + array.bytes()) return false;
    if (behind != ranges_.begin() && std::prev(behind)->second > first) return false;
    return ranges_.emplace(first, first + array.bytes()).second;
  }

 private:
  std::map<const char*, const char*> ranges_;  // their ends, by where they begin
};

}  // namespace

std::vector<NamedArray> values_of(const std::vector<NamedVariable>& state) {
  std::vector<NamedArray> out;
  for (const NamedVariable& v : state) out.push_back({v.name, v.variable.array().clone()});
  return out;
}

std::vector<std::vector<std::string>> ties_of(const std::vector<NamedVariable>& state) {
  std::vector<std::vector<std::string>> all;
  std::map<const void*, size_t> at;
  for (const NamedVariable& v : state) {
    const auto [it, fresh] = at.try_emplace(v.variable.impl().get(), all.size());
    if (fresh) all.emplace_back();
    all[it->second].push_back(v.name);
  }
  std::erase_if(all, [](const auto& paths) { return paths.size() == 1; });
  return all;
}

void tie(const std::vector<NamedVariable>& state, const std::vector<std::vector<std::string>>& ties,
         const std::string& source) {
  const auto find = [&](const std::string& path) -> const Variable& {
    const auto it = std::find_if(state.begin(), state.end(), [&](const NamedVariable& v) { return v.name == path; });
    if (it == state.end()) fail(ErrorKind::checkpoint, source, "tied weights: the model has no variable '", path, "'");
    return it->variable;
  };
  for (const std::vector<std::string>& paths : ties) {
    for (size_t i = 1; i < paths.size(); ++i) {
      const Variable &first = find(paths[0]), &other = find(paths[i]);
      if (!(first.type() == other.type())) {
        fail(ErrorKind::checkpoint, source, "tied weights: '", paths[0], "' is ", first.type(), ", '", paths[i],
             "' is ", other.type());
      }
      Variable member = other.as_member();
      member = first;
    }
  }
}

LoadResult load_values(const std::vector<NamedVariable>& variables, const std::vector<NamedArray>& entries,
                       const LoadOptions& options, const LoadSides& sides) {
  std::map<std::string, const Array*> given;
  Loading loading;
  for (const NamedArray& e : entries) {
    if (passed_over(e.name, variables)) continue;
    if (!e.array.defined()) {
      fail(ErrorKind::usage, options.source, "the entry '", e.name, "' is an array without storage");
    }
    if (!given.try_emplace(e.name, &e.array).second) loading.repeated.push_back(e.name);
  }
  bool any = false;
  for (const NamedVariable& v : variables) {
    const auto it = given.find(v.name);
    if (it == given.end()) {
      loading.names.missing.push_back(v.name);
      continue;
    }
    any = true;
    loading.take(v, *it->second);
    given.erase(it);
  }
  for (const auto& [name, array] : given) loading.names.unexpected.push_back(name);
  const bool nothing = !any && !variables.empty() && !given.empty();
  const std::string faults = loading.faults(options.strict || nothing);
  if (!faults.empty()) {
    fail(ErrorKind::checkpoint, options.source, sides.entries, " do not fit the ", sides.holder, faults);
  }
  TakenMemory taken;
  for (const auto& [variable, array] : loading.fit) {
    if (options.adopt && taken.take(array)) {
      variable.adopt(array);
    } else {
      variable.set(array);
    }
  }
  return loading.names;
}

LoadResult load_values(const std::vector<NamedVariable>& variables, const std::vector<NamedVariable>& entries,
                       const LoadOptions& options, const LoadSides& sides) {
  const auto own = [&](const NamedVariable& e) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const NamedVariable& v) { return v.name == e.name && v.variable == e.variable; });
  };
  if (!entries.empty() && std::all_of(entries.begin(), entries.end(), own)) {
    fail(ErrorKind::usage, options.source, "these are the ", sides.holder,
         "'s own variables, which have their values already; to go back to earlier ones keep "
         "nn::values_of(state_dict())");
  }
  std::vector<NamedArray> arrays;
  for (const NamedVariable& e : entries) {  // one that is set too is copied, for names may cross
    const bool is_set = std::any_of(variables.begin(), variables.end(),
                                    [&](const NamedVariable& v) { return v.variable == e.variable; });
    arrays.push_back({e.name, is_set ? e.variable.array().clone() : e.variable.array()});
  }
  return load_values(variables, arrays, options, sides);
}

}  // namespace freight::nn
