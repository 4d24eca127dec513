// The text that stands before every generated kernel. It makes one source of OpenCL C and CUDA C++: kernels say KERNEL,
// GLOBAL, LOCAL, BARRIER, BARRIER_ALL (what the group wrote to global memory, too, is seen behind it), GROUP, LANE,
// UNROLL, UNROLL_8, SHARE (a reduction over a group) and use the conversion and random functions defined here.
#pragma once
#include <string>

#include "freight/base/dtype.h"

namespace freight::gpu {

// `f64`: whether the device computes in double; without it kernels of that type do not compile and normal draws are
// made in float.
std::string dialect(bool f64);

// The C type in which elements of `dtype` lie in memory, and the one in which they are computed with.
const char* stored_type(DType dtype);
const char* value_type(DType dtype);

}  // namespace freight::gpu
