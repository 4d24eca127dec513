// Sums over ranks within the step that computes the summands, on fake devices of several processes: what they give,
// that they are part of the graph and beside its kernels, and that all ranks do the same where one of them cannot.
#include "freight/job/plan_sum.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/backend/gpu/cuda/nccl.h"
#include "freight/ir/attrs.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"

#include "tests/comm/ranks.h"
#include "tests/cuda/fake.h"

namespace freight::test {
namespace {

using comm::Comm;
using Floats = std::vector<float>;
using Rows = std::vector<int64_t>;  // of the batch, by rank

constexpr int64_t kWidth = 8;
constexpr size_t kLayers = 3;

enum class Normed : uint8_t { no, over_all };

// x (N, kWidth) through layers; their gradients, and what is summed over ranks on the way, go to variables.
struct Layers {
  std::vector<Variable> weights, gradients;
  Variable mean;
  Normed normed = Normed::no;

  explicit Layers(Normed how) : mean("mean", Type{DType::f32, {kWidth}}), normed(how) {
    for (size_t i = 0; i < kLayers; ++i) {
      const Type t{DType::f32, {kWidth, kWidth}};
      weights.emplace_back(cat("w", i), t);
      gradients.emplace_back(cat("gradient.w", i), t);
      Array w(t.dtype, t.shape);
      for (int64_t k = 0; k < w.numel(); ++k) {
        w.data<float>()[k] = static_cast<float>((k * 5 + static_cast<int64_t>(i)) % 7 - 3) / 8;
      }
      weights.back().set(w);
    }
  }
  static Tensor summed(const Tensor& t) { return trace::one(Op::all_reduce, PieceAttrs{}, {t}); }
  Tensor operator()(const Tensor& x) const {
    Tensor h = x;
    for (const Variable& w : weights) {
      h = tanh(matmul(h, w.value()));
      if (normed == Normed::over_all) h = h - reshape(summed(sum(h, {0})), {1, kWidth}) * 0.125;
    }
    const Tensor loss = sum(h * h);
    const std::vector<Tensor> found = grad(loss, weights);
    for (size_t i = 0; i < found.size(); ++i) gradients[i].assign(summed(found[i]));
    return loss;
  }
};

Array batch(int rank, int step, int64_t rows) {
  Array x(DType::f32, {rows, kWidth});
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<float>()[i] = static_cast<float>((i * 3 + rank * 11 + step * 5) % 17 - 8) / 16;
  }
  return x;
}

// A rank with its device and a net.
class Rank {
 public:
  explicit Rank(Comm& comm, Normed normed = Normed::no)
      : comm_(comm), layers_(normed), device_(cat("cuda:", comm.rank())) {
    ::setenv("FAKE_CUDA_DEVICES", "8", 1);
    std::string nccl_id(128, '\0');
    if (comm_.rank() == 0) nccl_id = cuda::new_nccl_id();
    comm_.broadcast(nccl_id.data(), 128, DType::u8, 0);
    devices_ =
        cuda::join_nccl(backend(device_).memory(),
                        {.rank = comm_.rank(), .world = comm_.world(), .id = nccl_id, .timeout = 60, .lost = [this] {
                           return lost_ ? "rank 1 is lost" : "";
                         }});
    using Intention = job::PlanSum::Intention;
    sums_ = std::make_unique<job::PlanSum>(*devices_, [this](const Intention& mine) {
      std::vector<Intention> all(static_cast<size_t>(comm_.world()));
      comm_.all_gather(&mine, all.data(), sizeof mine, DType::u8);
      return all;
    });
    step_.emplace(layers_, CompileOptions{.backend = device_, .deterministic = true});
    alone_.emplace(layers_, CompileOptions{.backend = device_, .deterministic = true});
  }

  // One piece for each gradient, in the order of a plan for so many rows.
  void lay(int64_t rows) {
    std::vector<Variable> ordered;
    std::vector<size_t> ends;
    for (const SumOrder::Sum& sum : order(rows).behind) {
      for (const Variable& g : layers_.gradients) {
        if (g.name() == sum.state) ordered.push_back(g);
      }
      ends.push_back(ordered.size());
    }
    sums_->lay(std::move(ordered), std::move(ends));
  }
  // Each sum has products behind it, but for the last.
  bool sums_come_early(int64_t rows) {
    const auto plan = step_->plan(Type{DType::f32, {rows, kWidth}});
    size_t without = 0;
    for (const PlanStep& s : plan->steps()) {
      const Op op = plan->graph().node(s.node).op;
      if (op == Op::matmul) without = 0;
      if (op == Op::all_reduce) ++without;
    }
    return without == 1;
  }
  SumOrder order(int64_t rows) { return order_of_sums(*step_->plan(Type{DType::f32, {rows, kWidth}})); }

  // A step on this rank's rows; none: it computes nothing.
  void run(int step, const Rows& rows) {
    const int64_t mine = rows[static_cast<size_t>(comm_.rank())];
    if (mine == 0) {
      for (const Variable& g : layers_.gradients) g.set(0.0);
      sums_->run_empty(layers_.normed == Normed::no ? SumOrder{} : order(1));
    } else {
      step_->run_in(Context{.collectives = sums_.get()}, batch(comm_.rank(), step, mine)).item<float>();
    }
  }
  Floats gradients() const {
    Floats all;
    for (const Variable& g : layers_.gradients) {
      const Floats part = g.array().to_vector<float>();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  // The result of a step, as the fake adds it: the last rank first.
  Floats expected(int step, const Rows& rows) {
    Floats sum;
    for (int r = comm_.world(); r-- > 0;) {
      const int64_t n = rows[static_cast<size_t>(r)];
      if (n > 0) (*alone_)(batch(r, step, n)).item<float>();
      Floats part = n > 0 ? gradients() : Floats(kLayers * kWidth * kWidth);
      for (size_t i = 0; i < sum.size(); ++i) part[i] = sum[i] + part[i];
      sum = std::move(part);
    }
    return sum;
  }
  std::string check(int step, const Rows& rows) {
    const Floats wanted = expected(step, rows);
    run(step, rows);
    return gradients() == wanted ? "" : cat("step ", step, " has other sums; ");
  }
  // Everybody stands here when its device is done.
  std::string end() {
    fake_cuda_functions().flush();
    comm_.barrier();
    return join(fake().faults, "; ");
  }
  job::PlanSum& sums() { return *sums_; }
  void lose() { lost_ = true; }

 private:
  Comm& comm_;
  Layers layers_;
  std::string device_;
  std::atomic<bool> lost_ = false;
  std::unique_ptr<DeviceCollectives> devices_;
  std::unique_ptr<job::PlanSum> sums_;
  std::optional<Compiled<Layers>> step_, alone_;
};

class PlanSumOnFake : public OnFake {};

std::string counted(const char* what, int64_t got, int64_t wanted) {
  return got == wanted ? "" : cat(what, ": got ", got, ", expected ", wanted, "; ");
}

TEST_F(PlanSumOnFake, PiecesArePartOfTheGraphAndTravelBesideItsKernels) {
  constexpr int kSteps = 5, kPieces = kLayers;
  for (const int world : {2, 3}) {
    expect_well(reports_of(world, [](Comm& c) {
      Rank r(c);
      const Rows rows(static_cast<size_t>(c.world()), 4);
      r.lay(4);
      std::string said = r.sums_come_early(4) ? "" : "the plan makes its sums at the end; ";
      for (int s = 0; s < kSteps; ++s) said += r.check(s, rows);
      said += counted("sums", fake().collectives, kSteps * kPieces);
      said += counted("sums of graphs", fake().graph_collectives, (kSteps - 1) * kPieces);
      // Beside the last piece the loss is copied.
      said += counted("sums beside kernels", fake().collectives_hidden, kSteps * kPieces);
      return said + r.end();
    }));
  }
}

TEST_F(PlanSumOnFake, WithoutPiecesNothingIsSummed) {
  expect_well(reports_of(2, [](Comm& c) {
    Rank r(c);
    r.run(0, {4, 4});
    const Floats own = r.gradients();
    const Floats all = r.expected(0, {4, 4});
    return cat(r.sums().sums_all() ? "it sums; " : "", own == all ? "it has sums; " : "",
               counted("sums", fake().collectives, 0), r.end());
  }));
}

// The fake finds a sum that is in a graph on some ranks alone, or in graphs that were not captured together.
TEST_F(PlanSumOnFake, WhereOneRankCannotRecordNoneDoes) {
  expect_well(reports_of(2, [](Comm& c) {
    Rank r(c);
    r.lay(4);
    std::string said;
    const std::vector<Rows> steps = {{4, 4}, {4, 4}, {4, 3}, {4, 3}, {4, 4}, {2, 4}, {4, 4}};
    for (size_t s = 0; s < steps.size(); ++s) said += r.check(static_cast<int>(s), steps[s]);
    // Not those in which a rank has a shape for the first time. Shapes that meet anew are captured anew.
    said += counted("sums of graphs", fake().graph_collectives, 4 * static_cast<int64_t>(kLayers));
    return said + r.end();
  }));
}

TEST_F(PlanSumOnFake, ARankThatComputesNothingBringsZeros) {
  for (const Normed normed : {Normed::no, Normed::over_all}) {
    expect_well(reports_of(2, [normed](Comm& c) {
      Rank r(c, normed);
      r.lay(4);
      std::string said;
      for (int s = 0; s < 3; ++s) {
        r.run(s, {4, 4});
        const Rows rows = s == 1 ? Rows{0, 4} : Rows{4, 0};
        // Sums within have the other rank's alone, as they have when it computes by itself.
        said += r.check(s, rows);
      }
      return said + r.end();
    }));
  }
}

TEST_F(PlanSumOnFake, SumsThatThePlanReadsAreMadeWhereTheyStand) {
  expect_well(reports_of(2, [](Comm& c) {
    Rank r(c, Normed::over_all);
    r.lay(4);
    const size_t within = r.order(4).within.size();
    std::string said = within < kLayers ? "the plan has too few sums within; " : "";
    Floats first;
    for (int s = 0; s < 4; ++s) {
      r.run(0, {4, 4});  // the same batch, once launched and then as a graph
      if (s == 0) first = r.gradients();
      if (r.gradients() != first) said += cat("step ", s, " has other bits; ");
    }
    const auto all = static_cast<int64_t>(kLayers + within);
    said += counted("sums", fake().collectives, 4 * all) + counted("in graphs", fake().graph_collectives, 3 * all);
    if (r.expected(0, {4, 4}) == first) said += "the sums within were not over both; ";
    return said + r.end();
  }));
}

TEST_F(PlanSumOnFake, RanksWhosePlansSumOtherStatisticsAreTold) {
  const std::vector<std::string> said = reports_of(2, [](Comm& c) -> std::string {
    Rank r(c, c.rank() == 0 ? Normed::over_all : Normed::no);
    try {
      r.run(0, {4, 4});
    } catch (const Error& e) {
      return cat(e.exit_code(), ": ", e.what());
    }
    return "nothing";
  });
  for (const std::string& s : said) {
    EXPECT_NE(s.find("the plan of rank 1 reduces other statistics than rank 0"), std::string::npos) << s;
  }
}

// NCCL's abort waits for the graphs, which the thread that waits for the device lets go of.
TEST_F(PlanSumOnFake, ALostRankEndsTheGraphThatWaitsForIt) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> said = reports_of(2, [](Comm& c) -> std::string {
    std::string text = "nothing";
    {
      Rank r(c);
      r.lay(4);
      for (int s = 0; s < 3; ++s) r.run(s, {4, 4});
      if (c.rank() == 1) {  // comes to the agreement, and no further
        r.sums().agree(r.order(4), true, 1);
        c.barrier();
        return text;
      }
      r.lose();
      try {
        r.run(3, {4, 4});
      } catch (const Error& e) {
        text = cat(e.exit_code(), ": ", e.what());
      }
      c.barrier();
    }
    return cat(text, "; ", join(fake().faults, "; "), counted("communicators", fake().live_communicators, 0));
  });
  EXPECT_TRUE(starts_with(said[0], "7: ")) << said[0];
  EXPECT_NE(said[0].find("rank 1 is lost; "), std::string::npos) << said[0];
  EXPECT_EQ(said[0].find("communicator"), std::string::npos) << said[0];
  EXPECT_LT(seconds_since(start), 60);
}

// The thread that finds the error here has graphs of the communicator, for which an abort waits.
TEST_F(PlanSumOnFake, AnErrorThatNcclReportsAtALaterCallIsToldThoughThereAreGraphs) {
  const Told fails("FAKE_NCCL_FAILS_AFTER", "7");
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& said : reports_of(2, [](Comm& c) -> std::string {
         std::string text = "nothing";
         {
           Rank r(c);
           r.lay(4);
           try {
             for (int s = 0; s < 3; ++s) r.run(s, {4, 4});
             r.run(3, {3, 3});  // no graph yet
           } catch (const Error& e) {
             text = e.what();
           }
         }
         return cat(text, "; ", join(fake().faults, "; "), counted("communicators", fake().live_communicators, 0));
       })) {
    EXPECT_NE(said.find("remote process exited or there was a network error; "), std::string::npos) << said;
    EXPECT_EQ(said.find("communicator"), std::string::npos) << said;
  }
  EXPECT_LT(seconds_since(start), 15);
}

}  // namespace
}  // namespace freight::test
