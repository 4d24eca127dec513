// Prediction: class probabilities (or regressed values) for pictures, with the preprocessing that training and
// evaluation used. Pictures become a data set and go through the same Loader and Transform as evaluation's, so the two
// cannot drift apart.
#pragma once
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/trace/compile.h"
#include "freight/train/bundle.h"

namespace freight::train {

// Reads a file as one sample of the model: a picture (PNG, JPEG, WebP, BMP, PPM, npy; made grey or RGB, resized and cut
// as evaluation does it) as u8 (C, H, W); or an npy of floats in exactly the model's input shape, taken as it is, as
// f32. Throws Error(data) that names the file.
Array load_sample(const std::string& path, const Preprocessing& preprocessing);

// Probabilities f32 (N, classes), or the values (N, K) of a model that regresses, for samples as load_sample gives
// them, in their order, batch by batch.
Array predict(Bundle& bundle, const std::vector<Array>& samples, const CompileOptions& options = {},
              int64_t batch_size = 64);

// The name of a class; its number where the bundle has no names.
std::string class_name(const Bundle& bundle, int64_t number);

}  // namespace freight::train
