// The CUDA driver's functions that Freight calls, from the libcuda found at run time. The few types and numbers that
// they need are declared here (they are the driver's stable binary interface, cuda.h of CUDA 12 and 13): neither a
// header nor a library of NVIDIA is needed to build, and the same binary runs where there is no driver.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace freight::cuda {

using Status = int;                  // CUresult
using Device = int;                  // CUdevice
using Address = unsigned long long;  // CUdeviceptr
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
struct Uuid {
  unsigned char bytes[16];
};

constexpr Status kSuccess = 0, kOutOfMemory = 2, kDeinitialized = 4, kStubLibrary = 34, kDeviceUnavailable = 46,
                 kNoDevice = 100, kEccUncorrectable = 214, kNotReady = 600, kIllegalAddress = 700, kLaunchTimeout = 702,
                 kHardwareStackError = 714, kLaunchFailed = 719, kSystemDriverMismatch = 803;
constexpr unsigned kNonBlockingStream = 1, kEventWithoutTiming = 2;
constexpr int kCaptureOfThread = 1;                          // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr int kComputeMajor = 75, kComputeMinor = 76;        // CUdevice_attribute
constexpr int kMultiprocessors = 16, kOldestDriver = 12000;  // CUDA 12.0: driver 525

// Name here, symbol of the library, parameters.
#define FREIGHT_CUDA_FUNCTIONS(F)                                                                                   \
  F(init, cuInit, unsigned)                                                                                         \
  F(driver_version, cuDriverGetVersion, int*)                                                                       \
  F(error_name, cuGetErrorName, Status, const char**)                                                               \
  F(error_text, cuGetErrorString, Status, const char**)                                                             \
  F(device_count, cuDeviceGetCount, int*)                                                                           \
  F(device_get, cuDeviceGet, Device*, int)                                                                          \
  F(device_name, cuDeviceGetName, char*, int, Device)                                                               \
  F(device_attribute, cuDeviceGetAttribute, int*, int, Device)                                                      \
  F(device_memory, cuDeviceTotalMem_v2, size_t*, Device)                                                            \
  F(device_uuid, cuDeviceGetUuid_v2, Uuid*, Device)                                                                 \
  F(device_pci, cuDeviceGetPCIBusId, char*, int, Device)                                                            \
  F(context_retain, cuDevicePrimaryCtxRetain, Context*, Device)                                                     \
  F(context_release, cuDevicePrimaryCtxRelease_v2, Device)                                                          \
  F(context_set, cuCtxSetCurrent, Context)                                                                          \
  F(memory_info, cuMemGetInfo_v2, size_t*, size_t*)                                                                 \
  F(allocate, cuMemAlloc_v2, Address*, size_t)                                                                      \
  F(release, cuMemFree_v2, Address)                                                                                 \
  F(allocate_host, cuMemHostAlloc, void**, size_t, unsigned)                                                        \
  F(release_host, cuMemFreeHost, void*)                                                                             \
  F(copy, cuMemcpyAsync, Address, Address, size_t, Stream)                                                          \
  F(fill, cuMemsetD8Async, Address, unsigned char, size_t, Stream)                                                  \
  F(stream_create, cuStreamCreate, Stream*, unsigned)                                                               \
  F(stream_destroy, cuStreamDestroy_v2, Stream)                                                                     \
  F(stream_wait, cuStreamSynchronize, Stream)                                                                       \
  F(stream_wait_event, cuStreamWaitEvent, Stream, Event, unsigned)                                                  \
  F(event_create, cuEventCreate, Event*, unsigned)                                                                  \
  F(event_destroy, cuEventDestroy_v2, Event)                                                                        \
  F(event_record, cuEventRecord, Event, Stream)                                                                     \
  F(event_wait, cuEventSynchronize, Event)                                                                          \
  F(event_query, cuEventQuery, Event)                                                                               \
  F(module_load, cuModuleLoadData, Module*, const void*)                                                            \
  F(module_unload, cuModuleUnload, Module)                                                                          \
  F(module_function, cuModuleGetFunction, Function*, Module, const char*)                                           \
  F(launch, cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
    void**, void**)                                                                                                 \
  F(capture_begin, cuStreamBeginCapture_v2, Stream, int)                                                            \
  F(capture_end, cuStreamEndCapture, Stream, Graph*)                                                                \
  F(graph_instantiate, cuGraphInstantiateWithFlags, GraphExec*, Graph, unsigned long long)                          \
  F(graph_upload, cuGraphUpload, GraphExec, Stream)                                                                 \
  F(graph_launch, cuGraphLaunch, GraphExec, Stream)                                                                 \
  F(graph_destroy, cuGraphDestroy, Graph)                                                                           \
  F(graph_exec_destroy, cuGraphExecDestroy, GraphExec)

struct Driver {  // the pointers come first
#define FREIGHT_CUDA_POINTER(name, symbol, ...) Status (*name)(__VA_ARGS__) = nullptr;
  FREIGHT_CUDA_FUNCTIONS(FREIGHT_CUDA_POINTER)
#undef FREIGHT_CUDA_POINTER
  int version = 0;  // of CUDA: 13000
};

// The driver, initialized, or null: then `why` says what is missing and where it was looked for. Loaded once.
const Driver* load_driver(std::string& why);
// The same; throws Error(device) with the reason.
const Driver& driver();

// Names of a library that comes with CUDA, the best first: its code may be no newer than the driver; without one, any.
std::vector<std::string> names_of(const std::string& library);

// "CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered (700)".
std::string describe(const Driver& driver, Status status);
// Throws Error(capacity) where the device has too little memory and Error(device) for all else. `what` was tried.
void check(const Driver& driver, Status status, const char* what);

// "13.0" of 13000.
std::string version_text(int version);

}  // namespace freight::cuda
