// Copies between tensors of any strides, of elements of 1, 2, 4, 8 or 16 bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/base/shape.h"

namespace freight::cpu {

class StridedCopy {
 public:
  // Strides in elements. The elements of the result lie apart.
  StridedCopy(const Shape& shape, size_t element_bytes, const Strides& from, const Strides& to);
  // The copy falls into `parts` of about equal size, as many as there are tasks at most; this is one of them.
  int64_t tasks() const { return tasks_; }
  void run(const void* from, void* to, int64_t part, int64_t parts) const;

 private:
  struct Axis {
    int64_t n = 1, from = 0, to = 0;
  };
  template <class T>
  void run_as(const T* from, T* to, int64_t first, int64_t last) const;

  std::vector<Axis> outer_;
  // Innermost: lines of elements that lie side by side in the result; in the source they do as well, or the lines do.
  Axis lines_, along_;
  int64_t block_ = 1, blocks_ = 1;  // lines of a task, tasks of one outer index
  int64_t tasks_ = 1;
  size_t element_bytes_ = 1;
};

}  // namespace freight::cpu
