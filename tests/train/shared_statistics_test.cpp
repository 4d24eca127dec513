// BatchNorm over parts of a batch that run side by side, against the whole batch: results, gradients and running
// statistics. Runs of training: tests/apps/sync_batch_norm_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/comm/tree_sum.h"
#include "freight/nn/norm.h"
#include "freight/ops/ops.h"
#include "freight/run/collectives.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/compile.h"

namespace freight::train {
namespace {

constexpr int64_t kChannels = 3;

// (x, g) (N, C, H, W) -> y, dx of sum(y g), and the gradients of scale and shift.
struct Normed {
  nn::BatchNorm2d* norm;
  bool shared;
  std::tuple<Tensor, Tensor, Tensor, Tensor> operator()(const Tensor& x, const Tensor& g) const {
    const trace::SharedStatistics scope(shared);
    const Tensor y = (*norm)(x), loss = sum(y * g);
    const Tensor dx = grad(loss, std::vector<Tensor>{x})[0];
    const std::vector<Tensor> d = grad(loss, std::vector<Variable>{norm->weight, norm->bias});
    return {y, dx, d[0], d[1]};
  }
};

Array drawn(const Shape& shape, double mean, uint64_t seed) {
  Array a(DType::f32, shape);
  PhiloxStream random(seed, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = static_cast<float>(mean + random.normal());
  return a;
}

nn::BatchNorm2d norm_of() {
  nn::BatchNorm2d norm(kChannels);
  norm.weight.set(Array::of<float>({1.5F, -0.5F, 2}, {kChannels}));
  norm.bias.set(Array::of<float>({0.25F, 1, -3}, {kChannels}));
  return norm;
}

Array rows(const Array& a, int64_t first, int64_t count) {
  Shape shape = a.shape();
  const int64_t row = a.numel() / shape[0];
  shape[0] = count;
  Array out(a.dtype(), shape);
  std::memcpy(out.raw(), a.data<float>() + first * row, out.bytes());
  return out;
}

void expect_near(const Array& part, const Array& whole, int64_t first, double scale) {
  const int64_t row = whole.shape().rank() == 4 ? whole.numel() / whole.shape()[0] : 0;
  for (int64_t i = 0; i < part.numel(); ++i) {
    ASSERT_NEAR(part.data<float>()[i], whole.data<float>()[first * row + i], 2e-5 * scale) << i;
  }
}

// Sums over the parts alone.
struct PartsAlone final : Collectives {
  void ready(void*) override {}
  bool sum_within(std::span<void* const> parts, const Type& type) override {
    ++sums;
    const std::vector<const void*> each(parts.begin(), parts.end());
    Array total(type.dtype, type.shape);
    comm::tree_sum(each.data(), static_cast<int>(each.size()), total.raw(), total.numel(), type.dtype);
    for (void* const to : parts) std::memcpy(to, total.raw(), total.bytes());
    return true;
  }
  int sums = 0;
};

TEST(SharedStatistics, OfUnequalPartsAreThoseOfTheWholeBatch) {
  for (const double mean : {0.0, 100.0}) {  // far away from 0 a variance must not be lost to rounding
    const std::vector<int64_t> parts = {4, 1, 2};
    const Array x = drawn({7, kChannels, 5, 4}, mean, 1), g = drawn({7, kChannels, 5, 4}, 0, 2);
    nn::BatchNorm2d once = norm_of(), apart = norm_of();
    auto whole = compile(Normed{&once, false}, {.deterministic = true});
    const auto [y, dx, dw, db] = whole(x, g);

    auto shared = compile(Normed{&apart, true}, {.deterministic = true});
    std::vector<std::unique_ptr<Executable>> executables;
    std::vector<Executable::Joint> all;
    int64_t first = 0;
    for (const int64_t n : parts) {
      const Array part = rows(x, first, n), towards = rows(g, first, n);
      first += n;
      std::vector<std::shared_ptr<Storage>> states;
      for (const Array& s : shared.leaves(part, towards)) states.push_back(s.storage());
      const auto plan = shared.plan(part, towards);
      executables.push_back(std::make_unique<Executable>(plan, states));
      std::vector<Array> results;
      for (const Value v : plan->graph().outputs) {
        results.emplace_back(plan->graph().type(v).dtype, plan->graph().type(v).shape);
      }
      all.push_back({executables.back().get(), {part, towards}, results});
    }
    PartsAlone collectives;
    Executable::run_together(all, collectives);
    EXPECT_EQ(collectives.sums, 2);  // one forward, one backward
    first = 0;
    std::vector<float> scale(kChannels), shift(kChannels);
    for (size_t i = 0; i < parts.size(); ++i) {
      expect_near(all[i].outputs[0], y.array(), first, 1 + mean);
      expect_near(all[i].outputs[1], dx.array(), first, 1 + mean);
      first += parts[i];
      for (int64_t c = 0; c < kChannels; ++c) {
        scale[static_cast<size_t>(c)] += all[i].outputs[2].data<float>()[c];
        shift[static_cast<size_t>(c)] += all[i].outputs[3].data<float>()[c];
      }
    }
    expect_near(Array::of<float>(scale, {kChannels}), dw.array(), 0, 20 * (1 + mean));
    expect_near(Array::of<float>(shift, {kChannels}), db.array(), 0, 20);
  }
}

TEST(SharedStatistics, LeaveTheBatchsRunningStatistics) {
  const Array x = drawn({6, kChannels, 5, 4}, 2, 1), g = drawn({6, kChannels, 5, 4}, 0, 2);
  nn::BatchNorm2d once = norm_of(), apart = norm_of();
  auto whole = compile(Normed{&once, false}, {.deterministic = true});
  whole(x, g);
  // One part alone: a run without others is that of the whole batch.
  auto shared = compile(Normed{&apart, true}, {.deterministic = true});
  shared(x, g);
  expect_near(apart.running_mean.array(), once.running_mean.array(), 0, 1);
  expect_near(apart.running_var.array(), once.running_var.array(), 0, 1);
}

TEST(SharedStatistics, ExecutablesThatShareAnArenaDoNotRunSideBySide) {
  nn::BatchNorm2d norm = norm_of();
  auto shared = compile(Normed{&norm, true}, {.deterministic = true});
  const Array x = drawn({2, kChannels, 5, 4}, 0, 1);
  Executable& e = shared.executable(x, x);
  std::vector<Array> results;
  for (const Value v : e.plan().graph().outputs) {
    results.emplace_back(e.plan().graph().type(v).dtype, e.plan().graph().type(v).shape);
  }
  const std::vector<Executable::Joint> twice(2, {&e, {x, x}, results});
  PartsAlone collectives;
  EXPECT_THROW(Executable::run_together(twice, collectives), Error);
}

}  // namespace
}  // namespace freight::train
