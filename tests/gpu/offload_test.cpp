// Offloading on the OpenCL device: copies to pinned memory of the host and back, with the same bits as without.
#include "freight/backend/backend.h"
#include "freight/backend/gpu/opencl/memory.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/run/executable.h"

#include "tests/support/offloaded.h"

namespace freight::train {
namespace {

#define NEEDS_OPENCL() \
  if (opencl_devices().devices.empty()) GTEST_SKIP() << opencl_devices().why_none

class OpenClWithinLimits : public testing::TestWithParam<LimitedNet> {};

TEST_P(OpenClWithinLimits, TrainsToTheSameBits) {
  NEEDS_OPENCL();
  LimitedNet net = GetParam();
  net.batch = std::min<int64_t>(net.batch, 8);
  net.limits = 3;
  net.kept = std::min(net.kept - 1, 3);
  trains_within_any_limit("opencl:0", net, 2);
}

INSTANTIATE_TEST_SUITE_P(Nets, OpenClWithinLimits, testing::ValuesIn(kSmallNets),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(OpenClOffload, TheDeviceHoldsTheArenaAndTheHostTheRest) {
  NEEDS_OPENCL();
  seed(3);
  const auto memory = std::dynamic_pointer_cast<opencl::Memory>(backend("opencl:0").memory());
  const models::Model model = models::create("lenet");
  const size_t whole = trained("opencl:0", model, 4, 1, 0.01).plan->arena_bytes();
  const auto plan = trained("opencl:0", model, 4, 1, 0.01, {Offload::activations, whole * 7 / 10, {}}).plan;
  ASSERT_GT(plan->host_bytes(), 0u);
  std::vector<std::shared_ptr<Storage>> states;
  for (Value v : plan->graph().leaves(Op::state)) states.push_back(Storage::allocate(plan->graph().type(v).bytes()));
  const size_t before = memory->allocated_bytes();
  size_t constants = 0;
  for (Value v : plan->graph().leaves(Op::constant)) {
    constants += std::max<size_t>(64, plan->graph().type(v).bytes());
  }
  const Executable executable(plan, states);
  EXPECT_EQ(memory->allocated_bytes(), before + plan->arena_bytes() + constants);
}

}  // namespace
}  // namespace freight::train
