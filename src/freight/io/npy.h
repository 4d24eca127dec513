// NumPy's array files: .npy (format versions 1 to 3, C and Fortran order) and .npz (zip of .npy, stored or deflated).
// Readers refuse malformed input with Error(data) that names the file and the fault; writers are atomic.
// Every element type of the Python array API is read and written as itself; bf16 is written as f32.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

using NamedArrays = std::map<std::string, Array>;  // arrays by name

// The same values in a type that Freight computes in, for readers of data: i8, i16 and u16 as i32, u32 and u64 as i64.
// Throws Error(data) for complex numbers and for values above i64, with `name`.
Array computable(const Array& array, const std::string& name);

bool is_npy(ByteView bytes);                                 // by its first bytes
Array load_npy(const std::string& path);                     // reads a .npy file; Error(data)
Array parse_npy(ByteView bytes, const std::string& name);    // the same from bytes
void save_npy(const std::string& path, const Array& array);  // writes a .npy file

// Keys are the names without ".npy". Members that are no arrays are refused. Where `only` names some, the others are
// not read: they may be of types that cannot be.
NamedArrays load_npz(const std::string& path, const std::vector<std::string>& only = {});
// the same from bytes
NamedArrays parse_npz(ByteView bytes, const std::string& name, const std::vector<std::string>& only = {});
// The keys alone, in the order of the file.
std::vector<std::string> npz_keys(ByteView bytes, const std::string& name);
// Written without compression, as np.savez does.
void save_npz(const std::string& path, const NamedArrays& arrays);

}  // namespace freight::io
