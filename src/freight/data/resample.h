// Pictures of any size and kind made into what a model takes: grey or RGB, and another size. u8 pictures as
// io::load_image gives them, (H, W, C); nothing here knows of models or of normalisation (augment.h does that).
#pragma once
#include "freight/data/dataset.h"

namespace freight::data {

// The picture with 1 or 3 channels: RGB to grey by the weights of ITU-R BT.601 (0.299, 0.587, 0.114), grey to RGB by
// repetition. Throws Error(data) for other counts. `image` u8 (H, W, C); the result u8 (H, W, channels).
Array with_channels(const Array& image, int64_t channels);

// Bilinear resampling with antialiasing: a triangle filter, as wide as a destination pixel where the picture shrinks
// and as a source pixel where it grows; the aspect ratio follows the sizes. Equal sizes return the picture unchanged.
// image u8 (H, W, C); the result u8 (rows, columns, C).
Array resized(const Array& image, int64_t rows, int64_t columns);
// All pictures of a set resized, in memory; mean and std stay as they are. Throws Error(data) unless the samples are u8
// (C, H, W), or have that size already.
Dataset resized(const Dataset& set, int64_t rows, int64_t columns);

}  // namespace freight::data
