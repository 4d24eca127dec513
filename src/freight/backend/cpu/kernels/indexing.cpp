// See indexing.h.
#include "freight/backend/cpu/kernels/indexing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

int64_t index_at(const void* idx, DType dtype, int64_t i) {
  if (dtype == DType::i64) return static_cast<const int64_t*>(idx)[i];
  if (dtype == DType::i32) return static_cast<const int32_t*>(idx)[i];
  switch (dtype) {
    case DType::u8: return static_cast<const uint8_t*>(idx)[i];
    case DType::i8: return static_cast<const int8_t*>(idx)[i];
    case DType::i16: return static_cast<const int16_t*>(idx)[i];
    case DType::u16: return static_cast<const uint16_t*>(idx)[i];
    case DType::u32: return static_cast<const uint32_t*>(idx)[i];
    default: return static_cast<int64_t>(static_cast<const uint64_t*>(idx)[i]);  // from 2^63 on negative, so refused
  }
}

void check_index(const IndexProblem& p, int64_t index) {
  if (index >= 0 && index < p.rows) return;
  throw Error(ErrorKind::data, p.op, cat("index out of range: expected 0 to ", p.rows - 1, ", got ", index), p.where);
}

// Chunks are (outer, block of rows): a block of rows looks at all indices of its outer part.
template <class T>
void scatter_in(const IndexProblem& p, const void* idx, const void* updates, void* result, bool fresh, T factor) {
  const T* u = static_cast<const T*>(updates);
  const int64_t inner = p.inner;
  const int64_t blocks = std::clamp<int64_t>(p.rows * inner / 65536, 1, 16), block = (p.rows + blocks - 1) / blocks;
  auto body = [&](int64_t chunk) {
    const int64_t a = chunk / blocks, first = chunk % blocks * block, last = std::min(first + block, p.rows);
    if (first >= last) return;
    T* base = static_cast<T*>(result) + a * p.rows * inner;
    if (fresh) {
      std::memset(static_cast<void*>(base + first * inner), 0, static_cast<size_t>((last - first) * inner) * sizeof(T));
    }
    for (int64_t i = 0; i < p.picks; ++i) {
      const T* from = u + (a * p.picks + i) * inner;
      if (p.whole_rows) {
        const int64_t row = index_at(idx, p.index_type, i);
        if (row < first || row >= last) continue;
#pragma omp simd
        for (int64_t b = 0; b < inner; ++b) base[row * inner + b] += factor * from[b];
        continue;
      }
      for (int64_t b = 0; b < inner; ++b) {
        const int64_t row = index_at(idx, p.index_type, (a * p.picks + i) * inner + b);
        if (row >= first && row < last) base[row * inner + b] += factor * from[b];
      }
    }
  };
  parallel_for(p.outer * blocks, p.result_bytes > 65536, body);
}

}  // namespace

void check_indices(const IndexProblem& p, const void* idx) {
  for (int64_t i = 0; i < p.indices; ++i) check_index(p, index_at(idx, p.index_type, i));
}

// Chunks of some 4096 elements. An index that serves all elements of a line moves the line.
void gather_elements(const IndexProblem& p, const void* tensor, const void* idx, void* result) {
  const size_t size = size_of(p.dtype);
  const auto step = static_cast<int64_t>(size);
  const bool shared = p.index.inner == 0 || p.inner == 1;
  const int64_t read = shared ? 1 : p.inner, lines = p.outer * p.picks;
  const auto index_of = [&](int64_t line, int64_t b) {
    return index_at(idx, p.index_type,
                    line / p.picks * p.index.outer + line % p.picks * p.index.row + b * p.index.inner);
  };
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t b = 0; b < read; ++b) check_index(p, index_of(line, b));
  }
  const int64_t chunk = std::max<int64_t>(1, 4096 / p.inner);
  parallel_for(ceil_div(lines, chunk), [&](int64_t c) {
    for (int64_t line = c * chunk; line < std::min(lines, (c + 1) * chunk); ++line) {
      char* const to = static_cast<char*>(result) + line * p.inner * step;
      const char* const from = static_cast<const char*>(tensor) + line / p.picks * p.from.outer * step;
      if (shared && p.from.inner == 1) {
        std::memcpy(to, from + index_of(line, 0) * p.from.row * step, static_cast<size_t>(p.inner) * size);
        continue;
      }
      for (int64_t b = 0; b < p.inner; ++b)
        std::memcpy(to + b * step, from + (index_of(line, b) * p.from.row + b * p.from.inner) * step, size);
    }
  });
}

// Chunks of about 16 KiB.
void gather_rows(const IndexProblem& p, const void* src, const void* idx, void* dst) {
  const size_t size = size_of(p.dtype);
  const int64_t lines = p.outer * p.picks, bytes = p.inner * static_cast<int64_t>(size);
  const int64_t chunk = std::max<int64_t>(1, 16384 / std::max<int64_t>(bytes, 1));
  auto body = [&](int64_t c) {
    for (int64_t line = c * chunk; line < std::min(lines, (c + 1) * chunk); ++line) {
      const int64_t a = line / p.picks, i = line % p.picks;
      const char* from = static_cast<const char*>(src) + a * p.rows * bytes;
      std::memcpy(static_cast<char*>(dst) + line * bytes, from + index_at(idx, p.index_type, i) * bytes,
                  static_cast<size_t>(bytes));
    }
  };
  parallel_for((lines + chunk - 1) / chunk, body);
}

void scatter(const IndexProblem& p, const void* indices, const void* updates, void* result, bool fresh, float factor) {
  switch (p.dtype) {
    case DType::f32: return scatter_in<float>(p, indices, updates, result, fresh, factor);
    case DType::f64: return scatter_in<double>(p, indices, updates, result, fresh, static_cast<double>(factor));
    case DType::i32:
    case DType::u32: return scatter_in<uint32_t>(p, indices, updates, result, fresh, 1);
    default: return scatter_in<uint64_t>(p, indices, updates, result, fresh, 1);
  }
}

void set_elements(const IndexProblem& p, const void* indices, const void* updates, void* result) {
  const size_t size = size_of(p.dtype), line = static_cast<size_t>(p.inner) * size;
  const int64_t picked = p.picks * p.inner;
  const bool parallel = static_cast<size_t>(p.outer * picked) * size > 65536;
  parallel_for(p.outer, parallel, [&](int64_t a) {
    char* const to = static_cast<char*>(result) + static_cast<size_t>(a * p.rows) * line;
    const char* const from = static_cast<const char*>(updates) + static_cast<size_t>(a * p.picks) * line;
    for (int64_t i = 0; i < p.picks && p.whole_rows; ++i) {
      const int64_t row = index_at(indices, p.index_type, i);
      std::memcpy(to + static_cast<size_t>(row) * line, from + static_cast<size_t>(i) * line, line);
    }
    for (int64_t i = 0; i < picked && !p.whole_rows; ++i) {
      const int64_t at = index_at(indices, p.index_type, a * picked + i) * p.inner + i % p.inner;
      std::memcpy(to + static_cast<size_t>(at) * size, from + static_cast<size_t>(i) * size, size);
    }
  });
}

void arg_extremum(const IndexProblem& p, const float* x, int32_t* y, bool largest) {
  const int64_t n = p.outer * p.inner, chunk = std::max<int64_t>(1, 16384 / p.rows);
  auto body = [&](int64_t c) {
    for (int64_t i = c * chunk; i < std::min(n, (c + 1) * chunk); ++i) {
      const float* column = x + i / p.inner * p.rows * p.inner + i % p.inner;
      float best = column[0];
      int64_t at = 0;
      for (int64_t r = 1; r < p.rows && !std::isnan(best); ++r) {
        const float v = column[r * p.inner];
        if (std::isnan(v) || (largest ? v > best : v < best)) {
          best = v;
          at = r;
        }
      }
      y[i] = static_cast<int32_t>(at);
    }
  };
  parallel_for((n + chunk - 1) / chunk, body);
}

}  // namespace freight::cpu
