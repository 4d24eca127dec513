// Rows of JSON lines: an object in each line, whose keys are the columns in any order. A cell is what stands in a CSV
// of the same table: a number as it prints, a string as it is, true or false; a key that a line lacks, and null, are
// missing.
#include <array>
#include <charconv>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/file_lines_internal.h"
#include "freight/data/table_rows_internal.h"
#include "freight/io/json_internal.h"

namespace freight::data {

namespace {

using JsonRow = nlohmann::ordered_json;

// A row has a cell for each key that any line has: lines of ever new keys would fill any memory.
constexpr size_t kMostKeys = 100000;

template <class Number>
void append_number(std::string& out, Number v) {
  std::array<char, 32> text{};
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), v).ptr);
}

class JsonRows : public FileRows {
 public:
  // Reads the file once for its keys: a column may begin in the last line.
  JsonRows(std::unique_ptr<io::ByteStream> stream, const std::string& name)
      : lines_(std::move(stream), name, io::kMaxJsonBytes) {
    JsonRow row;
    while (next_object(row)) {
      for (const auto& [key, value] : row.items()) add_column(key);
    }
    if (names_.empty())
      fail(ErrorKind::data, name, "holds no rows of columns: need {\"column\": value, ...} in each line");
    lines_.rewind();
  }

  bool next(std::span<const std::string_view>& cells, int64_t& line) override {
    JsonRow row;
    if (!next_object(row)) return false;
    text_.clear();
    ends_.assign(names_.size(), {0, 0});
    for (const auto& [key, value] : row.items()) {
      const size_t begin = text_.size();
      append_cell(key, value);
      ends_[place_.at(key)] = {begin, text_.size()};
    }
    text_.append(kReadableBehind, '\0');
    cells_.clear();
    for (const auto& [begin, end] : ends_) cells_.emplace_back(text_.data() + begin, end - begin);
    cells = cells_;
    line = lines_.number();
    return true;
  }
  void rewind() override { lines_.rewind(); }
  std::vector<std::string> own_names() const override { return names_; }
  uint64_t size() const override { return lines_.size(); }
  uint64_t read_so_far() const override { return lines_.read_so_far(); }

 private:
  // Passes over lines without a character.
  bool next_object(JsonRow& row) {
    while (lines_.next(line_)) {
      const std::string_view line = trimmed(line_);
      if (line.empty()) continue;
      if (line == "{" || line == "[" || line.starts_with("[{")) {
        fail(ErrorKind::data, lines_.place(), "got '", excerpt(line.substr(0, 2)),
             "': need one object in each line, as jq -c '.[]' writes the objects of an array and jq -c . a single one");
      }
      row = io::parse_json<JsonRow>(line_, lines_.place(), ErrorKind::data);
      if (row.is_object()) return true;
      fail(ErrorKind::data, lines_.place(), "got ", excerpt(line_), ", need an object: {\"column\": value, ...}");
    }
    return false;
  }

  void add_column(const std::string& key) {
    if (!place_.try_emplace(key, names_.size()).second) return;
    if (key.empty()) fail(ErrorKind::data, lines_.place(), "got an empty key: it names a column");
    if (names_.size() == kMostKeys) {
      fail(ErrorKind::data, lines_.place(), "got the key ", excerpt(key), " after ", kMostKeys,
           " others: each is a column of all rows");
    }
    names_.push_back(key);
  }

  void append_cell(const std::string& key, const JsonRow& value) {
    switch (value.type()) {
      case JsonRow::value_t::null: return;
      case JsonRow::value_t::boolean: text_ += value.get<bool>() ? "true" : "false"; return;
      case JsonRow::value_t::number_integer: return append_number(text_, value.get<int64_t>());
      case JsonRow::value_t::number_unsigned: return append_number(text_, value.get<uint64_t>());
      case JsonRow::value_t::number_float: return append_number(text_, value.get<double>());
      case JsonRow::value_t::string: text_ += value.get_ref<const std::string&>(); return;
      default: break;
    }
    fail(ErrorKind::data, lines_.place(), "key ", excerpt(key), " holds ", value.is_array() ? "an array" : "an object",
         ": need a number, a string, true, false or null");
  }

  FileLines lines_;
  std::string line_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> place_;  // by name
  std::string text_;                               // of the row's cells
  std::vector<std::pair<size_t, size_t>> ends_;    // where they begin and end in it
  std::vector<std::string_view> cells_;
};

}  // namespace

bool names_json_lines(const std::string& path) {
  std::string name = lower(path);
  if (ends_with(name, ".gz")) name.resize(name.size() - 3);
  return ends_with(name, ".jsonl") || ends_with(name, ".ndjson");
}

bool is_json_row(std::string_view first_line) {
  const std::string_view line = trimmed(first_line);
  if (line == "[" || line.starts_with("[{")) return true;  // an array of rows, which is told what it needs
  if (line.empty() || line[0] != '{') return false;
  const std::string_view rest = trimmed(line.substr(1));
  return rest.empty() || rest[0] == '"' || rest[0] == '}';
}

std::unique_ptr<FileRows> json_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name) {
  return std::make_unique<JsonRows>(std::move(stream), name);
}

}  // namespace freight::data
