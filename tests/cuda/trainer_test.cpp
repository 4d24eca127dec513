// The whole way of a training step on "cuda:0", on the fake driver: it computes, and watches every access. What it
// cannot tell is what NVIDIA's own driver, compiler and devices do.
#include "freight/backend/gpu/cuda/cuda.h"
#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "freight/run/executable.h"

#include "tests/cuda/fake.h"
#include "tests/support/device_data.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tests/support/trained.h"

namespace freight::test {
namespace {

using freight::testing::error_of;
using freight::testing::ScopedEnvironment;

class CudaOnFake : public OnFake {
 protected:
  CudaOnFake() { fake().captures = fake().graph_launches = fake().launches = fake().kernels = 0; }
};

TEST_F(CudaOnFake, TheDeviceIsListed) {
  const CudaDevices found = cuda_devices();
  ASSERT_EQ(found.devices.size(), 1u) << found.why_none;
  const CudaDevice& d = found.devices[0];
  EXPECT_EQ(d.model, "Fake GPU");
  EXPECT_EQ(d.architecture, "sm_90");
  EXPECT_EQ(d.uuid, "GPU-abababab-abab-abab-abab-abababababab");
  EXPECT_EQ(d.driver, "CUDA 13.0");
  EXPECT_EQ(d.why_not, "");
  EXPECT_EQ(found.compiler, "NVRTC 13.0, " + kFakeFolder + "/libnvrtc.so.13");
  EXPECT_EQ(found.products, "cuBLASLt 13.1, " + kFakeFolder + "/libcublasLt.so.13");
  EXPECT_EQ(found.factorizations, "cuSOLVER 12.0, " + kFakeFolder + "/libcusolver.so.12");
  EXPECT_EQ(fake().live_blocks, 0);
  EXPECT_EQ(fake().live_contexts, 0);
  const Error e = error_of([] { backend("cuda:7"); });
  EXPECT_EQ(e.kind(), ErrorKind::device);
  EXPECT_NE(std::string(e.what()).find("expected cuda:0, got 'cuda:7'"), std::string::npos) << e.what();
}

TEST_F(CudaOnFake, LenetTrainsAsOnTheCpuAndEveryStepButTheFirstIsOneLaunch) {
  constexpr int kSteps = 4;
  train::trains_as_on_the_cpu(
      "cuda:0", [] { return models::create("lenet"); }, 4, kSteps, 0.02);
  EXPECT_EQ(fake().captures, 1);
  EXPECT_EQ(fake().graph_launches, kSteps - 1);
  EXPECT_GT(fake().launches, 10);
  EXPECT_EQ(fake().kernels, kSteps * fake().launches);  // the first step launches them one by one
}

TEST_F(CudaOnFake, WithoutGraphsTheBitsAreTheSame) {
  const auto run = [] {
    seed(3);
    return train::trained("cuda:0", models::create("mlp"), 4, 4, 0.05);
  };
  const train::TrainedNet graphs = run();
  const int64_t captures = fake().captures;
  EXPECT_GT(captures, 0);
  const ScopedEnvironment off("FREIGHT_CUDA_GRAPH", "0");
  const train::TrainedNet plain = run();
  EXPECT_EQ(fake().captures, captures);
  EXPECT_EQ(plain.losses, graphs.losses);
  EXPECT_EQ(plain.states, graphs.states);
}

TEST_F(CudaOnFake, StepsOnBatchesThatTheDeviceMakesAreTheSameBitsManyPerLaunch) {
  const train::SmallRun one = train::small_run("cuda:0", 1);
  EXPECT_EQ(fake().captures, 1);
  EXPECT_EQ(fake().graph_launches, 8);  // of nine steps, the first is launched kernel by kernel
  fake().captures = fake().graph_launches = 0;
  const train::SmallRun many = train::small_run("cuda:0", 3);
  EXPECT_EQ(fake().captures, 3);        // of blocks of 1, 3 and 2 steps
  EXPECT_EQ(fake().graph_launches, 3);  // epochs of 3 + 1 and of 3 + 2; the first block as above
  EXPECT_EQ(many.losses, one.losses);
  EXPECT_EQ(many.weights, one.weights);
  const ScopedEnvironment off("FREIGHT_CUDA_GRAPH", "0");
  const train::SmallRun plain = train::small_run("cuda:0", 3);
  EXPECT_EQ(fake().captures, 3);
  EXPECT_EQ(plain.losses, one.losses);
  EXPECT_EQ(plain.weights, one.weights);
}

TEST_F(CudaOnFake, BatchesThatTheDeviceMakesAreTheLoaders) {
  train::makes_the_loaders_batches("cuda:0", train::small_set(DType::u8, {3, 7, 6}), train::kMovedAndErased);
  train::steps_do_what_they_do_on_the_loaders_batches("cuda:0");
}

TEST_F(CudaOnFake, ASetOnTheDeviceIsSentOnce) {
  fake().uploaded_bytes = 0;
  static int64_t first_epoch = 0;
  first_epoch = 0;
  train::small_run("cuda:0", 2, [] {
    if (first_epoch == 0) first_epoch = fake().uploaded_bytes;
  });
  constexpr int64_t kSet = 22 * (3 * 7 * 6 + 8), kEpoch = 5 * 4 * 8 * 4 + 5 * 4 + 4 + 4;  // draws, rates, two numbers
  EXPECT_GT(first_epoch, kSet + kEpoch);
  EXPECT_EQ(fake().uploaded_bytes - first_epoch, kEpoch);
}

// s <- s + x, and the sum as a result.
struct Accumulator {
  Accumulator() {
    Builder b(graph);
    const Type t{DType::f32, {3}};
    const Value s = b.one(Op::state, LeafAttrs{"s", t}, {}), x = b.one(Op::input, LeafAttrs{"x", t}, {});
    const Value next = b.binary(Op::add, s, x);
    graph.updates = {{s, next}};
    graph.outputs = {b.sum(next, {0})};
  }
  Graph graph;
  Array state = Array::of<float>({1, 2, 3}, {3}), in = Array::of<float>({1, 1, 1}, {3}), out{DType::f32, {1}};
  float result() const { return out.to_vector<float>()[0]; }
};

TEST_F(CudaOnFake, StatesAndInputsAreReadAndWrittenByTheHostBetweenReplays) {
  Accumulator a;
  Executable on_device(plan_for(a.graph, {.backend = "cuda:0"}), {a.state.storage()});
  for (int run = 1; run <= 4; ++run) {
    on_device.run({a.in}, {a.out});
    EXPECT_EQ(a.result(), 6 + 3 * run);
  }
  a.state.data<float>()[0] = 10;  // 5 before
  on_device.run({a.in}, {a.out});
  EXPECT_EQ(a.result(), 10 + 6 + 7 + 3);
  on_device.run({Array::of<float>({0, 0, 1}, {3})}, {a.out});  // another batch, no new recording
  EXPECT_EQ(a.result(), 27);
  EXPECT_EQ(fake().captures, 1);
  const Array elsewhere(DType::f32, {1});
  on_device.run({a.in}, {elsewhere});  // an address moved: recorded anew, never replayed with the old one
  on_device.run({a.in}, {elsewhere});
  EXPECT_EQ(elsewhere.to_vector<float>()[0], 33);
  EXPECT_EQ(a.result(), 27);
  EXPECT_EQ(fake().captures, 2);
}

TEST_F(CudaOnFake, RunsOfWhichNothingIsReadDoNotWaitForEachOther) {
  Accumulator a;
  Executable on_device(plan_for(a.graph, {.backend = "cuda:0"}), {a.state.storage()});
  on_device.run({a.in}, {a.out});
  on_device.run({a.in}, {a.out});
  for (int run = 3; run <= 12; ++run) {
    const Array batch = Array::of<float>({1, 1, 1}, {3});  // gone before the device comes to it
    on_device.run({batch}, {a.out});
  }
  EXPECT_EQ(a.result(), 6 + 3 * 12);
}

TEST_F(CudaOnFake, NothingIsLeftOnTheDevice) {
  {
    Accumulator a;
    Executable on_device(plan_for(a.graph, {.backend = "cuda:0"}), {a.state.storage()});
    for (int run = 0; run < 3; ++run) on_device.run({a.in}, {a.out});
    EXPECT_GT(fake().live_graphs, 0);
    a.result();
  }
  clear_plan_cache();
  EXPECT_EQ(fake().live_graphs, 0);
  EXPECT_LE(fake().live_blocks, 5);  // those that transfers go through, and the words that report faults
  EXPECT_LE(fake().live_pinned, fake().live_blocks - 1 + 3);  // and those that reads came to
}

TEST_F(CudaOnFake, MemoryThatAnotherProgramHoldsIsACapacityErrorThatSaysHowMuchIsLeft) {
  Accumulator a;
  const std::shared_ptr<const Plan> plan = plan_for(a.graph, {.backend = "cuda:0"});
  const int64_t before = fake().free_bytes;
  fake().free_bytes = 100;
  const Error e = error_of([&] {
    Executable on_device(plan, {a.state.storage()});
    on_device.run({a.in}, {a.out});
  });
  fake().free_bytes = before;
  EXPECT_EQ(e.kind(), ErrorKind::capacity);
  for (const char* part : {"cuda:0 has too little memory left", "100 B free of 1.0 GiB", "other programs"}) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
  Executable after(plan, {a.state.storage()});  // and no harm is done
  after.run({a.in}, {a.out});
  EXPECT_EQ(a.result(), 9);
}

TEST_F(CudaOnFake, ALostDeviceIsADeviceErrorAndNothingHangs) {
  Accumulator a;
  Executable on_device(plan_for(a.graph, {.backend = "cuda:0"}), {a.state.storage()});
  on_device.run({a.in}, {a.out});
  fake().lose_after = fake().kernels;
  const Error e = error_of([&] {
    for (int run = 0; run < 4; ++run) {
      on_device.run({a.in}, {a.out});
      a.result();
    }
  });
  EXPECT_EQ(e.kind(), ErrorKind::device);
  for (const char* part : {"the device failed", "CUDA_ERROR_ILLEGAL_ADDRESS", "--resume auto"}) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
  fake().lose_after = -1;
}

TEST_F(CudaOnFake, AKernelThatDoesNotCompileNamesTheFileOfItsSource) {
  Graph g;
  Builder b(g);
  g.outputs = {b.unary(Op::tan, b.one(Op::input, LeafAttrs{"x", {DType::f32, {3}}}, {}))};
  const Told refuses("FAKE_NVRTC_REFUSES", "= tan(");
  const Error e = error_of([&] { plan_for(g, {.backend = "cuda:0"}); });
  EXPECT_EQ(e.kind(), ErrorKind::device);
  const std::string said = e.what();
  const size_t from = said.find(cache_.path()), to = said.find(".cu;");
  ASSERT_NE(from, std::string::npos) << said;
  ASSERT_NE(to, std::string::npos) << said;
  EXPECT_NE(io::read_text(said.substr(from, to + 3 - from)).find("= tan("), std::string::npos);
  EXPECT_NE(said.find("is undefined"), std::string::npos) << said;
}

}  // namespace
}  // namespace freight::test
