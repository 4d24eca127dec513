// Files of labeled documents: CSV, TSV, JSON lines, fastText. Which column is what is found out here. See text.h.
#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/usage.h"
#include "freight/data/columns.h"
#include "freight/data/file_lines_internal.h"
#include "freight/data/table_rows_internal.h"
#include "freight/data/text.h"
#include "freight/data/unicode.h"

namespace freight::data {

namespace {

using Rows = std::vector<CellRow>;

// Calls f(line, place) for every line that is not blank.
template <class F>
void for_lines(io::ByteView bytes, const std::string& name, F&& f) {
  FileLines lines(std::make_unique<io::ByteStream>(bytes), name);
  for (std::string line; lines.next_text(line);) f(trimmed(line), lines.place());
}

// The rows of a CSV or TSV. Documents that are not UTF-8 are reported one by one. In TSV a quote is text, and a row of
// blanks and tabs is a blank line.
Rows rows_of(io::ByteView bytes, const std::string& name, TextForm form) {
  const bool tabs = form == TextForm::tsv;
  Rows rows = next_rows(*delimited_rows(std::make_unique<io::ByteStream>(bytes), name,
                                        {.separator = tabs ? '\t' : ',', .quotes = !tabs, .need_utf8 = false}));
  if (tabs) {
    std::erase_if(rows, [](const CellRow& row) {
      return std::all_of(row.cells.begin(), row.cells.end(), [](const auto& cell) { return trimmed(cell).empty(); });
    });
  }
  return rows;
}

bool is_integer(std::string_view text) { return parse_number<int64_t>(text).has_value(); }

// Which fields are text (several are joined) and label or targets, and where the documents begin.
struct Columns {
  std::vector<size_t> texts;
  size_t label = 0;
  size_t first_row = 0;
  std::string note = {};
  std::vector<size_t> targets = {};  // the label, and further columns that are asked for
  std::optional<size_t> group = {};
};

// The label column where there are target columns: the first of them.
std::string first_label_column(const TextOptions& o) {
  return o.targets.columns.empty() ? o.label_column : o.targets.columns[0];
}

class ColumnFinder {
 public:
  ColumnFinder(const Rows& rows, std::string file, const TextOptions& options)
      : rows_(rows),
        file_(std::move(file)),
        options_(options),
        label_column_(first_label_column(options)),
        header_(rows[0].cells) {
    if (const std::string& group = options.targets.group_column; !group.empty()) {
      group_ = place("--group-column", group, group_is_named_);
    }
  }

  Columns find() const {
    Columns c = found();
    c.group = group_;
    if (group_ && (*group_ == c.label || std::count(c.texts.begin(), c.texts.end(), *group_) > 0)) {
      refuse_value("--group-column", options_.targets.group_column, cat("it has the texts or labels of ", file_));
    }
    return c;
  }

  // The columns of the text alone, of a file that needs no labels.
  Columns find_texts() const {
    Columns c{.texts = text_columns(), .first_row = 1};
    if (!options_.text_column.empty()) {
      const auto at = known_column();
      if (!at) {
        fail(ErrorKind::data, file_, "has no column ", options_.text_column,
             ", which had the texts that the model was trained on; its first line is ", excerpt());
      }
      c.texts = {*at};
      if (is_integer(options_.text_column) && !has_header(*at)) c.first_row = 0;
    } else if (c.texts.empty() && header_.width() == 1) {
      c.texts = {0};
      const bool word = header_.plausible() && header_.word(0).find(' ') == std::string::npos;
      if (!word || rows_.size() == 1) c.first_row = 0;
    } else if (c.texts.empty()) {
      try {
        c = find();
      } catch (const Error&) {
        fail(ErrorKind::data, file_,
             "cannot infer which column is the text: expected a header that says 'text', or a .txt ",
             "file with a text in each line; the first line is ", excerpt());
      }
    }
    check_documents(c);
    return c;
  }

 private:
  Columns found() const {
    if (!options_.text_column.empty() || !label_column_.empty()) return given();
    const auto label = header_.best(ColumnRole::label);
    Columns c{.texts = text_columns()};
    if (label && !c.texts.empty()) {
      c.label = *label;
      c.first_row = 1;
    } else if (header_.plausible() && (label || !c.texts.empty())) {
      c = half_known(label, c.texts);
    } else {
      c = guessed();
    }
    if (!header_.best(ColumnRole::text)) need_words(c.texts);
    if (c.first_row == 1) say(c);
    check_documents(c);
    return c;
  }

  // The column that the options name, in this file.
  std::optional<size_t> known_column() const {
    const auto at = header_.find(options_.text_column);
    const std::optional<int64_t> n = parse_number<int64_t>(options_.text_column);
    if (at || !n) return at;
    if (*n < 1 || *n > static_cast<int64_t>(header_.width())) return {};
    return static_cast<size_t>(*n - 1);
  }
  // Whether the first line names columns, of which `text` is known by its number.
  bool has_header(size_t text) const {
    const auto label = header_.best(ColumnRole::label);
    return header_.role(text) == ColumnRole::text || label.has_value();
  }

  std::vector<size_t> text_columns() const {
    if (const auto text = header_.best(ColumnRole::text)) return {*text};
    std::vector<size_t> parts;
    for (const char* name : {"title", "description"}) {
      if (const auto at = header_.find(name)) parts.push_back(*at);
    }
    return parts;
  }

  [[noreturn]] void unknown(const std::string& why) const {
    fail(ErrorKind::data, file_, why, ": name the columns by --text-column and --label-column; the first line is ",
         excerpt());
  }
  std::string excerpt() const {
    std::string line = join(rows_[0].cells, " | ");
    if (line.size() > 80) line = line.substr(0, 77) + "...";
    return utf8_fault(line) ? std::string("not UTF-8") : line;
  }

  // Says what was understood of a header, where that does not go without saying.
  void say(Columns& c) const {
    std::vector<size_t> taken = c.texts;
    taken.push_back(c.label);
    if (group_) taken.push_back(*group_);
    taken.insert(taken.end(), c.targets.begin(), c.targets.end());
    const std::string aside = header_.left_aside(taken);
    const bool usual =
        header_.role(c.label) == ColumnRole::label && std::all_of(c.texts.begin(), c.texts.end(), [&](size_t t) {
          return header_.role(t) == ColumnRole::text || header_.word(t) == "title" || header_.word(t) == "description";
        });
    if (aside.empty() && usual) return;
    std::vector<std::string> names;
    for (const size_t t : c.texts) names.push_back(cat("'", header_.word(t), "'"));
    c.note = cat("the text is column ", join(names, " and "), ", the label '", header_.word(c.label), "'",
                 aside.empty() ? "" : cat("; not read: ", aside));
  }

  // Documents that are names of files: of a list whose files should be read, and not their names.
  void check_documents(const Columns& c) const {
    for (const size_t column : c.texts) check_no_files(column, c.first_row);
  }

  void check_no_files(size_t at, size_t first_row) const {
    constexpr size_t kLookedAt = 50;
    size_t images = 0, files = 0, all = 0;
    const std::filesystem::path folder = std::filesystem::path(file_).parent_path();
    for (size_t i = first_row; i < rows_.size() && all < kLookedAt; ++i) {
      if (rows_[i].cells.size() <= at) continue;
      const std::string cell(trimmed(rows_[i].cells[at]));
      std::error_code ignored;
      ++all;
      images += is_image_cell(cell) ? 1 : 0;
      files += is_file_cell(cell) && std::filesystem::is_regular_file(folder / cell, ignored) ? 1 : 0;
    }
    if (all == 0 || (images < all && files < all)) return;
    const std::string column = first_row == 1 ? header_.word(at) : cat(at + 1);
    fail(ErrorKind::data, file_, "column '", column, "' has names of ", images == all ? "images" : "files",
         ", such as ", rows_[first_row].cells[at], ", and no texts: ",
         images == all ? "a list of images has the columns path and label (or file_name, image, filename; class, "
                         "target), and that file is the dataset"
                       : "documents in files are expected in folders, train/CLASS/*.txt",
         "; --text-column ", column, " reads the names themselves");
  }

  // A column by number or name; a name makes the first row a header.
  size_t place(const char* flag, const std::string& column, bool& header) const {
    if (const std::optional<int64_t> n = parse_number<int64_t>(column)) {
      if (*n < 1 || *n > static_cast<int64_t>(header_.width())) {
        refuse_value(flag, column, cat(file_, " has columns 1 to ", header_.width()));
      }
      return static_cast<size_t>(*n - 1);
    }
    const auto at = header_.find(column);
    if (!at) refuse_column(flag, column, header_.words(), file_);
    header = true;
    return *at;
  }

  std::optional<size_t> only_other_than(std::vector<size_t> taken) const {
    if (group_) taken.push_back(*group_);
    return header_.only_other_than(taken);
  }

  Columns given() const {
    bool header = group_is_named_;
    std::optional<size_t> text, label;
    if (!options_.text_column.empty()) text = place("--text-column", options_.text_column, header);
    if (!label_column_.empty()) label = place("--label-column", label_column_, header);
    std::vector<size_t> targets;
    for (const std::string& name : options_.targets.columns) targets.push_back(place("--label-column", name, header));
    if (text && (label == text || std::find(targets.begin(), targets.end(), *text) != targets.end())) {
      refuse_value("--label-column", join(column_names(label_column_), ","), "it is the text column too");
    }
    if (!label) label = header_.best(ColumnRole::label);
    if (!text && !text_columns().empty()) text = text_columns()[0];
    if ((header || header_.width() == 2) && text.has_value() != label.has_value()) {
      std::vector<size_t> known = targets;
      if (text || known.empty()) known = {text ? *text : *label};
      (text ? label : text) = only_other_than(known);
    }
    if (!text || !label || *text == *label) {
      unknown(text ? "which column is the label" : "which column is the text");
    }
    // With numbers alone: a header has usual names there, or a word over a column of numbers.
    header = header || header_.role(*text) == ColumnRole::text || header_.role(*label) == ColumnRole::label ||
             word_over_numbers(*label);
    return {.texts = {*text}, .label = *label, .first_row = header ? size_t{1} : size_t{0}, .targets = targets};
  }

  // One of the two stands in the header: the other is what is left, unless the line is a document after all.
  Columns half_known(std::optional<size_t> label, std::vector<size_t> texts) const {
    const std::optional<size_t> other = only_other_than(label ? std::vector<size_t>{*label} : texts);
    const auto is_document = [&](size_t at) { return occurs_below(at, rows_[0].cells[at]); };
    if (label ? is_document(*label) : other && is_document(*other)) return guessed();
    if (!other) unknown(label ? "which column is the text" : "which column is the label");
    if (label) texts = {*other};
    return {.texts = texts, .label = label ? *label : *other, .first_row = 1};
  }

  bool occurs_below(size_t column, const std::string& cell) const {
    return std::any_of(rows_.begin() + 1, rows_.end(), [&](const CellRow& row) {
      return row.cells.size() > column && trimmed(row.cells[column]) == trimmed(cell);
    });
  }
  bool word_over_numbers(size_t column) const {
    return !is_number_cell(rows_[0].cells[column]) && rows_.size() > 1 && integers(column, 1);
  }
  bool integers(size_t column, size_t first_row) const {
    for (size_t i = first_row; i < rows_.size(); ++i) {
      const auto& f = rows_[i].cells;
      if (f.size() > column && !is_integer(trimmed(f[column]))) return false;
    }
    return true;
  }
  // Numbers of the rows: integers, no two of them equal.
  bool numbers_rows(size_t column, size_t first_row) const {
    constexpr size_t kFewest = 5;  // of fewer rows each may be of its own class
    std::set<std::string_view> seen;
    size_t rows = 0;
    for (size_t i = first_row; i < rows_.size(); ++i) {
      if (rows_[i].cells.size() <= column) continue;
      ++rows;
      if (!seen.insert(trimmed(rows_[i].cells[column])).second) return false;
    }
    return rows >= kFewest && integers(column, first_row);
  }
  // Few different words, each short.
  bool label_like(size_t column) const {
    constexpr size_t kLongest = 32, kMost = 200;
    std::set<std::string_view> seen;
    for (const auto& row : rows_) {
      if (row.cells.size() <= column) continue;
      if (row.cells[column].size() > kLongest) return false;
      seen.insert(trimmed(row.cells[column]));
      if (seen.size() > kMost) return false;
    }
    return seen.size() * 2 <= rows_.size();
  }
  // True where every other label stands in several rows, and the first line's in none but its own.
  bool label_stands_out(size_t column) const {
    std::map<std::string_view, int> count;
    for (const auto& row : rows_) {
      if (row.cells.size() > column) ++count[trimmed(row.cells[column])];
    }
    return count.size() > 1 && std::all_of(count.begin(), count.end(), [&](const auto& entry) {
             return (entry.first == trimmed(rows_[0].cells[column])) == (entry.second == 1);
           });
  }

  // Without words that are known: the label stands first (the rest is text) or last, and is a number or one of a few
  // words. A first line that can be no document is a header.
  Columns guessed() const {
    const size_t width = header_.width();
    if (width < 2) unknown("expected a text and its label, got one column");
    if (group_) unknown("cannot infer which columns are the text and the label; the groups have another");
    need_no_table();
    Columns c;
    const size_t last = width - 1;
    const auto is_integers = [&](size_t column) {
      return (integers(column, 0) || (header_.plausible() && word_over_numbers(column))) && !numbers_rows(column, 1);
    };
    const bool front = is_integers(0) || (!is_integers(last) && label_like(0));
    const bool back = !front && (is_integers(last) || label_like(last));
    if (!front && !back) unknown("cannot infer which column is the text and which the label");
    c.label = front ? 0 : last;
    std::vector<std::string> numbering;
    for (size_t i = 0; i < width; ++i) {
      if (i == c.label) continue;
      if (width > 2 && numbers_rows(i, 1)) {
        numbering.push_back(std::to_string(i + 1));
      } else {
        c.texts.push_back(i);
      }
    }
    if (c.texts.empty()) unknown("which column is the text");
    if (header_.plausible() && word_over_numbers(c.label)) {
      c.first_row = 1;
    } else if (header_.plausible() && label_stands_out(c.label)) {
      unknown("the first line looks like a header, but names neither text nor label");
    } else if (!numbering.empty()) {
      c.note = cat("column ", c.label + 1, " is used as the label; skipped because it numbers the rows: column ",
                   join(numbering, ", "));
    }
    return c;
  }

  // Rows of numbers are a table. As texts their numbers would be read digit by digit, and each value of the target
  // would be a class.
  void need_words(const std::vector<size_t>& texts) const {
    const std::vector<size_t> numbers = numbers_among(texts);
    if (numbers.size() >= 2 || numbers.size() == texts.size()) refuse_table(numbers);
  }
  // The same where nobody knows yet which column is the label: all are numbers, or all but one of few words.
  void need_no_table() const {
    std::vector<size_t> all(header_.width());
    std::iota(all.begin(), all.end(), size_t{0});
    const std::vector<size_t> numbers = numbers_among(all);
    if (numbers.size() < 2 || numbers.size() + 1 < all.size()) return;
    if (numbers.size() == all.size()) refuse_table(numbers);
    for (const size_t at : all) {
      if (std::find(numbers.begin(), numbers.end(), at) == numbers.end() && label_like(at)) refuse_table(numbers);
    }
  }
  // Those of the columns that hold nothing but numbers below the first line.
  std::vector<size_t> numbers_among(const std::vector<size_t>& columns) const {
    constexpr size_t kFewest = 5;  // rows that show it
    std::vector<size_t> numbers;
    for (const size_t at : columns) {
      const bool all =
          rows_.size() >= kFewest && std::all_of(rows_.begin() + 1, rows_.end(), [&](const CellRow& row) {
            return at >= row.cells.size() || trimmed(row.cells[at]).empty() || is_number_cell(row.cells[at]);
          });
      if (all) numbers.push_back(at);
    }
    return numbers;
  }
  [[noreturn]] void refuse_table(const std::vector<size_t>& numbers) const {
    std::vector<std::string> names;
    for (const size_t at : numbers) names.push_back(std::to_string(at + 1));
    fail(ErrorKind::data, file_, "expected texts, got a table (numbers in column ", join(names, ", "),
         "): --target COL reads it as a table with target COL; --text-column and --label-column name columns to read "
         "as texts; the first line is ",
         excerpt());
  }

  const Rows& rows_;
  std::string file_;
  const TextOptions& options_;
  std::string label_column_;  // that is asked for; "" for none
  TableHeader header_;
  std::optional<size_t> group_;  // the column of --group-column
  bool group_is_named_ = false;  // in the header
};

// Collects good documents; bad ones stop or are reported.
class Sink {
 public:
  explicit Sink(const TextOptions& options) : bad_(options.bad), kind_(options.targets.kind) {}
  // A document with the cells of its target columns.
  void add(std::string text, std::vector<std::string> cells, const std::string& where) {
    std::string fault = document_fault(text);
    for (const std::string& cell : cells) {
      if (fault.empty() && utf8_fault(cell)) fault = "the label is not UTF-8";
    }
    if (fault.empty()) fault = group_fault();
    if (fault.empty()) fault = TargetRows(kind_, targets).add(cells, where);
    if (!fault.empty()) return refuse(where, fault);
    rows.push_back({std::move(text), {}, where, {}, std::move(cells), group.value_or("")});
  }
  void add(std::string text, std::string label, const std::string& where) {
    std::string fault = document_fault(text);
    if (fault.empty() && trimmed(label).empty()) fault = "the label is missing";
    if (fault.empty() && utf8_fault(label)) fault = "the label is not UTF-8";
    if (fault.empty()) fault = group_fault();
    if (!fault.empty()) return refuse(where, fault);
    rows.push_back({std::move(text), std::string(trimmed(label)), where, {}, {}, group.value_or("")});
  }
  void refuse(const std::string& where, const std::string& why) const {
    if (bad_.on_bad == OnBad::error) {
      fail(ErrorKind::data, where, why, advice_on_bad("documents"));
    }
    if (bad_.report) bad_.report({where, why});
  }
  bool takes_targets() const { return kind_ != TargetKind::classes; }
  std::vector<TextRow> rows;
  std::string note;
  std::vector<std::string> targets;  // names of the target columns
  std::optional<std::string> group;  // of the next document, where a column says it

 private:
  std::string group_fault() const { return group && group->empty() ? "the group is missing" : ""; }

  const BadSamples& bad_;
  TargetKind kind_;
};

std::string joined_text(const std::vector<std::string>& fields, const std::vector<size_t>& columns) {
  std::string text;
  for (const size_t at : columns) text += (text.empty() ? "" : " ") + fields[at];
  return text;
}

void read_texts(const Rows& table, const std::string& name, const TextOptions& options, TextRows& out) {
  if (table.empty()) return;
  const Columns columns = ColumnFinder(table, name, options).find_texts();
  const size_t width = table[0].cells.size();
  std::vector<std::string> names;
  for (const size_t at : columns.texts) {
    names.push_back(columns.first_row > 0 ? cat("'", table[0].cells[at], "'") : cat(at + 1));
  }
  out.note = cat(name, ": the texts are column ", join(names, " and "));
  for (size_t i = columns.first_row; i < table.size(); ++i) {
    const auto& [fields, line] = table[i];
    TextRow row{{}, {}, cat(name, ":", line)};
    if (fields.size() != width) {
      row.fault = cat("expected ", width, " fields as in the first line, got ", fields.size());
    } else {
      row.text = joined_text(fields, columns.texts);
    }
    out.rows.push_back(std::move(row));
  }
}

void read_table(const Rows& table, const std::string& name, const TextOptions& options, Sink& sink) {
  if (table.empty()) return;
  Columns columns = ColumnFinder(table, name, options).find();
  sink.note = columns.note;
  const size_t width = table[0].cells.size();
  if (columns.targets.empty()) columns.targets = {columns.label};
  for (const size_t at : columns.targets) {
    sink.targets.push_back(columns.first_row > 0 ? std::string(trimmed(table[0].cells[at])) : cat(at + 1));
  }
  if (!sink.takes_targets() && columns.targets.size() > 1) {
    refuse_value("--label-column", join(options.targets.columns, ","),
                 "expected one column, or --task regression or multilabel");
  }
  for (size_t i = columns.first_row; i < table.size(); ++i) {
    const auto& [fields, line] = table[i];
    const std::string where = cat(name, ":", line);
    if (fields.size() != width) {
      sink.refuse(where, cat("expected ", width, " fields as in the first line, got ", fields.size()));
      continue;
    }
    if (columns.group) sink.group = trimmed(fields[*columns.group]);
    if (sink.takes_targets()) {
      std::vector<std::string> cells;
      for (const size_t at : columns.targets) cells.push_back(fields[at]);
      sink.add(joined_text(fields, columns.texts), std::move(cells), where);
      continue;
    }
    sink.add(joined_text(fields, columns.texts), fields[columns.label], where);
  }
}

// Which key holds the text, and which the label.
struct Keys {
  std::string text = "text", label = "label";
};

// The options' keys, or the usual words for them among those of the first object.
Keys keys_of(const std::vector<std::string>& names, const TextOptions& options) {
  const TableHeader header(names);
  Keys keys;
  if (!options.text_column.empty()) {
    keys.text = options.text_column;
  } else if (const auto at = header.best(ColumnRole::text)) {
    keys.text = names[*at];
  }
  if (const std::string given = first_label_column(options); !given.empty()) {
    keys.label = given;
  } else if (const auto at = header.best(ColumnRole::label)) {
    keys.label = names[*at];
  }
  return keys;
}

// Reads labeled texts from JSON lines.
class JsonDocuments {
 public:
  explicit JsonDocuments(const TextOptions& options) : options_(options) {}

  // The text of a line, and with `labeled` its label; `row.fault` tells why there is none.
  void read(std::string_view line, bool labeled, TextRow& row) {
    read_members(line, row);
    if (!row.fault.empty()) return;
    if (!keys_) keys_ = keys_of(names_, options_);
    const Member* const text = member(keys_->text);
    if (!text || text->type != io::JsonType::text) {
      row.fault = cat("no text under the key '", keys_->text, "'");
      return;
    }
    row.text = text->value;
    if (!labeled) return;
    if (options_.targets.kind == TargetKind::classes) return read_label(row);
    for (const std::string& key : targets()) {
      const Member* const target = member(key);
      if (target && target->type == io::JsonType::nested) {
        row.fault = cat("the label under '", key, "' is ", target->value,
                        ": expected a number, or a text with the labels separated by '|'");
        return;
      }
      row.targets.push_back(target && target->type != io::JsonType::null ? target->value : std::string());
    }
  }
  // The value of a key in the line that was read; "" where it is missing.
  std::string value(const std::string& key) const {
    const Member* const at = member(key);
    return at && at->type != io::JsonType::null ? at->value : std::string();
  }
  // The keys of the targets, once a line has been read.
  std::vector<std::string> targets() const {
    if (!options_.targets.columns.empty()) return options_.targets.columns;
    return {keys_ ? keys_->label : Keys().label};
  }

 private:
  struct Member {
    io::JsonType type = io::JsonType::null;
    std::string value;
  };

  void read_members(std::string_view line, TextRow& row) {
    constexpr char kNeedsObject[] = R"(not a JSON object: need {"text": ..., "label": ...})";
    names_.clear();
    members_.clear();
    if (const auto at = utf8_fault(line)) {
      row.fault = cat("not UTF-8: byte ", *at, " of the line");
      return;
    }
    try {
      read_json_row(line, row.where, [&](const std::string& key, const io::JsonValue& value) {
        names_.push_back(key);
        return members_.try_emplace(key, Member{value.type, std::string(value.text)}).second;
      });
    } catch (const Error& e) {
      const std::string half = lone_surrogate(line);
      row.fault = half.empty() ? cat(kNeedsObject, ": ", e.message())
                               : cat("the text contains half a surrogate pair, ", half,
                                     ", which is not a character: it was cut in the middle of one");
    }
  }

  void read_label(TextRow& row) const {
    const Member* const label = member(keys_->label);
    if (!label || label->type == io::JsonType::null) {
      row.fault = cat("the label is missing: no '", keys_->label, "'");
    } else if (label->type == io::JsonType::fraction || label->type == io::JsonType::nested) {
      row.fault = cat("the label under '", keys_->label, "' must be a text or an integer");
    } else {
      row.label = label->value;
    }
  }

  const Member* member(const std::string& key) const {
    const auto at = members_.find(key);
    return at == members_.end() ? nullptr : &at->second;
  }

  const TextOptions& options_;
  std::optional<Keys> keys_;                         // which the first object shows
  std::vector<std::string> names_;                   // of the line at hand
  std::unordered_map<std::string, Member> members_;  // of the line at hand
};

// What stands behind the labels of a line, which are taken off it.
std::string_view without_labels(std::string_view line, std::vector<std::string>& labels) {
  constexpr std::string_view kPrefix = "__label__";
  std::string_view rest = trimmed(line);
  while (rest.starts_with(kPrefix)) {
    const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    labels.emplace_back(rest.substr(kPrefix.size(), end - kPrefix.size()));
    rest = trimmed(rest.substr(end));
  }
  return rest;
}

void read_fasttext_line(std::string_view line, const std::string& where, Sink& sink) {
  std::vector<std::string> labels;
  const std::string_view rest = without_labels(line, labels);
  if (sink.takes_targets()) {
    sink.targets = {"__label__"};
    return sink.add(std::string(rest), std::vector{join(labels, std::string(1, kLabelSeparator))}, where);
  }
  if (labels.empty()) return sink.refuse(where, "the label is missing: the line does not begin with __label__");
  if (labels.size() > 1) {
    return sink.refuse(where, cat("expected one class per document, got ", labels.size(), " labels"));
  }
  sink.add(std::string(rest), labels[0], where);
}

}  // namespace

std::string document_fault(const std::string& text) {
  if (const auto at = utf8_fault(text)) return cat("not UTF-8: byte ", *at, " of the text");
  if (trimmed(text).empty()) return "the document is empty";
  if (text.size() >= kMaxDocumentBytes) {
    return cat("the document is too long: ", with_commas(static_cast<int64_t>(text.size())),
               " bytes, expected fewer than ", with_commas(static_cast<int64_t>(kMaxDocumentBytes)));
  }
  return "";
}

TextRows parse_text(io::ByteView bytes, const std::string& name, TextForm form, const TextOptions& options) {
  Sink sink(options);
  switch (form) {
    case TextForm::csv:
    case TextForm::tsv: read_table(rows_of(bytes, name, form), name, options, sink); break;
    case TextForm::jsonl: {
      JsonDocuments documents(options);
      for_lines(bytes, name, [&](std::string_view line, const std::string& place) {
        TextRow row{{}, {}, place};
        documents.read(line, true, row);
        if (!row.fault.empty()) return sink.refuse(place, row.fault);
        if (const std::string& key = options.targets.group_column; !key.empty()) sink.group = documents.value(key);
        if (!sink.takes_targets()) return sink.add(std::move(row.text), std::move(row.label), place);
        sink.targets = documents.targets();
        sink.add(std::move(row.text), std::move(row.targets), place);
      });
      break;
    }
    case TextForm::fasttext:
      if (!options.targets.group_column.empty())
        fail(ErrorKind::usage, "--group-column", name, " is a fastText file, which has no columns");
      for_lines(bytes, name,
                [&](std::string_view line, const std::string& place) { read_fasttext_line(line, place, sink); });
      break;
  }
  return {std::move(sink.rows), std::move(sink.note), std::move(sink.targets)};
}

TextRows parse_unlabeled(io::ByteView bytes, const std::string& name, TextForm form, const std::string& column) {
  const TextOptions options{.text_column = column};
  TextRows out;
  switch (form) {
    case TextForm::csv:
    case TextForm::tsv: read_texts(rows_of(bytes, name, form), name, options, out); break;
    case TextForm::jsonl: {
      JsonDocuments documents(options);
      for_lines(bytes, name, [&](std::string_view line, const std::string& place) {
        documents.read(line, false, out.rows.emplace_back(TextRow{{}, {}, place}));
      });
      break;
    }
    case TextForm::fasttext:
      for_lines(bytes, name, [&](std::string_view line, const std::string& place) {
        std::vector<std::string> labels;
        out.rows.push_back({std::string(without_labels(line, labels)), {}, place});
      });
      break;
  }
  return out;
}

}  // namespace freight::data
