// See array.h.
#include "freight/base/array.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "freight/base/error.h"

namespace freight {

std::shared_ptr<Storage> Storage::allocate(size_t bytes) {
  std::shared_ptr<Storage> s(new Storage);
  s->size_ = bytes;
  // Large blocks lie on pages of their own size class where the system has it: kernels that step over long rows would
  // otherwise wait for addresses to be looked up.
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t unit = bytes >= 2 * kHugePage ? kHugePage : 64;
  const size_t rounded = (bytes + unit - 1) / unit * unit;
  s->data_ = std::aligned_alloc(unit, rounded ? rounded : 64);
  if (!s->data_) fail(ErrorKind::capacity, "memory", "cannot allocate ", human_bytes(static_cast<double>(bytes)));
  s->owned_ = true;
  if (unit == kHugePage) madvise(s->data_, rounded, MADV_HUGEPAGE);  // a hint: refused where the system has none
  std::memset(s->data_, 0, rounded ? rounded : 64);
  return s;
}

std::shared_ptr<Storage> Storage::borrow(void* data, size_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Storage> s(new Storage);
  s->data_ = data;
  s->size_ = bytes;
  s->owner_ = std::move(owner);
  return s;
}

Storage::~Storage() {
  if (owned_) std::free(data_);
}

Array::Array(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) { storage_ = Storage::allocate(bytes()); }

Array::Array(DType dtype, const Shape& shape, std::shared_ptr<Storage> storage)
    : dtype_(dtype), shape_(shape), storage_(std::move(storage)) {
  if (!storage_ || storage_->size() < bytes()) {
    fail(ErrorKind::usage, "array", "storage too small: need ", bytes(), " bytes for ", dtype, shape);
  }
}

void Array::expect(DType dtype) const {
  if (dtype != dtype_) fail(ErrorKind::usage, "array", "element type differs: got ", dtype, ", need ", dtype_);
}

void Array::fill_from(const void* src, size_t n) {
  if (n != bytes()) fail(ErrorKind::usage, "array", "got ", n, " bytes for ", dtype_, shape_, ", need ", bytes());
  if (n > 0) std::memcpy(raw(), src, n);
}

Array Array::clone() const {
  Array a(dtype_, shape_);
  std::memcpy(a.raw(), raw(), bytes());
  return a;
}

Array Array::reshaped(const Shape& shape) const {
  if (shape.numel() != numel()) fail(ErrorKind::usage, "array", "cannot reshape ", shape_, " to ", shape);
  Array a = *this;
  a.shape_ = shape;
  return a;
}

Array Array::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array out(dtype, shape_);
  const int64_t n = numel();
  dispatch(dtype_, [&]<class S>(S) {
    const S* src = static_cast<const S*>(raw());
    dispatch(dtype, [&]<class D>(D) {
      D* dst = static_cast<D*>(out.raw());
      for (int64_t i = 0; i < n; ++i) dst[i] = element_cast<D>(src[i]);
    });
  });
  return out;
}

}  // namespace freight
