// A reader of comma-separated values that goes from character to character: what the one of delimited_rows.cpp, which
// searches 64 bytes at a time in pieces of a file, must agree with.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/strings.h"

namespace freight::data {

struct PlainRow {
  std::vector<std::string> fields;
  int64_t line = 0;  // where it begins, from 1
};

class PlainCsv {
 public:
  PlainCsv(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

  std::vector<PlainRow> rows() {
    std::vector<PlainRow> all;
    for (PlainRow row; next(row);) all.push_back(row);
    return all;
  }

 private:
  char here() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  static bool ends_field(char c) { return c == ',' || c == '\n' || c == '\r'; }

  void skip_line_end() {
    if (here() == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  // Moves to a quote behind blanks where the quotes hold all of the field (a, "b, c"); else they are ordinary
  // characters.
  void skip_blanks_before_quotes() {
    const size_t quote = text_.find_first_not_of(' ', at_);
    if (quote == std::string_view::npos || quote == at_ || text_[quote] != '"') return;
    size_t end = text_.find('"', quote + 1);
    while (end != std::string_view::npos && end + 1 < text_.size() && text_[end + 1] == '"') {
      end = text_.find('"', end + 2);
    }
    if (end == std::string_view::npos) return;
    if (ends_field(end + 1 < text_.size() ? text_[end + 1] : '\n')) at_ = quote;
  }

  std::string quoted_field() {
    std::string field;
    const int64_t opened = line_;
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) fail(ErrorKind::data, cat(name_, ":", opened), "a quote is opened and never closed");
      if (text_[at_] == '"' && (at_ + 1 >= text_.size() || text_[at_ + 1] != '"')) break;
      if (text_[at_] == '"') ++at_;
      line_ += text_[at_] == '\n';
      field += text_[at_];
    }
    ++at_;
    if (!ends_field(here())) {
      fail(ErrorKind::data, cat(name_, ":", line_), "text after a closing quote: write \"\" for a quote in a field");
    }
    return field;
  }

  bool next(PlainRow& row) {
    while (at_ < text_.size() && (here() == '\n' || here() == '\r')) skip_line_end();
    row.fields.clear();
    if (at_ >= text_.size()) return false;
    row.line = line_;
    for (bool more = true; more;) {
      skip_blanks_before_quotes();
      if (here() == '"' && at_ < text_.size()) {
        row.fields.push_back(quoted_field());
      } else {
        const size_t begin = at_;
        while (!ends_field(here())) ++at_;
        row.fields.emplace_back(text_.substr(begin, at_ - begin));
      }
      more = here() == ',';
      if (more) ++at_;
    }
    skip_line_end();
    return true;
  }

  std::string_view text_;
  std::string name_;
  int64_t line_ = 1;
  size_t at_ = 0;
};

}  // namespace freight::data
