// See predict_rows.h.
#include "predict_rows.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"

namespace freight::app {

RowStream::RowStream(const deploy::Predictor& predictor, std::vector<std::string> files)
    : predictor_(predictor), files_(std::move(files)) {}

void RowStream::open(const std::string& file) {
  data::CellsAsked asked;
  asked.kinds = [this, file](const data::TableHead& head) {
    const std::vector<store::Column>& columns = predictor_.bundle().columns;
    // A lone row of words is a sample unless it is the names of the columns, behind which the samples were forgotten.
    const bool names = data::only_names(head) && std::all_of(columns.begin(), columns.end(), [&](const auto& c) {
                         return std::any_of(head.first_row.begin(), head.first_row.end(),
                                            [&](const auto& cell) { return data::trimmed(cell) == c.source_name(); });
                       });
    if (names) fail(ErrorKind::data, file, "holds a header and no rows");
    const std::vector<std::string> sources = store::sources_of(columns);
    const bool in_order = !head.header && head.names.size() == sources.size();
    places_ = store::places_of(columns, in_order ? sources : head.names, file);
    return store::kinds_of(columns, places_, head.names.size());
  };
  reader_ = std::make_unique<data::CellReader>(file, std::move(asked));
}

bool RowStream::read_part() {
  constexpr int64_t kPart = 4096;
  for (;;) {
    if (!reader_) {
      if (next_file_ == files_.size()) return false;
      open(files_[next_file_++]);
    }
    rows_ = nullptr;
    cells_ = reader_->next(kPart);
    if (cells_.rows() > 0) break;
    reader_ = nullptr;
  }
  next_row_ = 0;
  next_fault_ = 0;
  rows_ = std::make_unique<store::TableRows>(predictor_.bundle().columns, cells_, places_);
  return true;
}

std::vector<Input> RowStream::next(size_t most) {
  std::vector<Input> got;
  while (got.size() < most) {
    if (next_row_ == cells_.rows() && !read_part()) break;
    Input input;
    input.name = input.place = cells_.place(next_row_);
    const std::vector<store::RowFault>& faults = rows_->faults();
    if (next_fault_ < faults.size() && faults[next_fault_].row == next_row_) {
      input.fault = Error(ErrorKind::data, input.place, faults[next_fault_++].reason);
    } else {
      input.sample = rows_->row(next_row_);
    }
    ++next_row_;
    got.push_back(std::move(input));
  }
  return got;
}

}  // namespace freight::app
