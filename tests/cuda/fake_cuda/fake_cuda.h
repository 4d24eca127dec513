// What a test asks of the fake CUDA driver, and what it finds out. The driver computes: kernels are compiled by the
// host's compiler and executed lane by lane, with every read and write of device memory seen. Work is done as late as
// the interface allows, so that a buffer that the host reuses too early gives wrong numbers. Breaches of the driver's
// rules, reads of bytes that nothing wrote, and accesses that no stream order or event separates are `faults`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

struct FakeCuda {
  // Set by tests, or by the environment at loading: FAKE_CUDA_FREE, FAKE_CUDA_LOSE_AFTER. FAKE_CUDA_DEVICES: how many
  // there are, of which a process uses one. FAKE_CUDA_IDLE: nothing is executed, so that the time of the caller's own
  // code can be measured.
  int64_t total_bytes = int64_t{1} << 30;
  int64_t free_bytes = int64_t{1} << 30;  // what other programs leave
  int64_t lose_after = -1;                // kernels; then every call fails

  std::vector<std::string> faults;
  int64_t kernels = 0;                                     // executed
  int64_t launches = 0;                                    // by cuLaunchKernel, not captured
  int64_t library_products = 0, library_convolutions = 0;  // executed by the fake cuBLASLt and cuDNN
  int64_t library_gradients = 0;                           // of the products, those with a gradient as epilogue
  int64_t library_attentions = 0;                          // other graphs of the fake cuDNN
  int64_t library_layers = 0;                              // recurrent ones and their gradients, by the fake cuDNN
  int64_t library_factorizations = 0;                      // calls of the fake cuSOLVER, eigenvalues among them
  int64_t library_solutions = 0;                           // calls of the fake cuBLAS
  int64_t uploaded_bytes = 0;
  // Copies to pinned memory, and those to it or from it that graphs made; of each, how many a kernel of another stream
  // or branch could have run beside.
  int64_t copies_to_host = 0, copies_to_host_hidden = 0, graph_copies = 0, graph_copies_hidden = 0;
  int64_t graph_launches = 0, captures = 0, allocations = 0, module_loads = 0, host_waits = 0;
  int64_t live_blocks = 0, live_pinned = 0, live_graphs = 0, live_modules = 0, live_streams = 0, live_events = 0,
          live_contexts = 0, live_descriptions = 0;  // of libraries, their handles among them
  bool libraries_ended = false;                      // with the process
  int64_t collectives = 0, live_communicators = 0;   // of the fake NCCL: executed, and not destroyed or aborted
  // The number of these that graphs made, and of those that a kernel of another stream or branch could have run beside.
  int64_t graph_collectives = 0, collectives_hidden = 0;
};

extern "C" FakeCuda* fake_cuda();
// Executes all that is enqueued, as any wait does.
extern "C" void fake_cuda_flush();
