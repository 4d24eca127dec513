// Arrays with one element per node or per value of a graph. Their subscript is the id itself, so that a node's number
// cannot stand where a value's is meant, and the conversion to a position is written once.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "freight/ir/type.h"

namespace freight {

struct Graph;

// The ids from one up to, not including, another, or back down: for (const NodeId i : graph.node_ids()).
template <class Id>
class IdRange {
 public:
  struct Iterator {
    int32_t at, step;
    Id operator*() const { return {at}; }
    Iterator& operator++() {
      at += step;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };

  explicit IdRange(size_t count) : IdRange(0, static_cast<int32_t>(count), 1) {}
  IdRange(Id first, Id end) : IdRange(first.id, std::max(first.id, end.id), 1) {}
  Iterator begin() const { return {first_, step_}; }
  Iterator end() const { return {end_, step_}; }
  IdRange reversed() const { return {end_ - step_, first_ - step_, -step_}; }

 private:
  IdRange(int32_t first, int32_t end, int32_t step) : first_(first), end_(end), step_(step) {}
  int32_t first_, end_, step_;
};

template <class Id, class T>
class ById {
 public:
  ById() = default;
  explicit ById(size_t count, const T& value = T()) : at_(count, value) {}
  // One element for each node, or value, that the graph has now.
  explicit ById(const Graph& graph, const T& value = T()) : at_(count_of(graph, Id{}), value) {}

  decltype(auto) operator[](Id id) { return at_[id.index()]; }
  decltype(auto) operator[](Id id) const { return at_[id.index()]; }
  size_t size() const { return at_.size(); }
  bool empty() const { return at_.empty(); }
  void resize(size_t count, const T& value = T()) { at_.resize(count, value); }
  void reserve(size_t count) { at_.reserve(count); }
  void push_back(T value) { at_.push_back(std::move(value)); }
  auto begin() { return at_.begin(); }
  auto end() { return at_.end(); }
  auto begin() const { return at_.begin(); }
  auto end() const { return at_.end(); }
  // The id of an element, which an algorithm over begin() and end() found.
  Id id_of(typename std::vector<T>::const_iterator at) const { return {static_cast<int32_t>(at - at_.begin())}; }
  IdRange<Id> ids() const { return IdRange<Id>(at_.size()); }

 private:
  std::vector<T> at_;
};
template <class T>
using ByNode = ById<NodeId, T>;
template <class T>
using ByValue = ById<Value, T>;

}  // namespace freight
