// See solver.h. https://docs.nvidia.com/cuda/cusolver says what is meant.
#include "freight/backend/gpu/cuda/solver.h"

#include "freight/base/error.h"

namespace freight::cuda {

namespace {

using namespace cusolver;

// The library of CUDA 13 has the number 12, that of CUDA 12 the number 11.
std::vector<std::string> solver_names() {
  std::vector<std::string> names;
  for (const std::string& name : names_of("libcusolver")) {
    const bool newest = name.ends_with(".13");
    names.push_back(cat("libcusolver.so.", newest ? 12 : 11));
  }
  return names;
}

struct LoadedSolver {
  SolverFunctions functions;
  NewerSolverFunctions newer;
  Library library, newer_library;
};

const LoadedSolver& loaded_solver() {
  static const LoadedSolver kLoaded = [] {
    LoadedSolver l;
    l.library = load_library(solver_names(), "the CUDA toolkit or the Python package nvidia-cusolver", "cusolver",
                             {FREIGHT_CUSOLVER_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions,
                             "too old to give bitwise identical results in every run; install a newer one");
    l.newer_library = l.library;
    look_up(l.newer_library, "cusolver", {FREIGHT_CUSOLVER_NEWER_FUNCTIONS(FREIGHT_SYMBOL)}, &l.newer,
            "too old; install the Python package nvidia-cusolver, of version 12, or a newer CUDA toolkit");
    int version = 0;
    if (l.library.why.empty() && l.functions.GetVersion(&version) == 0) {
      l.library.version = static_cast<size_t>(version);
    }
    return l;
  }();
  return kLoaded;
}

}  // namespace

const SolverFunctions& solver_functions() { return loaded_solver().functions; }
const NewerSolverFunctions* newer_solver_functions() {
  return loaded_solver().newer_library.why.empty() ? &loaded_solver().newer : nullptr;
}
const Library& find_solver() { return loaded_solver().library; }

void check_solver(int status, const char* function) {
  if (status == 0) return;
  fail(ErrorKind::device, "cuSOLVER", function, " ended with status ", status, " (cusolverStatus_t)");
}

std::string Solver::why_unsupported(Op op) {
  const LoadedSolver& l = loaded_solver();
  return op == Op::eig ? l.newer_library.why : l.library.why;
}

std::shared_ptr<Solver> Solver::open(std::shared_ptr<Memory> memory, std::string& why) {
  const LoadedSolver& l = loaded_solver();
  why = l.library.why;
  if (!why.empty()) return nullptr;
  const auto entered = memory->enter();
  std::shared_ptr<Solver> solver(new Solver(memory));
  const SolverFunctions& f = l.functions;
  int status = f.DnCreate(&solver->handle_);
  if (status == 0) status = f.DnCreateParams(&solver->params_);
  if (status == 0) status = f.DnSetStream(solver->handle_, memory->stream());
  // The library would rather give bits that differ from run to run where it is told that it may.
  if (status == 0) status = f.DnSetDeterministicMode(solver->handle_, kDeterministic);
  if (status != 0) {
    why = cat(l.library.path, " does not start: status ", status, " (cusolverStatus_t)");
    return nullptr;
  }
  return solver;
}

Solver::~Solver() {
  if (leaving()) return;
  const auto entered = memory_->enter();
  const SolverFunctions& f = solver_functions();
  if (params_) f.DnDestroyParams(params_);
  if (handle_) f.DnDestroy(handle_);
}

}  // namespace freight::cuda
