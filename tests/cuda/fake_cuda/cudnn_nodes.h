// Graphs of the fake cuDNN that are no convolutions: products, pointwise operations, reductions and views, computed one
// after the other as they are described, in the types that their tensors say.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace fake {

struct StreamState;
struct Handle {
  StreamState* stream = nullptr;
};

struct Descriptor {
  int type;
  bool final = false;
  int engine = 0;                                // of an engine and its configuration
  std::map<int, std::vector<char>> values = {};  // by attribute
  std::map<int, std::vector<Descriptor*>> parts = {};
};

template <class T>
std::vector<T> values(const Descriptor& d, int name) {
  const auto it = d.values.find(name);
  if (it == d.values.end()) return {};
  std::vector<T> all(it->second.size() / sizeof(T));
  std::memcpy(all.data(), it->second.data(), all.size() * sizeof(T));
  return all;
}
inline const Descriptor* part(const Descriptor& d, int name, size_t i = 0) {
  const auto it = d.parts.find(name);
  return it == d.parts.end() || i >= it->second.size() ? nullptr : it->second[i];
}

// Whether a graph is one of these.
bool has_nodes(const Descriptor& graph);
// What is wrong with it; empty where nothing is.
std::string misfit_of_nodes(const Descriptor& graph);
// Whether the engines that are played know it: products of heads of 8, 16 ... 128 numbers in 16 bits.
bool knows_nodes(const Descriptor& graph);

// A graph with its addresses.
class NodeWork {
 public:
  // `why` is what is wrong with them.
  NodeWork(const Descriptor& graph, const std::vector<int64_t>& ids, const std::vector<void*>& addresses,
           std::string& why);
  void run() const;

  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  struct Tensor {
    int64_t id = 0;
    int type = 0;
    std::vector<int64_t> extents, strides;
    int64_t alignment = 0;
    bool made_inside = false, number = false;
    void* address = nullptr;
    float value = 0;  // of a number, as it was when the work was enqueued
  };
  struct Node {
    int type = 0, mode = 0;
    int64_t axis = -1;
    std::vector<Tensor> in;
    Tensor out;
  };

 private:
  std::vector<Node> nodes_;
};

}  // namespace fake
