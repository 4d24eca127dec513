// See row_values.h.
#include "freight/store/row_values.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/store/table_rows.h"

namespace freight::store {

RowValues::RowValues(Array values) : array_(std::move(values)) {
  FREIGHT_CHECK(!array_.defined() || array_.shape().rank() == 2, "values of rows have the shape ", array_.shape());
}

RowValues::RowValues(std::shared_ptr<const TableRows> table, std::vector<uint32_t> numbers)
    : table_(std::move(table)), numbers_(std::move(numbers)) {}

int64_t RowValues::count() const {
  if (table_) return static_cast<int64_t>(numbers_.size());
  return array_.defined() ? array_.shape()[0] : 0;
}

int64_t RowValues::width() const {
  if (table_) return table_->width();
  return array_.defined() ? array_.shape()[1] : 0;
}

const double* RowValues::read(int64_t begin, int64_t end, std::vector<double>& room) const {
  if (begin == end) return room.data();
  if (!table_) return array_.data<double>() + begin * width();
  room.resize(static_cast<size_t>((end - begin) * width()));
  table_->values(std::span(numbers_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                 room.data());
  return room.data();
}

std::vector<double> RowValues::column(int64_t column) const {
  std::vector<double> values(static_cast<size_t>(count()));
  if (table_) {
    table_->column(static_cast<size_t>(column), numbers_, values.data());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = array_.data<double>()[static_cast<int64_t>(i) * width() + column];
  }
  return values;
}

Array RowValues::array() const {
  if (!table_) return array_;
  Array all(DType::f64, {count(), width()});
  table_->values(numbers_, all.data<double>());
  return all;
}

RowValues RowValues::at(const std::vector<int64_t>& rows) const {
  if (table_) {
    std::vector<uint32_t> numbers;
    numbers.reserve(rows.size());
    for (const int64_t i : rows) numbers.push_back(numbers_[static_cast<size_t>(i)]);
    return {table_, std::move(numbers)};
  }
  Array out(DType::f64, {static_cast<int64_t>(rows.size()), width()});
  double* to = out.data<double>();
  for (const int64_t i : rows) to = std::copy_n(array_.data<double>() + i * width(), width(), to);
  return out;
}

RowValues RowValues::followed_by(const RowValues& others) const {
  if (table_ && table_ == others.table_) {
    std::vector<uint32_t> numbers = numbers_;
    numbers.insert(numbers.end(), others.numbers_.begin(), others.numbers_.end());
    return {table_, std::move(numbers)};
  }
  Array all(DType::f64, {count() + others.count(), width()});
  double* to = all.data<double>();
  std::vector<double> room;
  for (const RowValues* part : {this, &others}) {
    to = std::copy_n(part->read(0, part->count(), room), part->count() * width(), to);
  }
  return all;
}

}  // namespace freight::store
