// See timing.h.
#include "freight/bench/timing.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "freight/backend/backend.h"
#include "freight/base/clock.h"
#include "freight/base/device_memory.h"
#include "freight/base/median.h"
#include "freight/base/philox.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/run/plan.h"

namespace freight::bench {

namespace {

using Clock = std::chrono::steady_clock;

// The clock is read at most once in this time.
constexpr double kTick = 0.02;

// An executable with its arrays and memory.
struct Runner {
  Executable& run;
  const std::vector<Array>&in, &out;
  std::shared_ptr<DeviceMemory> memory;

  Runner(Executable& e, const std::vector<Array>& inputs, const std::vector<Array>& outputs)
      : run(e), in(inputs), out(outputs), memory(backend(e.plan().options().backend).memory()) {}

  void steps(int64_t count, Batches batches) const {
    for (int64_t i = 0; i < count; ++i) {
      // Asking for the host address declares that the host writes there, so the device copies the bytes again.
      if (batches == Batches::moved) {
        for (const Array& a : in) a.raw();
      }
      run.run(in, out);
      if (batches == Batches::moved) {
        for (const Array& a : out) a.raw();
      }
    }
    if (memory) memory->wait();
  }

  Timed time(double seconds, Batches batches, int64_t least_runs) const {
    steps(1, batches);
    auto start = Clock::now();
    steps(1, batches);
    const double once = std::max(seconds_since(start), 1e-7);
    const auto per = std::max<int64_t>(1, static_cast<int64_t>(kTick / once));
    if (once < seconds / 4) steps(per, batches);  // caches, clocks and pages are warm now
    Timed t;
    t.least = std::numeric_limits<double>::infinity();
    std::vector<double> times;
    double spent = 0;
    if (per == 1) {  // long enough to count
      times.push_back(once);
      t.least = spent = once;
      t.runs = 1;
    }
    for (start = Clock::now(); t.runs < least_runs || spent + seconds_since(start) < seconds;) {
      const auto begin = Clock::now();
      steps(per, batches);
      times.push_back(seconds_since(begin) / static_cast<double>(per));
      t.least = std::min(t.least, times.back());
      t.runs += per;
    }
    t.median = median(std::move(times));
    return t;
  }
};

// The time of f on arrays; its result has the shape of the first.
template <class F, class... A>
Timed time_function(F f, const CompileOptions& options, double seconds, Cost* cost, const Array& first,
                    const A&... others) {
  Compiled<F> compiled(f, options);
  Executable& run = compiled.executable(first, others...);
  *cost = run.plan().total_cost();
  const std::vector<Array> in = {first, others...}, out = {Array(first.dtype(), first.shape())};
  return Runner(run, in, out).time(seconds, Batches::resident, 2);
}

// Normally distributed values, repeated: chips use less power, and run faster, on zeros.
Array noise(const Shape& shape) {
  constexpr int64_t kPeriod = 65521;
  const Array a(DType::f32, shape);
  auto* const to = a.data<float>();
  PhiloxStream random(1, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) to[i] = i < kPeriod ? random.normal() : to[i - kPeriod];
  return a;
}

}  // namespace

Timed time_steps(const Workload& w, double seconds, Batches batches, int64_t least_runs) {
  return Runner(w.executable(), w.inputs(), w.results()).time(seconds, batches, least_runs);
}

double slow_step(const Workload& w, double seconds) {
  constexpr size_t kFewest = 20;
  const Runner runner(w.executable(), w.inputs(), w.results());
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < kFewest || seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    runner.steps(1, Batches::resident);
    times.push_back(seconds_since(begin));
  }
  const auto slow = times.begin() + static_cast<ptrdiff_t>(times.size() * 99 / 100);
  std::nth_element(times.begin(), slow, times.end());
  return *slow;
}

std::vector<double> time_plan_steps(const Workload& w, double seconds, int64_t least_runs) {
  const size_t count = w.plan().steps().size();
  std::vector<std::vector<double>> times(count);
  const auto start = Clock::now();
  w.executable().run_timed(w.inputs(), w.results());
  for (int64_t i = 0; i < least_runs || seconds_since(start) < seconds; ++i) {
    const std::vector<double> t = w.executable().run_timed(w.inputs(), w.results());
    for (size_t s = 0; s < count; ++s) times[s].push_back(t[s]);
  }
  std::vector<double> medians;
  for (std::vector<double>& t : times) medians.push_back(median(std::move(t)));
  return medians;
}

Roofs measure_roofs(const std::string& device, DType compute, double seconds) {
  Roofs roofs;
  Cost cost;
  // (n, n) x (n, n): from a size that a slow device can compute to one that a fast device needs.
  for (const int64_t n : {512, 1024, 2048, 4096, 8192}) {
    const Array a = noise({n, n}), b = noise({n, n});
    const auto product = [](const Tensor& x, const Tensor& y) { return matmul(x, y); };
    const Timed t = time_function(product, {.backend = device, .compute = compute}, seconds / 3, &cost, a, b);
    roofs.flops = std::max(roofs.flops, cost.flops / t.least);
    if (t.median > seconds / (n < 2048 ? 3 : 24)) break;  // the next size takes eight times as long
  }
  {
    constexpr int64_t kElements = int64_t{1} << 24;  // 64 MiB read, 64 MiB written
    const Array x = noise({kElements});
    const auto pass = [](const Tensor& v) { return v * 2.0; };
    const Timed t = time_function(pass, {.backend = device}, seconds, &cost, x);
    roofs.bytes = cost.bytes / t.least;
  }
  {
    // Matmuls of 8 x 8, which no pass joins into one step.
    constexpr int kSteps = 64;
    const Array x(DType::f32, {8, 8}), w(DType::f32, {8, 8});
    const auto chain = [](const Tensor& v, const Tensor& m) {
      Tensor y = v;
      for (int i = 0; i < kSteps; ++i) y = matmul(y, m);
      return y;
    };
    const Timed t = time_function(chain, {.backend = device}, seconds, &cost, x, w);
    roofs.launch = t.least / kSteps;
  }
  return roofs;
}

}  // namespace freight::bench
