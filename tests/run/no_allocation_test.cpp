// A replayed step allocates nothing: operator new is counted for this program while a step runs. What oneDNN allocates
// inside its own execute call (small argument tables) is out of our hands and left out.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace {
std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_allocations{0};
#ifdef __SANITIZE_ADDRESS__  // has operators of its own
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;
#endif
}  // namespace

#ifndef __SANITIZE_ADDRESS__
namespace {
bool inside_onednn(void* caller) {
  Dl_info where;
  return dladdr(caller, &where) && where.dli_fname && std::strstr(where.dli_fname, "libdnnl");
}

// The thread that watches what other programs take of the processors allocates as it likes, at any time.
bool in_watching_thread() {
  char name[16] = {};
  return ::pthread_getname_np(::pthread_self(), name, sizeof name) == 0 && std::strcmp(name, "cpu_share") == 0;
}

void* counted(size_t bytes, size_t alignment, void* caller) {
  if (g_counting && !inside_onednn(caller) && !in_watching_thread()) ++g_allocations;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded ? rounded : alignment);
  if (!p) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(size_t bytes) { return counted(bytes, alignof(std::max_align_t), __builtin_return_address(0)); }
void* operator new[](size_t bytes) { return counted(bytes, alignof(std::max_align_t), __builtin_return_address(0)); }
void* operator new(size_t bytes, std::align_val_t a) {
  return counted(bytes, static_cast<size_t>(a), __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t a) {
  return counted(bytes, static_cast<size_t>(a), __builtin_return_address(0));
}
// Not inlined: GCC would pair the free() below with a new that it did not inline, and warn.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
#endif

namespace freight::test {
namespace {

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, AllocatesNothing) {
  if (!kCounts) GTEST_SKIP() << "the address sanitizer replaces operator new";
  for (uint64_t seed = 1; seed < 12; ++seed) {
    const RandomProgram p = smooth_program_f32(7000 + seed);
    RunOptions options;
    options.backend = GetParam();
    options.deterministic = true;
    options.frozen = seed % 2 == 0;
    std::vector<std::shared_ptr<Storage>> states;
    for (const Array& s : p.states) states.push_back(s.storage());
    Executable step(plan_for(p.graph, options), states);
    std::vector<Array> outputs;
    for (Value v : p.graph.outputs) outputs.emplace_back(p.graph.type(v).dtype, p.graph.type(v).shape);
    for (int i = 0; i < 2; ++i) step.run(p.inputs, outputs);  // the first call may set up threads
    g_allocations = 0;
    g_counting = true;
    for (int i = 0; i < 3; ++i) step.run(p.inputs, outputs);
    g_counting = false;
    EXPECT_EQ(g_allocations.load(), 0) << "in three replays of seed " << 7000 + seed << "\n" << print(p.graph);
  }
}

// An operand that is positive definite: all factorizations take it.
Array heavy_diagonal(DType dtype, const Shape& shape) {
  const Array a(DType::f64, shape);
  const int64_t n = shape[2];
  for (int64_t i = 0; i < a.numel(); ++i) {
    a.data<double>()[i] = i % n == i / n % n ? static_cast<double>(n) : static_cast<double>(i * 7 % 5 - 2) / 4;
  }
  return a.cast(dtype);
}

TEST(LinalgReplay, AllocatesNothing) {
  if (!kCounts) GTEST_SKIP() << "the address sanitizer replaces operator new";
  for (const char* dtype : {"f64", "f32"}) {
    for (const auto& [batch, n] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 6}, {50, 6}, {1, 70}, {2, 300}}) {
      const std::string type = cat(dtype, "[", batch, ",", n, ",", n, "]"), row = cat("i32[", batch, ",", n, "]");
      for (const std::string& op :
           {cat("%1, %2, %3 = lu_factor(%0) {refuse_singular=true} : ", type, ", ", row, ", ", row),
            cat("%1 = cholesky(%0) {upper=false} : ", type),
            cat("%1, %2 = qr(%0) {complete=false} : ", type, ", ", type),
            cat("%1 = solve_triangular(%0, %0) {upper=true, transposed=false, unit_diagonal=false, right=false, "
                "refuse_singular=true} : ",
                type)}) {
        const Graph graph = parse(cat("graph {\n %0 = input \"x\" : ", type, "\n ", op, "\n return %1 }"));
        Executable step(plan_for(graph, {.backend = "cpu"}), {});
        const Array x = heavy_diagonal(graph.type(graph.outputs[0]).dtype, {batch, n, n});
        const std::vector<Array> inputs = {x}, outputs = {Array(x.dtype(), x.shape())};
        for (int i = 0; i < 2; ++i) step.run(inputs, outputs);
        g_allocations = 0;
        g_counting = true;
        for (int i = 0; i < 3; ++i) step.run(inputs, outputs);
        g_counting = false;
        EXPECT_EQ(g_allocations.load(), 0) << "in three replays of " << op;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Replay, testing::ValuesIn(computing_backends()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::test
