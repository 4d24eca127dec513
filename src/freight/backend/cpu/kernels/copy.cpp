// See copy.h.
#include "freight/backend/cpu/kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "freight/backend/cpu/kernels/ceil_div.h"

namespace freight::cpu {

namespace {

constexpr int64_t kTask = 8192;  // elements
constexpr int64_t kAcross = 32;  // lines and elements of a square that is turned in the first-level cache

struct TwoWords {  // an element of 16 bytes
  uint64_t first, second;
};

}  // namespace

StridedCopy::StridedCopy(const Shape& shape, size_t element_bytes, const Strides& from, const Strides& to)
    : element_bytes_(element_bytes) {
  std::vector<Axis> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) axes.push_back({shape[i], from[i], to[i]});
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.to > b.to; });
  for (const Axis& a : axes) {  // those that both walk alike become one
    Axis* last = outer_.empty() ? nullptr : &outer_.back();
    if (last && last->from == a.from * a.n && last->to == a.to * a.n) {
      *last = {last->n * a.n, a.from, a.to};
    } else {
      outer_.push_back(a);
    }
  }
  if (!outer_.empty()) {
    along_ = outer_.back();
    outer_.pop_back();
  }
  if (along_.from == 1 && along_.to == 1 && along_.n > kTask) {  // long lines are cut: so many of one element
    outer_.push_back(along_);
    along_ = {1, 1, 1};
  }
  if (!outer_.empty()) {
    const auto dense = std::find_if(outer_.rbegin(), outer_.rend(), [](const Axis& a) { return a.from == 1; });
    const auto chosen = dense == outer_.rend() ? outer_.end() - 1 : dense.base() - 1;
    lines_ = *chosen;
    outer_.erase(chosen);
  }
  block_ = std::min(std::max(kTask / along_.n / kAcross * kAcross, kAcross), lines_.n);
  blocks_ = ceil_div(lines_.n, block_);
  tasks_ = blocks_;
  for (const Axis& a : outer_) tasks_ *= a.n;
}

template <class T>
void StridedCopy::run_as(const T* from, T* to, int64_t first, int64_t last) const {
  const Axis lines = lines_, along = along_;
  for (int64_t task = first; task < last; ++task) {
    const int64_t begin = task % blocks_ * block_, end = std::min(begin + block_, lines.n);
    const T* x = from;
    T* y = to;
    int64_t index = task / blocks_;
    for (size_t i = outer_.size(); i-- > 0; index /= outer_[i].n) {
      x += index % outer_[i].n * outer_[i].from;
      y += index % outer_[i].n * outer_[i].to;
    }
    if (along.n == 1 && lines.from == 1 && lines.to == 1) {
      std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(T));
      continue;
    }
    if (along.from == 1 && along.to == 1) {
      for (int64_t i = begin; i < end; ++i)
        std::memcpy(y + i * lines.to, x + i * lines.from, static_cast<size_t>(along.n) * sizeof(T));
      continue;
    }
    if (along.n == 3 && along.to == 1 && lines.from == 1 && lines.to == 3) {  // images: colors side by side
      const T *red = x, *green = x + along.from, *blue = green + along.from;
      T* pixel = y + begin * 3;
      for (int64_t i = begin; i < end; ++i, pixel += 3) {
        const T r = red[i], g = green[i], b = blue[i];
        pixel[0] = r;
        pixel[1] = g;
        pixel[2] = b;
      }
      continue;
    }
    if (along.n == 3) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < 3; ++j) y[i * lines.to + j * along.to] = x[i * lines.from + j * along.from];
      }
      continue;
    }
    for (int64_t i0 = begin; i0 < end; i0 += kAcross) {
      for (int64_t j0 = 0; j0 < along.n; j0 += kAcross) {
        const int64_t i1 = std::min(i0 + kAcross, end), j1 = std::min(j0 + kAcross, along.n);
        for (int64_t i = i0; i < i1; ++i) {
          for (int64_t j = j0; j < j1; ++j) y[i * lines.to + j * along.to] = x[i * lines.from + j * along.from];
        }
      }
    }
  }
}

void StridedCopy::run(const void* from, void* to, int64_t part, int64_t parts) const {
  const int64_t first = tasks_ * part / parts, last = tasks_ * (part + 1) / parts;
  switch (element_bytes_) {
    case 1: return run_as(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), first, last);
    case 2: return run_as(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), first, last);
    case 4: return run_as(static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to), first, last);
    case 8: return run_as(static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to), first, last);
    default: return run_as(static_cast<const TwoWords*>(from), static_cast<TwoWords*>(to), first, last);
  }
}

}  // namespace freight::cpu
