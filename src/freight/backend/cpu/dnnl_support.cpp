// See dnnl_support.h.
#include "freight/backend/cpu/dnnl_support.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <dnnl_debug.h>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {
// oneDNN fixes the instructions that it uses when it is first asked about them, so the limit is set before.
void limit_instructions() {
  static const bool settled =
      env::get("FREIGHT_AVX512") != "0" || dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2) == dnnl::status::success;
  FREIGHT_CHECK(settled, "oneDNN computed before it was limited to AVX2");
}
}  // namespace

const dnnl::engine& dnnl_engine() {
  limit_instructions();
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

dnnl::stream& dnnl_stream() {
  static dnnl::stream s(dnnl_engine());
  return s;
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::i32: return dnnl::memory::data_type::s32;
    case DType::u8: return dnnl::memory::data_type::u8;
    default: fail(ErrorKind::device, "cpu", "oneDNN has no element type ", dtype);
  }
}

namespace {
// The instruction sets are numbers whose bits contain those of the sets below them.
bool has(dnnl::cpu_isa wanted) {
  limit_instructions();
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}
}  // namespace

bool dnnl_multiplies(DType dtype) {
  return dtype == DType::f32 || (dtype == DType::bf16 && has(dnnl::cpu_isa::avx512_core));
}
bool dnnl_has_bf16_instructions() { return has(dnnl::cpu_isa::avx512_core_bf16); }

dnnl::memory::desc dnnl_desc(const Type& type, const Layout& layout) {
  if (layout.blocked) {
    dnnl_memory_desc_t raw;
    FREIGHT_CHECK(layout.blocked->descriptor.size() == sizeof raw, "blocked layout of another backend");
    std::memcpy(&raw, layout.blocked->descriptor.data(), sizeof raw);
    return dnnl::memory::desc(raw);
  }
  Strides s = layout.strides;
  const int rank = type.shape.rank();
  for (int i = 0; i < rank; ++i) {
    if (type.shape[i] != 1) continue;
    // As if dense: behind the axes that follow it in the shape.
    int64_t step = 1;
    for (int k = i + 1; k < rank; ++k) {
      if (type.shape[k] != 1) step = std::max(step, layout.strides[k] * type.shape[k]);
    }
    s[i] = step;
  }
  return dnnl::memory::desc(type.shape.vector(), dnnl_type(type.dtype), s.vector());
}

dnnl::memory::desc dnnl_any(const Type& type) {
  return dnnl::memory::desc(type.shape.vector(), dnnl_type(type.dtype), dnnl::memory::format_tag::any);
}

Layout layout_of(const Type& type, const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& raw = desc.data;
  const bool plain = raw.format_kind == dnnl_blocked && raw.format_desc.blocking.inner_nblks == 0 &&
                     raw.ndims == type.shape.rank() && raw.offset0 == 0;
  if (plain) {
    Layout l;
    for (int i = 0; i < raw.ndims; ++i) l.strides.push_back(raw.format_desc.blocking.strides[i]);
    if (is_dense(type.shape, l)) return l;
  }
  auto blocked = std::make_shared<BlockedLayout>();
  blocked->bytes = desc.get_size();
  blocked->descriptor.resize(sizeof raw);
  std::memcpy(blocked->descriptor.data(), &raw, sizeof raw);
  blocked->name = "packed";
  if (raw.format_kind == dnnl_blocked) {
    for (int i = 0; i < raw.format_desc.blocking.inner_nblks; ++i) {
      blocked->name += cat(i ? "" : ":", raw.format_desc.blocking.inner_blks[i],
                           static_cast<char>('a' + raw.format_desc.blocking.inner_idxs[i]));
    }
  }
  return {{}, std::move(blocked)};
}

dnnl::primitive_attr dnnl_attributes() {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return a;
}

namespace {

// The pragma vectorizes both loops: signs of activations are random, and a branch per element costs more than the
// memory traffic.
// `residual` is added before, unless it is null.
void clip(float* v, const float* residual, size_t n, float least, float most) {
  const auto clipped = [&](float sum) {
    const float above = sum < least ? least : sum;
    return above > most ? most : above;
  };
  if (residual) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) v[i] = clipped(v[i] + residual[i]);
  } else {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) v[i] = clipped(v[i]);
  }
}

// Bits of bf16, which order numbers above 0 as integers, and those below 0 the other way round. NaN stays: its bits are
// above infinity's.
constexpr uint16_t kMinusZero = 0x8000, kInfinityBits = 0x7f80, kMinusInfinityBits = 0xff80;
void relu(uint16_t* v, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) v[i] = v[i] > kMinusZero && v[i] <= kMinusInfinityBits ? uint16_t{0} : v[i];
}

// The same, and at most a number above 0.
void relu_below(uint16_t* v, size_t n, uint16_t most) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    const uint16_t above = v[i] > kMinusZero && v[i] <= kMinusInfinityBits ? uint16_t{0} : v[i];
    v[i] = above > most && above <= kInfinityBits ? most : above;
  }
}

}  // namespace

void activate(DType dtype, const Epilogue& epilogue, void* values, const void* residual, size_t bytes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float least = epilogue.relu ? 0 : -kInfinity, most = static_cast<float>(epilogue.most);
  const size_t size = size_of(dtype), n = bytes / size;
  constexpr size_t kChunk = 16384;
  parallel_for(ceil_div(static_cast<int64_t>(n), static_cast<int64_t>(kChunk)), [&](int64_t chunk) {
    const size_t first = static_cast<size_t>(chunk) * kChunk, count = std::min(kChunk, n - first);
    if (size == sizeof(float)) {
      clip(static_cast<float*>(values) + first, residual ? static_cast<const float*>(residual) + first : nullptr, count,
           least, most);
    } else {
      auto* const bits = static_cast<uint16_t*>(values) + first;
      if (epilogue.bounded()) {
        relu_below(bits, count, BFloat16(most).bits);
      } else {
        relu(bits, count);
      }
    }
  });
}

std::string dnnl_label(const dnnl::primitive_desc_base& desc) { return cat("dnnl:", desc.impl_info_str()); }

DnnlKernel::DnnlKernel(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::string label,
                       const std::vector<Argument>& arguments, size_t operands)
    : primitive_(primitive), label_(std::move(label)), scratch_bytes_(scratchpad.get_size()) {
  std::vector<Argument> all = arguments;
  if (scratch_bytes_ > 0) all.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, operands});
  for (const Argument& a : all) {
    memories_.emplace_back(a.desc, dnnl_engine(), static_cast<void*>(nullptr));
    operands_.push_back(a.operand);
    bound_.push_back(nullptr);
    arguments_.push_back({a.id, memories_.back().get()});
  }
}

void DnnlKernel::run(void* const* operands) {
  for (size_t i = 0; i < memories_.size(); ++i) {
    void* const address = operands[operands_[i]];
    if (bound_[i] == address) continue;
    const dnnl_status_t bound = dnnl_memory_set_data_handle(memories_[i].get(), address);
    FREIGHT_CHECK(bound == dnnl_success, "oneDNN: ", dnnl_status2str(bound));
    bound_[i] = address;
  }
  FlushDenormals::reach_pool();
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data());
  FREIGHT_CHECK(status == dnnl_success, "oneDNN: ", dnnl_status2str(status));
}

}  // namespace freight::cpu
