// The OpenCL functions that the driver calls, from the library found at run time.
#pragma once
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <string>

namespace freight::opencl {

#define FREIGHT_OPENCL_FUNCTIONS(F) \
  F(GetPlatformIDs)                 \
  F(GetPlatformInfo)                \
  F(GetDeviceIDs)                   \
  F(GetDeviceInfo)                  \
  F(CreateContext)                  \
  F(CreateCommandQueue)             \
  F(CreateBuffer)                   \
  F(CreateSubBuffer)                \
  F(ReleaseMemObject)               \
  F(EnqueueWriteBuffer)             \
  F(EnqueueReadBuffer)              \
  F(EnqueueCopyBuffer)              \
  F(EnqueueMapBuffer)               \
  F(EnqueueNDRangeKernel)           \
  F(EnqueueMarkerWithWaitList)      \
  F(WaitForEvents)                  \
  F(ReleaseEvent)                   \
  F(Flush)                          \
  F(Finish)                         \
  F(CreateProgramWithSource)        \
  F(CreateProgramWithBinary)        \
  F(BuildProgram)                   \
  F(GetProgramBuildInfo)            \
  F(GetProgramInfo)                 \
  F(ReleaseProgram)                 \
  F(CreateKernel)                   \
  F(ReleaseKernel)                  \
  F(SetKernelArg)

struct Api {
#define FREIGHT_OPENCL_POINTER(name) decltype(&cl##name) name = nullptr;
  FREIGHT_OPENCL_FUNCTIONS(FREIGHT_OPENCL_POINTER)
#undef FREIGHT_OPENCL_POINTER
};

// The functions, or null: then `why` says what is missing and where it was looked for. Loaded once.
const Api* load_api(std::string& why);
// The same; throws Error(device) with the reason.
const Api& api();

// Throws Error(capacity) where the device has too little memory and Error(device) for all else.
void check(cl_int status, const char* what);

}  // namespace freight::opencl
