// Data sets in NumPy files: one .npz with x_train, y_train, x_test, y_test, or a directory with those as .npy files.
// Samples: u8 images (N, H, W), (N, C, H, W) or (N, H, W, 1|3), or floats of any rank >= 2 (f64 becomes f32).
// Targets: integers (N) are classes; floats (N) or (N, K) are values to regress. Faults are Error(data).
#pragma once
#include <string>

#include "freight/data/dataset.h"
#include "freight/io/npy.h"

namespace freight::data {

bool is_array_source(const std::string& path);
TrainTest load_array_source(const std::string& path);
// `where` starts the messages. Without x_test the test split is the last tenth of the train split.
TrainTest sets_of_arrays(const io::NamedArrays& arrays, const std::string& where, const std::string& name);

}  // namespace freight::data
