// One launch of a generated kernel, as text and numbers: what all GPU drivers get from the lowering. Nothing here
// depends on a driver; the text compiles in OpenCL C and, behind the dialect header, in CUDA C++.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace freight::gpu {

// A kernel parameter pair: pointer and first element. `operand` counts inputs, then outputs, then scratch, as
// Kernel::run does, or is kFaults (faults.h); `offset` is in bytes from there.
struct Argument {
  int operand = 0;
  size_t element = 1;  // bytes per element
  size_t offset = 0;
};

// Parameters in order: the arguments' pairs, then `numbers` as one struct by value.
struct Launch {
  std::string entry;   // name of the kernel; equal names have equal texts
  std::string source;  // without the dialect header
  std::vector<Argument> arguments;
  std::vector<uint8_t> numbers;
  size_t groups = 0, lanes = 1;  // work-groups of `lanes` work-items, in one dimension
};

// A step as launches in order, with the scratch memory that they share.
struct Lowered {
  std::vector<Launch> launches;
  size_t scratch_bytes = 0;
  std::string name;  // for profiles
};

}  // namespace freight::gpu
