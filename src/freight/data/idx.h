// The IDX format of MNIST and Fashion-MNIST, plain or gzip: two zero bytes, a type byte, the number of axes, the
// extents (big-endian u32), the elements. Faults are Error(data) that names the file.
#pragma once
#include <string>

#include "freight/base/array.h"
#include "freight/data/dataset.h"
#include "freight/io/file.h"

namespace freight::data {

// Any IDX array of type u8 (0x08). The array borrows the bytes of the decompressed file.
Array load_idx(const std::string& path);
Array parse_idx(io::ByteView bytes, const std::string& name);
// The shape that a file says in its first 36 bytes, whether the elements are there or not.
Shape idx_shape(io::ByteView first, const std::string& name);

// The file of `stem` in `dir` under its usual spellings: "train-images-idx3-ubyte", "train-images.idx3-ubyte", each
// with or without ".gz"; "" where there is none.
std::string find_idx(const std::string& dir, const std::string& stem, int axes);
bool is_idx_dir(const std::string& dir);
// The four files of a directory, as u8 images (N, 1, H, W). Train images load beside the others.
TrainTest load_idx_dir(const std::string& dir, const std::string& name, const std::vector<std::string>& classes);

}  // namespace freight::data
