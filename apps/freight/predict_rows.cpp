// See predict_rows.h.
#include "predict_rows.h"

#include <algorithm>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/store/row_model.h"

namespace freight::app {

RowStream::RowStream(const deploy::Predictor& predictor, std::vector<std::string> files)
    : predictor_(predictor), files_(std::move(files)) {}

void RowStream::open(const std::string& file) {
  cells_ = data::read_cells(file);
  next_row_ = 0;
  const std::vector<store::Column>& columns = predictor_.bundle().columns;
  // A lone row of words is a sample unless it is the names of the columns, behind which the samples were forgotten.
  if (data::only_names(cells_)) {
    const std::vector<std::string>& row = cells_.rows[0];
    const bool names = std::all_of(columns.begin(), columns.end(), [&](const store::Column& c) {
      return std::any_of(row.begin(), row.end(), [&](const auto& cell) { return data::trimmed(cell) == c.name; });
    });
    if (names) fail(ErrorKind::data, file, "holds a header and no rows");
  }
  if (!cells_.header && cells_.names.size() == columns.size()) {
    places_.resize(columns.size());
    std::iota(places_.begin(), places_.end(), size_t{0});
  } else {
    places_ = store::places_of(columns, cells_.names, file);
  }
}

std::vector<Input> RowStream::next(size_t most) {
  std::vector<Input> got;
  while (got.size() < most) {
    if (next_row_ == cells_.rows.size()) {
      if (next_file_ == files_.size()) break;
      open(files_[next_file_++]);
    }
    const std::vector<std::string>& row = cells_.rows[next_row_];
    Input input;
    input.name = input.place = cat(files_[next_file_ - 1], ":", cells_.lines[next_row_++]);
    try {
      input.sample = predictor_.sample_of_row(store::cells_at(row, places_), input.place);
    } catch (const Error& e) {
      input.fault = e;
    }
    got.push_back(std::move(input));
  }
  return got;
}

}  // namespace freight::app
