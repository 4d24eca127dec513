// The fake cuBLASLt: executes what its descriptions say, word by word as NVIDIA documents them, on the memory of the
// fake device, and refuses what the library would. Letters are the library's: D (m, n) = op(A) op(B), columns first.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"
#include "tests/cuda/fake_cuda/numbers.h"

namespace {

using fake::machine;
using namespace fake::blaslt;
constexpr size_t kWorkspace = 4096;

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t lead;
  int32_t order = 0, batches = 1;
  int64_t apart = 0;
};
struct Matmul {
  int compute, scale;
  int32_t trans[2] = {0, 0};
  uint32_t epilogue = kPlain;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_lead = 0;
  bool sums() const { return epilogue & (kSums | kSumsOfA | kSumsOfB); }
  bool masks() const { return epilogue & kReluGradient; }
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};
struct Algorithm {
  uint64_t problem, number, workspace, reduction;
  uint32_t alignments[4];
  uint64_t unused[2];
};
static_assert(sizeof(Algorithm) == 64);
struct Guess {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

int g_handle;
// The library's statics are gone before the program's own that were there when it was loaded.
struct End {
  ~End() { machine().told.libraries_ended = true; }
} g_end;

template <class T>
int take(T& to, const void* from, size_t bytes) {
  if (bytes != sizeof to) {
    machine().fault("cuBLASLt: an attribute of " + std::to_string(bytes) + " bytes, need " + std::to_string(sizeof to));
    return kInvalidValue;
  }
  std::memcpy(&to, from, bytes);
  return kOk;
}
void* made(void* description) {
  ++machine().told.live_descriptions;
  return description;
}
template <class T>
int destroyed(T* description) {
  machine().expect_library("a destructor of cuBLASLt");
  --machine().told.live_descriptions;
  delete description;
  return kOk;
}

uint64_t rows_of(const Layout& l, int32_t trans) { return trans ? l.columns : l.rows; }
uint64_t columns_of(const Layout& l, int32_t trans) { return trans ? l.rows : l.columns; }
uint64_t pointer_alignment(const void* p) {
  const auto a = reinterpret_cast<uintptr_t>(p);
  return a & (~a + 1);
}

// Why the library does not compute this; empty where it does. `bad`: a caller's mistake, rather than a lack.
std::string refused(const Matmul& op, const Layout& a, const Layout& b, const Layout& c, const Layout& d, bool& bad) {
  bad = true;
  for (const Layout* l : {&a, &b, &c, &d}) {
    if (l->order != 0) return "an order other than columns first goes with no bias";
    if (l->lead < static_cast<int64_t>(l->rows)) return "a leading dimension is less than the rows";
    if (l->batches != d.batches) return "the numbers of batches differ";
    if (l->rows == 0 || l->columns == 0) return "an empty matrix";
  }
  if (rows_of(a, op.trans[0]) != d.rows || columns_of(b, op.trans[1]) != d.columns ||
      columns_of(a, op.trans[0]) != rows_of(b, op.trans[1]) || c.rows != d.rows || c.columns != d.columns)
    return "the matrices do not fit each other";
  if (d.batches > 1 && d.apart < static_cast<int64_t>(d.lead * static_cast<int64_t>(d.columns)))
    return "batches of the result overlap";
  const uint32_t known[] = {kPlain, kBias, kReluGradient | kAux, kReluGradient | kAux | kSums, kSumsOfA, kSumsOfB};
  if (std::find(std::begin(known), std::end(known), op.epilogue) == std::end(known))
    return "no such epilogue is played";
  if (((op.epilogue & kBias) || op.sums()) && !op.bias) return "no bias pointer";
  if (op.sums() && d.batches > 1) return "sums of batches";
  if (op.masks()) {
    if (!op.aux || pointer_alignment(op.aux) < 16) return "no auxiliary pointer to a multiple of 16";
    if (op.aux_lead % 128 != 0 || op.aux_lead < static_cast<int64_t>(d.rows))
      return "the leading dimension of a mask must be a multiple of 128 and at least the rows";
    if (d.batches > 1) return "masks of batches";
  }
  if (a.type != b.type || a.type != d.type || c.type != d.type) return "mixed types are not played";
  const bool f64 = d.type == fake::kF64;
  const bool fits = f64 ? op.compute == kComputeF64 && op.scale == fake::kF64
                        : (op.compute == kComputeF32 || (op.compute == kComputeTF32 && d.type == fake::kF32)) &&
                              op.scale == fake::kF32;
  if (!fits) return "the types of computing and scaling do not fit the matrices";
  bad = false;
  return f64 && op.epilogue != kPlain ? "no epilogues in f64" : "";
}

// What an algorithm is for: it fits no other problem.
uint64_t identity(const Matmul& op, const Layout& a, const Layout& b, const Layout& d) {
  uint64_t h = 1469598103934665603u;
  const auto mix = [&](uint64_t n) { h = (h ^ n) * 1099511628211u; };
  for (const uint64_t n : {uint64_t(op.compute), uint64_t(op.trans[0]), uint64_t(op.trans[1]), uint64_t{op.epilogue},
                           uint64_t(op.aux_lead)})
    mix(n);
  for (const Layout* l : {&a, &b, &d}) {
    for (const uint64_t n : {uint64_t(l->type), l->rows, l->columns, uint64_t(l->lead), uint64_t(l->batches)}) mix(n);
  }
  return h;
}

// Marks what a matrix of all batches takes up, column by column.
template <class F>
void columns(const Layout& l, const void* address, const F& touch) {
  const size_t size = fake::size_of(l.type);
  for (int64_t z = 0; z < l.batches; ++z) {
    for (uint64_t j = 0; j < l.columns; ++j) {
      const auto at = static_cast<size_t>(z * l.apart + static_cast<int64_t>(j) * l.lead);
      touch(static_cast<const char*>(address) + at * size, static_cast<unsigned>(l.rows * size));
    }
    if (l.apart == 0) break;
  }
}

// Everything by value, as the library takes it.
struct Call {
  Matmul op;
  Layout a, b, c, d;
  double alpha, beta;
  const void *pa, *pb, *pc;
  void *pd, *workspace;
  size_t workspace_bytes;

  double element(const Layout& l, const void* p, int64_t z, uint64_t row, uint64_t column) const {
    const auto at =
        static_cast<size_t>(z * l.apart + static_cast<int64_t>(column) * l.lead + static_cast<int64_t>(row));
    const double value = fake::load(l.type, p, at);
    return op.compute == kComputeTF32 ? fake::rounded_to_tf32(value) : value;
  }
  const unsigned char* mask_of(uint64_t column) const {
    return static_cast<const unsigned char*>(op.aux) + column * static_cast<uint64_t>(op.aux_lead) / 8;
  }
  // The gradient of a bias: of D over its columns, or of an operand over the axis that is summed over.
  void add_up(const std::vector<double>& result, uint64_t depth) const {
    const bool of_b = op.epilogue & kSumsOfB, of_d = op.epilogue & kSums;
    const uint64_t count = of_b ? d.columns : d.rows;
    machine().write(op.bias, static_cast<unsigned>(count * fake::size_of(d.type)));
    for (uint64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (uint64_t p = 0; p < (of_d ? d.columns : depth); ++p) {
        sum += of_d          ? result[p * d.rows + i]
               : of_b        ? (op.trans[1] ? element(b, pb, 0, i, p) : element(b, pb, 0, p, i))
               : op.trans[0] ? element(a, pa, 0, p, i)
                             : element(a, pa, 0, i, p);
      }
      fake::store(d.type, op.bias, i, sum);
    }
  }
  void run() const {
    fake::Machine& m = machine();
    if (op.epilogue & (kReluGradient | kSumsOfA | kSumsOfB)) ++m.told.library_gradients;
    if (m.lost()) return;
    m.at_work = "cublasLtMatmul";
    ++m.told.library_products;
    const auto reads = [&](const void* p, unsigned n) { m.read(p, n); };
    const auto writes = [&](const void* p, unsigned n) { m.write(const_cast<void*>(p), n); };
    columns(a, pa, reads);
    columns(b, pb, reads);
    if (beta != 0) columns(c, pc, reads);
    if (op.epilogue & kBias) m.read(op.bias, static_cast<unsigned>(d.rows * fake::size_of(d.type)));
    for (uint64_t j = 0; op.masks() && j < d.columns; ++j) m.read(mask_of(j), static_cast<unsigned>((d.rows + 7) / 8));
    if (workspace_bytes > 0) {
      m.write(workspace, static_cast<unsigned>(workspace_bytes));
      std::memset(workspace, 0xff, workspace_bytes);
    }
    const uint64_t depth = columns_of(a, op.trans[0]);
    std::vector<double> result;
    for (int64_t z = 0; z < d.batches; ++z) {
      for (uint64_t j = 0; j < d.columns; ++j) {
        for (uint64_t i = 0; i < d.rows; ++i) {
          double sum = 0;
          for (uint64_t p = 0; p < depth; ++p) {
            sum += (op.trans[0] ? element(a, pa, z, p, i) : element(a, pa, z, i, p)) *
                   (op.trans[1] ? element(b, pb, z, j, p) : element(b, pb, z, p, j));
          }
          sum *= alpha;
          if (beta != 0) {
            const auto at =
                static_cast<size_t>(z * c.apart + static_cast<int64_t>(j) * c.lead + static_cast<int64_t>(i));
            sum += beta * fake::load(c.type, pc, at);
          }
          if (op.epilogue & kBias) sum += fake::load(d.type, op.bias, i);
          if (op.masks() && !(mask_of(j)[i / 8] >> i % 8 & 1)) sum = 0;
          result.push_back(sum);
        }
      }
    }
    if (op.sums()) add_up(result, depth);
    size_t next = 0;
    columns(d, pd, writes);
    for (int64_t z = 0; z < d.batches; ++z) {
      for (uint64_t j = 0; j < d.columns; ++j) {
        for (uint64_t i = 0; i < d.rows; ++i) {
          const auto at = static_cast<size_t>(z * d.apart + static_cast<int64_t>(j) * d.lead + static_cast<int64_t>(i));
          fake::store(d.type, pd, at, result[next++]);
        }
      }
    }
  }
};

}  // namespace

extern "C" {

int cublasLtCreate(void** handle) {
  if (std::getenv("FAKE_CUBLASLT_DOES_NOT_START")) return kNotInitialized;
  if (machine().forbidden_in_capture("cublasLtCreate")) return kInvalidValue;
  *handle = made(&g_handle);
  return kOk;
}
int cublasLtDestroy(void*) {
  machine().expect_library("cublasLtDestroy");
  --machine().told.live_descriptions;
  return kOk;
}
size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(int status) {
  return status == kNotInitialized ? "CUBLAS_STATUS_NOT_INITIALIZED" : "CUBLAS_STATUS_FAKE";
}
int cublasLtMatmulDescCreate(void** matmul, int compute, int scale) {
  *matmul = made(new Matmul{compute, scale});
  return kOk;
}
int cublasLtMatmulDescDestroy(Matmul* matmul) { return destroyed(matmul); }
int cublasLtMatmulDescSetAttribute(Matmul* matmul, int what, const void* value, size_t bytes) {
  switch (what) {
    case kTransA: return take(matmul->trans[0], value, bytes);
    case kTransB: return take(matmul->trans[1], value, bytes);
    case kEpilogue: return take(matmul->epilogue, value, bytes);
    case kBiasPointer: return take(matmul->bias, value, bytes);
    case kAuxPointer: return take(matmul->aux, value, bytes);
    case kAuxLead: return take(matmul->aux_lead, value, bytes);
    default: return kInvalidValue;
  }
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t lead) {
  *layout = made(new Layout{type, rows, columns, lead});
  return kOk;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) { return destroyed(layout); }
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int what, const void* value, size_t bytes) {
  switch (what) {
    case kOrder: return take(layout->order, value, bytes);
    case kBatchCount: return take(layout->batches, value, bytes);
    case kBatchStride: return take(layout->apart, value, bytes);
    default: return kInvalidValue;
  }
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = made(new Preference);
  return kOk;
}
int cublasLtMatmulPreferenceDestroy(Preference* preference) { return destroyed(preference); }
int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int what, const void* value, size_t bytes) {
  switch (what) {
    case kWorkspaceBytes: return take(preference->workspace, value, bytes);
    case kReductionMask: return take(preference->reductions, value, bytes);
    case kAlignmentA:
    case kAlignmentB:
    case kAlignmentC:
    case kAlignmentD: return take(preference->alignments[what - kAlignmentA], value, bytes);
    default: return kInvalidValue;
  }
}
// Four, in this order: one that reduces through counters, one that stores parts of sums in the type of D, and one more
// with a workspace, one without.
int cublasLtMatmulAlgoGetHeuristic(void* handle, Matmul* op, Layout* a, Layout* b, Layout* c, Layout* d,
                                   Preference* preference, int most, Guess* guesses, int* count) {
  *count = 0;
  if (handle != &g_handle) return kInvalidValue;
  if (std::getenv("FAKE_CUBLASLT_HAS_NO_KERNELS")) return kNotSupported;
  bool bad = false;
  if (!refused(*op, *a, *b, *c, *d, bad).empty()) return bad ? kInvalidValue : kNotSupported;
  if ((op->sums() || op->masks()) && std::getenv("FAKE_CUBLASLT_HAS_NO_GRADIENTS")) return kNotSupported;
  for (uint64_t number = 1; number <= 4 && *count < most; ++number) {
    Guess g = {};
    const uint32_t reduction = number == 1 ? kInPlace : number == 2 ? kAsStored : 0;
    g.algorithm = {identity(*op, *a, *b, *d), number, number <= 3 ? kWorkspace : 0, reduction, {}, {}};
    std::memcpy(g.algorithm.alignments, preference->alignments, sizeof g.algorithm.alignments);
    g.workspace = g.algorithm.workspace;
    if (g.workspace > preference->workspace || (g.algorithm.reduction & ~preference->reductions)) continue;
    guesses[(*count)++] = g;
  }
  return *count > 0 ? kOk : kNotSupported;
}
int cublasLtMatmul(void* handle, Matmul* op, const void* alpha, const void* pa, Layout* a, const void* pb, Layout* b,
                   const void* beta, const void* pc, Layout* c, void* pd, Layout* d, const Algorithm* algorithm,
                   void* workspace, size_t workspace_bytes, fake::StreamState* stream) {
  fake::Machine& m = machine();
  bool bad = false;
  std::string why = handle == &g_handle ? refused(*op, *a, *b, *c, *d, bad) : "no handle";
  const void* const pointers[] = {pa, pb, pc, pd};
  for (int i = 0; i < 4 && why.empty(); ++i) {
    if (!m.on_device(pointers[i])) why = "an operand does not lie on the device";
    if (pointer_alignment(pointers[i]) < algorithm->alignments[i]) why = "an operand is less aligned than was said";
  }
  if (why.empty() && algorithm->problem != identity(*op, *a, *b, *d)) why = "the algorithm is another problem's";
  if (why.empty() && op->sums() && !m.on_device(op->bias)) why = "the sums do not lie on the device";
  if (why.empty() && op->masks() && !m.on_device(op->aux)) why = "the mask does not lie on the device";
  if (why.empty() && algorithm->reduction == kInPlace) why = "an algorithm whose bits change from run to run";
  if (why.empty() && algorithm->reduction == kAsStored && fake::size_of(d->type) == 2)
    why = "an algorithm that rounds parts of sums to 16 bits";
  if (why.empty() && algorithm->workspace > workspace_bytes) why = "the workspace is too small";
  if (why.empty() && workspace_bytes > 0 && (!m.on_device(workspace) || pointer_alignment(workspace) < 256))
    why = "the workspace does not lie on the device at a multiple of 256";
  if (!why.empty()) {
    m.fault("cublasLtMatmul: " + why);
    return kInvalidValue;
  }
  const auto scalar = [&](const void* p) {
    return op->scale == fake::kF64 ? *static_cast<const double*>(p) : *static_cast<const float*>(p);
  };
  const Call call{*op, *a, *b, *c, *d, scalar(alpha), scalar(beta), pa, pb, pc, pd, workspace, workspace_bytes};
  m.enqueue(stream, [call] { call.run(); });
  return kOk;
}
}
