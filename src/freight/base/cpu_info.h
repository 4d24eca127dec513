// The machine's name, its processor and its memory, read from the system: for `freight devices`, a run's record, and
// the key of measured kernel choices. Allocates no compute resources.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight {

struct CpuInfo {
  std::string model;                      // "AMD EPYC 9654 96-Core Processor"; "unknown" where the system does not say
  int cores = 1;                          // logical processors that this process may use (affinity mask)
  std::vector<std::string> instructions;  // the sets that matter to kernels, narrow to wide: "avx2", "avx512_bf16", ...
  int64_t l1_bytes = 0;                   // data caches, per instance; 0 where unknown
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;
  int64_t memory_bytes = 0;            // installed, or the container's limit or this process's (ulimit -v) if lower
  int64_t memory_available_bytes = 0;  // before swapping starts, within the same limit
};

CpuInfo cpu_info();

// The numbers of the logical processors that this process may use (affinity mask).
std::vector<int> allowed_processors();

// The name of this host, "box17"; "unknown" where the system gives none.
std::string host_name();

}  // namespace freight
