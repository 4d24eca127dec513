// Rows of cells with separators between them, from a stream of any length. Where cells end is found 64 bytes at a time;
// only quotes are looked at one by one.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/table_rows_internal.h"
#include "freight/data/unicode.h"

namespace freight::data {

namespace {

constexpr size_t kStep = 64;                // bytes that are looked at at once
constexpr size_t kPiece = size_t{1} << 20;  // bytes read at once: they stay in the second cache

// A bit for each of 64 bytes: whether it is a separator, the end of a line or a quote.
class Marks {
 public:
  Marks(char separator, bool quotes) : separator_(separator), quote_(quotes ? '"' : '\n') {}
  uint64_t of(const char* at) const {
#ifdef __SSE2__
    const __m128i sep = _mm_set1_epi8(separator_), feed = _mm_set1_epi8('\n'), back = _mm_set1_epi8('\r'),
                  quote = _mm_set1_epi8(quote_);
    uint64_t bits = 0;
    for (int part = 0; part < 4; ++part) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + part);
      const __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, sep), _mm_cmpeq_epi8(v, feed)),
                                       _mm_or_si128(_mm_cmpeq_epi8(v, back), _mm_cmpeq_epi8(v, quote)));
      bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(hit))) << (16 * part);
    }
    return bits;
#else
    uint64_t bits = 0;
    for (size_t i = 0; i < kStep; ++i) {
      const char c = at[i];
      bits |= static_cast<uint64_t>(c == separator_ || c == '\n' || c == '\r' || c == quote_) << i;
    }
    return bits;
#endif
  }

 private:
  char separator_, quote_;  // the end of a line stands for no quote
};

bool all_ascii(const char* text, size_t size) {
  uint64_t all = 0;
  for (; size >= 8; text += 8, size -= 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, text, 8);
    all |= eight;
  }
  for (; size > 0; --size) all |= static_cast<uint8_t>(*text++);
  return (all & 0x8080808080808080ull) == 0;
}

// The cells of a line between runs of blanks; no more than one beyond those of a table.
std::vector<std::string_view> between_blanks(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t at = 0;;) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string_view::npos || cells.size() > kMostTableColumns) return cells;
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = end;
  }
}

class DelimitedRows : public FileRows {
 public:
  DelimitedRows(std::unique_ptr<io::ByteStream> stream, std::string name, const DelimitedForm& form)
      : stream_(std::move(stream)), name_(std::move(name)), form_(form), separator_(form.separator) {
    start();
    if (separator_ == 0) choose_separator();
    marks_ = Marks(separator_, form.quotes);
  }

  bool next(std::span<const std::string_view>& cells, int64_t& line) override {
    while (!(blanks_ ? blank_row() : row())) {
      if (ended_) return false;
      fill();
    }
    cells = cells_;
    line = row_line_;
    return true;
  }
  void rewind() override {
    stream_->rewind();
    start();
  }
  char separator() const override { return blanks_ ? ' ' : separator_; }
  uint64_t size() const override { return stream_->size(); }
  uint64_t read_so_far() const override { return taken_ - (end_ - begin_); }

 private:
  void start() {
    begin_ = end_ = checked_ = 0;
    taken_ = 0;
    ended_ = false;
    line_ = 1;
    block_ = SIZE_MAX;
    fill();
    if (std::string_view(text(), end_).starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
    for (int64_t i = 0; i < form_.skip_lines; ++i) {
      begin_ = std::min(first_lines()[0].size() + begin_ + 1, end_);
      ++line_;
    }
  }

  // The first two, without their ends; the buffer holds all of them then.
  std::array<std::string_view, 2> first_lines() {
    for (;;) {
      const std::string_view all(text() + begin_, end_ - begin_);
      const size_t end = std::min(all.find('\n'), all.size());
      const std::string_view rest = all.substr(std::min(end + 1, all.size()));
      const size_t next = std::min(rest.find('\n'), rest.size());
      if (ended_ || next < rest.size()) return {all.substr(0, end), rest.substr(0, next)};
      fill();
    }
  }

  // The usual separators; commas last, since they also stand within numbers and names.
  static constexpr std::string_view kSeparators = "\t;|,";
  using Counts = std::array<int64_t, kSeparators.size()>;
  // How many of each stand in a line, outside of quotes.
  static Counts separators_in(std::string_view line) {
    Counts counts{};
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (const size_t at = kSeparators.find(c); at != std::string_view::npos && !quoted) ++counts[at];
    }
    return counts;
  }

  // The separator that stands in the first two lines as often; else the most frequent one of the first line; blanks
  // where there is none, and numbers stand between blanks.
  void choose_separator() {
    const auto [first, second] = first_lines();
    const Counts counts = separators_in(first), counts_below = separators_in(second);
    const auto most = std::max_element(counts.begin(), counts.end());
    auto chosen = static_cast<size_t>(most - counts.begin());
    for (size_t i = kSeparators.size(); i-- > 0;) {
      if (counts[i] > 0 && counts[i] == counts_below[i]) chosen = i;
    }
    separator_ = kSeparators[chosen];
    if (*most > 0) return;
    const std::vector<std::string_view> cells = between_blanks(trimmed(first)), below = between_blanks(trimmed(second));
    const std::vector<std::string_view>& numbers = below.empty() ? cells : below;
    blanks_ = cells.size() > 1 && numbers.size() == cells.size() &&
              std::all_of(numbers.begin(), numbers.end(), [](std::string_view c) { return is_number_cell(c); });
  }

  const char* text() const { return reinterpret_cast<const char*>(buffer_.data()); }

  // More bytes behind those that are not read yet.
  void fill() {
    const size_t left = end_ - begin_;
    need_short_row(left - std::min<size_t>(left, 1));  // the last byte may be the first of the row's end
    if (buffer_.size() < left + kPiece + kStep) {
      io::Bytes larger(2 * left + kPiece + kStep);
      if (left > 0) std::memcpy(larger.data(), buffer_.data() + begin_, left);
      buffer_ = std::move(larger);
    } else if (left > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, left);
    }
    checked_ -= std::min(checked_, begin_);
    begin_ = 0;
    const size_t room = buffer_.size() - left - kStep;
    const size_t got = stream_->read(buffer_.data() + left, room);
    ended_ = got < room;
    end_ = left + got;
    taken_ += got;
    std::memset(buffer_.data() + end_, 0, kStep);
    block_ = SIZE_MAX;
    if (form_.need_utf8) need_utf8();
  }

  // Stored models and run.json hold names of columns, words and classes as UTF-8.
  void need_utf8() {
    size_t end = end_;
    while (!ended_ && end > checked_ && text()[end - 1] != '\n' && text()[end - 1] != '\r') --end;
    const std::string_view part(text() + checked_, end - checked_);
    checked_ = end;
    if (all_ascii(part.data(), part.size())) return;
    const std::optional<size_t> at = utf8_fault(part);
    if (!at) return;
    const char* const fault = part.data() + *at;
    const auto line = line_ + std::count(text() + begin_, fault, '\n');
    // Windows has letters and quotes where Latin-1 has no characters.
    const auto byte = static_cast<uint8_t>(*fault);
    const char* const form = byte >= 0x80 && byte <= 0x9f ? "WINDOWS-1252" : "LATIN1";
    fail(ErrorKind::data, cat(name_, ":", line), "not UTF-8: got byte ", static_cast<int>(byte),
         " where no character starts or continues; save the table as UTF-8 (iconv -f ", form, " -t UTF-8)");
  }

  // Passes over lines without a character; false where there is nothing behind them yet.
  bool skip_blank_lines() {
    while (begin_ < end_) {
      const char c = text()[begin_];
      if (c != '\n' && c != '\r') return true;
      if (!end_line(begin_)) return false;
    }
    return false;
  }

  // The end of a line at `at`; false where the bytes at hand do not say how long it is.
  bool end_line(size_t at) {
    if (at < end_ && text()[at] == '\r') {
      if (at + 1 == end_ && !ended_) return false;
      ++at;
      if (at < end_ && text()[at] == '\n') ++at;
    } else if (at < end_) {
      ++at;
    }
    begin_ = at;
    ++line_;
    return true;
  }

  void need_short_row(size_t bytes) const {
    if (bytes <= kLongestTableRow) return;
    fail(ErrorKind::data, cat(name_, ":", line_), "the row is longer than ", human_bytes(kLongestTableRow),
         ": is this a table?");
  }

  void need_few_columns() const {
    if (cells_.size() <= kMostTableColumns) return;
    fail(ErrorKind::data, cat(name_, ":", line_), "the row has more than ", kMostTableColumns,
         " values, the limit of a table");
  }

  bool blank_row() {
    do {
      if (!skip_blank_lines()) return false;
      const std::string_view all(text() + begin_, end_ - begin_);
      const size_t end = all.find_first_of("\r\n");
      if (end == std::string_view::npos && !ended_) return false;
      const std::string_view line = all.substr(0, end);
      need_short_row(line.size());
      cells_ = between_blanks(line);
      need_few_columns();
      row_line_ = line_;
      if (!end_line(begin_ + line.size())) return false;
    } while (cells_.empty());
    return true;
  }

  uint64_t marks_from(size_t at) {
    const size_t block = at & ~(kStep - 1);
    if (block != block_) {
      block_ = block;
      block_marks_ = marks_.of(text() + block);
    }
    return block_marks_ & (~uint64_t{0} << (at & (kStep - 1)));
  }

  // One row; false where the bytes at hand do not hold all of it.
  bool row() {
    if (!skip_blank_lines()) return false;
    cells_.clear();
    unquoted_.clear();
    size_t field = begin_, block = begin_ & ~(kStep - 1);
    uint64_t marks = marks_from(begin_);
    const int64_t begun = line_;
    int64_t line = line_;
    size_t plain = SIZE_MAX;  // the field whose quotes are known to be ordinary characters
    for (;;) {
      while (marks == 0 && block + kStep < end_) {
        block += kStep;
        marks = block_marks_ = marks_.of(text() + block);
        block_ = block;
      }
      size_t at = marks == 0 ? end_ : block + static_cast<size_t>(std::countr_zero(marks));
      marks &= marks - 1;
      if (at >= end_) {
        if (!ended_) return false;
        cells_.emplace_back(text() + field, end_ - field);
        return end_row(end_, begun, line);
      }
      const char c = text()[at];
      if (c == separator_) {
        cells_.emplace_back(text() + field, at - field);
        need_few_columns();
        field = at + 1;
        continue;
      }
      if (c == '"') {
        if (field == plain) continue;
        const Quotes quotes = quotes_of(field, at);
        if (quotes == Quotes::unknown) return false;
        if (quotes == Quotes::ordinary) {
          plain = field;
          continue;
        }
        at = unquote(at, line);
        if (at == SIZE_MAX) return false;
        if (at < end_ && text()[at] == separator_) {
          need_few_columns();
          field = at + 1;
          block = field & ~(kStep - 1);
          marks = marks_from(field);
          continue;
        }
        return end_row(at, begun, line);
      }
      cells_.emplace_back(text() + field, at - field);
      return end_row(at, begun, line);
    }
  }

  bool end_row(size_t at, int64_t begun, int64_t line) {
    need_few_columns();
    need_short_row(at - begin_);
    const int64_t before = line_;
    line_ = line;
    row_line_ = begun;
    if (end_line(at)) return true;
    line_ = before;
    return false;
  }

  // A quote opens a field that begins with it; behind blanks it does where the quotes hold all of the field (a, "b,
  // c"), as many programs write after a comma. Else it is an ordinary character, as RFC 4180 reads it.
  enum class Quotes { ordinary, open, unknown };
  Quotes quotes_of(size_t field, size_t quote) const {
    if (quote == field) return Quotes::open;
    for (size_t i = field; i < quote; ++i) {
      if (text()[i] != ' ') return Quotes::ordinary;
    }
    const size_t end = closing_quote(quote);
    if (end == SIZE_MAX) return ended_ ? Quotes::ordinary : Quotes::unknown;
    if (end + 1 >= end_) return ended_ ? Quotes::open : Quotes::unknown;
    const char behind = text()[end + 1];
    return behind == separator_ || behind == '\n' || behind == '\r' ? Quotes::open : Quotes::ordinary;
  }

  // SIZE_MAX where there is none among the bytes at hand.
  size_t closing_quote(size_t opened) const {
    size_t at = opened + 1;
    while (at < end_) {
      const void* const hit = std::memchr(text() + at, '"', end_ - at);
      if (!hit) return SIZE_MAX;
      const auto quote = static_cast<size_t>(static_cast<const char*>(hit) - text());
      if (quote + 1 >= end_ || text()[quote + 1] != '"') return quote;
      at = quote + 2;
    }
    return SIZE_MAX;
  }

  // Appends the cell in quotes that opens at `at`; returns where it ends, SIZE_MAX where that is not at hand.
  size_t unquote(size_t at, int64_t& line) {
    const size_t end = closing_quote(at);
    if (end == SIZE_MAX && ended_) {
      fail(ErrorKind::data, cat(name_, ":", line), "a quote is opened and never closed");
    }
    if (end == SIZE_MAX || (end + 1 >= end_ && !ended_)) return SIZE_MAX;
    const std::string_view inside(text() + at + 1, end - at - 1);
    line += std::count(inside.begin(), inside.end(), '\n');
    const char behind = end + 1 < end_ ? text()[end + 1] : '\n';
    if (behind != separator_ && behind != '\n' && behind != '\r') {
      fail(ErrorKind::data, cat(name_, ":", line), "text after a closing quote: write \"\" for a quote in a field");
    }
    if (inside.find('"') == std::string_view::npos) {
      cells_.push_back(inside);
    } else {
      std::string& plain = unquoted_.emplace_back();
      for (size_t i = 0; i < inside.size(); ++i) {
        plain += inside[i];
        if (inside[i] == '"') ++i;
      }
      const size_t size = plain.size();
      plain.append(kReadableBehind, '\0');
      cells_.push_back(std::string_view(plain).substr(0, size));
    }
    return end + 1;
  }

  std::unique_ptr<io::ByteStream> stream_;
  std::string name_;
  DelimitedForm form_;
  char separator_;
  bool blanks_ = false;  // runs of blanks are the separators
  Marks marks_{',', true};
  io::Bytes buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is not read yet
  size_t checked_ = 0;          // bytes of the buffer that are known to be UTF-8
  uint64_t taken_ = 0;          // from the stream
  bool ended_ = false;          // the buffer holds the file's last byte
  int64_t line_ = 1, row_line_ = 1;
  size_t block_ = SIZE_MAX;  // whose marks are known
  uint64_t block_marks_ = 0;
  std::vector<std::string_view> cells_;
  std::deque<std::string> unquoted_;  // cells of the row with quotes in them
};

}  // namespace

std::unique_ptr<FileRows> delimited_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name,
                                         const DelimitedForm& form) {
  return std::make_unique<DelimitedRows>(std::move(stream), name, form);
}

std::vector<CellRow> next_rows(FileRows& rows, size_t most) {
  std::vector<CellRow> out;
  std::span<const std::string_view> cells;
  int64_t line = 0;
  while (out.size() < most && rows.next(cells, line)) out.push_back({{cells.begin(), cells.end()}, line});
  return out;
}

}  // namespace freight::data
