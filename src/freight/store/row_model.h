// A learner other than a net stores this: a fitted model that answers rows of named columns. Boosted trees, forests,
// linear models and the baseline are such; a net is models::Model. Rows are numbers by then: what a cell means is
// decided here once for all of them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "freight/base/array.h"
#include "freight/data/date_time.h"
#include "freight/data/number_style.h"
#include "freight/io/safetensors.h"
#include "freight/store/row_form.h"

namespace freight::store {

inline constexpr const char* kNet = "net";  // the learner of nets: no model of rows is named so

// Forms of cells that are no words of a category: a number, yes or no (1 or 0), or a date, of which the column holds a
// part.
enum class CellForm { number, yesno, year, month, weekday, hour, seconds };
std::string to_string(CellForm form);

struct ValueRange {
  double least = 0, most = 0;

  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

// A model learns from this: numbers, or words of which training saw these.
struct Column {
  std::string name;
  bool words = false;
  std::vector<std::string> levels = {};  // of words, sorted; a cell is the number of its word
  CellForm form = CellForm::number;      // of the others
  // The parts of a date are columns, whose cells stand in one column of the table.
  std::string source = {};                       // its name; empty: it is the column's own
  data::DateOrder order = data::DateOrder::ymd;  // of a date
  std::optional<ValueRange> range = {};          // that training saw, of numbers; empty where it is not known
  data::NumberStyle style = {};                  // of numbers: how texts write them
  bool complete = false;                         // no cell was missing in training; false where it is not known

  const std::string& source_name() const { return source.empty() ? name : source; }
  bool date() const { return form >= CellForm::year; }
  // True where cells are texts to programs that know types.
  bool takes_texts() const { return words || date() || form == CellForm::yesno; }
  friend bool operator==(const Column&, const Column&) = default;
};

// A column of the table that nothing is learnt from, and the reason: "identifier", "text", "constant", "weight".
struct IgnoredColumn {
  std::string name, kind;

  friend bool operator==(const IgnoredColumn&, const IgnoredColumn&) = default;
};

inline constexpr const char* kWeightColumn = "weight";  // an IgnoredColumn::kind: rows count by it
inline constexpr double kUnknownWord = -1;              // a word that training did not see

// Samples that a model of rows is fitted to or measured on.
struct Rows {
  Array values;                       // f64 (N, columns): numbers or numbers of words; NaN where a cell is missing
  Array labels;                       // i64 (N): class numbers; or f32 (N): values to regress
  std::optional<Array> weights = {};  // f32 (N), above 0: how often a row counts; none: once
  std::optional<Array> groups = {};   // i64 (N): equal numbers for rows that belong together; none: each stands alone
  // Labels are relevances, and rows are ranked within their groups, the rows of each of which follow each other.
  bool ranked = false;
  int64_t count() const { return values.shape()[0]; }
  bool classification() const { return labels.dtype() == DType::i64; }
  double weight(int64_t row) const { return weights ? static_cast<double>(weights->data<float>()[row]) : 1.0; }
  // The first row of each run of equal groups; of rows that are ranked, of each group.
  std::vector<int64_t> group_begins() const;
};

class RowModel {
 public:
  virtual ~RowModel() = default;
  // Classes, or values per row.
  virtual int64_t outputs() const = 0;
  virtual bool tells_classes() const = 0;
  // True where values say only which rows of a group come before which.
  virtual bool ranks() const { return false; }
  // Probabilities or values, f32 (N, outputs), of f64 (N, columns). Any number of threads may ask; a row's answer has
  // the same bits whatever the rows beside it.
  virtual Array run(const Array& rows) const = 0;
  // Numbers that were fitted.
  virtual int64_t parameters() const = 0;
  // One line per thing that `models show` should say.
  virtual std::vector<std::string> lines() const = 0;
  // Adds tensors and entries of metadata, from which the learner's reader (register_row_model) makes the model again.
  virtual void write(io::SafeTensors& file) const = 0;

  // The rest is optional: a model that cannot do it keeps these, and is refused by name where it is asked for.

  // True of a model that has contributions().
  virtual bool explains() const { return false; }
  // The contribution of each column to the sums behind an answer, f64 (N, groups, columns + 1), the base last; they add
  // up to the margin. Values are one group, with the margin before a link such as the exponential; two classes are one,
  // the log odds of the second; more have a group each. Throws Error(usage) where there are none.
  virtual Array contributions(const Array& rows) const;
  virtual std::vector<Importance> importance() const { return {}; }
  // The model as plain numbers; std::monostate where it has no such form.
  virtual RowForm form() const { return {}; }
  // The library whose own file format it can be written in ("xgboost"), empty: none; and that file, "json" or "ubj".
  virtual std::string library() const { return {}; }
  virtual std::string library_file(const std::string& format) const;
};

// The class that is told by the probabilities of `classes`: the likeliest, of equal ones the first; of two the second
// one where its probability is above `threshold`.
int64_t told_class(const float* probabilities, int64_t classes, std::optional<double> threshold);

// A model of rows takes and gives these, as its file says.
struct RowShape {
  std::vector<Column> columns;
  std::vector<std::string> classes;                 // empty: values
  std::vector<IgnoredColumn> ignored_columns = {};  // of the table that it was fitted to
};

// Makes the model of what write() wrote. Throws Error(checkpoint) that names `path` where that is damaged.
using RowReader = std::function<std::shared_ptr<const RowModel>(const io::SafeTensors& file, const std::string& path,
                                                                const RowShape& shape)>;
// Makes the stored models of a learner known to load_bundle, from any thread, for the rest of the process. Throws
// Error(usage) where the name is taken.
void register_row_model(const std::string& learner, RowReader reader);
// Null where nobody registered that learner.
RowReader row_reader(const std::string& learner);
std::vector<std::string> row_learners();

// 1 and 0 of "yes" and "no", "true" and "false", "on" and "off", their first letters, and of 1 and 0 themselves, in any
// case; empty for other cells.
std::optional<double> yes_or_no(std::string_view cell);
// A cell of a row: a number, NaN where it is missing, or a text as it stands in a file, empty where it is missing.
using Cell = std::variant<double, std::string>;
// The cell of an integer, which is exact even where no double equals it.
Cell cell_of(int64_t integer);
// The number that a cell means; NaN where it is missing, or says neither yes nor no where the column does. Empty where
// it is no finite number or date and one is needed.
std::optional<double> value_in(const Column& column, std::string_view text);
std::optional<double> value_in(const Column& column, double number);
// Says that of such a cell.
std::string unfit(const Column& column, std::string_view cell);
// One row of cells, f64 (columns), in the columns' order. Throws Error(data) that begins with `name` and says which
// column for a cell that is no number or date where one is needed.
Array row_of(const std::vector<Column>& columns, const std::vector<Cell>& cells, const std::string& name);
// True of a number that lies outside of what training saw. Parts of dates other than the time itself have no such
// range.
bool beyond_range(const Column& column, double value);
struct Beyond {
  size_t column = 0;
  std::string text;  // "age is 130, in training 17 to 90"
};
// The numbers of a row of which that is true.
std::vector<Beyond> beyond_training(const std::vector<Column>& columns, const double* row);
// The columns that a table must have, each once, in the order in which the model has them.
std::vector<std::string> sources_of(const std::vector<Column>& columns);
// For each of `columns`, where its cells stand among `names`. Throws Error(data) that begins with `name` for one that
// is missing or there twice.
std::vector<size_t> places_of(const std::vector<Column>& columns, const std::vector<std::string>& names,
                              const std::string& name);

}  // namespace freight::store
