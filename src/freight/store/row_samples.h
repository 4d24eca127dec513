// Rows that are stored with a model of rows and its answers to them, so that anyone can see whether it still answers
// the same (`freight verify`): with another library, on another machine. They are drawn and are nobody's data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/safetensors.h"
#include "freight/store/row_model.h"

namespace freight::store {

struct RowSamples {
  Array rows;     // f64 (N, columns), as models take them; undefined where a file has none
  Array answers;  // f32 (N, outputs)
  bool there() const { return rows.defined(); }
};

// Each cell is drawn by itself: between the least and the greatest number that `seen`, f64 (rows, columns), has in its
// column, or any of the column's words; some are missing, some words unknown. The same for the same columns.
Array drawn_rows(const std::vector<Column>& columns, const Array& seen);
RowSamples sampled(const RowModel& model, const std::vector<Column>& columns, const Array& seen);

void write_samples(const RowSamples& samples, io::SafeTensors& file);
// Throws Error(checkpoint) that names `path` where they do not fit the model.
RowSamples read_samples(const io::SafeTensors& file, const std::string& path, const std::vector<Column>& columns,
                        int64_t outputs);

}  // namespace freight::store
