// PyTorch's files (.pth, .pt, .bin) as named tensors, without Python: the zip format of torch.save, the format before
// it (torch 1.5 and earlier, or _use_new_zipfile_serialization=False) and the tar format of torch 0.1. The pickles in
// them are read as data (pickle_internal.h): tensors and plain containers, nothing is ever called. Errors of content
// are Error(checkpoint); a missing file is Error(data).
#pragma once
#include <memory>
#include <span>
#include <string>

#include "freight/io/safetensors.h"

namespace freight::io {

// By the first bytes: one of the three formats, or a pickle.
bool is_torch_file(ByteView bytes);

// The tensors of a state_dict, or of a checkpoint that contains one (`state_dict`, `model_state_dict`, `model` and the
// like). The prefixes of DataParallel and torch.compile ("module.", "_orig_mod."), where all names have them, are
// removed. Tensors that are views of a storage are copied out of it; whole ones borrow the bytes of `owner`.
SafeTensors parse_torch_file(std::span<uint8_t> bytes, const std::string& name, std::shared_ptr<void> owner);

// Writes a state_dict in the zip format; torch.load(path, weights_only=True) reads it. Metadata have no place there and
// are dropped. Tensors that share their memory share it there, too. Written whole or not at all.
void save_torch_file(const std::string& path, const SafeTensors& content);

}  // namespace freight::io
