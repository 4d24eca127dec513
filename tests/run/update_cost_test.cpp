// What the trainer's check for a loss that is not finite costs the update of the weights: machine instructions, counted
// one by one, and bytes of the plan, with assign_only_if and without. bench/results/ keeps a printed table.
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <limits>

#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/create.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"

namespace freight::test {
namespace {

// Instructions that this thread executes from here to the end of f: a child runs it step by step. It is the same number
// however busy the machine is, since a child has no monitor to be woken (base/cpu_share.cpp). -1 where the system
// forbids that, or f fails.
int64_t steps_of(const std::function<void()>& f) {
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    f();
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  int64_t steps = -1;
  if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    for (steps = 0; ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0; ++steps) {
      if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
      if (WSTOPSIG(status) != SIGTRAP) break;
    }
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) steps = -1;
  }
  if (!WIFEXITED(status) && !WIFSIGNALED(status)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return steps;
}
int64_t instructions_of(const std::function<void()>& f) {
  const int64_t all = steps_of(f), around = steps_of([] {});
  return all < 0 || around < 0 ? -1 : all - around;
}

struct Cost {
  int64_t instructions = 0;
  double bytes = 0;
};

// The update of a matrix with this many rows by a given gradient.
Cost of_matrix(const std::string& optimizer, const optim::Settings& settings, int64_t rows, bool checked) {
  nn::Linear net(128, rows, {.bias = false});
  const auto opt = optim::create(optimizer, net, settings);
  auto step = compile(
      [&](const Tensor& g, const Tensor& loss) {
        opt->apply({g});
        if (checked) assign_only_if(is_finite(loss));
        return loss;
      },
      {.backend = "cpu", .deterministic = true});
  const Tensor g = full({rows, 128}, 0.01), loss = full({}, 1.0);
  step(g, loss).array();
  const auto plan = step.plan(g, loss);
  return {instructions_of([&] { step(g, loss).array(); }), plan->total_cost().bytes};
}

// Forward, gradient and update of a table of which a few rows are used.
constexpr int kRowsUsed = 64, kWidth = 8;
Cost of_rows(bool checked) {
  nn::Embedding net(4096, kWidth);
  const auto opt = optim::create("sgd", net, {.momentum = 0});
  auto step = compile(
      [&](const Tensor& tokens) {
        const Tensor loss = mean(square(net(tokens)));
        opt->step(loss);
        if (checked) assign_only_if(is_finite(loss));
        return loss;
      },
      {.backend = "cpu", .deterministic = true});
  const Tensor tokens = remainder(arange(kRowsUsed) * 97, 4096);
  step(tokens).array();
  const auto plan = step.plan(tokens);
  return {instructions_of([&] { step(tokens).array(); }), plan->total_cost().bytes};
}

// The check itself: a bool is made of the loss, and each kernel of an update reads it. These are instructions of a
// step, however many weights it has; more would be 2 % of the plain update of 75,000 weights.
constexpr double kBytesOfTheCheck = 64;
constexpr int64_t kInstructionsOfTheCheck = 2000;
constexpr int64_t kFew = 32, kMany = 64;  // rows of 128 weights

TEST(UpdateCost, TheCheckForAFiniteLossAddsNothingPerWeight) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "the instructions of a build with sanitizers, or without optimisation, are not the program's";
#endif
  if (steps_of([] {}) < 0) GTEST_SKIP() << "this system lets no process be run step by step (ptrace)";
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  struct Row {
    const char* what;
    std::string optimizer;
    optim::Settings settings;
  };
  const std::vector<Row> rows = {{"sgd", "sgd", {.momentum = 0}},
                                 {"sgd momentum", "sgd", {.momentum = 0.9, .weight_decay = 1e-4}},
                                 {"sgd nesterov", "sgd", {.momentum = 0.9, .nesterov = true}},
                                 {"adam", "adam", {}},
                                 {"adamw", "adamw", {.weight_decay = 0.01}},
                                 {"lion", "lion", {}},
                                 {"rmsprop", "rmsprop", {}},
                                 {"adagrad", "adagrad", {}},
                                 {"nadam", "nadam", {}}};
  for (const Row& r : rows) {
    Cost few[2], many[2];
    for (const bool checked : {false, true}) {
      few[checked] = of_matrix(r.optimizer, r.settings, kFew, checked);
      many[checked] = of_matrix(r.optimizer, r.settings, kMany, checked);
      ASSERT_GT(few[checked].instructions, 0) << r.what;
      ASSERT_GT(many[checked].instructions, few[checked].instructions) << r.what;
    }
    const auto weights = static_cast<double>((kMany - kFew) * 128);
    const auto per_weight = [&](bool checked) {
      return static_cast<double>(many[checked].instructions - few[checked].instructions) / weights;
    };
    const int64_t more = many[1].instructions - many[0].instructions;
    std::printf("%-14s instructions per weight %.4f, checked %.4f; of a step more %+lld; bytes %.0f, checked %.0f\n",
                r.what, per_weight(false), per_weight(true), static_cast<long long>(more), many[0].bytes,
                many[1].bytes);
    EXPECT_LE(per_weight(true), 1.02 * per_weight(false)) << r.what;
    EXPECT_LE(more, kInstructionsOfTheCheck) << r.what;
    EXPECT_LE(many[1].bytes - many[0].bytes, kBytesOfTheCheck) << r.what;
  }
  // Of a table the gradients of the rows that were used are chosen, once; the table itself is not read.
  const Cost plain = of_rows(false), checked = of_rows(true);
  std::printf("%-14s instructions %lld, checked %lld; bytes %.0f, checked %.0f\n", "rows of sgd",
              static_cast<long long>(plain.instructions), static_cast<long long>(checked.instructions), plain.bytes,
              checked.bytes);
  EXPECT_LE(checked.instructions - plain.instructions, kInstructionsOfTheCheck);
  EXPECT_LE(checked.bytes - plain.bytes, 2 * kRowsUsed * kWidth * 4 + kBytesOfTheCheck);
  omp_set_num_threads(threads);
}

TEST(UpdateCost, RowsOfATableStayWhereTheConditionFails) {
  for (const char* backend : {"ref", "cpu"}) {
    nn::Embedding net(64, 3);
    const auto opt = optim::create("sgd", net, {.lr = 1, .momentum = 0});
    auto step = compile(
        [&](const Tensor& tokens, const Tensor& scale) {
          const Tensor loss = sum(net(tokens)) * scale;
          opt->step(loss);
          assign_only_if(is_finite(loss));
          return loss;
        },
        {.backend = backend});
    const std::vector<float> before = net.weight.array().to_vector<float>();
    const Tensor tokens(Array::of<int64_t>({3, 5, 3}, {3}));
    step(tokens, Array::of<float>({std::numeric_limits<float>::quiet_NaN()}, {})).array();
    EXPECT_EQ(net.weight.array().to_vector<float>(), before) << backend;
    step(tokens, Array::of<float>({1}, {})).array();
    const std::vector<float> after = net.weight.array().to_vector<float>();
    EXPECT_EQ(after[0], before[0]) << backend;
    EXPECT_FLOAT_EQ(after[9], before[9] - 2) << backend;
    EXPECT_FLOAT_EQ(after[15], before[15] - 1) << backend;
  }
}

}  // namespace
}  // namespace freight::test
