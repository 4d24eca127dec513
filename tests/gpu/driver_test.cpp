// The OpenCL driver itself: which devices there are, programs on disk, kernels that do not compile, states that stay on
// the device between runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/opencl/blas.h"
#include "freight/backend/gpu/opencl/memory.h"
#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/backend/gpu/opencl/programs.h"
#include "freight/backend/ref/interpret.h"
#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

#include "tests/support/arrays.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using freight::testing::error_of;
using freight::testing::ScopedEnvironment;
using freight::testing::TemporaryDir;

#define NEEDS_OPENCL() \
  if (opencl_devices().devices.empty()) GTEST_SKIP() << opencl_devices().why_none

TEST(OpenClDevices, ADeviceThatIsNotThereIsADeviceError) {
  NEEDS_OPENCL();
  const Error e = error_of([] { backend("opencl:99"); });
  EXPECT_EQ(e.kind(), ErrorKind::device);
  EXPECT_NE(std::string(e.what()).find("expected opencl:0, got 'opencl:99'"), std::string::npos) << e.what();
  for (const char* name : {"opencl:", "opencl:x", "opencl:1x", "opencl:-1"}) {
    EXPECT_EQ(error_of([&] { backend(name); }).kind(), ErrorKind::device) << name;
  }
  EXPECT_EQ(&backend("opencl"), &backend("opencl:0"));
}

// A kernel that writes `value` everywhere.
gpu::Launch writes(const std::string& value) {
  gpu::KernelText text;
  const std::string p = text.operand(0, DType::f32, true).pointer;
  text.line(p, "[ELEMENT] = ", value, ";");
  return text.finish("writes", 1, 1, 1);
}

class OpenClPrograms : public ::testing::Test {
 protected:
  static opencl::Programs fresh(const opencl::Memory& memory) {
    return {memory.context(), memory.device(), gpu::dialect(false), "test", opencl::KeepBinaries::yes};
  }
  static cl_device_id device() {
    cl_platform_id platform = nullptr;
    cl_device_id found = nullptr;
    opencl::check(opencl::api().GetPlatformIDs(1, &platform, nullptr), "platform");
    opencl::check(opencl::api().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &found, nullptr), "device");
    return found;
  }
  // What the kernel wrote.
  static float result(opencl::Memory& memory, opencl::Programs& programs, const gpu::Launch& launch) {
    const opencl::Api& api = opencl::api();
    const cl_kernel kernel = programs.make_kernel(launch);
    void* block = memory.allocate(sizeof(float));
    const cl_mem handle = memory.find(block).block;
    const cl_long first = 0;
    const size_t one = 1;
    opencl::check(api.SetKernelArg(kernel, 0, sizeof handle, &handle), "0");
    opencl::check(api.SetKernelArg(kernel, 1, sizeof first, &first), "1");
    opencl::check(api.SetKernelArg(kernel, 2, launch.numbers.size(), launch.numbers.data()), "2");
    opencl::check(api.EnqueueNDRangeKernel(memory.queue(), kernel, 1, nullptr, &one, &one, 0, nullptr, nullptr), "run");
    float value = 0;
    memory.download(&value, block, sizeof value);
    memory.release(block);
    api.ReleaseKernel(kernel);
    return value;
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& f : std::filesystem::directory_iterator(cache_.path() + "/opencl")) found.push_back(f.path());
    return found;
  }

  TemporaryDir cache_;
  ScopedEnvironment environment_{"FREIGHT_CACHE", cache_.path()};
};

TEST_F(OpenClPrograms, AreReadBackFromDiskAndMadeAgainWhereTheFileIsDamaged) {
  NEEDS_OPENCL();
  const auto owned = std::make_shared<opencl::Memory>(device());
  opencl::Memory& memory = *owned;
  const gpu::Launch launch = writes("41.5f");
  opencl::Programs first = fresh(memory), second = fresh(memory), third = fresh(memory);
  first.want(launch);
  EXPECT_EQ(result(memory, first, launch), 41.5f);
  EXPECT_EQ(first.compiled(), 1u);
  ASSERT_EQ(files().size(), 1u);
  second.want(launch);
  EXPECT_EQ(result(memory, second, launch), 41.5f);
  EXPECT_EQ(second.compiled(), 0u);
  EXPECT_EQ(second.read_back(), 1u);
  std::ofstream(files()[0], std::ios::trunc) << "no program";
  third.want(launch);
  EXPECT_EQ(result(memory, third, launch), 41.5f);
  EXPECT_EQ(third.compiled(), 1u);
}

TEST_F(OpenClPrograms, AKernelThatDoesNotCompileNamesTheFileOfItsSource) {
  NEEDS_OPENCL();
  const auto owned = std::make_shared<opencl::Memory>(device());
  opencl::Memory& memory = *owned;
  opencl::Programs programs = fresh(memory);
  programs.want(writes("no_such_name"));
  const Error e = error_of([&] { programs.load(); });
  EXPECT_EQ(e.kind(), ErrorKind::device);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_NE(std::string(e.what()).find(files()[0].string()), std::string::npos) << e.what();
  EXPECT_NE(io::read_text(files()[0].string()).find("no_such_name"), std::string::npos);
  const gpu::Launch good = writes("2.0f");  // the fault is not carried on
  programs.want(good);
  EXPECT_EQ(result(memory, programs, good), 2.0f);
}

TEST(OpenClMemory, AddressesOfTheHostAreFoundOut) {
  NEEDS_OPENCL();
  auto memory = backend("opencl:0").memory();
  const int here = 0;
  int there = 0;
  EXPECT_THROW(memory->download(&there, &here, sizeof here), Error);
}

TEST(OpenClMemory, MoreThanTheDeviceHasIsACapacityError) {
  NEEDS_OPENCL();
  EXPECT_EQ(error_of([] { backend("opencl:0").memory()->allocate(size_t{1} << 50); }).kind(), ErrorKind::capacity);
}

TEST(OpenClStates, LiveOnTheDeviceAndAreReadAndWrittenByTheHost) {
  NEEDS_OPENCL();
  Graph g;  // s <- s + x, and the sum as a result
  Builder b(g);
  const Type t{DType::f32, {3}};
  const Value s = b.one(Op::state, LeafAttrs{"s", t}, {}), x = b.one(Op::input, LeafAttrs{"x", t}, {});
  const Value next = b.binary(Op::add, s, x);
  g.updates = {{s, next}};
  g.outputs = {b.sum(next, {0})};
  const Array state = Array::of<float>({1, 2, 3}, {3}), in = Array::of<float>({1, 1, 1}, {3}), out(DType::f32, {1});
  Executable on_device(plan_for(g, {.backend = "opencl:0"}), {state.storage()});
  Executable on_host(plan_for(g, {.backend = "cpu"}), {state.storage()});
  on_device.run({in}, {out});
  on_device.run({in}, {out});
  EXPECT_EQ(out.to_vector<float>()[0], 12);
  EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{3, 4, 5}));
  state.data<float>()[0] = 10;
  on_device.run({in}, {out});
  EXPECT_EQ(out.to_vector<float>()[0], 22);
  on_host.run({in}, {out});  // the same states, on the other side
  EXPECT_EQ(out.to_vector<float>()[0], 25);
  on_device.run({in}, {out});
  EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{13, 7, 8}));
}

// The softmax of x w, and the gradient of its first column: buffers of several sizes.
Graph some_steps() {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {7, 33}}}, {}),
              w = b.one(Op::input, LeafAttrs{"w", {DType::f32, {33, 5}}}, {});
  const Value y = b.one(Op::softmax, AxisAttrs{1}, {b.matmul(x, w)});
  g.outputs = {y, b.sum(b.binary(Op::mul, b.matmul(x, w), y), {0})};
  return g;
}

TEST(OpenClMemory, AnExecutableTakesTheBytesOfItsPlanAtOffsetsOf256) {
  NEEDS_OPENCL();
  const auto memory = std::dynamic_pointer_cast<opencl::Memory>(backend("opencl:0").memory());
  const auto plan = plan_for(some_steps(), {.backend = "opencl:0", .deterministic = true});
  ASSERT_GT(plan->arena_bytes(), 0u);
  for (const Buffer& b : plan->memory().buffers) {
    EXPECT_EQ(b.kind == MemoryKind::arena ? b.offset % 256 : 0, 0u);
  }
  const size_t before = memory->allocated_bytes();
  {
    const Executable executable(plan, {});
    EXPECT_EQ(plan->kept_bytes(), 0u);
    EXPECT_EQ(memory->allocated_bytes(), before + plan->arena_bytes());
  }
  EXPECT_EQ(memory->allocated_bytes(), before);
}

struct Matrices {
  Shape a, b;
  MatmulAttrs attrs;
};

// CLBlast's product, on operands that lie in any of the ways it takes, against numbers made here.
TEST(OpenClBlas, MultipliesAsTheDefinitionSays) {
  NEEDS_OPENCL();
  if (!opencl::why_no_blas().empty()) GTEST_SKIP() << opencl::why_no_blas();
  const auto memory = std::dynamic_pointer_cast<opencl::Memory>(backend("opencl:0").memory());
  for (const Matrices& c : {Matrices{{17, 33}, {33, 9}, {}}, Matrices{{33, 17}, {33, 9}, MatmulAttrs{true, false, {}}},
                            Matrices{{17, 33}, {9, 33}, MatmulAttrs{false, true, {}}}, Matrices{{1, 7}, {7, 1}, {}},
                            Matrices{{2, 3, 5, 4}, {2, 3, 4, 6}, {}}}) {
    Graph g;
    Builder b(g);
    const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, c.a}}, {}),
                w = b.one(Op::input, LeafAttrs{"w", {DType::f32, c.b}}, {});
    const Value y = b.one(Op::matmul, c.attrs, {x, w});
    StepSpec spec;
    spec.graph = &g;
    spec.node = &g.def(y);
    for (Value v : {x, w}) spec.in.push_back({g.type(v), Layout::row_major(g.type(v).shape)});
    spec.out.push_back({g.type(y), Layout::row_major(g.type(y).shape)});
    const auto product = opencl::blas_product(spec);
    ASSERT_TRUE(product.has_value()) << to_string(c.a);
    const auto kernel = opencl::make_blas_kernel(memory, *product, nullptr);
    const Array in[2] = {random_array({g.type(x)}, 1), random_array({g.type(w)}, 2)};
    const Array out(DType::f32, g.type(y).shape);
    void* blocks[3] = {};
    for (int i = 0; i < 2; ++i) {
      blocks[i] = memory->allocate(in[i].bytes());
      memory->upload(blocks[i], in[i].raw(), in[i].bytes());
    }
    blocks[2] = memory->allocate(out.bytes());
    kernel->run(blocks);
    memory->download(out.raw(), blocks[2], out.bytes());
    for (void* block : blocks) memory->release(block);
    g.outputs = {y};
    EXPECT_TRUE(close(out, interpret(g, {in[0], in[1]})[0], 1e-5)) << to_string(c.a) << to_string(c.b);
  }
}

TEST(OpenClBlas, RefusesWhatItCannotCompute) {
  NEEDS_OPENCL();
  if (!opencl::why_no_blas().empty()) GTEST_SKIP() << opencl::why_no_blas();
  const auto product_of = [](DType dtype, const Shape& a, const Strides& lies) {
    Graph g;
    Builder b(g);
    const Value x = b.one(Op::input, LeafAttrs{"x", {dtype, a}}, {}),
                w = b.one(Op::input, LeafAttrs{"w", {dtype, {4, 3}}}, {});
    const Value y = b.one(Op::matmul, MatmulAttrs{}, {x, w});
    StepSpec spec;
    spec.graph = &g;
    spec.node = &g.def(y);
    spec.in = {{g.type(x), {lies, nullptr}}, {g.type(w), Layout::row_major({4, 3})}};
    spec.out = {{g.type(y), Layout::row_major(g.type(y).shape)}};
    return opencl::blas_product(spec).has_value();
  };
  EXPECT_TRUE(product_of(DType::f32, {6, 4}, {4, 1}));
  EXPECT_TRUE(product_of(DType::f32, {6, 4}, {9, 1}));   // rows apart
  EXPECT_TRUE(product_of(DType::f32, {6, 4}, {1, 6}));   // columns dense
  EXPECT_FALSE(product_of(DType::f32, {6, 4}, {8, 2}));  // neither
  EXPECT_FALSE(product_of(DType::f32, {6, 4}, {0, 1}));  // one row for all
  EXPECT_FALSE(product_of(DType::bf16, {6, 4}, {4, 1}));
  EXPECT_FALSE(product_of(DType::f32, {0, 4}, {4, 1}));
}

}  // namespace
}  // namespace freight::test
