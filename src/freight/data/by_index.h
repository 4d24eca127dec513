// An iterator over what a container returns by index, for containers whose elements are computed.
#pragma once
#include <cstddef>
#include <iterator>

namespace freight::data {

template <class Container>
class ByIndex {
 public:
  using value_type = typename Container::Element;
  using difference_type = std::ptrdiff_t;
  using reference = value_type;
  using pointer = void;
  using iterator_category = std::input_iterator_tag;
  ByIndex(const Container& of, size_t at) : of_(&of), at_(at) {}
  value_type operator*() const { return (*of_)[at_]; }
  ByIndex& operator++() {
    ++at_;
    return *this;
  }
  friend bool operator==(const ByIndex& a, const ByIndex& b) { return a.at_ == b.at_; }

 private:
  const Container* of_;
  size_t at_;
};

}  // namespace freight::data
