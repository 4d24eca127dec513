// See cuda.h. A step is a list of launches whose parameters point into tables that a run fills; nothing is allocated,
// so that a run can be captured as a graph.
#include "freight/backend/gpu/cuda/cuda.h"

#include <algorithm>

#include "freight/backend/gpu/cuda/blas.h"
#include "freight/backend/gpu/cuda/compiler.h"
#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/backend/gpu/cuda/driver.h"
#include "freight/backend/gpu/cuda/memory.h"
#include "freight/backend/gpu/cuda/modules.h"
#include "freight/backend/gpu/cuda/nccl.h"
#include "freight/backend/gpu/cuda/solver.h"
#include "freight/backend/gpu/cuda/triangular.h"
#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/fused_patterns.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/linalg_kernels.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/pattern_kernels.h"
#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/base/log.h"

namespace freight {

namespace cuda {
namespace {

// NVIDIA's management library alone tells, without opening a device, its free memory and the driver's own number.
class Management {
 public:
  Management() {
    Library library = find_library({"libnvidia-ml.so.1"}, LibraryKind::driver);
    look_up(library, "nvml",
            {"Init_v2", "DeviceGetHandleByPciBusId_v2", "DeviceGetMemoryInfo", "SystemGetDriverVersion"}, &functions_,
            "too old");
    ready_ = library.why.empty() && functions_.init() == 0;
  }
  int64_t free_bytes(const std::string& pci) const {
    Handle handle = nullptr;
    Bytes bytes = {};
    if (!ready_ || functions_.by_pci(pci.c_str(), &handle) != 0 || functions_.memory(handle, &bytes) != 0) return -1;
    return static_cast<int64_t>(bytes.free);
  }
  std::string driver_version() const {
    char text[96] = {};
    return ready_ && functions_.version(text, sizeof text) == 0 ? text : "";
  }

 private:
  using Handle = struct nvmlDevice_st*;
  struct Bytes {
    unsigned long long total, free, used;
  };
  struct Functions {
    int (*init)() = nullptr;
    int (*by_pci)(const char*, Handle*) = nullptr;
    int (*memory)(Handle, Bytes*) = nullptr;
    int (*version)(char*, unsigned) = nullptr;
  };
  Functions functions_;
  bool ready_ = false;
};

// 90 of compute capability 9.0.
int architecture_of(const Driver& d, Device device) {
  int major = 0, minor = 0;
  d.device_attribute(&major, kComputeMajor, device);
  d.device_attribute(&minor, kComputeMinor, device);
  return 10 * major + minor;
}

std::string uuid_text(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[uuid.bytes[i] >> 4];
    text += "0123456789abcdef"[uuid.bytes[i] & 15];
  }
  return text;
}

CudaDevice describe_device(const Driver& d, Device device, const Management& management, const Compiler* compiler,
                           const std::string& why_no_compiler) {
  CudaDevice found;
  char text[256] = {};
  d.device_name(text, sizeof text - 1, device);
  found.model = text;
  const int architecture = architecture_of(d, device);
  found.architecture = cat("sm_", architecture);
  size_t total = 0;
  d.device_memory(&total, device);
  found.memory_bytes = static_cast<int64_t>(total);
  Uuid uuid = {};
  d.device_uuid(&uuid, device);
  found.uuid = uuid_text(uuid);
  d.device_pci(text, sizeof text - 1, device);
  found.pci = text;
  int multiprocessors = 0;
  d.device_attribute(&multiprocessors, kMultiprocessors, device);
  found.multiprocessors = multiprocessors;
  found.memory_free_bytes = management.free_bytes(found.pci);
  const std::string version = management.driver_version();
  found.driver = cat(version, version.empty() ? "" : ", ", "CUDA ", version_text(d.version));
  found.why_not = why_no_compiler;
  if (compiler) compiler->target_for(architecture, found.why_not);
  return found;
}

int count_devices(const Driver& d) {
  int count = 0;
  check(d, d.device_count(&count), "cannot count the devices");
  return count;
}

class StepKernel final : public Kernel {
 public:
  StepKernel(std::shared_ptr<Memory> memory, Modules& modules, gpu::Lowered lowered)
      : memory_(std::move(memory)), modules_(modules), lowered_(std::move(lowered)) {
    for (const gpu::Launch& l : lowered_.launches) {
      if (l.groups > INT32_MAX) {
        fail(ErrorKind::device, lowered_.name, "CUDA's grids end at ", INT32_MAX, " groups: got ", l.groups,
             " for kernel ", l.entry, "; split the tensor");
      }
      Bound& b = bound_.emplace_back();
      b.addresses.resize(l.arguments.size());
      for (Address& address : b.addresses) b.parameters.insert(b.parameters.end(), {&address, &first_});
      b.parameters.push_back(const_cast<uint8_t*>(l.numbers.data()));  // the driver only reads it
    }
  }

  void run(void* const* operands) override {
    const auto entered = memory_->enter();
    for (size_t i = 0; i < bound_.size(); ++i) {
      const gpu::Launch& l = lowered_.launches[i];
      Bound& b = bound_[i];
      if (!b.function) b.function = modules_.function(l.entry);
      for (size_t k = 0; k < l.arguments.size(); ++k) {
        const int operand = l.arguments[k].operand;
        const void* first = operand == gpu::kFaults ? memory_->fault_words() : operands[operand];
        b.addresses[k] = reinterpret_cast<Address>(first) + l.arguments[k].offset;
      }
      const Status status =
          memory_->driver().launch(b.function, static_cast<unsigned>(l.groups), 1, 1, static_cast<unsigned>(l.lanes), 1,
                                   1, 0, memory_->stream(), b.parameters.data(), nullptr);
      if (status != kSuccess) check(memory_->driver(), status, l.entry.c_str());
    }
  }
  std::string name() const override { return "cuda:" + lowered_.name; }
  size_t scratch_bytes() const override { return lowered_.scratch_bytes; }

 private:
  struct Bound {
    Function function = nullptr;
    std::vector<Address> addresses;  // as last launched
    std::vector<void*> parameters;   // where each lies
  };
  std::shared_ptr<Memory> memory_;
  Modules& modules_;
  gpu::Lowered lowered_;
  std::vector<Bound> bound_;
  int64_t first_ = 0;  // an address needs no first element beside it
};

class CudaBackend final : public gpu::GpuBackend {
 public:
  CudaBackend(int index, const Driver& d, const Compiler& compiler, int architecture, const Target& target,
              CudaDevice device)
      : name_(cat("cuda:", index)),
        device_(std::move(device)),
        architecture_(architecture),
        memory_(std::make_shared<Memory>(d, index)),
        modules_(d, compiler, target, gpu::dialect(true)) {}

  ~CudaBackend() override { memory_->enter(); }  // modules are unloaded in their context, on whatever thread
  std::string name() const override { return name_; }
  std::string description() const override { return cat(device_.model, ", ", device_.architecture); }
  std::shared_ptr<DeviceMemory> memory() override { return memory_; }

  // The tensor cores are the library's: generated kernels multiply in f32.
  std::string why_unsupported(DType dtype) const override {
    if (wide(dtype) == dtype) return {};
    const int first = dtype == DType::f16 ? 70 : 80;
    if (architecture_ < first) return cat(device_.architecture, " multiplies no ", dtype, ", sm_", first, " does");
    return blas() ? std::string() : why_no_blas_;
  }
  bool has_tf32() const override { return architecture_ >= 80 && blas(); }
  bool narrows(const freight::Graph& graph, const Node& node, DType low) const override {
    return architecture_ >= 80 &&
           (is_layer(node) ? takes_layer(dnn(), graph, node, low) : takes_attention(graph, node) && dnn());
  }
  // Moments stay whole only where fuse_patterns() will make them part of a convolution's step.
  bool has_kernel(const freight::Graph& graph, const Node& node) const override {
    if (is_layer(node)) return takes_layer(dnn(), graph, node, graph.type(node.in(0)).dtype);
    if (node.op != Op::moments) return GpuBackend::has_kernel(graph, node);
    const std::optional<Node> fused = gpu::conv_with_moments(graph, node);
    return fused && computes(graph, *fused);
  }

  // The library makes sums in the type of the product, whereas the graph wants those of 16 bits in f32; f64 has no
  // epilogues.
  freight::Graph fuse_patterns(const freight::Graph& graph) const override {
    return gpu::fuse_patterns(graph, [&](const Node& fused) {
      const FusedPattern& pattern = pattern_of(fused);
      if (pattern.product != Op::matmul) return computes(graph, fused);
      const freight::Graph& body = *attrs<FusedAttrs>(fused).body;
      const Type& t = body.type(body.outputs[0]);
      const bool has_type = t.dtype == DType::f32 || (wide(t.dtype) != t.dtype && !pattern.sums);
      return has_type && t.shape.numel() > 0 && blas();
    });
  }

  // Operands of cuDNN lie channels last; the generated convolutions want rows of pixels.
  LayoutPlan layouts(const freight::Graph& graph, const Node& node, const std::vector<Layout>& given) const override {
    LayoutPlan plan = GpuBackend::layouts(graph, node, given);
    if (is_layer(node)) return layer_layouts(*dnn(), graph, node, std::move(plan), given);
    if (!computes(graph, node)) return plan;
    const auto wanted = [&](Value v) { return Layout::channels_last(graph.type(v).shape); };
    for (size_t i = 0; i < node.inputs.size(); ++i) plan.in[i] = wanted(node.inputs[i]);
    plan.out[0] = wanted(node.out());
    return plan;
  }

  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    if (is_layer(*spec.node)) {
      return layer_kernel(dnn_, spec, [this](gpu::Lowered lowered) { return generated(std::move(lowered)); });
    }
    if (freight::info(spec.node->op).kind == OpKind::linalg) return linear_algebra(spec);
    const bool convolution = computes(*spec.graph, *spec.node), attention = takes_attention(spec) && dnn();
    std::vector<std::unique_ptr<Kernel>> all = of_libraries(spec, convolution || attention);
    if (!all.empty() && !measures(spec)) return std::move(all.front());
    if (!convolution) all.push_back(generated(gpu::lower(spec)));
    if (all.empty()) {  // a part of a tensor that begins where the library's vectors do not
      fail(ErrorKind::device, freight::name(spec.node->op), "cuDNN has no engine for ", Dnn::signature(spec),
           " at this alignment; --device cpu computes it");
    }
    if (all.size() == 1) return std::move(all.front());
    const std::string step = convolution || attention ? Dnn::signature(spec) : Blas::signature(spec);
    return fastest(cat(step, " on ", device_.model, ", ", device_.architecture, ", ", device_.driver, ", cuBLASLt ",
                       find_blas().version, ", cuDNN ", find_dnn().version),
                   spec, std::move(all));
  }
  void finish_plan() override {
    const auto entered = memory_->enter();  // other plans may be made meanwhile
    if (dnn_) dnn_->forget();
    modules_.load();
  }

 private:
  // Libraries beside the generated kernels are loaded when first asked for, since they are large.
  Blas* blas() const {
    std::call_once(blas_opened_, [this] {
      blas_ = Blas::open(memory_, architecture_, why_no_blas_);
      if (!blas_) logging::info(cat("cuda: products by generated kernels alone: ", why_no_blas_));
    });
    return blas_.get();
  }
  Dnn* dnn() const {
    std::call_once(dnn_opened_, [this] {
      std::string why;
      dnn_ = Dnn::open(memory_, why);
      if (!dnn_) logging::info(cat("cuda: convolutions and attention by generated kernels alone: ", why));
    });
    return dnn_.get();
  }
  Solver* solver() {
    std::call_once(solver_opened_, [this] {
      solver_ = Solver::open(memory_, why_no_solver_);
      if (!solver_) logging::info(cat("cuda: factorizations by generated kernels alone: ", why_no_solver_));
    });
    return solver_.get();
  }
  TriangularSolver* triangular_solver() {
    std::call_once(triangular_solver_opened_, [this] {
      triangular_solver_ = TriangularSolver::open(memory_, why_no_triangular_solver_);
      if (!triangular_solver_)
        logging::info(cat("cuda: triangular systems by generated kernels alone: ", why_no_triangular_solver_));
    });
    return triangular_solver_.get();
  }
  // Factorizations are not measured like products are: on zeros they end at once, and report that these have no
  // factors. A matrix that fits local memory is made there by a generated kernel, and as many beside it as there are;
  // the library makes one after the other. On an H100 it is no faster for one of 64 x 64.
  static bool library_first(const StepSpec& spec) {
    constexpr int64_t kSmall = 256;  // not measured
    const Shape& s = spec.in[0].type.shape;
    const int64_t matrix = s[s.rank() - 2] * s.back();
    if (gpu::factorizes_in_local_memory(spec, gpu::kMostLocalBytes)) return false;
    return spec.node->op == Op::solve_triangular || spec.in[0].type.numel() == matrix || matrix > kSmall * kSmall;
  }
  std::unique_ptr<Kernel> linear_algebra(const StepSpec& spec) {
    const auto generate = [this](gpu::Lowered lowered) { return generated(std::move(lowered)); };
    const Op op = spec.node->op;
    if (gpu::has_factorization(op)) {
      const bool there = op == Op::solve_triangular ? triangular_solver() != nullptr : solver() != nullptr;
      const size_t choice = ForcedChoice::among(2).value_or(library_first(spec) ? 0 : 1);
      if (!there || choice == 1) return generated(gpu::lower_factorization(spec, gpu::kMostLocalBytes));
      return op == Op::solve_triangular ? triangular_solver()->kernel(spec, generate)
                                        : solver()->kernel(spec, generate);
    }
    const std::string why = solver() ? Solver::why_unsupported(op) : why_no_solver_;
    if (!why.empty()) {
      fail(ErrorKind::device, freight::name(op), "a CUDA device computes it by cuSOLVER: ", why,
           "; or compute it on the CPU: x.to_device(\"cpu\")");
    }
    return solver()->kernel(spec, generate);
  }
  // Tells whether the node is a convolution that cuDNN computes.
  bool computes(const freight::Graph& graph, const Node& node) const {
    const Node* product = product_in(node);
    return info((product ? product : &node)->op).kind == OpKind::convolve && dnn() && dnn()->takes(graph, node);
  }
  // Returns kernels by which a library computes the whole step, then others by which it computes the product alone,
  // between generated kernels. The others are added where the first are missing, and for every pattern, at which the
  // library may be the slower one.
  std::vector<std::unique_ptr<Kernel>> of_libraries(const StepSpec& spec, bool by_dnn) {
    const FusedPattern& pattern = pattern_of(*spec.node);
    const std::optional<gpu::MatrixProduct> product = by_dnn ? std::nullopt : gpu::matrix_product(spec);
    if (!by_dnn && (!product || !blas())) return {};
    const auto kernels = [&](Dnn::Fusion part, const std::shared_ptr<Kernel>& before,
                             const std::shared_ptr<Kernel>& rest) {
      return by_dnn ? dnn()->kernels(spec, part, rest, before) : blas()->kernels(spec, *product, before, rest);
    };
    std::shared_ptr<Kernel> mask_bits, moments, normed, rest;
    if (pattern.mask) mask_bits = generated(gpu::lower_mask_bits(spec, Blas::mask_bytes(product->n)));
    if (pattern.mean) moments = generated(gpu::lower_moments(spec, gpu::MomentsOf::sums));
    if (pattern.scale) normed = generated(gpu::lower_norm(spec));
    // Where operands are rounded to TF32, sums of them may be, too.
    bool whole = !pattern.summed || !spec.tf32;
    // cuBLASLt says max(x, 0) of its ReLU, not what becomes of NaN: a generated kernel behind the product keeps it.
    if (!pattern.product && !by_dnn) whole = !attrs<MatmulAttrs>(*spec.node).epilogue.relu;
    std::vector<std::unique_ptr<Kernel>> all;
    if (whole) all = kernels(Dnn::Fusion::whole, mask_bits, moments);
    if (!pattern.product && (!all.empty() || (by_dnn && spec.node->op != Op::conv))) return all;
    gpu::Lowered lowered = gpu::lower_epilogue(spec);
    if (!lowered.launches.empty()) rest = generated(std::move(lowered));
    if (!rest && !normed) return all;
    for (auto& k : kernels(Dnn::Fusion::alone, normed, rest)) all.push_back(std::move(k));
    return all;
  }
  std::unique_ptr<Kernel> generated(gpu::Lowered lowered) {
    for (const gpu::Launch& launch : lowered.launches) modules_.want(launch);
    return std::make_unique<StepKernel>(memory_, modules_, std::move(lowered));
  }

  std::string name_;
  CudaDevice device_;
  int architecture_;
  std::shared_ptr<Memory> memory_;
  Modules modules_;
  mutable std::once_flag blas_opened_, dnn_opened_;
  mutable std::string why_no_blas_;
  mutable std::shared_ptr<Blas> blas_;
  mutable std::shared_ptr<Dnn> dnn_;
  std::once_flag solver_opened_, triangular_solver_opened_;
  std::string why_no_solver_, why_no_triangular_solver_;
  std::shared_ptr<Solver> solver_;
  std::shared_ptr<TriangularSolver> triangular_solver_;
};

}  // namespace
}  // namespace cuda

CudaDevices cuda_devices() {
  CudaDevices found;
  const cuda::Driver* d = cuda::load_driver(found.why_none);
  std::string why;
  const cuda::Compiler* compiler = cuda::Compiler::load(why);
  found.compiler = compiler ? cat("NVRTC ", cuda::version_text(compiler->version()), ", ", compiler->path()) : why;
  if (!d) return found;
  const auto listed = [](const char* name, const Library& l) {
    return l.why.empty() ? cat(name, " ", l.version / 10000, ".", l.version % 10000 / 100, ", ", l.path)
                         : cat("generated kernels alone: ", l.why);
  };
  found.convolutions = listed("cuDNN", cuda::find_dnn());
  found.products = listed("cuBLASLt", cuda::find_blas());
  const Library& solver = cuda::find_solver();  // its version counts in other steps
  found.factorizations =
      solver.why.empty() ? cat("cuSOLVER ", solver.version / 1000, ".", solver.version % 1000 / 100, ", ", solver.path)
                         : cat("generated kernels alone: ", solver.why);
  const Library& nccl = cuda::find_nccl();
  found.collectives = nccl.why.empty() ? cat(cuda::nccl_name(), ", ", nccl.path) : nccl.why;
  const cuda::Management management;
  const int count = cuda::count_devices(*d);
  for (int i = 0; i < count; ++i) {
    cuda::Device device = 0;
    cuda::check(*d, d->device_get(&device, i), "cannot find the device");
    found.devices.push_back(cuda::describe_device(*d, device, management, compiler, why));
  }
  if (found.devices.empty()) {
    found.why_none = "the driver finds no device: there is none, or CUDA_VISIBLE_DEVICES hides all";
  }
  return found;
}

std::unique_ptr<Backend> make_cuda_backend(int index) {
  const cuda::Driver& d = cuda::driver();
  const int count = cuda::count_devices(d);
  if (index < 0 || index >= count) {
    fail(ErrorKind::device, "device", "no CUDA device ", index, ": expected cuda:0",
         count > 1 ? cat(" to cuda:", count - 1) : std::string(), ", got 'cuda:", index,
         "'; `freight devices` lists them");
  }
  cuda::Device handle = 0;
  cuda::check(d, d.device_get(&handle, index), "cannot find the device");
  std::string why;
  const cuda::Compiler* compiler = cuda::Compiler::load(why);
  CudaDevice device = cuda::describe_device(d, handle, cuda::Management(), compiler, why);
  if (!device.why_not.empty()) fail(ErrorKind::device, "cuda", device.model, ": ", device.why_not);
  const int architecture = cuda::architecture_of(d, handle);
  const cuda::Target target = *compiler->target_for(architecture, why);
  return std::make_unique<cuda::CudaBackend>(index, d, *compiler, architecture, target, std::move(device));
}

}  // namespace freight
