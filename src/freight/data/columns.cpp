// See columns.h.
#include "freight/data/columns.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <limits>

#include "freight/base/strings.h"

namespace freight::data {

namespace {
using WordList = std::initializer_list<const char*>;

// The most usual words first: where two columns could be meant, the earlier word is.
constexpr WordList kImages = {"path",        "image",      "file",          "filename",  "file_name", "image_path",
                              "filepath",    "file_path",  "img_path",      "imagepath", "img",       "images",
                              "image_file",  "image_name", "image_id",      "filenames", "files",     "fname",
                              "fpath",       "imgs",       "image_url",     "img_name",  "imagename", "image_filename",
                              "image_paths", "img_file",   "relative_path", "photo",     "picture"};
constexpr WordList kTexts = {
    "text",        "sentence",     "review",       "message",       "document",   "content",      "comment",
    "tweet",       "body",         "texts",        "sentences",     "reviews",    "review_text",  "reviewtext",
    "review_body", "comment_text", "tweet_text",   "question_text", "question",   "utterance",    "phrase",
    "messages",    "documents",    "comments",     "tweets",        "article",    "post",         "sms",
    "news",        "abstract",     "excerpt",      "full_text",     "clean_text", "cleaned_text", "statement",
    "headline",    "input_text",   "text_content", "query",         "prompt",     "reviewbody",   "quote"};
constexpr WordList kLabels = {"label",        "class",         "target",      "category",  "sentiment",
                              "polarity",     "class_index",   "labels",      "classes",   "targets",
                              "class_name",   "label_name",    "class_id",    "label_id",  "class_label",
                              "classname",    "category_name", "category_id", "y",         "stars",
                              "rating",       "score",         "emotion",     "intent",    "topic",
                              "tag",          "tags",          "species",     "breed",     "airline_sentiment",
                              "coarse_label", "fine_label",    "label_text",  "output",    "overall",
                              "is_spam",      "spam",          "toxic",       "diagnosis", "genre"};
constexpr WordList kOther = {
    "id",        "ids",    "idx",  "index",    "",      "row",       "no",         "nr",         "number", "key",
    "guid",      "uuid",   "uid",  "qid",      "split", "is_valid",  "valid",      "is_train",   "fold",   "subset",
    "partition", "usage",  "set",  "date",     "time",  "timestamp", "user",       "username",   "userid", "user_name",
    "author",    "source", "lang", "language", "url",   "phraseid",  "sentenceid", "created_at", "width",  "height"};

constexpr WordList kImageEndings = {"jpg", "jpeg",  "png", "bmp",  "ppm",  "webp", "tif",  "tiff",
                                    "gif", "pgm",   "pnm", "jfif", "heic", "heif", "avif", "jp2",
                                    "dcm", "dicom", "svg", "tga",  "ico",  "exr"};

std::optional<size_t> rank(WordList words, std::string_view word) {
  const auto* const at = std::find_if(words.begin(), words.end(), [&](const char* w) { return word == w; });
  return at == words.end() ? std::nullopt : std::optional(static_cast<size_t>(at - words.begin()));
}

WordList words_of(ColumnRole role) {
  switch (role) {
    case ColumnRole::image: return kImages;
    case ColumnRole::text: return kTexts;
    case ColumnRole::label: return kLabels;
    case ColumnRole::other:
    case ColumnRole::unknown: break;
  }
  return kOther;
}

// "Class Index " and "class-index" are class_index.
std::string folded(std::string_view field) {
  std::string word = lower(trimmed(field));
  std::replace_if(
      word.begin(), word.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return word;
}

// The ending of a file's name, lower case, without the dot; "" where the cell is none.
std::string ending_of(std::string_view cell) {
  cell = trimmed(cell);
  const size_t dot = cell.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || cell.find_first_of("\t\r\n") != std::string_view::npos) return "";
  const std::string ending = lower(cell.substr(dot + 1));
  const bool plain = std::all_of(ending.begin(), ending.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  return plain && ending.size() >= 2 && ending.size() <= 5 ? ending : "";
}
}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

TableHeader::TableHeader(const std::vector<std::string>& fields) {
  constexpr size_t kLongest = 40;
  for (const std::string& field : fields) {
    words_.push_back(folded(field));
    const std::string_view cell = trimmed(field);
    const auto blanks = std::count(cell.begin(), cell.end(), ' ');
    plausible_ &= cell.size() <= kLongest && blanks <= 3 && !is_number_cell(cell) && !is_file_cell(cell);
  }
}

ColumnRole TableHeader::role(size_t column) const {
  const std::string& word = words_[column];
  for (const ColumnRole role : {ColumnRole::image, ColumnRole::text, ColumnRole::label, ColumnRole::other}) {
    if (rank(words_of(role), word)) return role;
  }
  return ends_with(word, "_id") || starts_with(word, "unnamed:") ? ColumnRole::other : ColumnRole::unknown;
}

std::optional<size_t> TableHeader::best(ColumnRole wanted) const {
  std::optional<size_t> found;
  size_t least = 0;
  for (size_t i = 0; i < width(); ++i) {
    const auto r = rank(words_of(wanted), words_[i]);
    if (!r || role(i) != wanted || (found && *r >= least)) continue;
    found = i;
    least = *r;
  }
  return found;
}

std::optional<size_t> TableHeader::find(std::string_view word) const {
  const auto at = std::find(words_.begin(), words_.end(), folded(word));
  return at == words_.end() ? std::nullopt : std::optional(static_cast<size_t>(at - words_.begin()));
}

std::optional<size_t> TableHeader::only_other_than(const std::vector<size_t>& taken) const {
  std::vector<size_t> rest, numbering;
  for (size_t i = 0; i < width(); ++i) {
    if (std::find(taken.begin(), taken.end(), i) != taken.end()) continue;
    (role(i) == ColumnRole::other ? numbering : rest).push_back(i);
  }
  const std::vector<size_t>& left = rest.empty() ? numbering : rest;
  return left.size() == 1 ? std::optional(left[0]) : std::nullopt;
}

std::string TableHeader::left_aside(const std::vector<size_t>& taken) const {
  std::vector<std::string> rest;
  for (size_t i = 0; i < width(); ++i) {
    if (std::find(taken.begin(), taken.end(), i) == taken.end()) {
      rest.push_back(words_[i].empty() ? cat("column ", i + 1) : words_[i]);
    }
  }
  return join(rest, ", ");
}

bool is_image_cell(std::string_view cell) { return rank(kImageEndings, ending_of(cell)).has_value(); }

bool is_file_cell(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.find("://") != std::string_view::npos || cell.find(' ') != std::string_view::npos)
    return is_image_cell(cell);
  const std::string ending = ending_of(cell);
  const bool letter = std::any_of(ending.begin(), ending.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return letter && (is_image_cell(cell) || cell.find_first_of("/\\") != std::string_view::npos);
}

std::optional<double> number_in(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double v = 0;
  const auto r = std::from_chars(cell.data(), cell.data() + cell.size(), v);
  if (r.ptr != cell.data() + cell.size()) return std::nullopt;
  if (r.ec == std::errc::result_out_of_range) {
    // from_chars leaves the value alone: it is below or above all doubles by its exponent, or has hundreds of digits.
    const size_t e = cell.find_first_of("eE"), point = std::min(cell.find('.'), std::min(e, cell.size()));
    const bool small =
        e != std::string_view::npos ? cell.substr(e + 1).starts_with('-') : cell.find_first_of("123456789") > point;
    return (cell.starts_with('-') ? -1.0 : 1.0) * (small ? 0.0 : std::numeric_limits<double>::infinity());
  }
  return r.ec == std::errc() ? std::optional(v) : std::nullopt;
}

namespace {
// Those of pandas' read_csv.
constexpr std::string_view kUsualMissing[] = {"NA",   "N/A",  "n/a",    "#N/A",    "#N/A N/A", "#NA",
                                              "<NA>", "NaN",  "nan",    "-NaN",    "-nan",     "NULL",
                                              "null", "None", "1.#IND", "1.#QNAN", "-1.#IND",  "-1.#QNAN"};
// Of UCI's sets, SQL (\\N of MySQL and PostgreSQL, and what their clients show), pandas' dates, R and Excel.
constexpr std::string_view kOtherMissing[] = {
    "?",       "\\N",     "(null)", "<null>", "[NULL]", "[null]", "NaT",    "<NaT>",   "NA_character_",
    "#DIV/0!", "#VALUE!", "#REF!",  "#NUM!",  "#NAME?", "#NULL!", "#CALC!", "#SPILL!", "#GETTING_DATA"};
// Only beside numbers and dates: these are words where others are.
constexpr std::string_view kMissingNumbers[] = {
    "-",  "--",   "---",  ".",   "..",  "...", "*",    "**",   "none", "na",           "Na",
    "nA", "NONE", "Null", "Nan", "NAN", "nil", "n.a.", "N.A.", "nat",  "\xe2\x80\x93", "\xe2\x80\x94"};
constexpr size_t kLongestMissing = 13;

template <class Words>
bool among(const Words& words, std::string_view cell) {
  return std::find(std::begin(words), std::end(words), cell) != std::end(words);
}
}  // namespace

bool is_usual_missing(std::string_view cell) {
  cell = trimmed(cell);
  return cell.empty() || among(kUsualMissing, cell);
}

bool is_missing_cell(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.empty()) return true;
  constexpr std::string_view kFirst = "?Nn#<-1\\([";
  if (cell.size() > kLongestMissing || kFirst.find(cell[0]) == std::string_view::npos) return false;
  const bool digits = cell[0] == '1' || (cell[0] == '-' && cell.size() > 1 && cell[1] == '1');
  if (digits && cell.find('#') == std::string_view::npos) return false;
  return among(kUsualMissing, cell) || among(kOtherMissing, cell);
}

bool is_missing_number(std::string_view cell) {
  cell = trimmed(cell);
  return is_missing_cell(cell) || (cell.size() <= kLongestMissing && among(kMissingNumbers, cell));
}

}  // namespace freight::data
