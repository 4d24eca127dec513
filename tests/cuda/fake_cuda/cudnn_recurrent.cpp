// Recurrent layers of the fake cuDNN: one layer in one direction, samples first, computed by loops from the equations
// of NVIDIA's documentation (cudnnRNNMode_t). Weights lie in an order of its own, with gaps; what a forward pass keeps
// belongs to its descriptor and its operands, serves one gradient of the data and then one of the weights.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/fake_cuda/cudnn_nodes.h"
#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"
#include "tests/cuda/fake_cuda/numbers.h"

namespace {

using fake::Handle;
using fake::machine;
using namespace fake::cudnn;

int bad(const std::string& why) {
  machine().fault("cuDNN: " + why);
  return kBadParam;
}

// Counted by kind, so that one destroyed as another is found.
struct Described {
  explicit Described(const char* what) : kind(what) { ++machine().told.live_descriptions; }
  std::string kind;
  bool set = false;
};
struct Extents : Described {
  Extents() : Described("tensor") {}
  std::vector<int> extents, strides;
};
struct Rnn : Described {
  Rnn() : Described("layer") {}
  int algorithm = 0, cell = 0, type = 0, math = 0;
  int64_t d = 0, h = 0;
  int64_t gates() const { return cell == kGruCell ? 3 : 4; }
};
struct Data : Described {
  Data() : Described("sequences") {}
  int type = 0;
  int64_t t = 0, n = 0, width = 0;
  unsigned bytes() const { return static_cast<unsigned>(static_cast<size_t>(n * t * width) * fake::size_of(type)); }
};

template <class T>
int create(T** d) {
  *d = new T;
  return kOk;
}
template <class T>
int destroy(T* d) {
  machine().expect_library("a descriptor's destruction");
  --machine().told.live_descriptions;
  delete d;
  return kOk;
}

int type_of(int type) {
  return type == kBFloat16 ? fake::kBF16 : type == kHalf ? fake::kF16 : type == kSingle ? fake::kF32 : -1;
}

// Elements before a gate's matrix (ids below G: of the inputs, then of the states) and bias.
// Biases come first, backwards; of two matrices that follow each other the second has a gap behind it.
struct Weights {
  explicit Weights(const Rnn& r) {
    const int64_t ids = 2 * r.gates();
    matrix.resize(static_cast<size_t>(ids));
    bias.resize(static_cast<size_t>(ids));
    size = 1;
    for (int64_t id = ids; id-- > 0;) {
      bias[static_cast<size_t>(id)] = size;
      size += r.h + 1;
    }
    for (int64_t id = 0; id < ids; ++id) {
      matrix[static_cast<size_t>(id)] = size;
      size += r.h * (id < r.gates() ? r.d : r.h) + (id % 2) * 3;
    }
  }
  std::vector<int64_t> matrix, bias;
  int64_t size = 0;
  size_t bytes(int type) const { return static_cast<size_t>(size) * fake::size_of(type); }
};

// What a forward pass keeps: this, then in f64 the gates (N, T, G, H), and cells or what r scales (N, T, H).
struct Kept {
  uint64_t mark = 0x6b657074;
  int64_t algorithm = 0, cell = 0, type = 0, math = 0, n = 0, t = 0, d = 0, h = 0, uses = 0;
  uint64_t operands = 0;  // of the bytes of x and y
};

uint64_t digest(uint64_t h, const void* p, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) h = (h ^ static_cast<const unsigned char*>(p)[i]) * 0x100000001b3ull;
  return h;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A call by value.
struct Work {
  int cell = 0, algorithm = 0, type = 0, math = 0;
  int64_t n = 0, t = 0, d = 0, h = 0, gates = 0;
  Weights at;
  const void *x = nullptr, *weights = nullptr, *dy = nullptr;
  void *y = nullptr, *dx = nullptr, *dweights = nullptr, *workspace = nullptr;
  char* reserve = nullptr;
  size_t workspace_bytes = 0, reserve_bytes = 0;

  explicit Work(const Rnn& r, const Data& data)
      : cell(r.cell),
        algorithm(r.algorithm),
        type(r.type),
        math(r.math),
        n(data.n),
        t(data.t),
        d(r.d),
        h(r.h),
        gates(r.gates()),
        at(r) {}

  static size_t reserve_size(const Rnn& r, const Data& x) {
    return sizeof(Kept) + static_cast<size_t>(x.n * x.t * (r.gates() + 1) * r.h) * sizeof(double);
  }
  static size_t workspace_size(const Rnn& r, const Data& x) { return static_cast<size_t>(x.n * r.h * 7 + 24); }

  double rounded(double v) const { return type == fake::kF32 && math != kStrictMath ? fake::rounded_to_tf32(v) : v; }
  double load(const void* p, int64_t i) const { return fake::load(type, p, static_cast<size_t>(i)); }
  double factor(const void* p, int64_t i) const { return rounded(load(p, i)); }
  double weight(int64_t id, int64_t row, int64_t column) const {
    const int64_t columns = id < gates ? d : h;
    return factor(weights, at.matrix[static_cast<size_t>(id)] + row * columns + column);
  }
  double bias(int64_t id, int64_t row) const { return load(weights, at.bias[static_cast<size_t>(id)] + row); }
  double* gate(int64_t s, int64_t i, int64_t k) const {
    return reinterpret_cast<double*>(reserve + sizeof(Kept)) + ((s * t + i) * (gates + 1) + k) * h;
  }
  double* cells(int64_t s, int64_t i) const { return gate(s, i, gates); }
  unsigned bytes(int64_t width) const {
    return static_cast<unsigned>(static_cast<size_t>(n * t * width) * fake::size_of(type));
  }

  void read(const void* p, size_t size) const { machine().read(p, static_cast<unsigned>(size)); }
  void write(void* p, size_t size) const { machine().write(p, static_cast<unsigned>(size)); }
  // The matrices and biases, not the gaps between.
  void read_weights(const void* from) const {
    const char* p = static_cast<const char*>(from);
    const size_t size = fake::size_of(type);
    for (int64_t id = 0; id < 2 * gates; ++id) {
      const auto i = static_cast<size_t>(id);
      read(p + static_cast<size_t>(at.matrix[i]) * size, static_cast<size_t>(h * (id < gates ? d : h)) * size);
      read(p + static_cast<size_t>(at.bias[i]) * size, static_cast<size_t>(h) * size);
    }
  }
  bool begin(const char* name) const {
    if (machine().lost()) return false;
    machine().at_work = name;
    ++machine().told.library_layers;
    write(workspace, workspace_bytes);
    std::memset(workspace, 0xff, workspace_bytes);
    return true;
  }
  uint64_t operands() const { return digest(digest(0xcbf29ce484222325ull, x, bytes(d)), y, bytes(h)); }
  Kept header(int64_t uses) const {
    Kept k;
    k.algorithm = algorithm, k.cell = cell, k.type = type, k.math = math, k.n = n, k.t = t, k.d = d, k.h = h;
    k.uses = uses, k.operands = x ? operands() : 0;
    return k;
  }
  // Whether what was kept belongs to this layer and has served `uses` times.
  bool keeps(int64_t uses) const {
    Kept k, need = header(uses);
    std::memcpy(&k, reserve, sizeof k);
    if (!x) need.operands = k.operands;
    const bool good = std::memcmp(&k, &need, sizeof k) == 0;
    if (!good) machine().fault("cuDNN: what was kept is not of this layer, its operands, or has served already");
    k.uses = uses + 1;
    std::memcpy(reserve, &k, sizeof k);
    return good;
  }

  void forward(bool trains) {
    if (!begin("cudnnRNNForward")) return;
    read(x, bytes(d));
    read_weights(weights);
    write(y, bytes(h));
    std::vector<char> mine;
    if (trains) {
      write(reserve, reserve_bytes);
      std::memset(reserve, 0xff, reserve_bytes);
    } else {
      mine.resize(sizeof(Kept) + static_cast<size_t>(n * t * (gates + 1) * h) * sizeof(double));
      reserve = mine.data();
    }
    for (int64_t s = 0; s < n; ++s) {
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < h; ++j) step(s, i, j);
      }
    }
    if (!trains) return;
    const Kept k = header(0);
    std::memcpy(reserve, &k, sizeof k);
  }
  void step(int64_t s, int64_t i, int64_t j) {
    double of_x[4] = {}, of_h[4] = {};
    for (int64_t k = 0; k < gates; ++k) {
      of_x[k] = bias(k, j), of_h[k] = bias(gates + k, j);
      for (int64_t c = 0; c < d; ++c) of_x[k] += weight(k, j, c) * factor(x, (s * t + i) * d + c);
      for (int64_t c = 0; c < h && i > 0; ++c) {
        of_h[k] += weight(gates + k, j, c) * factor(y, (s * t + i - 1) * h + c);
      }
    }
    const double before = i > 0 ? load(y, (s * t + i - 1) * h + j) : 0;
    double result = 0;
    if (cell == kLstmCell) {  // i f c' o
      const double in = sigmoid(of_x[0] + of_h[0]), forget = sigmoid(of_x[1] + of_h[1]),
                   fresh = std::tanh(of_x[2] + of_h[2]), out = sigmoid(of_x[3] + of_h[3]);
      const double c = forget * (i > 0 ? cells(s, i - 1)[j] : 0) + in * fresh;
      gate(s, i, 0)[j] = in, gate(s, i, 1)[j] = forget, gate(s, i, 2)[j] = fresh, gate(s, i, 3)[j] = out;
      cells(s, i)[j] = c;
      result = out * std::tanh(c);
    } else {  // r i h'
      const double r = sigmoid(of_x[0] + of_h[0]), z = sigmoid(of_x[1] + of_h[1]),
                   fresh = std::tanh(of_x[2] + r * of_h[2]);
      gate(s, i, 0)[j] = r, gate(s, i, 1)[j] = z, gate(s, i, 2)[j] = fresh;
      cells(s, i)[j] = of_h[2];
      result = (1 - z) * fresh + z * before;
    }
    fake::store(type, y, static_cast<size_t>((s * t + i) * h + j), result);
  }

  // Leaves in place of the gates the gradients of what they are functions of; of a GRU, in place of what r scales, that
  // of what the states' matrix made of it.
  void data_gradient() {
    if (!begin("cudnnRNNBackwardData_v8")) return;
    read(y, bytes(h)), read(dy, bytes(h)), read(reserve, reserve_bytes);
    read_weights(weights);
    write(dx, bytes(d)), write(reserve, reserve_bytes);
    if (!keeps(0)) return;
    for (int64_t s = 0; s < n; ++s) {
      std::vector<double> dh(static_cast<size_t>(h)), dc = dh;
      for (int64_t i = t; i-- > 0;) {
        for (int64_t j = 0; j < h; ++j) {
          double &up = dh[static_cast<size_t>(j)], &of_cell = dc[static_cast<size_t>(j)];
          up += load(dy, (s * t + i) * h + j);
          double *a = gate(s, i, 0) + j, *b = gate(s, i, 1) + j, *c = gate(s, i, 2) + j, *kept = cells(s, i) + j;
          if (cell == kLstmCell) {
            double* o = gate(s, i, 3) + j;
            const double squashed = std::tanh(*kept), earlier = i > 0 ? cells(s, i - 1)[j] : 0;
            const double all = of_cell + up * *o * (1 - squashed * squashed);
            of_cell = all * *b;
            const double in = *a, fresh = *c;
            *a = all * fresh * in * (1 - in);
            *b = all * earlier * *b * (1 - *b);
            *c = all * in * (1 - fresh * fresh);
            *o = up * squashed * *o * (1 - *o);
            up = 0;
          } else {
            const double r = *a, z = *b, fresh = *c, before = i > 0 ? load(y, (s * t + i - 1) * h + j) : 0;
            *c = up * (1 - z) * (1 - fresh * fresh);
            *b = up * (before - fresh) * z * (1 - z);
            *a = *c * *kept * r * (1 - r);
            *kept = *c * r;
            up *= z;
          }
        }
        for (int64_t c = 0; c < d; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < gates; ++k) {
            for (int64_t j = 0; j < h; ++j) sum += weight(k, j, c) * rounded(gate(s, i, k)[j]);
          }
          fake::store(type, dx, static_cast<size_t>((s * t + i) * d + c), sum);
        }
        for (int64_t c = 0; c < h; ++c) {
          for (int64_t k = 0; k < gates; ++k) {
            for (int64_t j = 0; j < h; ++j) {
              dh[static_cast<size_t>(c)] += weight(gates + k, j, c) * rounded(of_states(s, i, k)[j]);
            }
          }
        }
      }
    }
  }
  // The gradient of what gate k gets from the states' matrix.
  const double* of_states(int64_t s, int64_t i, int64_t k) const {
    return cell == kGruCell && k == 2 ? cells(s, i) : gate(s, i, k);
  }

  void weight_gradient() {
    if (!begin("cudnnRNNBackwardWeights_v8")) return;
    read(x, bytes(d)), read(y, bytes(h)), read(reserve, reserve_bytes);
    read_weights(dweights);
    write(dweights, at.bytes(type)), write(reserve, sizeof(Kept));
    if (!keeps(1)) return;
    const auto add = [&](int64_t place, double value) {
      const auto p = static_cast<size_t>(place);
      fake::store(type, dweights, p, fake::load(type, dweights, p) + value);
    };
    for (int64_t id = 0; id < 2 * gates; ++id) {
      const bool inputs = id < gates;
      const int64_t columns = inputs ? d : h, first = inputs ? 0 : 1;
      const auto up = [&](int64_t s, int64_t i) { return inputs ? gate(s, i, id) : of_states(s, i, id - gates); };
      for (int64_t j = 0; j < h; ++j) {
        for (int64_t c = 0; c < columns; ++c) {
          double sum = 0;
          for (int64_t s = 0; s < n; ++s) {
            for (int64_t i = first; i < t; ++i) {
              const int64_t from = inputs ? (s * t + i) * d : (s * t + i - 1) * h;
              sum += rounded(up(s, i)[j]) * factor(inputs ? x : y, from + c);
            }
          }
          add(at.matrix[static_cast<size_t>(id)] + j * columns + c, sum);
        }
        double sum = 0;
        for (int64_t s = 0; s < n; ++s) {
          for (int64_t i = 0; i < t; ++i) sum += up(s, i)[j];
        }
        add(at.bias[static_cast<size_t>(id)] + j, sum);
      }
    }
  }
};

// What is wrong with the operands of a call; empty where nothing is.
std::string misfit(const Rnn& r, const Data& x, const Data& y, const Extents& h, const Work& w, size_t weights,
                   bool trains) {
  if (!r.set || !x.set || !y.set || !h.set) return "a descriptor that was not set";
  if (x.type != r.type || y.type != r.type || x.width != r.d || y.width != r.h || x.n != y.n || x.t != y.t)
    return "sequences that are not those of the layer";
  if (h.extents != std::vector<int>{1, static_cast<int>(x.n), static_cast<int>(r.h)}) return "states of another shape";
  if (weights != w.at.bytes(r.type)) return "weights of another size";
  if (w.workspace_bytes < Work::workspace_size(r, x)) return "too little workspace";
  if (trains && w.reserve_bytes < Work::reserve_size(r, x)) return "too little memory for what is kept";
  std::vector<const void*> all{w.y, w.weights ? w.weights : w.dweights, w.workspace};
  if (w.x) all.push_back(w.x);
  if (w.dy) all.push_back(w.dy), all.push_back(w.dx);
  if (trains) all.push_back(w.reserve);
  for (const void* p : all) {
    if (!machine().on_device(p)) return "an operand that does not lie on the device";
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return "an operand between the places of vectors";
  }
  return "";
}

}  // namespace

extern "C" {

int cudnnCreateTensorDescriptor(Extents** d) { return create(d); }
int cudnnDestroyTensorDescriptor(Extents* d) { return d->kind == "tensor" ? destroy(d) : bad("no tensor"); }
int cudnnSetTensorNdDescriptor(Extents* d, int type, int rank, const int* extents, const int* strides) {
  if (type_of(type) < 0 || rank < 3) return bad("a tensor of no such type or rank");
  d->extents.assign(extents, extents + rank), d->strides.assign(strides, strides + rank);
  for (int i = 0, step = 1; i < rank; ++i) {
    if (d->strides[static_cast<size_t>(rank - 1 - i)] != step) return bad("states that are not packed");
    step *= d->extents[static_cast<size_t>(rank - 1 - i)];
  }
  d->set = true;
  return kOk;
}
int cudnnCreateRNNDescriptor(Rnn** d) { return create(d); }
int cudnnDestroyRNNDescriptor(Rnn* d) { return d->kind == "layer" ? destroy(d) : bad("no layer"); }
int cudnnSetRNNDescriptor_v8(Rnn* d, int algorithm, int cell, int biases, int directions, int input, int type,
                             int precision, int math, int inputs, int hidden, int projected, int layers, void* dropout,
                             unsigned flags) {
  if (std::getenv("FAKE_CUDNN_HAS_NO_LAYERS")) return kNotSupported;
  if (type_of(type) < 0 || precision != kSingle) return kNotSupported;
  if (algorithm != kStandardAlgorithm || (cell != kLstmCell && cell != kGruCell) || biases != kBothBiases ||
      directions != kUnidirectional || input != kLinearInput || projected != hidden || layers != 1 || dropout ||
      flags != kPadded || inputs < 1 || hidden < 1)
    return bad("a layer that is not played");
  d->algorithm = algorithm, d->cell = cell, d->type = type_of(type), d->math = math;
  d->d = inputs, d->h = hidden, d->set = true;
  return kOk;
}
int cudnnCreateRNNDataDescriptor(Data** d) { return create(d); }
int cudnnDestroyRNNDataDescriptor(Data* d) { return d->kind == "sequences" ? destroy(d) : bad("no sequences"); }
int cudnnSetRNNDataDescriptor(Data* d, int type, int layout, int steps, int samples, int width, const int* lengths,
                              void*) {
  if (type_of(type) < 0 || layout != kBatchMajor || steps < 1 || samples < 1 || width < 1)
    return bad("sequences that are not played");
  for (int i = 0; i < samples; ++i) {
    if (lengths[i] != steps) return bad("sequences of different lengths");
  }
  d->type = type_of(type), d->t = steps, d->n = samples, d->width = width, d->set = true;
  return kOk;
}
int cudnnGetRNNWeightSpaceSize(Handle*, const Rnn* r, size_t* bytes) {
  *bytes = Weights(*r).bytes(r->type);
  return kOk;
}
int cudnnGetRNNWeightParams(Handle*, const Rnn* r, int layer, size_t bytes, const void* weights, int id,
                            Extents* matrix, void** at, Extents* bias, void** bias_at) {
  const Weights w(*r);
  if (layer != 0 || id < 0 || id >= 2 * r->gates() || bytes != w.bytes(r->type) || !weights || !matrix || !bias)
    return bad("no such gate");
  const auto i = static_cast<size_t>(id);
  char* base = static_cast<char*>(const_cast<void*>(weights));
  *at = base + static_cast<size_t>(w.matrix[i]) * fake::size_of(r->type);
  *bias_at = base + static_cast<size_t>(w.bias[i]) * fake::size_of(r->type);
  return kOk;
}
int cudnnGetRNNTempSpaceSizes(Handle*, const Rnn* r, int mode, const Data* x, size_t* workspace, size_t* reserve) {
  *workspace = Work::workspace_size(*r, *x);
  *reserve = mode == kTraining ? Work::reserve_size(*r, *x) : 0;
  return kOk;
}
int cudnnRNNForward(Handle* handle, const Rnn* r, int mode, const int*, const Data* of_x, const void* x,
                    const Data* of_y, void* y, const Extents* of_h, const void* hx, void* hy, const Extents*,
                    const void* cx, void* cy, size_t weight_bytes, const void* weights, size_t workspace_bytes,
                    void* workspace, size_t reserve_bytes, void* reserve) {
  Work w(*r, *of_x);
  w.x = x, w.y = y, w.weights = weights;
  w.workspace_bytes = workspace_bytes, w.workspace = workspace;
  w.reserve_bytes = reserve_bytes, w.reserve = static_cast<char*>(reserve);
  const bool trains = mode == kTraining;
  if (hx || hy || cx || cy) return bad("states that are not played");
  if (const std::string why = misfit(*r, *of_x, *of_y, *of_h, w, weight_bytes, trains); !why.empty()) return bad(why);
  machine().enqueue(handle->stream, [w, trains] { Work(w).forward(trains); });
  return kOk;
}
int cudnnRNNBackwardData_v8(Handle* handle, const Rnn* r, const int*, const Data* of_y, const void* y, const void* dy,
                            const Data* of_x, void* dx, const Extents* of_h, const void* hx, const void* dhy, void* dhx,
                            const Extents*, const void* cx, const void* dcy, void* dcx, size_t weight_bytes,
                            const void* weights, size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                            void* reserve) {
  Work w(*r, *of_x);
  w.y = const_cast<void*>(y), w.dy = dy, w.dx = dx, w.weights = weights;
  w.workspace_bytes = workspace_bytes, w.workspace = workspace;
  w.reserve_bytes = reserve_bytes, w.reserve = static_cast<char*>(reserve);
  if (hx || dhy || dhx || cx || dcy || dcx) return bad("states that are not played");
  if (const std::string why = misfit(*r, *of_x, *of_y, *of_h, w, weight_bytes, true); !why.empty()) return bad(why);
  machine().enqueue(handle->stream, [w] { Work(w).data_gradient(); });
  return kOk;
}
int cudnnRNNBackwardWeights_v8(Handle* handle, const Rnn* r, int mode, const int*, const Data* of_x, const void* x,
                               const Extents* of_h, const void* hx, const Data* of_y, const void* y,
                               size_t weight_bytes, void* dweights, size_t workspace_bytes, void* workspace,
                               size_t reserve_bytes, void* reserve) {
  Work w(*r, *of_x);
  w.x = x, w.y = const_cast<void*>(y), w.dweights = dweights;
  w.workspace_bytes = workspace_bytes, w.workspace = workspace;
  w.reserve_bytes = reserve_bytes, w.reserve = static_cast<char*>(reserve);
  if (hx || mode != kAddToGradients) return bad("states or a mode that are not played");
  if (const std::string why = misfit(*r, *of_x, *of_y, *of_h, w, weight_bytes, true); !why.empty()) return bad(why);
  machine().enqueue(handle->stream, [w] { Work(w).weight_gradient(); });
  return kOk;
}
}
