// The CUDA driver's face: the devices of this machine and a backend for each, "cuda:0", "cuda:1", ... The driver's
// library and the compiler of kernels are loaded when one is asked for; a machine without them loses nothing else.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "freight/backend/backend.h"

namespace freight {

struct CudaDevice {
  std::string model, architecture, pci, uuid, driver;  // architecture: "sm_90"
  int64_t multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t memory_free_bytes = -1;  // -1: the driver's management library, which is asked, is not there
  std::string why_not;             // where it cannot be used
};

struct CudaDevices {
  std::vector<CudaDevice> devices;
  std::string why_none;        // where there are none
  std::string compiler;        // "NVRTC 13.0, /usr/local/cuda/lib64/libnvrtc.so.13", or why there is none
  std::string convolutions;    // "cuDNN 9.19, /usr/local/cuda/lib64/libcudnn.so.9", or why there is none
  std::string products;        // "cuBLASLt 13.1, /usr/local/cuda/lib64/libcublasLt.so.13", or why there is none
  std::string factorizations;  // "cuSOLVER 12.0, /usr/local/cuda/lib64/libcusolver.so.12", or why there is none
  std::string collectives;     // "NCCL 2.28.9, /usr/local/cuda/lib64/libnccl.so.2", or why there is none
};
// Allocates nothing on the devices and opens none.
CudaDevices cuda_devices();

// The backend for one of them. Throws Error(device) where there is no such device, or why it cannot be used.
std::unique_ptr<Backend> make_cuda_backend(int index);

}  // namespace freight
