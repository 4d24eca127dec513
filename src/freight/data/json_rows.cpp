// JSON lines: an object in each line. read_json_row reads one of them, of a table as of labeled texts; JsonRows makes
// rows of a table of them, whose columns are the keys in any order. A cell is what stands in a CSV of the same table: a
// number as it prints, a string as it is, true or false; a key that a line lacks, and null, are missing.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/file_lines_internal.h"
#include "freight/data/table_rows_internal.h"
#include "freight/io/json_internal.h"

namespace freight::data {

namespace {

class JsonRows : public FileRows {
 public:
  // Reads the file once for its keys: a column may begin in the last line.
  JsonRows(std::unique_ptr<io::ByteStream> stream, const std::string& name)
      : lines_(std::move(stream), name, io::kMaxJsonBytes) {
    while (next_object([&](size_t, std::string_view) {})) ++rows_;
    if (names_.empty()) {
      fail(ErrorKind::data, name, "has no rows of columns: expected {\"column\": value, ...} in each line");
    }
    rewind();
  }

  bool next(std::span<const std::string_view>& cells, int64_t& line) override {
    text_.clear();
    ends_.assign(names_.size(), {0, 0});
    const bool any = next_object([&](size_t column, std::string_view value) {
      ends_[column] = {text_.size(), text_.size() + value.size()};
      text_ += value;
      text_ += '\0';  // numbers are read eight digits at once, which those of the next cell must not follow
    });
    if (!any) return false;
    text_.append(kReadableBehind, '\0');
    cells_.clear();
    for (const auto& [begin, end] : ends_) cells_.emplace_back(text_.data() + begin, end - begin);
    cells = cells_;
    line = lines_.number();
    return true;
  }
  void rewind() override {
    lines_.rewind();
    std::fill(seen_in_.begin(), seen_in_.end(), 0);
  }
  bool typed() const override { return true; }
  std::vector<std::string> own_names() const override { return names_; }
  int64_t rows() const override { return rows_; }
  uint64_t size() const override { return lines_.size(); }
  uint64_t read_so_far() const override { return lines_.read_so_far(); }

 private:
  // Calls take(column, cell) for the members of the next object; false at the end.
  template <class Take>
  bool next_object(Take take) {
    if (!lines_.next_text(line_)) return false;
    size_t expected = 0;  // most lines have the keys of those before in their order
    read_json_row(line_, lines_.place(), [&](const std::string& key, const io::JsonValue& value) {
      if (value.type == io::JsonType::nested) {
        fail(ErrorKind::data, lines_.place(), "key ", excerpt(key), " holds ", std::string(value.text),
             ": expected a number, a string, true, false or null");
      }
      const size_t column = expected < names_.size() && names_[expected] == key ? expected : column_of(key);
      expected = column + 1;
      if (std::exchange(seen_in_[column], lines_.number()) == lines_.number()) return false;
      take(column, value.text);
      return true;
    });
    return true;
  }

  size_t column_of(const std::string& key) {
    const auto [at, fresh] = place_.try_emplace(key, names_.size());
    if (!fresh) return at->second;
    if (key.empty()) fail(ErrorKind::data, lines_.place(), "got an empty key: it names a column");
    if (names_.size() == kMostTableColumns) {
      fail(ErrorKind::data, lines_.place(), "got the key ", excerpt(key), " after ", kMostTableColumns,
           " others: each is a column of all rows");
    }
    names_.push_back(key);
    seen_in_.push_back(0);
    return at->second;
  }

  FileLines lines_;
  std::string line_;
  int64_t rows_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> place_;  // by name
  std::vector<int64_t> seen_in_;                   // by column: the last line that has it
  std::string text_;                               // of the row's cells
  std::vector<std::pair<size_t, size_t>> ends_;    // where they begin and end in it
  std::vector<std::string_view> cells_;
};

}  // namespace

void read_json_row(std::string_view line, const std::string& place,
                   const std::function<bool(const std::string& key, const io::JsonValue& value)>& member) {
  line = trimmed(line);
  if (line == "{" || line == "[" || line.starts_with("[{")) {
    fail(ErrorKind::data, place, "got '", excerpt(line.substr(0, 2)),
         "': expected one object in each line, as jq -c '.[]' writes the objects of an array and jq -c . a single one");
  }
  if (line == "{}") return;  // no key is there; reading it as JSON takes ten times as long
  io::read_flat_json(line, place, ErrorKind::data, member);
}

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

std::string lone_surrogate(std::string_view line) {
  const auto unit = [&](size_t at) {  // of "\\uXXXX"; 0 where there is none
    if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u') return 0u;
    return static_cast<unsigned>(parse_hex(line.substr(at + 2, 4)).value_or(0));
  };
  const auto leads = [](unsigned v) { return v >= 0xd800 && v < 0xdc00; };
  const auto trails = [](unsigned v) { return v >= 0xdc00 && v < 0xe000; };
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] != '\\') continue;
    const unsigned v = unit(i);
    if (leads(v) && trails(unit(i + 6))) {
      i += 11;
    } else if (leads(v) || trails(v)) {
      return std::string(line.substr(i, 6));
    } else {
      ++i;  // the escaped character, which may be a backslash
    }
  }
  return "";
}

}  // namespace freight::data
