// The fake cuDNN: descriptors as NVIDIA documents them, and convolutions computed element by element from extents and
// strides, on the memory of the fake device. It knows five engines, of which a careful caller wants two; epilogues it
// has in 16 bits alone, statistics and normalization of channels in f16 and of multiples of eight channels. Graphs of
// other operations: cudnn_nodes.h.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/fake_cuda/cudnn_nodes.h"
#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"
#include "tests/cuda/fake_cuda/numbers.h"

namespace {

using fake::Descriptor;
using fake::machine;
using fake::part;
using fake::values;
using namespace fake::cudnn;
constexpr int64_t kWorkspace = 4096;

using fake::Handle;

// Never destroyed: the program may let go of its descriptors later than this library's statics.
auto& g_live = *new std::set<const Descriptor*>;

// The library's statics are gone before the program's own that were there when it was loaded.
struct End {
  ~End() { machine().told.libraries_ended = true; }
} g_end;

int bad(const std::string& why) {
  machine().fault("cuDNN: " + why);
  return kBadParam;
}

size_t size_of_type(int type) {
  switch (type) {
    case kDataType:
    case kFloat:
    case kConvolutionMode:
    case kHeuristicMode:
    case kNanPropagation:
    case kPointwiseMode:
    case kStatisticsMode:
    case kReductionMode: return 4;
    case kBoolean:
    case kChar: return 1;
    default: return 8;
  }
}

using Four = std::array<int64_t, 4>;
struct Tensor {
  int64_t id = 0;
  int type = 0;  // as in numbers.h
  Four extents = {}, strides = {};
  int64_t alignment = 0;
  bool made_inside = false;
  void* address = nullptr;

  size_t count() const { return static_cast<size_t>(extents[0] * extents[1] * extents[2] * extents[3]); }
  size_t bytes() const { return count() * fake::size_of(type); }
  size_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return static_cast<size_t>(n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3]);
  }
};

Tensor tensor(const Descriptor& d) {
  Tensor t;
  const std::vector<int64_t> extents = values<int64_t>(d, kExtents), strides = values<int64_t>(d, kTensorStrides);
  if (extents.size() != 4 || strides.size() != 4 || values<int64_t>(d, kName).empty() ||
      values<int>(d, kTypeOf).empty()) {
    bad("a tensor without extents, strides, type or name");
    return t;
  }
  std::copy(extents.begin(), extents.end(), t.extents.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  t.id = values<int64_t>(d, kName)[0];
  if (!values<int64_t>(d, kAlignment).empty()) t.alignment = values<int64_t>(d, kAlignment)[0];
  const int type = values<int>(d, kTypeOf)[0];
  t.type = type == kBFloat16 ? fake::kBF16 : type == kHalf ? fake::kF16 : fake::kF32;
  t.made_inside = !values<char>(d, kVirtual).empty() && values<char>(d, kVirtual)[0] != 0;
  return t;
}

// A graph of one convolution or gradient and what comes behind it, by value.
struct Work {
  int way = kForward;                               // the operation's type
  Tensor x, w, y, bias, scale, shift, sum, square;  // of y, the latter two
  bool has_bias = false, relu = false, keeps_nan = false, statistics = false, normed = false, rounds = false;
  std::array<int64_t, 2> dilation = {}, stride = {}, low = {}, high = {};
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  // NVIDIA says that ReLU keeps NaN where it is asked to; otherwise it is lost here.
  double rectified(double value) const { return value > 0 || (keeps_nan && value != value) ? value : 0; }
  double load(const Tensor& t, size_t at) const {
    double value = fake::load(t.type, t.address, at);
    if (normed && &t == &x) {  // rounded where it is multiplied
      const size_t c = at % static_cast<size_t>(x.extents[1]);
      value = value * fake::load(scale.type, scale.address, c) + fake::load(shift.type, shift.address, c);
      char bytes[8];
      fake::store(x.type, bytes, 0, rectified(value));
      value = fake::load(x.type, bytes, 0);
    }
    return rounds && t.type == fake::kF32 ? fake::rounded_to_tf32(value) : value;
  }
  // Calls f(place in x, place in w, place in y) for every product of the convolution.
  template <class F>
  void products(const F& f) const {
    const int64_t per_group = w.extents[1], groups = x.extents[1] / per_group, filters = w.extents[0] / groups;
    for (int64_t n = 0; n < y.extents[0]; ++n) {
      for (int64_t o = 0; o < y.extents[1]; ++o) {
        for (int64_t p = 0; p < y.extents[2]; ++p) {
          for (int64_t q = 0; q < y.extents[3]; ++q) {
            for (int64_t r = 0; r < w.extents[2]; ++r) {
              for (int64_t s = 0; s < w.extents[3]; ++s) {
                const int64_t h = p * stride[0] - low[0] + r * dilation[0],
                              v = q * stride[1] - low[1] + s * dilation[1];
                if (h < 0 || h >= x.extents[2] || v < 0 || v >= x.extents[3]) continue;
                for (int64_t c = 0; c < per_group; ++c) {
                  f(x.at(n, o / filters * per_group + c, h, v), w.at(o, c, r, s), y.at(n, o, p, q));
                }
              }
            }
          }
        }
      }
    }
  }
  void run() const {
    fake::Machine& m = machine();
    if (m.lost()) return;
    m.at_work = "cudnnBackendExecute";
    ++m.told.library_convolutions;
    const Tensor& out = way == kForward ? y : way == kWeightGradient ? w : x;
    for (const Tensor* t : {&x, &w, &y}) {
      if (t != &out) m.read(t->address, static_cast<unsigned>(t->bytes()));
    }
    if (has_bias) m.read(bias.address, static_cast<unsigned>(bias.bytes()));
    for (const Tensor* t : {&scale, &shift}) {
      if (normed) m.read(t->address, static_cast<unsigned>(t->bytes()));
    }
    if (workspace_bytes > 0) {
      m.write(workspace, static_cast<unsigned>(workspace_bytes));
      std::memset(workspace, 0xff, workspace_bytes);
    }
    std::vector<double> sums(out.count());
    if (way == kForward) products([&](size_t a, size_t b, size_t to) { sums[to] += load(x, a) * load(w, b); });
    if (way == kWeightGradient) products([&](size_t a, size_t to, size_t b) { sums[to] += load(x, a) * load(y, b); });
    if (way == kInputGradient) products([&](size_t to, size_t a, size_t b) { sums[to] += load(w, a) * load(y, b); });
    if (has_bias || relu) {
      for (int64_t n = 0; n < y.extents[0]; ++n) {
        for (int64_t o = 0; o < y.extents[1]; ++o) {
          for (int64_t p = 0; p < y.extents[2]; ++p) {
            for (int64_t q = 0; q < y.extents[3]; ++q) {
              double& to = sums[y.at(n, o, p, q)];
              if (has_bias) to += fake::load(bias.type, bias.address, bias.at(0, o, 0, 0));
              if (relu) to = rectified(to);
            }
          }
        }
      }
    }
    m.write(out.address, static_cast<unsigned>(out.bytes()));
    for (size_t i = 0; i < sums.size(); ++i) fake::store(out.type, out.address, i, sums[i]);
    if (statistics) add_up();
  }
  // Of y as it was stored, by channel.
  void add_up() const {
    const auto channels = static_cast<size_t>(y.extents[1]);
    for (const Tensor* to : {&sum, &square}) {
      std::vector<double> totals(channels);
      for (size_t i = 0; i < y.count(); ++i) {
        const double value = fake::load(y.type, y.address, i);
        totals[i % channels] += to == &sum ? value : value * value;
      }
      machine().write(to->address, static_cast<unsigned>(to->bytes()));
      for (size_t i = 0; i < channels; ++i) fake::store(to->type, to->address, i, totals[i]);
    }
  }
  // Whether engines know it.
  bool known() const {
    if ((has_bias || relu) && y.type == fake::kF32) return false;
    if (normed && (way == kForward ? !statistics : way != kWeightGradient)) return false;
    if (normed && (scale.type != fake::kF16 || shift.type != fake::kF16)) return false;
    if (statistics && (sum.type != fake::kF32 || square.type != fake::kF32)) return false;
    return !(statistics || normed) || (x.type == fake::kF16 && w.type == fake::kF16 && y.type == fake::kF16 &&
                                       x.extents[1] % 8 == 0 && y.extents[1] % 8 == 0 && w.extents[1] == x.extents[1]);
  }
  std::vector<Tensor*> tensors() {
    std::vector<Tensor*> all = {&x, &w, &y};
    if (has_bias) all.push_back(&bias);
    if (normed) all.insert(all.end(), {&scale, &shift});
    if (statistics) all.insert(all.end(), {&sum, &square});
    return all;
  }
};

bool keeps_nan(const Descriptor& relu) {
  return relu.values.count(kNanOfPointwise) && values<int>(relu, kNanOfPointwise).at(0) == 1;
}

// The work of a graph; false where it is no such graph.
bool read_graph(const Descriptor& graph, Work& work) {
  const auto it = graph.parts.find(kOperations);
  if (it == graph.parts.end() || it->second.empty()) return false;
  size_t at = 0;  // of the convolution: relu(x scale + shift) may stand before it
  const Descriptor* read = nullptr;
  if (it->second[0]->type == kPointwise) {
    constexpr int kModes[] = {kMul, kAdd, kRelu};
    for (; at < 3 && at < it->second.size(); ++at) {
      const Descriptor& op = *it->second[at];
      const Descriptor *kind = part(op, kPointwiseOf), *from = part(op, kXOf), *with = part(op, kBOf),
                       *to = part(op, kYOf);
      if (!kind || !from || !to || values<int>(*kind, kModeOfPointwise).at(0) != kModes[at] ||
          (at < 2) != (with != nullptr))
        return false;
      if (at > 0 && tensor(*from).id != tensor(*read).id) return false;
      if (at == 0) work.x = tensor(*from);
      if (at < 2) (at == 0 ? work.scale : work.shift) = tensor(*with);
      if (at == 2) work.keeps_nan = keeps_nan(*kind);
      read = to;
      if (!tensor(*read).made_inside) return false;
    }
    work.normed = true;
  }
  if (at >= it->second.size()) return false;
  const Descriptor& conv = *it->second[at];
  if (conv.type < kForward || conv.type > kInputGradient) return false;
  work.way = conv.type;
  const int first = conv.type == kForward         ? kOfForward
                    : conv.type == kInputGradient ? kOfInputGradient
                                                  : kOfWeightGradient;
  // Filter, image, result: their attributes follow each other in this order for the forward operation and for the
  // gradient of the image alone; for that of the filter it is dw, x, dy, the same.
  const Descriptor *geometry = part(conv, first + 2), *w = part(conv, first + 3), *x = part(conv, first + 4),
                   *y = part(conv, first + 5);
  if (!geometry || !w || !x || !y) return false;
  if (read && tensor(*x).id != tensor(*read).id) return false;
  work.w = tensor(*w), work.y = tensor(*y);
  if (!read) work.x = tensor(*x);
  const auto two = [&](int name, std::array<int64_t, 2>& to) {
    const std::vector<int64_t> v = values<int64_t>(*geometry, name);
    if (v.size() == 2) to = {v[0], v[1]};
  };
  two(kDilations, work.dilation), two(kStrides, work.stride), two(kPaddingAfter, work.high),
      two(kPaddingBefore, work.low);
  for (size_t i = at + 1; i < it->second.size(); ++i) {
    const Descriptor& op = *it->second[i];
    if (op.type == kStatistics) {
      const Descriptor *of = part(op, kStatisticsOf), *sums = part(op, kSumsOf), *squares = part(op, kSquaresOf);
      if (!of || !sums || !squares || tensor(*of).id != work.y.id || work.y.made_inside || work.statistics ||
          values<int>(op, kModeOfStatistics) != std::vector<int>{0})
        return false;
      work.sum = tensor(*sums), work.square = tensor(*squares);
      work.statistics = true;
      continue;
    }
    const Descriptor *kind = part(op, kPointwiseOf), *from = part(op, kXOf), *to = part(op, kYOf);
    if (op.type != kPointwise || !kind || !from || !to || tensor(*from).id != work.y.id || !work.y.made_inside)
      return false;
    const int mode = values<int>(*kind, kModeOfPointwise).at(0);
    if (mode == kAdd && part(op, kBOf)) {
      work.bias = tensor(*part(op, kBOf));
      work.has_bias = true;
    } else if (mode == kRelu) {
      work.relu = true;
      work.keeps_nan = keeps_nan(*kind);
    } else {
      return false;
    }
    work.y = tensor(*to);
  }
  return !work.y.made_inside;
}

// Why a convolution's extents do not fit each other; empty where they do.
std::string misfit(const Work& k) {
  if (k.x.extents[0] != k.y.extents[0] || k.w.extents[0] != k.y.extents[1] || k.w.extents[1] == 0 ||
      k.x.extents[1] % k.w.extents[1] != 0)
    return "batches or channels do not fit";
  for (size_t i = 0; i < 2; ++i) {
    const int64_t window = (k.w.extents[2 + i] - 1) * k.dilation[i] + 1;
    if ((k.x.extents[2 + i] + k.low[i] + k.high[i] - window) / k.stride[i] + 1 != k.y.extents[2 + i])
      return "the result has not the extents of a convolution";
  }
  if (k.statistics && (k.sum.extents != Four{1, k.y.extents[1], 1, 1} || k.square.extents != k.sum.extents))
    return "statistics that are not of the result's channels";
  if (k.normed && (k.scale.extents != Four{1, k.x.extents[1], 1, 1} || k.shift.extents != k.scale.extents))
    return "a normalisation that is not of the image's channels";
  for (const Tensor* t : {&k.x, &k.w, &k.y}) {
    if (t->strides[1] != 1 || t->strides[3] != t->extents[1] || t->strides[2] != t->extents[1] * t->extents[3])
      return "a tensor is not channels last";
  }
  return "";
}

}  // namespace

extern "C" {

int cudnnCreate(Handle** handle) {
  if (std::getenv("FAKE_CUDNN_DOES_NOT_START")) return kNotInitialized;
  *handle = new Handle;
  ++machine().told.live_descriptions;
  return kOk;
}
int cudnnDestroy(Handle* handle) {
  machine().expect_library("cudnnDestroy");
  --machine().told.live_descriptions;
  delete handle;
  return kOk;
}
int cudnnSetStream(Handle* handle, fake::StreamState* stream) {
  handle->stream = stream;
  return kOk;
}
size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(int status) {
  return status == kNotInitialized ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_FAKE";
}
int cudnnBackendCreateDescriptor(int type, Descriptor** d) {
  *d = new Descriptor{type};
  g_live.insert(*d);
  ++machine().told.live_descriptions;
  return kOk;
}
int cudnnBackendDestroyDescriptor(Descriptor* d) {
  machine().expect_library("cudnnBackendDestroyDescriptor");
  if (g_live.erase(d) == 0) return bad("a descriptor is destroyed twice");
  --machine().told.live_descriptions;
  delete d;
  return kOk;
}
int cudnnBackendSetAttribute(Descriptor* d, int name, int type, int64_t count, const void* from) {
  if (!g_live.count(d) || d->final) return bad("an attribute of a descriptor that is final or gone");
  if (type == kDescriptor) {
    std::vector<Descriptor*> parts(static_cast<size_t>(count));
    std::memcpy(parts.data(), from, parts.size() * sizeof(Descriptor*));
    for (const Descriptor* p : parts) {
      // What the library itself filled in is final.
      if (!g_live.count(p) || !(p->final || p->engine > 0)) return bad("a part that is not final");
    }
    d->parts[name] = parts;
    return kOk;
  }
  const char* bytes = static_cast<const char*>(from);
  d->values[name].assign(bytes, bytes + static_cast<size_t>(count) * size_of_type(type));
  return kOk;
}
int cudnnBackendFinalize(Descriptor* d) {
  if (d->final) return bad("a descriptor is made final twice");
  if (d->type == kGraph && fake::has_nodes(*d)) {
    if (const std::string why = fake::misfit_of_nodes(*d); !why.empty()) return bad(why);
    if (!fake::knows_nodes(*d)) return kNotSupported;
  } else if (d->type == kGraph) {
    Work work;
    if (!read_graph(*d, work)) return kNotSupported;
    if (const std::string why = misfit(work); !why.empty()) return bad(why);
  }
  if (d->type == kHeuristic && (!part(*d, kGraphOfHeuristic) || !part(*d, kDeviceOfHeuristic)))
    return bad("a heuristic without graph or device");
  if (d->type == kPlan && (!part(*d, kConfigOfPlan) || !part(*d, kDeviceOfPlan)))
    return bad("a plan without configuration or device");
  d->final = true;
  return kOk;
}
// Engines: 1 on tensor cores (in f32 of rounded operands), 2 whose bits vary, 3 that compiles, 4 with a workspace, 5.
// For graphs of other operations all compile, 1 has a workspace, 3 none, and 4 needs too much of it.
int cudnnBackendGetAttribute(const Descriptor* d, int name, int type, int64_t most, int64_t* count, void* to) {
  *count = 0;
  if (d->type == kHeuristic && name == kResults) {
    Work work;
    const bool nodes = fake::has_nodes(*part(*d, kGraphOfHeuristic));
    if (!nodes) read_graph(*part(*d, kGraphOfHeuristic), work);
    if (std::getenv("FAKE_CUDNN_HAS_NO_ENGINES")) return kOk;
    if (!nodes && !work.known()) return kOk;
    if ((work.statistics || work.normed) && std::getenv("FAKE_CUDNN_HAS_NO_FUSIONS")) return kOk;
    auto** configs = static_cast<Descriptor**>(to);
    for (int engine = 1; engine <= 5 && *count < most; ++engine) {
      Descriptor* c = configs[(*count)++];
      c->engine = engine;
      c->parts[kGraphOfEngine] = {const_cast<Descriptor*>(part(*d, kGraphOfHeuristic))};
    }
    return kOk;
  }
  if (d->type == kEngineConfig && name == kEngineOfConfig && type == kDescriptor) {
    Descriptor* e = *static_cast<Descriptor**>(to);
    e->engine = d->engine;
    e->parts[kGraphOfEngine] = d->parts.at(kGraphOfEngine);
    *count = 1;
    return kOk;
  }
  const auto answer = [&](auto value) {
    std::memcpy(to, &value, sizeof value);
    *count = 1;
    return kOk;
  };
  if (d->type == kEngine && name == kNumber) return answer(int64_t{d->engine});
  if (d->type == kEngine && name == kNumerics)
    return d->engine <= 2 ? answer(d->engine == 1 ? kOnTensorCores : kBitsVary) : kOk;
  const auto nodes = [](const Descriptor& of) { return fake::has_nodes(*part(of, kGraphOfEngine)); };
  const auto workspace = [&](const Descriptor& config) {
    if (nodes(config)) return config.engine == 1 ? kWorkspace : config.engine == 4 ? int64_t{1} << 40 : 0;
    return config.engine == 4 ? kWorkspace : 0;
  };
  if (d->type == kEngine && name == kBehavior) return d->engine == 3 || nodes(*d) ? answer(kCompilesAtRun) : kOk;
  if (d->type == kEngineConfig && name == kWorkspaceOfConfig) return answer(workspace(*d));
  if (d->type == kPlan && name == kWorkspaceOfPlan) return answer(workspace(*part(*d, kConfigOfPlan)));
  return bad("an attribute that is not played");
}
int cudnnBackendExecute(Handle* handle, const Descriptor* plan, const Descriptor* pack) {
  if (!plan->final || !pack->final || !g_live.count(plan) || !g_live.count(pack))
    return bad("a plan or pack not final");
  const Descriptor& config = *part(*plan, kConfigOfPlan);
  if (!g_live.count(&config)) return bad("a plan whose configuration is gone");
  if (!g_live.count(part(config, kGraphOfEngine))) return bad("a plan whose graph is gone");
  const std::vector<int64_t> ids = values<int64_t>(*pack, kPackNames);
  const std::vector<void*> addresses = values<void*>(*pack, kPackPointers);
  if (fake::has_nodes(*part(config, kGraphOfEngine))) {
    std::string why;
    fake::NodeWork work(*part(config, kGraphOfEngine), ids, addresses, why);
    if (config.engine == 2 || config.engine == 4) why = "an engine that a careful caller does not take";
    if (config.engine == 1) {
      work.workspace = values<void*>(*pack, kPackWorkspace).at(0);
      work.workspace_bytes = size_t{kWorkspace};
      if (!machine().on_device(work.workspace)) why = "the workspace does not lie on the device";
    }
    if (!why.empty()) return bad(why);
    machine().enqueue(handle->stream, [work] { work.run(); });
    return kOk;
  }
  Work work;
  if (!read_graph(*part(config, kGraphOfEngine), work)) return bad("a plan of no convolution");
  for (Tensor* t : work.tensors()) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == t->id) t->address = addresses.at(i);
    }
    if (!machine().on_device(t->address)) return bad("a tensor does not lie on the device");
    if (t->alignment == 0 || reinterpret_cast<uintptr_t>(t->address) % static_cast<uintptr_t>(t->alignment) != 0)
      return bad("a tensor is less aligned than was said");
  }
  if ((work.statistics || work.normed) && std::getenv("FAKE_CUDNN_REFUSES_FUSIONS")) return kNotSupported;
  work.rounds = config.engine == 1;
  if (config.engine == 2 || config.engine == 3) return bad("an engine that a careful caller does not take");
  if (config.engine == 4) {
    work.workspace = values<void*>(*pack, kPackWorkspace).at(0);
    work.workspace_bytes = size_t{kWorkspace};
    if (!machine().on_device(work.workspace)) return bad("the workspace does not lie on the device");
  }
  machine().enqueue(handle->stream, [work] { work.run(); });
  return kOk;
}
}
