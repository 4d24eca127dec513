// Data sets in NumPy files: one .npz with x_train, y_train, x_test, y_test, or a directory with those as .npy files.
// What the samples mean is decided in array_meaning.h.
// Targets: integers (N) are classes; floats (N) or (N, K) are values to regress. Faults are Error(data).
#pragma once
#include <string>

#include "freight/data/dataset.h"
#include "freight/io/npy.h"

namespace freight::data {

bool is_array_source(const std::string& path);  // told by names
// Targets as a data set holds them: i64 (N) of classes, f32 (N) or (N, K) of values.
Array targets_of(const Array& array, const std::string& file);
// Reads both parts. Throws Error(data) that names the file.
TrainTest load_array_source(const std::string& path, const ArrayOptions& options = {});
// `where` starts the messages. Without x_test the test split is the last tenth of the train split.
TrainTest sets_of_arrays(const io::NamedArrays& arrays, const std::string& where, const std::string& name,
                         const ArrayOptions& options = {});

}  // namespace freight::data
