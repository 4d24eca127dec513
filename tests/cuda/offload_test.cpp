// Offloading on "cuda:0", on the fake driver: copies run beside the kernels, in streams and as branches of the graph,
// and the bits are those of a run without a limit. The fake driver reports whatever two streams or branches touch
// without an event between them, in the device's memory and in pinned memory.
#include "tests/cuda/fake.h"
#include "tests/support/files.h"
#include "tests/support/offloaded.h"

namespace freight::test {
namespace {

using freight::testing::ScopedEnvironment;

struct OffloadedNet {
  const char* name;
  models::Model (*make)();
  int64_t batch;
  Offload mode;
  int percent;  // of the arena of a run without a limit; 0: no limit
  int hidden;   // of 100 copies, at least
};

models::Model lenet() { return models::create("lenet"); }
models::Model resnet() { return models::create("resnet20", {.size = {8, 8}}); }
models::Model transformer() {
  return models::create("gpt_char", {.vocabulary = 30, .length = 8, .layers = 2, .width = 64});
}

class CudaOffload : public OnFake, public ::testing::WithParamInterface<OffloadedNet> {
 protected:
  static train::TrainedNet run(const ArenaLimit& limit) {
    FakeCuda& f = fake();
    f.captures = f.graph_launches = 0;
    f.copies_to_host = f.copies_to_host_hidden = f.graph_copies = f.graph_copies_hidden = 0;
    seed(3);
    return train::trained("cuda:0", GetParam().make(), GetParam().batch, kSteps, 0.02, limit);
  }
  static constexpr int kSteps = 3;
};

TEST_P(CudaOffload, CopiesRunBesideKernelsAndTheBitsAreTheSame) {
  const train::TrainedNet whole = run({});
  const int64_t pinned = fake().live_pinned;
  ASSERT_EQ(fake().graph_copies, 0);
  const size_t bytes = whole.plan->arena_bytes() * static_cast<size_t>(GetParam().percent) / 100;
  const ArenaLimit limit{.offload = GetParam().mode, .bytes = bytes, .speed = {}};
  for (const char* graphs : {"1", "0"}) {
    SCOPED_TRACE(cat("FREIGHT_CUDA_GRAPH=", graphs));
    const ScopedEnvironment mode("FREIGHT_CUDA_GRAPH", graphs);
    const train::TrainedNet t = run(limit);
    EXPECT_EQ(t.losses, whole.losses);
    EXPECT_EQ(t.states, whole.states);
    EXPECT_EQ(fake().live_pinned, pinned);  // all of it was given back
    const bool graph = graphs[0] == '1';
    const int copies = train::transfers(*t.plan);
    EXPECT_GT(copies, 4);
    EXPECT_EQ(fake().captures, graph ? 1 : 0);
    EXPECT_EQ(fake().graph_launches, graph ? kSteps - 1 : 0);
    EXPECT_EQ(fake().graph_copies, graph ? copies * (kSteps - 1) : 0);
    EXPECT_GE(fake().graph_copies_hidden, fake().graph_copies * GetParam().hidden / 100);
    EXPECT_GE(fake().copies_to_host_hidden, kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaOffload,
                         ::testing::Values(OffloadedNet{"lenet", lenet, 4, Offload::all, 70, 25},
                                           OffloadedNet{"resnet", resnet, 2, Offload::activations, 60, 90},
                                           OffloadedNet{"resnet_optimizer", resnet, 2, Offload::optimizer, 0, 80},
                                           OffloadedNet{"transformer", transformer, 2, Offload::activations, 60, 90},
                                           OffloadedNet{"transformer_optimizer", transformer, 2, Offload::optimizer, 0,
                                                        80}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace freight::test
