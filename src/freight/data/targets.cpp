// See targets.h.
#include "freight/data/targets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/class_names.h"
#include "freight/data/columns.h"

namespace freight::data {

namespace {

constexpr size_t kMostLabels = 10'000;
constexpr std::string_view kLabelSeparators = "\x1f|;,";  // spaces separate where none of these is in the column

// 0 or 1 of a cell that says whether a sample has a label.
std::optional<float> flag_in(std::string_view cell) {
  if (const std::optional<double> number = number_in(cell)) {
    if (*number == 0 || *number == 1) return static_cast<float>(*number);
    return std::nullopt;
  }
  const std::string word = lower(cell);
  for (const auto& [yes, no] : kYesNo) {
    if (word == yes) return 1.0f;
    if (word == no) return 0.0f;
  }
  return std::nullopt;
}

std::vector<std::string> pieces_of(const std::string& cell, char separator) {
  std::vector<std::string> pieces;
  const std::string_view ends = separator == ' ' ? std::string_view(" \t") : std::string_view(&separator, 1);
  for (size_t begin = 0; begin <= cell.size();) {
    const size_t end = std::min(cell.find_first_of(ends, begin), cell.size());
    const std::string_view piece = trimmed(std::string_view(cell).substr(begin, end - begin));
    if (!piece.empty()) pieces.emplace_back(piece);
    begin = end + 1;
  }
  return pieces;
}

char separator_of(const std::vector<std::string>& cells) {
  for (const char separator : kLabelSeparators) {
    const auto has = [&](const std::string& cell) { return cell.find(separator) != std::string::npos; };
    if (std::any_of(cells.begin(), cells.end(), has)) return separator;
  }
  return ' ';
}

// The labels of a cell where they are known: by the first separator by which all of them are, so that a list in which
// every sample has one label needs no separator. `usual` is that of the list.
std::vector<std::string> known_pieces(const std::string& cell, char usual, const std::map<std::string, size_t>& known) {
  if (known.contains(std::string(trimmed(cell)))) return {std::string(trimmed(cell))};
  for (const char separator : cat(std::string(1, usual), kLabelSeparators, " ")) {
    std::vector<std::string> pieces = pieces_of(cell, separator);
    if (std::all_of(pieces.begin(), pieces.end(), [&](const auto& p) { return known.contains(p); })) return pieces;
  }
  return pieces_of(cell, usual);
}

std::string separator_name(char separator) {
  return separator == ' ' ? "spaces" : cat("'", std::string(1, separator), "'");
}

// Notes on labels that say nothing: those that no sample has, or every one.
void note_labels(const std::string& file, Targets& out) {
  const int64_t n = out.array.shape()[0], k = out.array.shape()[1];
  const auto* const has = out.array.data<uint8_t>();
  std::vector<int64_t> samples(static_cast<size_t>(k));
  int64_t none = 0, one = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t labels = 0;
    for (int64_t c = 0; c < k; ++c) {
      samples[static_cast<size_t>(c)] += has[i * k + c];
      labels += has[i * k + c];
    }
    none += labels == 0;
    one += labels == 1;
  }
  if (none > 0) {
    out.notes.push_back(cat(with_commas(none), none == 1 ? " sample of " : " samples of ", file,
                            none == 1 ? " has no label" : " have no label"));
  }
  if (one == n) {
    out.notes.push_back(cat("every sample of ", file,
                            " has exactly one label: --task classification learns classes that exclude each other"));
  }
  for (const auto& [count, text] : {std::pair{int64_t{0}, "no sample of "}, {n, "every sample of "}}) {
    std::vector<std::string> names;
    for (size_t c = 0; c < samples.size(); ++c) {
      if (samples[c] == count) names.push_back(out.names[c]);
    }
    constexpr size_t kShown = 5;
    const bool more = names.size() > kShown;
    if (names.empty()) continue;
    names.resize(std::min(names.size(), kShown));
    out.notes.push_back(
        cat(text, file, " has ", names.size() == 1 ? "label " : "labels ", join(names, ", "), more ? ", ..." : ""));
  }
}

}  // namespace

std::vector<std::string> column_names(const std::string& list) {
  std::vector<std::string> names;
  for (const std::string& name : split(list, ',')) {
    if (!trimmed(name).empty()) names.emplace_back(trimmed(name));
  }
  return names;
}

std::string TargetRows::add(const std::vector<std::string>& cells, const std::string& where) {
  FREIGHT_CHECK(cells.size() == columns_.size(), "a cell for each column");
  if (one_cell()) {
    cells_.push_back(cells[0]);
    wheres_.push_back(where);
    return {};
  }
  std::vector<float> row;
  for (size_t c = 0; c < cells.size(); ++c) {
    const std::string_view cell = trimmed(cells[c]);
    const bool values = kind_ == TargetKind::values;
    if (is_missing_number(cell)) {
      return cat("column ", columns_[c], " has no value: expected ", values ? "a number" : "0 or 1");
    }
    if (!values) {
      const std::optional<float> flag = flag_in(cell);
      if (!flag) return cat("column ", columns_[c], ": expected 0 or 1, got '", excerpt(std::string(cell)), "'");
      row.push_back(*flag);
      continue;
    }
    const std::optional<double> number = number_in(cell);
    if (!number || !std::isfinite(static_cast<float>(*number))) {
      return cat("column ", columns_[c], ": expected a number, got '", excerpt(std::string(cell)), "'");
    }
    row.push_back(static_cast<float>(*number));
  }
  values_.insert(values_.end(), row.begin(), row.end());
  wheres_.push_back(where);
  return {};
}

Targets TargetRows::split_labels(const std::string& file, const std::vector<std::string>& known) const {
  Targets out{.array = {}, .names = known, .notes = {}};
  const char separator = separator_of(cells_);
  std::vector<std::vector<std::string>> labels;
  std::map<std::string, size_t> numbers;
  for (size_t k = 0; k < known.size(); ++k) numbers[known[k]] = k;
  bool any = false;
  for (const std::string& cell : cells_) {
    labels.push_back(known.empty() ? pieces_of(cell, separator) : known_pieces(cell, separator, numbers));
    any = any || !labels.back().empty();
    if (!known.empty()) continue;
    for (const std::string& label : labels.back()) numbers[label] = 0;
    if (numbers.size() > kMostLabels) {
      fail(ErrorKind::data, file, "column ", columns_[0], " has more than ", kMostLabels,
           " different labels, separated by ", separator_name(separator), ": is it text?");
    }
  }
  if (!any) fail(ErrorKind::data, file, "column ", columns_[0], " is empty in all rows: expected labels");
  if (known.empty()) {
    for (auto& [name, number] : numbers) {
      number = out.names.size();
      out.names.push_back(name);
    }
    out.notes.push_back(cat(out.names.size(), " labels, column ", columns_[0],
                            separator == kLabelSeparator ? "" : cat(", separated by ", separator_name(separator))));
  }
  const auto n = static_cast<int64_t>(labels.size()), k = static_cast<int64_t>(out.names.size());
  out.array = Array(DType::u8, {n, k});
  std::fill_n(out.array.data<uint8_t>(), n * k, uint8_t{0});
  for (size_t i = 0; i < labels.size(); ++i) {
    for (const std::string& label : labels[i]) {
      const auto at = numbers.find(label);
      if (at == numbers.end()) {
        fail(ErrorKind::data, wheres_[i], "label ", excerpt(label), " is not one of the training set: ", k, " labels, ",
             out.names.front(), " to ", out.names.back(), class_hint(label, out.names));
      }
      out.array.data<uint8_t>()[static_cast<int64_t>(i) * k + static_cast<int64_t>(at->second)] = 1;
    }
  }
  return out;
}

Targets TargetRows::finished(const std::string& file, const std::vector<std::string>& known) const {
  const auto n = static_cast<int64_t>(wheres_.size()), k = static_cast<int64_t>(columns_.size());
  if (kind_ == TargetKind::values) return {.array = Array::of<float>(values_, {n, k}), .names = columns_, .notes = {}};
  Targets out;
  if (one_cell()) {
    out = split_labels(file, known);
  } else {
    if (!known.empty() && known != columns_) {
      fail(ErrorKind::data, file, "has the label columns ", join(columns_, ", "), ", expected ", join(known, ", "),
           " as in the training set");
    }
    out = {.array = Array::of<float>(values_, {n, k}).cast(DType::u8), .names = columns_, .notes = {}};
  }
  if (known.empty()) note_labels(file, out);
  return out;
}

Strata strata_of(const Array& targets) {
  const int64_t n = targets.shape()[0];
  Strata out{.of_row = std::vector<int64_t>(static_cast<size_t>(n))};
  if (targets.dtype() != DType::u8) return out;
  const int64_t k = targets.shape()[1];
  const auto* const has = targets.data<uint8_t>();
  std::vector<int64_t> samples(static_cast<size_t>(k));
  for (int64_t at = 0; at < n * k; ++at) samples[static_cast<size_t>(at % k)] += has[at];
  for (int64_t i = 0; i < n; ++i) {
    int64_t& rarest = out.of_row[static_cast<size_t>(i)] = k;
    for (int64_t c = 0; c < k; ++c) {
      const bool rarer = rarest == k || samples[static_cast<size_t>(c)] < samples[static_cast<size_t>(rarest)];
      if (has[i * k + c] && rarer) rarest = c;
    }
  }
  out.count = static_cast<size_t>(k) + 1;
  return out;
}

Array fold_labels(const Array& targets) {
  const int64_t n = targets.shape()[0];
  if (targets.dtype() == DType::u8) return Array::of<int64_t>(strata_of(targets).of_row, {n});
  if (targets.shape().rank() == 1) return targets;
  Array first(DType::f32, {n});
  const int64_t k = targets.numel() / n;
  for (int64_t i = 0; i < n; ++i) first.data<float>()[i] = targets.data<float>()[i * k];
  return first;
}

}  // namespace freight::data
