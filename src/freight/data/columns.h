// What the columns of a table of samples hold, told by the words of its header. Hugging Face, Kaggle, Keras, fastai and
// pandas name the same things differently; the words are in columns.cpp. Knows words alone: what the cells must look
// like is decided by who reads them (image_list.cpp, text_file.cpp).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace freight::data {

// other: numbers a row, or says which part it is in; it is neither sample nor label.
enum class ColumnRole { unknown, image, text, label, other };

// Without blanks around it.
std::string_view trimmed(std::string_view text);

class TableHeader {
 public:
  explicit TableHeader(const std::vector<std::string>& fields);
  size_t width() const { return words_.size(); }
  const std::string& word(size_t column) const { return words_[column]; }
  const std::vector<std::string>& words() const { return words_; }
  ColumnRole role(size_t column) const;
  // The column of that role whose word is the most usual one.
  std::optional<size_t> best(ColumnRole role) const;
  std::optional<size_t> find(std::string_view word) const;
  // Whether this can be a header at all: short fields, no numbers, no names of files.
  bool plausible() const { return plausible_; }
  // The only column that is neither `taken` nor of the role other; where all the rest is of that role, the only one of
  // it. None where several are left.
  std::optional<size_t> only_other_than(const std::vector<size_t>& taken) const;
  // "id, is_valid": the words of all columns but these; "" where there are none.
  std::string left_aside(const std::vector<size_t>& taken) const;

 private:
  std::vector<std::string> words_;
  bool plausible_ = true;
};

// Whether a cell looks like the name of a file that is an image, of any format, whether it can be decoded here or not.
bool is_image_cell(std::string_view cell);
// Whether it looks like the name of any file: one word with an ending, not a web address.
bool is_file_cell(std::string_view cell);
// The number, NaN and the infinities among them, that is all that the cell holds, whatever the language of the process.
std::optional<double> number_in(std::string_view cell);
inline bool is_number_cell(std::string_view cell) { return number_in(cell).has_value(); }
// True of a cell that says that its value is missing: it is empty or one of the spellings of pandas, R, SQL and Excel
// ("NA", "NaN", "None", "\\N", "#DIV/0!", ...; docs/tables.md), with blanks around it or without.
bool is_missing_cell(std::string_view cell);
// The same of a cell among numbers or dates, where "-", "." and "none" say so, too.
bool is_missing_number(std::string_view cell);
// The ways to write yes and no, in lower case.
inline constexpr std::string_view kYesNo[][2] = {
    {"yes", "no"}, {"true", "false"}, {"on", "off"}, {"y", "n"}, {"t", "f"}};
// True of the spellings that pandas itself reads as missing, which need no mention.
bool is_usual_missing(std::string_view cell);

}  // namespace freight::data
