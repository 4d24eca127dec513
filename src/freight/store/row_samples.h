// Random rows that are saved with a model of tables, with its predictions, so that `freight verify` can check whether
// it still predicts the same with another library or on another machine. They contain no user data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/safetensors.h"
#include "freight/store/row_model.h"

namespace freight::store {

struct RowSamples {
  Array rows;         // f64 (N, columns), as models take them; undefined if a file has none
  Array predictions;  // f32 (N, outputs)
  bool there() const { return rows.defined(); }
};

// Draws each value independently: between the minimum and maximum that `seen`, f64 (rows, columns), has in its column,
// or any of the column's categories; some are missing, and some categories unknown. Equal columns give equal rows.
Array drawn_rows(const std::vector<Column>& columns, const RowValues& seen);
RowSamples sampled(const RowModel& model, const std::vector<Column>& columns, const RowValues& seen);

void write_samples(const RowSamples& samples, io::SafeTensors& file);
// Throws Error(checkpoint) that names `path` if they do not fit the model.
RowSamples read_samples(const io::SafeTensors& file, const std::string& path, const std::vector<Column>& columns,
                        int64_t outputs);

}  // namespace freight::store
