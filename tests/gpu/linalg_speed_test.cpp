// How long factorizations take on a CUDA device: by the library and by the generated kernels in a plan, and by the
// library bare, as a user of its own would call it. For tools/gpu_check, which reads the times from the report; nothing
// here asks that one be shorter than another.
#include <chrono>
#include <limits>

#include "freight/backend/choices.h"
#include "freight/backend/gpu/cuda/solver.h"
#include "freight/ir/builder.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

#include "tests/gpu/device.h"
#include "tests/support/arrays.h"

namespace freight::test {
namespace {

constexpr int kTimes = 3;

#define NEEDS_CUDA_DEVICE()                                                                    \
  NEEDS_TEST_DEVICE();                                                                         \
  if (test_device().find("cuda:") != 0) GTEST_SKIP() << test_device() << " is no CUDA device"; \
  if (!cuda::find_solver().why.empty()) GTEST_SKIP() << cuda::find_solver().why

// FREIGHT_TEST_STEPS is small for a short look at whether all of this runs.
bool is_short() {
  const char* steps = std::getenv("FREIGHT_TEST_STEPS");
  return steps && std::string(steps) == "5";
}

// The least seconds of a step of the op in three runs of x -> op(x + x); the sum waits for what the host sends.
double seconds_in_plan(Op op, const Attrs& attrs, const Array& x, size_t candidate) {
  const ForcedChoice forced(candidate);
  Graph g;
  Builder b(g);
  const Value in = b.one(Op::input, LeafAttrs{"x", {x.dtype(), x.shape()}}, {});
  Value sent = b.binary(Op::add, in, in);
  if (candidate > 0) sent = b.binary(Op::add, sent, in);  // a plan of its own: equal graphs share kernels
  const std::vector<Value> out = b.add(op, attrs, {sent});
  g.outputs = {b.sum(out[0], {0})};  // few bytes come back
  const auto plan = plan_for(g, {.backend = test_device()});
  Executable executable(plan, {});
  std::vector<Array> outputs = {Array(g.type(g.outputs[0]).dtype, g.type(g.outputs[0]).shape)};
  executable.run({x}, outputs);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const std::vector<double> seconds = executable.run_timed({x}, outputs);
    for (size_t s = 0; s < seconds.size(); ++s) {
      if (plan->graph().node(plan->steps()[s].node).op == op) least = std::min(least, seconds[s]);
    }
  }
  return least;
}

// The least seconds of a call of Xgetrf on a matrix of f64 that lies on the device.
double seconds_bare(int64_t n, const Array& x) {
  const auto memory = std::dynamic_pointer_cast<cuda::Memory>(backend(test_device()).memory());
  std::string why;
  const auto solver = cuda::Solver::open(memory, why);
  if (!solver) throw Error(ErrorKind::device, "cuSOLVER", why);
  const cuda::SolverFunctions& f = cuda::solver_functions();
  constexpr int kF64 = cuda::cusolver::kF64;
  size_t device_bytes = 0, host_bytes = 0;
  {
    const auto entered = memory->enter();
    cuda::check_solver(f.DnXgetrf_bufferSize(solver->handle(), solver->params(), n, n, kF64, nullptr, n, kF64,
                                             &device_bytes, &host_bytes),
                       "Xgetrf_bufferSize");
  }
  const auto bytes = static_cast<size_t>(n * n) * sizeof(double);
  std::vector<char> host(host_bytes);
  void *given = memory->allocate(bytes), *a = memory->allocate(bytes), *work = memory->allocate(device_bytes),
       *pivots = memory->allocate(static_cast<size_t>(n) * sizeof(int64_t)), *info = memory->allocate(sizeof(int));
  memory->upload(given, x.data<double>(), bytes);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kTimes; ++i) {
    memory->copy(a, given, bytes, Queue::kernels);
    memory->wait();
    const auto start = std::chrono::steady_clock::now();
    {
      const auto entered = memory->enter();
      cuda::check_solver(
          f.DnXgetrf(solver->handle(), solver->params(), n, n, kF64, a, n, static_cast<int64_t*>(pivots), kF64, work,
                     device_bytes, host_bytes > 0 ? host.data() : nullptr, host_bytes, static_cast<int*>(info)),
          "Xgetrf");
    }
    memory->wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) least = std::min(least, seconds);  // the first one loads the library's kernels
  }
  for (void* p : {given, a, work, pivots, info}) memory->release(p);
  return least;
}

void record(const std::string& what, double seconds) {
  ::testing::Test::RecordProperty("seconds_of_" + what, cat(seconds));
}

TEST(GpuLinearAlgebraSpeed, LuOfOneMatrixBesideTheLibraryBare) {
  NEEDS_CUDA_DEVICE();
  const int64_t n = is_short() ? 96 : 16384;
  const Array x = random_array({{DType::f64, {n, n}}}, 1);
  const double bare = seconds_bare(n, x), ours = seconds_in_plan(Op::lu_factor, LuAttrs{}, x, 0);
  EXPECT_GT(bare, 0);
  EXPECT_GT(ours, 0);
  record(cat("lu_f64_", n, "_bare"), bare);
  record(cat("lu_f64_", n), ours);
}

// Where the library and the generated kernels meet: `library_first` of cuda.cpp.
TEST(GpuLinearAlgebraSpeed, OfMatricesByTheLibraryAndByGeneratedKernels) {
  NEEDS_CUDA_DEVICE();
  struct Case {
    int64_t count, n;
  };
  const std::vector<Case> all =
      is_short() ? std::vector<Case>{{3, 16}} : std::vector<Case>{{4096, 64}, {256, 128}, {64, 256}, {16, 512},
                                                                  {1, 64},    {1, 256},   {1, 1024}, {1, 4096}};
  for (const Case& c : all) {
    for (const auto& [op, attrs] : {std::pair<Op, Attrs>{Op::lu_factor, LuAttrs{}}, {Op::qr, QrAttrs{}}}) {
      const Array x = random_array({{DType::f64, {c.count, c.n, c.n}}}, 1);
      for (const size_t candidate : {0, 1}) {
        const double seconds = seconds_in_plan(op, attrs, x, candidate);
        EXPECT_LT(seconds, std::numeric_limits<double>::infinity());
        record(cat(name(op), "_f64_", c.count, "x", c.n, candidate == 0 ? "_library" : "_generated"), seconds);
      }
    }
  }
}

}  // namespace
}  // namespace freight::test
