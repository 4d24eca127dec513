// See api.h.
#include "freight/backend/gpu/opencl/api.h"

#include "freight/base/error.h"
#include "freight/base/library.h"

namespace freight::opencl {

namespace {

freight::Loaded<Api> load() {
  freight::Loaded<Api> l;
  l.library = load_library({"libOpenCL.so.1", "libOpenCL.so"}, "a driver for the device and ocl-icd-libopencl1", "cl",
                           {FREIGHT_OPENCL_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions, "older than OpenCL 1.2",
                           LibraryKind::system);
  return l;
}

const char* status_name(cl_int status) {
  switch (status) {
    case CL_DEVICE_NOT_AVAILABLE: return "the device is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "the device's memory is exhausted";
    case CL_OUT_OF_RESOURCES: return "the device's resources are exhausted";
    case CL_OUT_OF_HOST_MEMORY: return "the host's memory is exhausted";
    case CL_BUILD_PROGRAM_FAILURE: return "a kernel does not compile";
    case CL_INVALID_BUFFER_SIZE: return "the block is larger than the device allows";
    default: return "the driver refuses";
  }
}

}  // namespace

const Api* load_api(std::string& why) {
  static const auto kLoaded = load();
  why = kLoaded.library.why;
  return why.empty() ? &kLoaded.functions : nullptr;
}

const Api& api() {
  std::string why;
  if (const Api* a = load_api(why)) return *a;
  fail(ErrorKind::device, "opencl", why);
}

void check(cl_int status, const char* what) {
  if (status == CL_SUCCESS) return;
  const bool memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
                      status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
  fail(memory ? ErrorKind::capacity : ErrorKind::device, "opencl", what, ": ", status_name(status), " (", status, ")");
}

}  // namespace freight::opencl
