// Data sets in NumPy files: one .npz with x_train, y_train, x_test, y_test, or a directory with those as .npy files.
// array_meaning.h decides what the samples mean. Integer targets (N) are classes; float targets (N) or (N, K) are for
// regression. Errors are Error(data).
#pragma once
#include <string>

#include "freight/data/dataset.h"
#include "freight/io/npy.h"

namespace freight::data {

bool is_array_source(const std::string& path);  // recognized by file names
// Converts targets to those of a dataset: i64 (N) for classes, f32 (N) or (N, K) for regression.
Array targets_of(const Array& array, const std::string& file);
// Reads the training and the held-out set. Throws Error(data) that names the file.
TrainTest load_array_source(const std::string& path, const ArrayOptions& options = {});
// The same from arrays in memory. Messages begin with `where`. Without x_test the last tenth is held out.
TrainTest sets_of_arrays(const io::NamedArrays& arrays, const std::string& where, const std::string& name,
                         const ArrayOptions& options = {});

}  // namespace freight::data
