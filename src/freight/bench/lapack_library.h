// A library with BLAS and LAPACK that others made, loaded at run time to time its routines beside ours
// (`freight bench linalg --compare`). Its matrices are column-major: one matrix of random numbers is as good as its
// transpose. Nothing is linked, and no result is used.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::bench {

class LapackLibrary {
 public:
  // "openblas", "mkl", or a file. Throws Error(device) naming what was looked for, or what the library lacks.
  explicit LapackLibrary(const std::string& which);
  ~LapackLibrary();
  LapackLibrary(const LapackLibrary&) = delete;
  LapackLibrary& operator=(const LapackLibrary&) = delete;

  const std::string& name() const { return name_; }  // as it was asked for
  const std::string& path() const { return path_; }
  // False where the library has no function for it that we know: then its own variables say.
  bool set_threads(int count) const;

  // Runs `op` (linalg.h) once for each of the matrices and gives the seconds of the routines alone: they work in place,
  // so the operands are restored before, outside of that time. a: (batch, n, n), b: (batch, n, columns), both dense and
  // of `dtype`, which must outlive the call. Throws Error(usage) for an op without a routine; when it is run,
  // Error(runtime) for what the routine reports.
  std::function<double()> call(const std::string& op, DType dtype, int64_t n, int64_t batch, const void* a,
                               const void* b, int64_t columns) const;

 private:
  struct Routines;
  std::unique_ptr<Routines> routines_;
  std::string name_, path_;
};

}  // namespace freight::bench
