// The extension module freight._core.
#include <omp.h>
#include <pthread.h>

#include "array.h"
#include "freight/base/error.h"
#include "ranks.h"
#include "tables.h"
#include "train.h"

namespace freight::python {
namespace {
void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const ArrayError&) {
    set_python_error();
  } catch (const Error&) {
    set_python_error();
  }
}
}  // namespace
}  // namespace freight::python

NB_MODULE(_core, m) {
  using namespace freight::python;
  // Types and functions live as long as the process; what is left when the interpreter ends is no leak.
  nb::set_leak_warnings(false);
  // The threads of OpenMP's pool are not in a forked child, which would wait for them: it computes with its one thread.
  pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });
  nb::register_exception_translator(translate);
  bind_array(m);
  bind_functions(m);
  bind_linalg(m);
  bind_fft(m);
  bind_exchange(m);
  bind_library(m);
  bind_tables(m);
  bind_modules(m);
  bind_optimizers(m);
  bind_runs(m);
  bind_ranks(m);
}
