// The safetensors format: u64 header size, a JSON header {name: {dtype, shape, data_offsets}}, then the tensors'
// bytes without gaps. Reading is strict, since these files come from strangers; writing is atomic.
// Errors of content are Error(checkpoint); a missing file is Error(data).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

struct PartHashes;  // digest.h

struct SafeTensors {                                   // The content of a file.
  std::map<std::string, std::string> metadata;         // texts by key (`__metadata__`)
  std::vector<std::pair<std::string, Array>> tensors;  // in the order of the header

  // The tensor of that name, or null.
  const Array* find(const std::string& name) const;
};

// F8_E4M3 and F8_E5M2, element types that Freight lacks, are read as f16, which has all their values.
SafeTensors load_safetensors(const std::string& path);
// The same where the path is a regular file that begins as a safetensors file does; else nothing. The file is read
// once, by several threads, into one block, in which tensors are aligned as Storage::allocate aligns them.
std::optional<SafeTensors> load_safetensors_in_place(const std::string& path);
// True of the first bytes, 9 at least, of a safetensors file; of damaged ones too: their reader says what is wrong.
bool starts_safetensors(ByteView bytes);
// With an owner, which keeps `bytes` alive, tensors of an element type that Freight has borrow their bytes from there.
SafeTensors parse_safetensors(ByteView bytes, const std::string& name);
SafeTensors parse_safetensors(std::span<uint8_t> bytes, const std::string& name, std::shared_ptr<void> owner);
// Writes the file, or leaves the one that was there. Throws Error(runtime) naming the path.
void save_safetensors(const std::string& path, const SafeTensors& content);
// The same; the file is hashed while it is written.
PartHashes save_hashed_safetensors(const std::string& path, const SafeTensors& content);

}  // namespace freight::io
