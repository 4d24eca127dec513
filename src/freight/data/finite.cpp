// See finite.h.
#include "freight/data/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/base/listing.h"
#include "freight/base/strings.h"

namespace freight::data {

namespace {

// The numbers of one sample; none where they are integers.
std::span<const float> numbers_of(const Array& a, int64_t row, int64_t rows) {
  if (!a.defined() || a.dtype() != DType::f32) return {};
  const int64_t n = a.numel() / rows;
  return {a.data<float>() + row * n, static_cast<size_t>(n)};
}

// "column 3" of a sample of one axis, "element [0, 4, 7]" of others; counted from 0.
std::string place_of(const Array& a, int64_t i) {
  const int rank = a.shape().rank();
  if (rank == 1) return "the value";
  if (rank == 2) return cat("column ", i);
  std::vector<int64_t> at;
  for (int d = rank - 1; d >= 1; --d) {
    at.insert(at.begin(), i % a.shape()[d]);
    i /= a.shape()[d];
  }
  std::vector<std::string> parts;
  for (const int64_t n : at) parts.push_back(cat(n));
  return cat("element [", join(parts, ", "), "]");
}

// Tells what is wrong with a sample; "" where nothing is.
std::string fault_of(const Dataset& set, int64_t row) {
  const int64_t rows = set.count();
  for (const Array* a : {&set.images, &set.labels}) {
    const std::span<const float> numbers = numbers_of(*a, row, rows);
    const int64_t at = find_nonfinite(numbers);
    if (at < 0) continue;
    const float v = numbers[static_cast<size_t>(at)];
    return cat(place_of(*a, at), a == &set.labels ? " of its target" : "", " is ",
               std::isnan(v) ? "nan"
               : v > 0       ? "inf"
                             : "-inf",
               ", expected a finite number");
  }
  return "";
}

// The columns of (rows, columns) whose numbers are all the same.
std::vector<int64_t> constant_columns(const float* values, int64_t rows, int64_t columns) {
  std::vector<int64_t> found;
  for (int64_t c = 0; c < columns; ++c) {
    int64_t r = 1;
    while (r < rows && values[r * columns + c] == values[c]) ++r;
    if (r == rows) found.push_back(c);
  }
  return found;
}

// "column 3" or "columns 3, 4, 9 and 12 more".
std::string listed(const std::vector<int64_t>& columns) {
  std::vector<std::string> names;
  for (const int64_t column : columns) names.push_back(cat(column));
  return cat(columns.size() == 1 ? "column " : "columns ", join_first(names, 5));
}

}  // namespace

std::vector<std::string> nothing_to_learn(const Dataset& set) {
  std::vector<std::string> lines;
  const int64_t rows = set.count();
  if (rows < 2) return lines;
  if (set.classification()) {
    const auto* labels = set.labels.data<int64_t>();
    if (std::all_of(labels, labels + rows, [&](int64_t l) { return l == labels[0]; })) {
      const auto at = static_cast<size_t>(labels[0]);
      const std::string name = at < set.classes.size() ? set.classes[at] : cat(labels[0]);
      lines.push_back(cat("all ", rows, " training samples are of class ", name, ": there is nothing to classify"));
    }
  } else if (set.labels.dtype() == DType::f32) {
    const auto same = constant_columns(set.labels.data<float>(), rows, set.labels.numel() / rows);
    if (!same.empty()) lines.push_back(cat("the targets are constant: ", listed(same)));
  }
  if (set.images.defined() && set.images.dtype() == DType::f32 && set.images.shape().rank() == 2) {
    const auto same = constant_columns(set.images.data<float>(), rows, set.images.shape()[1]);
    if (!same.empty()) lines.push_back(cat("nothing can be learned from constant inputs: ", listed(same)));
  }
  return lines;
}

bool leave_out_nonfinite(Dataset& set, const BadSamples& bad) {
  if (set.files || !set.images.defined() || set.count() == 0) return false;
  std::vector<int64_t> kept;
  const int64_t rows = set.count();
  for (int64_t i = 0; i < rows; ++i) {
    const std::string fault = fault_of(set, i);
    if (fault.empty()) {
      kept.push_back(i);
      continue;
    }
    const std::string sample = cat(set.name, ", sample ", i, " of the ", set.split, " set");
    if (bad.on_bad == OnBad::error) fail(ErrorKind::data, sample, fault, advice_on_bad("samples"));
    if (bad.report) bad.report({sample, fault});
  }
  if (static_cast<int64_t>(kept.size()) == rows) return false;
  if (kept.empty()) fail(ErrorKind::data, cat(set.name, ", ", set.split), "every sample contains NaN or infinity");
  set.images = selected_rows(set.images, kept);
  set.labels = selected_rows(set.labels, kept);
  return true;
}

}  // namespace freight::data
