// See opencl.h. A step is a list of launches; their arguments are set when an address changes, and a run only enqueues.
#include "freight/backend/gpu/opencl/opencl.h"

#include <algorithm>

#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/opencl/blas.h"
#include "freight/backend/gpu/opencl/memory.h"
#include "freight/backend/gpu/opencl/programs.h"
#include "freight/base/error.h"

namespace freight {

namespace opencl {
namespace {

std::vector<cl_device_id> all_devices() {
  const Api& a = api();
  cl_uint count = 0;
  if (a.GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> platforms(count);
  a.GetPlatformIDs(count, platforms.data(), nullptr);
  std::vector<cl_device_id> devices;
  for (const cl_platform_id p : platforms) {
    cl_uint n = 0;
    if (a.GetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 0, nullptr, &n) != CL_SUCCESS) continue;
    const size_t before = devices.size();
    devices.resize(before + n);
    a.GetDeviceIDs(p, CL_DEVICE_TYPE_ALL, n, devices.data() + before, nullptr);
  }
  return devices;
}

std::string text_of(cl_device_id device, cl_device_info what) {
  char text[1024] = {};
  api().GetDeviceInfo(device, what, sizeof text - 1, text, nullptr);
  return text;
}

template <class T>
T value_of(cl_device_id device, cl_device_info what) {
  T value = {};
  api().GetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

OpenClDevice describe(cl_device_id device) {
  OpenClDevice d;
  d.model = text_of(device, CL_DEVICE_NAME);
  char platform[256] = {};
  api().GetPlatformInfo(value_of<cl_platform_id>(device, CL_DEVICE_PLATFORM), CL_PLATFORM_NAME, sizeof platform - 1,
                        platform, nullptr);
  d.platform = platform;
  d.version = text_of(device, CL_DEVICE_VERSION);
  d.driver = text_of(device, CL_DRIVER_VERSION);
  d.compute_units = value_of<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
  d.memory_bytes = static_cast<int64_t>(value_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  d.f64 = value_of<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  return d;
}

class StepKernel final : public Kernel {
 public:
  StepKernel(std::shared_ptr<Memory> memory, Programs& programs, gpu::Lowered lowered)
      : memory_(std::move(memory)), programs_(programs), lowered_(std::move(lowered)) {}
  ~StepKernel() override {
    for (const Bound& b : bound_) api_.ReleaseKernel(b.kernel);
  }
  StepKernel(const StepKernel&) = delete;
  StepKernel& operator=(const StepKernel&) = delete;

  void run(void* const* operands) override {
    if (bound_.empty()) bind();
    for (size_t i = 0; i < bound_.size(); ++i) {
      const gpu::Launch& launch = lowered_.launches[i];
      Bound& b = bound_[i];
      for (size_t k = 0; k < launch.arguments.size(); ++k) set(b, launch.arguments[k], k, operands);
      const size_t lanes = launch.lanes, items = launch.groups * lanes;
      check(api_.EnqueueNDRangeKernel(memory_->queue(), b.kernel, 1, nullptr, &items, &lanes, 0, nullptr, nullptr),
            launch.entry.c_str());
    }
  }
  std::string name() const override { return "opencl:" + lowered_.name; }
  size_t scratch_bytes() const override { return lowered_.scratch_bytes; }

 private:
  struct Bound {
    cl_kernel kernel;
    std::vector<const char*> addresses;  // as last set
  };

  void bind() {
    for (const gpu::Launch& launch : lowered_.launches) {
      bound_.push_back({programs_.make_kernel(launch), std::vector<const char*>(launch.arguments.size())});
      check(api_.SetKernelArg(bound_.back().kernel, static_cast<cl_uint>(2 * launch.arguments.size()),
                              launch.numbers.size(), launch.numbers.data()),
            launch.entry.c_str());
    }
  }
  void set(Bound& b, const gpu::Argument& argument, size_t k, void* const* operands) const {
    const void* operand = argument.operand == gpu::kFaults ? memory_->fault_words() : operands[argument.operand];
    const char* address = static_cast<const char*>(operand) + argument.offset;
    if (address == b.addresses[k]) return;
    const Memory::BufferOffset part = memory_->find(address);
    FREIGHT_CHECK(part.offset % argument.element == 0, "an operand is not aligned to its elements");
    const auto first = static_cast<cl_long>(part.offset / argument.element);
    check(api_.SetKernelArg(b.kernel, static_cast<cl_uint>(2 * k), sizeof part.block, &part.block), "argument");
    check(api_.SetKernelArg(b.kernel, static_cast<cl_uint>(2 * k + 1), sizeof first, &first), "argument");
    b.addresses[k] = address;
  }

  const Api& api_ = api();
  std::shared_ptr<Memory> memory_;
  Programs& programs_;
  gpu::Lowered lowered_;
  std::vector<Bound> bound_;
};

std::string identity(const OpenClDevice& d) { return cat(d.platform, ", ", d.model, ", ", d.version, ", ", d.driver); }

class OpenClBackend final : public gpu::GpuBackend {
 public:
  OpenClBackend(int index, cl_device_id device)
      : name_(cat("opencl:", index)),
        device_(opencl::describe(device)),
        memory_(std::make_shared<Memory>(device)),
        programs_(memory_->context(), device, gpu::dialect(device_.f64), identity(device_),
                  device_.platform == "Portable Computing Language" ? KeepBinaries::no : KeepBinaries::yes),
        is_cpu_((value_of<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0) {}

  std::string name() const override { return name_; }
  std::string description() const override { return cat(device_.model, ", ", device_.platform); }
  std::shared_ptr<DeviceMemory> memory() override { return memory_; }

  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    for (const auto* list : {&spec.in, &spec.out}) {
      for (const Operand& o : *list) {
        if (o.type.dtype == DType::f64 && !device_.f64) {
          fail(ErrorKind::device, freight::name(spec.node->op), "the device ", device_.model, " has no f64: got ",
               o.type, "; use f32, or --device cpu");
        }
      }
    }
    std::unique_ptr<Kernel> generated = kernel_of(gpu::lower(spec));
    const std::optional<gpu::MatrixProduct> product = blas_product(spec);
    if (!product || is_cpu_ || !measures(spec)) return generated;
    if (product->batches * product->m * product->n * product->k < kSmall) return generated;
    gpu::Lowered rest = gpu::lower_epilogue(spec);
    std::vector<std::unique_ptr<Kernel>> all;
    all.push_back(std::move(generated));
    all.push_back(make_blas_kernel(memory_, *product, rest.launches.empty() ? nullptr : kernel_of(std::move(rest))));
    return fastest(cat(gpu::signature(spec), " on ", identity(device_)), spec, std::move(all));
  }
  void finish_plan() override { programs_.load(); }

 private:
  static constexpr size_t kSmall = 2'000'000;  // of what takes less than its launches: nothing to gain
  std::unique_ptr<Kernel> kernel_of(gpu::Lowered lowered) {
    for (const gpu::Launch& launch : lowered.launches) programs_.want(launch);
    return std::make_unique<StepKernel>(memory_, programs_, std::move(lowered));
  }

  std::string name_;
  OpenClDevice device_;
  std::shared_ptr<Memory> memory_;
  Programs programs_;
  bool is_cpu_;  // there the generated kernels are faster, and CLBlast's take long to compile (docs/tour/gpu.md)
};

}  // namespace
}  // namespace opencl

OpenClDevices opencl_devices() {
  OpenClDevices found;
  if (!opencl::load_api(found.why_none)) return found;
  for (const cl_device_id d : opencl::all_devices()) found.devices.push_back(opencl::describe(d));
  if (found.devices.empty()) {
    found.why_none =
        "the OpenCL library finds no device: no driver is registered in /etc/OpenCL/vendors, or it sees none";
  }
  return found;
}

std::unique_ptr<Backend> make_opencl_backend(int index) {
  const std::vector<cl_device_id> devices = opencl::all_devices();
  if (devices.empty()) fail(ErrorKind::device, "opencl", opencl_devices().why_none);
  if (index < 0 || index >= static_cast<int>(devices.size())) {
    fail(ErrorKind::device, "device", "no OpenCL device ", index, ": expected opencl:0",
         devices.size() > 1 ? cat(" to opencl:", devices.size() - 1) : std::string(), ", got 'opencl:", index,
         "'; `freight devices` lists them");
  }
  return std::make_unique<opencl::OpenClBackend>(index, devices[static_cast<size_t>(index)]);
}

}  // namespace freight
