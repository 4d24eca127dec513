// Rows of LibSVM files: a label, qid:QUERY where rows are to be ranked, then INDEX:VALUE for what is not 0. featmap.txt
// beside the file names the columns, as XGBoost's does.
#include <algorithm>
#include <filesystem>
#include <map>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/file_lines_internal.h"
#include "freight/data/table_rows_internal.h"

namespace freight::data {

namespace {

constexpr auto kMostFeatures = static_cast<int64_t>(kMostTableColumns);
constexpr std::string_view kZero("0\0\0\0\0\0\0\0\0", 1 + kReadableBehind);

std::string_view next_word(std::string_view& rest) {
  const size_t begin = std::min(rest.find_first_not_of(" \t\r"), rest.size());
  const size_t end = std::min(rest.find_first_of(" \t\r", begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

std::string_view first_word_of(std::string_view line) { return next_word(line); }

// "12" and "1.5" of "12:1.5"; false where it is no such pair.
bool is_pair(std::string_view word, int64_t& index, std::string_view& value) {
  const size_t colon = word.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  value = word.substr(colon + 1);
  index = parse_number<int64_t>(word.substr(0, colon)).value_or(-1);
  return index >= 0 && is_number_cell(value);
}

// "7" of "qid:7"; empty where it is another word.
std::string_view query_of(std::string_view word) {
  constexpr std::string_view kQuery = "qid:";
  return word.starts_with(kQuery) ? word.substr(kQuery.size()) : std::string_view();
}

// By index: the second field of a line of featmap.txt ("0<TAB>cap-shape=bell<TAB>i").
std::map<int64_t, std::string> names_beside(const std::string& path) {
  std::map<int64_t, std::string> names;
  const std::string map = (std::filesystem::path(path).parent_path() / "featmap.txt").string();
  if (!io::file_exists(map)) return names;
  int64_t line = 0;
  for (const std::string& row : split(io::read_text(map), '\n')) {
    ++line;
    std::string_view rest = row;
    const std::string_view number = next_word(rest), name = next_word(rest);
    if (number.empty()) continue;
    const std::optional<int64_t> index = parse_number<int64_t>(number);
    if (!index || name.empty()) {
      fail(ErrorKind::data, cat(map, ":", line), "got '", excerpt(row), "', need a number and the name of a column");
    }
    names[*index] = name;
  }
  return names;
}

class SparseRows : public FileRows {
 public:
  SparseRows(std::unique_ptr<io::ByteStream> stream, std::string name)
      : lines_(std::move(stream), name, kLongestTableRow), name_(std::move(name)), names_(names_beside(name_)) {
    int64_t most = -1;
    first_ = kMostFeatures;
    bool any = false;
    std::string line;
    while (next_line(line)) {
      std::string_view rest = line;
      if (next_word(rest).empty()) continue;
      if (!any) has_queries_ = !query_of(first_word_of(rest)).empty();
      any = true;
      ++rows_;
      take_query(rest);
      for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
        const int64_t index = pair_of(word).first;
        most = std::max(most, index);
        first_ = std::min(first_, index);
      }
    }
    lines_.rewind();
    if (most < first_) fail(ErrorKind::data, name_, "contains only labels: expected INDEX:VALUE after them");
    if (!names_.empty()) {
      // LibSVM counts from 1, maps of names from 0.
      from_one_ = first_ > 0 && names_.begin()->first == 0 ? 1 : 0;
      first_ = std::min(first_, names_.begin()->first + from_one_);
      most = std::max(most, names_.rbegin()->first + from_one_);
    }
    width_ = static_cast<size_t>(most - first_ + 1);
  }

  bool next(std::span<const std::string_view>& cells, int64_t& line) override {
    while (next_line(text_)) {
      text_.append(kReadableBehind, '\0');
      std::string_view rest = std::string_view(text_).substr(0, text_.size() - kReadableBehind);
      const std::string_view label = next_word(rest);
      if (label.empty()) continue;
      const size_t before = has_queries_ ? 2 : 1;
      cells_.assign(before + width_, kZero.substr(0, 1));
      cells_[0] = label;
      if (has_queries_) cells_[1] = take_query(rest);
      for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
        const auto [index, value] = pair_of(word);
        cells_[before + static_cast<size_t>(index - first_)] = value;
      }
      cells = cells_;
      line = lines_.number();
      return true;
    }
    return false;
  }
  void rewind() override { lines_.rewind(); }
  uint64_t size() const override { return lines_.size(); }
  uint64_t read_so_far() const override { return lines_.read_so_far(); }
  int64_t rows() const override { return rows_; }
  std::vector<std::string> own_names() const override {
    std::vector<std::string> names = {"label"};
    if (has_queries_) names.emplace_back("qid");
    for (size_t k = 0; k < width_; ++k) {
      const int64_t index = first_ + static_cast<int64_t>(k);
      const auto named = names_.find(index - from_one_);
      names.push_back(named == names_.end() ? cat("feature_", index) : named->second);
    }
    return names;
  }

 private:
  // Without what stands behind a '#'.
  bool next_line(std::string& line) {
    if (!lines_.next(line)) return false;
    line.resize(std::min(line.find('#'), line.size()));
    return true;
  }
  // Takes the query off the front of a line's words: all rows have one, or none.
  std::string_view take_query(std::string_view& rest) const {
    const std::string_view query = query_of(first_word_of(rest));
    if (query.empty() == has_queries_) {
      fail(
          ErrorKind::data, lines_.place(),
          has_queries_ ? "has no qid:QUERY, and the first row has one" : "has a qid:QUERY, and the first row has none");
    }
    if (has_queries_) next_word(rest);
    return query;
  }
  std::pair<int64_t, std::string_view> pair_of(std::string_view word) const {
    int64_t index = 0;
    std::string_view value;
    if (!is_pair(word, index, value)) {
      fail(ErrorKind::data, lines_.place(), "expected INDEX:VALUE, got '", excerpt(word), "'");
    }
    if (index < kMostFeatures) return {index, value};
    fail(ErrorKind::data, lines_.place(), "got feature ", index, ", a table may have ", kMostFeatures,
         ": its zeros are kept, too");
  }

  FileLines lines_;
  std::string name_, text_;
  std::map<int64_t, std::string> names_;
  bool has_queries_ = false;
  int64_t rows_ = 0;
  int64_t first_ = 0, from_one_ = 0;
  size_t width_ = 0;
  std::vector<std::string_view> cells_;
};

}  // namespace

bool is_sparse(std::string_view first_line) {
  std::string_view rest = first_line;
  const std::string_view label = next_word(rest);
  std::string_view pair = next_word(rest);
  if (!query_of(pair).empty()) pair = next_word(rest);
  int64_t index = 0;
  std::string_view value;
  return is_number_cell(label) && is_pair(pair, index, value);
}

std::unique_ptr<FileRows> sparse_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name) {
  return std::make_unique<SparseRows>(std::move(stream), name);
}

}  // namespace freight::data
