// The fitted model of a learner other than a network, which predicts from rows of named columns: boosted trees,
// forests, linear models and the baseline. (A network is models::Model.) Rows consist of numbers: this file defines,
// for all of these models, which number a value of the table is.
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
#include "freight/metrics/scores.h"
#include "freight/store/row_form.h"
#include "freight/store/row_values.h"

namespace freight::store {

inline constexpr const char* kNet = "net";  // the learner of networks; no model of tables has this name

// The forms of values that are not categories: a number, yes or no (1 or 0), or a date, of which the column is one
// part. A bundle's reader (bundle.cpp) tries them up to the last, `seconds`.
enum class CellForm { number, yesno, year, month, weekday, hour, seconds };
std::string to_string(CellForm form);

struct ValueRange {
  double least = 0, most = 0;

  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

// A feature: a column of numbers, or of the categories that training saw.
struct Column {
  std::string name;
  bool words = false;
  std::vector<std::string> levels = {};  // the categories, sorted; a value is the number of its category
  CellForm form = CellForm::number;      // of columns without categories
  // The parts of a date are columns, whose cells stand in one column of the table.
  std::string source = {};                       // its name; "": the column's own
  data::DateOrder order = data::DateOrder::ymd;  // for dates
  std::optional<ValueRange> range = {};          // of the numbers in training; empty if it is not known
  data::NumberStyle style = {};                  // how texts write the numbers
  bool complete = false;                         // no value was missing in training; false if that is not known

  const std::string& source_name() const { return source.empty() ? name : source; }
  bool date() const { return form != CellForm::number && form != CellForm::yesno; }
  // True if values are texts for typed interfaces.
  bool takes_texts() const { return words || date() || form == CellForm::yesno; }
  friend bool operator==(const Column&, const Column&) = default;
};

// A column of the table that is not a feature, and the reason: "identifier", "text", "constant", "weight".
struct IgnoredColumn {
  std::string name, kind;

  friend bool operator==(const IgnoredColumn&, const IgnoredColumn&) = default;
};

inline constexpr const char* kWeightColumn = "weight";  // an IgnoredColumn::kind: the weights of rows
inline constexpr double kUnknownWord = -1;              // a category that training did not see

// Samples for fitting or measuring a model of tables.
struct Rows {
  RowValues values;                   // f64 (N, columns): numbers, or numbers of categories; NaN for missing values
  Array labels;                       // i64 (N): class numbers; or f32 (N): regression targets
  std::optional<Array> weights = {};  // f32 (N), above 0: weights; without them each row counts once
  std::optional<Array> groups = {};   // i64 (N): equal for rows of one group; without them each row is its own
  // Labels are relevances, and rows are ranked within their groups. The rows of a group are consecutive.
  bool ranked = false;
  int64_t count() const { return values.count(); }
  bool classification() const { return labels.dtype() == DType::i64; }
  double weight(int64_t row) const { return weights ? static_cast<double>(weights->data<float>()[row]) : 1.0; }
  // The first row of each run of equal groups; for ranked rows these are the groups.
  std::vector<int64_t> group_begins() const;
  // What metrics compare predictions for these rows with.
  metrics::Truth truth() const;
};

class RowModel {
 public:
  virtual ~RowModel() = default;
  // The number of classes, or of values per row.
  virtual int64_t outputs() const = 0;
  virtual bool predicts_classes() const = 0;
  // True if predictions only order the rows of a group.
  virtual bool is_ranking() const { return false; }
  // Predicts f32 (N, outputs), probabilities or values, from f64 (N, columns). Any number of threads may call it; a
  // row's prediction has the same bits in any batch.
  virtual Array run(const Array& rows) const = 0;
  // The number of fitted numbers.
  virtual int64_t parameters() const = 0;
  // The lines of `models show`.
  virtual std::vector<std::string> lines() const = 0;
  // Adds tensors and metadata, from which the learner's reader (register_row_model) restores the model.
  virtual void write(io::SafeTensors& file) const = 0;

  // The rest is optional. A model without such a function keeps the one here, and is refused by name where it is
  // needed.

  // True for a model with contributions().
  virtual bool explains() const { return false; }
  // The contribution of each column to the sums behind a prediction, f64 (N, groups, columns + 1), with the base last;
  // they add up to the margin. A regression has one group, whose margin is before a link such as the exponential; two
  // classes have one, the log odds of the second; more classes have a group each. Throws Error(usage) if the model has
  // none.
  virtual Array contributions(const Array& rows) const;
  // These sums themselves, f64 (N, groups); undefined where a model predicts without them.
  virtual Array margins(const Array& /*rows*/) const { return {}; }
  virtual std::vector<Importance> importance() const { return {}; }
  // The model as plain numbers; std::monostate if it has no such form.
  virtual RowForm form() const { return {}; }
  // The library in whose own file format it can be written ("xgboost"; "" if none), and that file, "json" or "ubj",
  // with the names of the columns.
  virtual std::string library() const { return {}; }
  virtual std::string library_file(const std::string& format, const std::vector<std::string>& names) const;
};

// The model's predictions for rows of a table, f32 (N, outputs), in blocks that are small next to the table.
Array run(const RowModel& model, const RowValues& rows);

// The inputs and outputs of a model of tables, as its file describes them.
struct RowShape {
  std::vector<Column> columns;
  std::vector<std::string> classes;                 // empty: a regression
  std::vector<IgnoredColumn> ignored_columns = {};  // of the table that the model was fitted to
};

// Restores a model from what write() wrote. Throws Error(checkpoint) that names `path` if the file is damaged.
using RowReader = std::function<std::shared_ptr<const RowModel>(const io::SafeTensors& file, const std::string& path,
                                                                const RowShape& shape)>;
// Makes the saved models of a learner known to load_bundle, for the rest of the process. Any thread may call it. Throws
// Error(usage) if the name is taken.
void register_row_model(const std::string& learner, RowReader reader);
// Null if the learner is not registered.
RowReader row_reader(const std::string& learner);
std::vector<std::string> row_learners();

// 1 for "yes", "true", "on", their first letters and 1; 0 for "no", "false", "off", their first letters and 0; in any
// case. Empty for other texts.
std::optional<double> yes_or_no(std::string_view cell);
// A cell of a row: a number, NaN where it is missing, or a text as it stands in a file, empty where it is missing.
using Cell = std::variant<double, std::string>;
// The cell of an integer, which is exact even where no double equals it.
Cell cell_of(int64_t integer);
// The number for a cell: NaN if it is missing, or in a yes/no column neither yes nor no; kUnknownWord for a category
// that training did not see; nullopt for anything else that is not a finite number or date in a column of those.
std::optional<double> value_in(const Column& column, std::string_view text);
std::optional<double> value_in(const Column& column, double number);
double value_in(const Column& column, const data::DateTime& time);  // of a date
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
// The numbers of a row that are outside the range of training.
std::vector<Beyond> beyond_training(const std::vector<Column>& columns, const double* row);
// The columns that a table must have, each once, in the order in which the model uses them.
std::vector<std::string> sources_of(const std::vector<Column>& columns);
// The index in `names` of each of `columns`. Throws Error(data) that begins with `name` if one is missing or appears
// twice.
std::vector<size_t> places_of(const std::vector<Column>& columns, const std::vector<std::string>& names,
                              const std::string& name);

}  // namespace freight::store
