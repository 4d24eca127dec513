// The roles of the columns of a table of samples, inferred from its header. Hugging Face, Kaggle, Keras, fastai and
// pandas use different names, which columns.cpp lists. Knows only names; the readers check the cells (image_list.cpp,
// text_file.cpp).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace freight::data {

// other: a row number or the name of a split, neither sample nor label.
enum class ColumnRole { unknown, image, text, label, other };

// The text without surrounding spaces.
std::string_view trimmed(std::string_view text);

class TableHeader {
 public:
  explicit TableHeader(const std::vector<std::string>& fields);
  size_t width() const { return words_.size(); }
  const std::string& word(size_t column) const { return words_[column]; }
  const std::vector<std::string>& words() const { return words_; }
  ColumnRole role(size_t column) const;
  // The column of that role with the most usual name.
  std::optional<size_t> best(ColumnRole role) const;
  std::optional<size_t> find(std::string_view word) const;
  // True if this can be a header: short fields, no numbers, no file names.
  bool plausible() const { return plausible_; }
  // The only column that is neither in `taken` nor of the role other; if all remaining columns have that role, the only
  // one of them. Empty if there are several.
  std::optional<size_t> only_other_than(const std::vector<size_t>& taken) const;
  // "id, is_valid": the names of all columns except these; "" if there are none.
  std::string left_aside(const std::vector<size_t>& taken) const;

 private:
  std::vector<std::string> words_;
  bool plausible_ = true;
};

// True if a cell looks like the name of an image file, also of a format that is not decoded here.
bool is_image_cell(std::string_view cell);
// True if a cell looks like a file name: one word with an extension, not a web address.
bool is_file_cell(std::string_view cell);
// The number that is the whole cell, which may be NaN or infinite; independent of the locale.
std::optional<double> number_in(std::string_view cell);
inline bool is_number_cell(std::string_view cell) { return number_in(cell).has_value(); }
// True for a missing value: an empty cell, or one of the spellings of pandas, R, SQL and Excel ("NA", "NaN", "None",
// "\\N", "#DIV/0!", ...; docs/table-data.md). Surrounding spaces are ignored.
bool is_missing_cell(std::string_view cell);
// The same for a column of numbers or dates, where "-", "." and "none" are missing, too.
bool is_missing_number(std::string_view cell);
// The spellings of yes and no, in lower case.
inline constexpr std::string_view kYesNo[][2] = {
    {"yes", "no"}, {"true", "false"}, {"on", "off"}, {"y", "n"}, {"t", "f"}};
// True for the spellings that pandas reads as missing, for which no note is needed.
bool is_usual_missing(std::string_view cell);

}  // namespace freight::data
