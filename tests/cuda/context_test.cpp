// Which context is current on which thread, and which errors mean that there is none any more.
#include <thread>

#include "freight/backend/gpu/cuda/cuda.h"
#include "freight/backend/gpu/cuda/memory.h"
#include "freight/base/error.h"
#include "freight/ir/builder.h"

#include "tests/cuda/fake.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using freight::testing::error_of;

using CudaContext = OnFake;

// The driver's next primary context lies where the last one did.
TEST_F(CudaContext, ADeviceThatIsOpenedAnewIsMadeCurrentAnew) {
  for (int time = 0; time < 2; ++time) {
    const auto memory = std::make_shared<cuda::Memory>(*fake_driver(), 0);
    memory->release(memory->allocate(64));
  }
  EXPECT_EQ(fake().live_contexts, 0);
}

TEST_F(CudaContext, ABackendIsLetGoOfOnAThreadThatNeverUsedIt) {
  std::unique_ptr<Backend> device = make_cuda_backend(0);
  {
    Graph g;
    Builder b(g);
    const Type t{DType::f32, {3}};
    const Value x = b.one(Op::input, LeafAttrs{"x", t}, {}), y = b.one(Op::neg, NoAttrs{}, {x});
    const Operand operand{t, Layout::row_major(t.shape)};
    const auto kernel = device->prepare({&g, &g.def(y), {operand}, {operand}});
    device->finish_plan();
  }
  EXPECT_EQ(fake().live_modules, 1);
  std::thread([&] { device.reset(); }).join();
  EXPECT_EQ(fake().live_modules, 0);
}

TEST_F(CudaContext, EveryErrorThatEndsTheContextSaysThatTheDeviceIsLost) {
  const cuda::Driver& d = *fake_driver();
  for (const int status : {4, 46, 214, 700, 702, 714, 715, 716, 717, 718, 719}) {
    const Error e = error_of([&] { cuda::check(d, status, "a step"); });
    EXPECT_EQ(e.kind(), ErrorKind::device);
    EXPECT_NE(std::string(e.what()).find("the device failed"), std::string::npos) << status;
  }
  for (const int status : {1, 201, 701, 713, 720}) {
    const Error e = error_of([&] { cuda::check(d, status, "a step"); });
    EXPECT_EQ(std::string(e.what()).find("the device failed"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace freight::test
