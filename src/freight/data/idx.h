// The IDX format of MNIST and Fashion-MNIST, plain or gzip: two zero bytes, a type byte, the number of axes, the
// sizes (big-endian u32), the elements. Errors are Error(data) that names the file.
#pragma once
#include <string>

#include "freight/base/array.h"
#include "freight/data/dataset.h"
#include "freight/io/file.h"

namespace freight::data {

// Reads an IDX array of type u8 (0x08), which shares the bytes of the decompressed file.
Array load_idx(const std::string& path);
Array parse_idx(io::ByteView bytes, const std::string& name);
// The shape in the first 36 bytes of a file, even if the elements are missing.
Shape idx_shape(io::ByteView first, const std::string& name);

// The file of `stem` in `dir` by its usual names: "train-images-idx3-ubyte" or "train-images.idx3-ubyte", each also
// with ".gz"; "" if there is none.
std::string find_idx(const std::string& dir, const std::string& stem, int axes);
bool is_idx_dir(const std::string& dir);
// Reads the four files of a directory as u8 images (N, 1, H, W). Training images load in parallel with the others.
TrainTest load_idx_dir(const std::string& dir, const std::string& name, const std::vector<std::string>& classes);

}  // namespace freight::data
