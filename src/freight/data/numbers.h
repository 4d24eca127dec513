// The numbers of a column by row: in memory of its own, or where a program has them, as a data frame's columns are.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/by_index.h"
#include "freight/data/growing.h"

namespace freight::data {

// Numbers in a program's memory, finite or NaN. Any thread may read them.
class NumberSource {
 public:
  virtual ~NumberSource() = default;
  virtual double at(int64_t row) const = 0;
  // Writes the numbers of these rows to `to`, `stride` apart.
  virtual void gather(std::span<const uint32_t> rows, double* to, size_t stride) const = 0;
};

class Numbers {
 public:
  using Element = double;
  Numbers() = default;
  // The source's first `size` numbers.
  Numbers(std::shared_ptr<const NumberSource> source, size_t size) : source_(std::move(source)), size_(size) {}

  size_t size() const { return source_ ? size_ : own_.size(); }
  bool empty() const { return size() == 0; }
  double operator[](size_t i) const { return source_ ? source_->at(static_cast<int64_t>(i)) : own_[i]; }
  void gather(std::span<const uint32_t> rows, double* to, size_t stride) const {
    if (source_) return source_->gather(rows, to, stride);
    const double* const from = own_.data();
    for (size_t i = 0; i < rows.size(); ++i) to[i * stride] = from[rows[i]];
  }

  // These are for numbers in memory of its own (growing.h).
  void push_back(double value) { own_.push_back(value); }
  void reserve(size_t room) { own_.reserve(room); }
  void lie_in(const std::string& folder) { own_.lie_in(folder); }
  void fit() { own_.fit(); }

  // Removes the numbers for which `rows` is false. Those of a program are copied.
  void keep(const std::vector<bool>& rows) {
    Growing<double> copies;
    if (source_) copies.reserve(size());
    size_t kept = 0;
    for (size_t i = 0; i < rows.size() && i < size(); ++i) {
      if (!rows[i]) continue;
      if (source_) {
        copies.push_back((*this)[i]);
      } else {
        own_[kept++] = own_[i];
      }
    }
    if (source_) {
      *this = {};
      own_ = std::move(copies);
    } else {
      own_.resize(kept, 0);
    }
  }

  ByIndex<Numbers> begin() const { return {*this, 0}; }
  ByIndex<Numbers> end() const { return {*this, size()}; }

 private:
  Growing<double> own_;
  std::shared_ptr<const NumberSource> source_;
  size_t size_ = 0;
};

}  // namespace freight::data
