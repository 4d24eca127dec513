// Tables of a program as the learners of tables read them: columns of NumPy arrays, Python lists and Arrow's arrays.
// Numbers and times stay where they are, words become codes. tables_columns.cpp makes cells of them as a CSV file with
// these values would give, so that the model is bitwise the same; tables_arrow.cpp reads Arrow's structs; tables.cpp
// fits and predicts.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "array.h"
#include "freight/data/cells.h"
#include "freight/data/table_set.h"

namespace freight::python {

// Numbers where a program has them, NaN where they are missing. Learners read infinite ones as missing, too.
class NumbersInPlace : public data::NumberSource {
 public:
  virtual double value(int64_t row) const = 0;
};

template <class F>
class NumbersBy final : public NumbersInPlace {
 public:
  explicit NumbersBy(F value) : value_(std::move(value)) {}
  double value(int64_t row) const override { return value_(row); }
  double at(int64_t row) const override { return finite(value_(row)); }
  void gather(std::span<const uint32_t> rows, double* to, size_t stride) const override {
    for (size_t i = 0; i < rows.size(); ++i) to[i * stride] = finite(value_(rows[i]));
  }

 private:
  static double finite(double v) { return std::isfinite(v) ? v : std::numeric_limits<double>::quiet_NaN(); }
  F value_;
};

template <class F>
std::shared_ptr<const NumbersInPlace> numbers_by(F value) {
  return std::make_shared<NumbersBy<F>>(std::move(value));
}

// Consecutive values of a column.
struct Segment {
  int64_t rows = 0;
  // Numbers have this. Integers that a double cannot represent are texts.
  std::shared_ptr<const NumbersInPlace> number = {};
  // All others have this: the text of a row as a CSV file has it, in `room` where it is not in memory; empty where it
  // is missing.
  std::function<std::string_view(int64_t row, std::string& room)> text = {};
  // Categories, whose text is the same in all rows with the same code, have the code of a row, too; it is below 0 for a
  // missing one.
  std::function<int64_t(int64_t row)> code = {};
  // Times have this, too: empty for a missing one.
  std::function<std::optional<data::DateTime>(int64_t row)> time = {};
};

struct InputColumn {
  std::string name;
  std::vector<Segment> segments;
};

class Table {
 public:
  explicit Table(std::string name) : name_(std::move(name)) {}
  // ValueError for another length than that of the columns before, and for a name that is there.
  void add(InputColumn column, int64_t rows);
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
  // Adds the rows of a table that has the same columns. ValueError names a column that is missing.
  void append(const Table& other);

  int64_t rows() const { return rows_; }
  const std::vector<InputColumn>& columns() const { return columns_; }
  // The cells of the rows from `begin` to `end`, which read numbers and times in this table. Needs the GIL.
  data::Cells cells(const data::CellsAsked& asked, int64_t begin, int64_t end) const;

 private:
  std::string name_;
  int64_t rows_ = 0;
  std::vector<InputColumn> columns_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// A Python object that the last owner releases with the GIL.
std::shared_ptr<const void> owner_of(nb::handle object);
// Days and fractions of a second since 1970 as a CSV file has them: "2024-02-29", with the time where any row has one.
Segment times(int64_t rows, std::function<int64_t(int64_t)> value, std::function<bool(int64_t)> missing,
              int64_t per_second);
// Adds the columns of an object's __arrow_c_stream__: those of a table, or the only one, which then has that name.
void add_arrow(Table& table, const nb::capsule& stream, const std::string& name);
void bind_tables(nb::module_& m);

}  // namespace freight::python
