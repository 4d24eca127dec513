// See threads.h.
#include "freight/base/threads.h"

#include <omp.h>

namespace freight {

int thread_count() { return omp_get_max_threads(); }

void parallel_chunks(int64_t chunks, void (*body)(void*, int64_t), void* context) {
  if (chunks <= 1 || omp_in_parallel() || omp_get_max_threads() == 1) {
    for (int64_t i = 0; i < chunks; ++i) body(context, i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < chunks; ++i) body(context, i);
}

}  // namespace freight
