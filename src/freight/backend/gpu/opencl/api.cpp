// See api.h.
#include "freight/backend/gpu/opencl/api.h"

#include <dlfcn.h>

#include <iterator>

#include "freight/base/error.h"

namespace freight::opencl {

namespace {

constexpr const char* kLibraries[] = {"libOpenCL.so.1", "libOpenCL.so"};

struct Loaded {
  Api api;
  std::string why;  // empty: all is there
};

Loaded load() {
  Loaded l;
  void* library = nullptr;
  for (const char* name : kLibraries) {
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) {
    l.why = cat("no OpenCL library: looked for ", kLibraries[0], " and ", kLibraries[1],
                " in the loader's path; install a driver for the device and ocl-icd-libopencl1");
    return l;
  }
  const auto find = [&](const char* name) {
    void* f = dlsym(library, name);
    if (!f && l.why.empty()) l.why = cat("the OpenCL library has no ", name, ": it is older than OpenCL 1.2");
    return f;
  };
#define FREIGHT_OPENCL_LOAD(name) l.api.name = reinterpret_cast<decltype(l.api.name)>(find("cl" #name));
  FREIGHT_OPENCL_FUNCTIONS(FREIGHT_OPENCL_LOAD)
#undef FREIGHT_OPENCL_LOAD
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
  static const Loaded kLoaded = load();
  why = kLoaded.why;
  return kLoaded.why.empty() ? &kLoaded.api : nullptr;
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
