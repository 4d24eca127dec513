// Files of labelled documents: CSV, TSV, JSON lines, fastText. Which column is what is found out here. See text.h.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "freight/base/error.h"
#include "freight/data/text.h"
#include "freight/data/unicode.h"
#include "freight/io/csv.h"

namespace freight::data {

namespace {

using Rows = std::vector<io::CsvRow>;

std::string_view view_of(io::ByteView bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Calls f(line, number) for every line that is not blank; line ends in LF or CRLF.
template <class F>
void for_lines(std::string_view text, F&& f) {
  int64_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!trimmed(line).empty()) f(line, number);
    at = end + 1;
  }
}

// Tab-separated values have no quotes: a quote is text.
Rows parse_tsv(std::string_view text) {
  Rows rows;
  for_lines(text, [&](std::string_view line, int64_t number) { rows.push_back({split(line, '\t'), number}); });
  return rows;
}

bool is_integer(const std::string& text) {
  int64_t v = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

// Which fields are text (several are joined) and label, and where the documents begin.
struct Columns {
  std::vector<size_t> texts;
  size_t label = 0;
  size_t first_row = 0;
};

class ColumnFinder {
 public:
  ColumnFinder(const Rows& rows, std::string file, const TextOptions& options)
      : rows_(rows), file_(std::move(file)), options_(options) {
    for (const std::string& field : rows[0].fields) header_.push_back(lower(trimmed(field)));
  }

  Columns find() const {
    if (!options_.text_column.empty() || !options_.label_column.empty()) return given();
    Columns c;
    const auto label = named(kLabels);
    c.texts = text_columns();
    if (label && !c.texts.empty()) {
      c.label = *label;
      c.first_row = 1;
      return c;
    }
    return guessed();
  }

 private:
  static constexpr std::initializer_list<const char*> kLabels = {"label",     "class",    "target",     "category",
                                                                 "sentiment", "polarity", "class index"};
  static constexpr std::initializer_list<const char*> kTexts = {"text",     "sentence", "review",  "message",
                                                                "document", "content",  "comment", "tweet"};

  std::optional<size_t> named(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto it = std::find(header_.begin(), header_.end(), name);
      if (it != header_.end()) return static_cast<size_t>(it - header_.begin());
    }
    return std::nullopt;
  }
  std::vector<size_t> text_columns() const {
    if (const auto text = named(kTexts)) return {*text};
    std::vector<size_t> parts;
    for (const char* name : {"title", "description"}) {
      if (const auto at = named({name})) parts.push_back(*at);
    }
    return parts;
  }

  [[noreturn]] void unknown(const std::string& why) const {
    fail(ErrorKind::data, file_, why, ": name the columns by --text-column and --label-column; the first line is ",
         excerpt());
  }
  std::string excerpt() const {
    std::string line = join(rows_[0].fields, " | ");
    if (line.size() > 80) line = line.substr(0, 77) + "...";
    return utf8_fault(line) ? std::string("not UTF-8") : line;
  }

  // A column by number or name; a name makes the first row a header.
  size_t place(const char* flag, const std::string& column, bool& header) const {
    if (is_integer(column)) {
      int64_t n = 0;
      std::from_chars(column.data(), column.data() + column.size(), n);
      if (n < 1 || n > static_cast<int64_t>(header_.size())) {
        fail(ErrorKind::usage, flag, "got ", column, ", ", file_, " has columns 1 to ", header_.size());
      }
      return static_cast<size_t>(n - 1);
    }
    const auto it = std::find(header_.begin(), header_.end(), lower(column));
    if (it == header_.end()) {
      const std::string near = nearest(lower(column), header_);
      fail(ErrorKind::usage, flag, "got ", column, ", ", file_, " has no such column",
           near.empty() ? cat("; its first line is ", excerpt()) : cat("; did you mean ", near, "?"));
    }
    header = true;
    return static_cast<size_t>(it - header_.begin());
  }

  Columns given() const {
    Columns c;
    bool header = false;
    std::optional<size_t> text, label;
    if (!options_.text_column.empty()) text = place("--text-column", options_.text_column, header);
    if (!options_.label_column.empty()) label = place("--label-column", options_.label_column, header);
    if (text && label && *text == *label) {
      fail(ErrorKind::usage, "--label-column", "got ", options_.label_column, ", which is the text column too");
    }
    if (!label) label = named(kLabels);
    if (!text && !text_columns().empty()) text = text_columns()[0];
    if (header_.size() == 2 && text && !label) label = 1 - *text;
    if (header_.size() == 2 && label && !text) text = 1 - *label;
    if (!text || !label) unknown(text ? "which column is the label" : "which column is the text");
    // With numbers alone: a header has usual names there, or a word over a column of numbers.
    const auto usual = [&](size_t at, std::initializer_list<const char*> names) {
      return std::any_of(names.begin(), names.end(), [&](const char* n) { return header_[at] == n; });
    };
    header = header || usual(*text, kTexts) || usual(*label, kLabels) ||
             (!is_integer(header_[*label]) && rows_.size() > 1 && integers(*label, 1));
    c.texts = {*text};
    c.label = *label;
    c.first_row = header ? 1 : 0;
    return c;
  }

  bool integers(size_t column, size_t first_row) const {
    for (size_t i = first_row; i < rows_.size(); ++i) {
      const auto& f = rows_[i].fields;
      if (f.size() > column && !is_integer(std::string(trimmed(f[column])))) return false;
    }
    return true;
  }
  // Few different words, each short.
  bool label_like(size_t column) const {
    constexpr size_t kLongest = 32, kMost = 200;
    std::set<std::string> seen;
    for (const auto& row : rows_) {
      if (row.fields.size() <= column) continue;
      if (row.fields[column].size() > kLongest) return false;
      seen.insert(row.fields[column]);
      if (seen.size() > kMost) return false;
    }
    return seen.size() * 2 <= rows_.size();
  }

  // Without a header: the label stands first (the rest is text) or last, and is a number or one of a few words.
  Columns guessed() const {
    const size_t width = header_.size();
    if (width < 2) unknown("got one column, need a text and its label");
    Columns c;
    const size_t last = width - 1;
    const bool front = integers(0, 0) || (!integers(last, 0) && label_like(0));
    const bool back = !front && (integers(last, 0) || label_like(last));
    if (!front && !back) unknown("cannot tell which column is the text and which the label");
    c.label = front ? 0 : last;
    for (size_t i = 0; i < width; ++i) {
      if (i != c.label) c.texts.push_back(i);
    }
    return c;
  }

  const Rows& rows_;
  std::string file_;
  const TextOptions& options_;
  std::vector<std::string> header_;
};

// Collects good documents; bad ones stop or are reported.
class Sink {
 public:
  explicit Sink(const BadSamples& bad) : bad_(bad) {}
  void add(std::string text, std::string label, const std::string& where) {
    std::string fault = document_fault(text);
    if (fault.empty() && trimmed(label).empty()) fault = "the label is missing";
    if (fault.empty() && utf8_fault(label)) fault = "the label is not UTF-8";
    if (!fault.empty()) return refuse(where, fault);
    rows.push_back({std::move(text), std::string(trimmed(label)), where});
  }
  void refuse(const std::string& where, const std::string& why) const {
    if (bad_.on_bad == OnBad::error) {
      fail(ErrorKind::data, where, why, "; --on-bad-sample skip leaves such documents out");
    }
    if (bad_.report) bad_.report({where, why});
  }
  std::vector<TextRow> rows;

 private:
  const BadSamples& bad_;
};

void read_table(const Rows& table, const std::string& name, const TextOptions& options, Sink& sink) {
  if (table.empty()) return;
  const Columns columns = ColumnFinder(table, name, options).find();
  const size_t width = table[0].fields.size();
  for (size_t i = columns.first_row; i < table.size(); ++i) {
    const auto& [fields, line] = table[i];
    const std::string where = cat(name, ":", line);
    if (fields.size() != width) {
      sink.refuse(where, cat("got ", fields.size(), " fields, need ", width, " as in the first line"));
      continue;
    }
    std::string text;
    for (const size_t at : columns.texts) text += (text.empty() ? "" : " ") + fields[at];
    sink.add(std::move(text), fields[columns.label], where);
  }
}

void read_json_line(std::string_view line, const std::string& where, const std::string& text_key,
                    const std::string& label_key, Sink& sink) {
  if (const auto at = utf8_fault(line)) return sink.refuse(where, cat("not UTF-8: byte ", *at, " of the line"));
  const nlohmann::json j = nlohmann::json::parse(line, nullptr, false);
  if (!j.is_object()) return sink.refuse(where, R"(not a JSON object: need {"text": ..., "label": ...})");
  const auto text = j.find(text_key), label = j.find(label_key);
  if (text == j.end() || !text->is_string()) return sink.refuse(where, cat("no text under the key '", text_key, "'"));
  if (label == j.end() || label->is_null())
    return sink.refuse(where, cat("the label is missing: no '", label_key, "'"));
  if (!label->is_string() && !label->is_number_integer() && !label->is_boolean()) {
    return sink.refuse(where, cat("the label under '", label_key, "' must be a text or an integer"));
  }
  sink.add(text->get<std::string>(), label->is_string() ? label->get<std::string>() : label->dump(), where);
}

void read_fasttext_line(std::string_view line, const std::string& where, Sink& sink) {
  constexpr std::string_view kPrefix = "__label__";
  std::string_view rest = trimmed(line);
  std::vector<std::string> labels;
  while (rest.starts_with(kPrefix)) {
    const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    labels.emplace_back(rest.substr(kPrefix.size(), end - kPrefix.size()));
    rest = trimmed(rest.substr(end));
  }
  if (labels.empty()) return sink.refuse(where, "the label is missing: the line does not begin with __label__");
  if (labels.size() > 1) {
    return sink.refuse(where, cat("got ", labels.size(), " labels, need one class per document"));
  }
  sink.add(std::string(rest), labels[0], where);
}

}  // namespace

std::string document_fault(const std::string& text) {
  if (const auto at = utf8_fault(text)) return cat("not UTF-8: byte ", *at, " of the text");
  if (trimmed(text).empty()) return "the document is empty";
  if (text.size() >= kMaxDocumentBytes) {
    return cat("the document is too long: ", with_commas(static_cast<int64_t>(text.size())), " bytes, need fewer than ",
               with_commas(static_cast<int64_t>(kMaxDocumentBytes)));
  }
  return "";
}

std::vector<TextRow> parse_text(io::ByteView bytes, const std::string& name, TextForm form,
                                const TextOptions& options) {
  Sink sink(options.bad);
  const std::string_view text = view_of(bytes);
  switch (form) {
    case TextForm::csv: read_table(io::parse_csv(bytes, name), name, options, sink); break;
    case TextForm::tsv: read_table(parse_tsv(text), name, options, sink); break;
    case TextForm::jsonl: {
      const std::string text_key = options.text_column.empty() ? "text" : options.text_column;
      const std::string label_key = options.label_column.empty() ? "label" : options.label_column;
      for_lines(text, [&](std::string_view line, int64_t number) {
        read_json_line(line, cat(name, ":", number), text_key, label_key, sink);
      });
      break;
    }
    case TextForm::fasttext:
      for_lines(text,
                [&](std::string_view line, int64_t number) { read_fasttext_line(line, cat(name, ":", number), sink); });
      break;
  }
  return std::move(sink.rows);
}

}  // namespace freight::data
