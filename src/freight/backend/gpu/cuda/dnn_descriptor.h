// cuDNN's C interface is made of descriptors, whose attributes are set before they are finalized and put into
// others. Only dnn*.cpp see this.
#pragma once
#include <algorithm>

#include "freight/backend/gpu/cuda/abi.h"
#include "freight/backend/gpu/cuda/dnn.h"

namespace freight::cuda {

struct DnnFunctions {
  FREIGHT_CUDNN_FUNCTIONS(FREIGHT_POINTER)
};
const DnnFunctions& dnn_functions();  // loaded
// Throws Error(device) where it is no success.
void check_dnn(int status, const char* what);

using Descriptor = std::shared_ptr<DnnDescriptor>;
using Four = std::array<int64_t, 4>;
struct DnnAttribute {
  int name, type;
  const void* values;
  size_t count = 1;  // 0: not set
};

// Holds what `create` makes, destroyed with its last owner.
using Handle = std::shared_ptr<void>;
template <class Create>
Handle made(const Create& create, int (*destroy)(void*)) {
  void* descriptor = nullptr;
  check_dnn(create(&descriptor), "a descriptor");
  return {descriptor, [destroy](void* p) {
            if (!leaving()) destroy(p);
          }};
}

// Keeps what was put into it.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(int type)
      : p_(made([&](void** p) { return dnn_functions().BackendCreateDescriptor(type, p); },
                dnn_functions().BackendDestroyDescriptor)) {}

  void set(const DnnAttribute& a) {
    const auto count = static_cast<int64_t>(a.count);
    if (count > 0)
      check_dnn(dnn_functions().BackendSetAttribute(pointer(), a.name, a.type, count, a.values), "an attribute");
  }
  void set(int name, const std::vector<Descriptor>& parts) {
    std::vector<void*> all;
    for (const auto& part : parts) all.push_back(part->pointer());
    set({name, cudnn::kDescriptor, all.data(), all.size()});
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }
  // Keeps a part that it refers to by way of what the library put into it.
  void keep(Descriptor part) { parts_.push_back(std::move(part)); }
  // The library's status: what it does not support is one, too.
  int finalize() { return dnn_functions().BackendFinalize(pointer()); }
  // `all`: as many as there may be, which the library overwrites, or descriptors that it fills.
  template <class T>
  std::vector<T> get(int name, int type, std::vector<T> all) const {
    int64_t count = 0;
    check_dnn(dnn_functions().BackendGetAttribute(pointer(), name, type, static_cast<int64_t>(all.size()), &count,
                                                  all.data()),
              "an attribute");
    all.resize(std::min(all.size(), static_cast<size_t>(count)));
    return all;
  }
  void* pointer() const { return p_.get(); }

 private:
  std::vector<Descriptor> parts_;
  Handle p_;  // destroyed before its parts
};
inline Descriptor descriptor(int type) { return std::make_shared<DnnDescriptor>(type); }
// Finalized; a part that is null is left out.
Descriptor descriptor(int type, std::initializer_list<DnnAttribute> attributes,
                      std::initializer_list<std::pair<int, Descriptor>> parts = {});

// Tensors are named by numbers: those of a step 1, 2 ... as they are listed, numbers on the host from kScale on, those
// that a graph keeps to itself from kFirstVirtual on.
constexpr int64_t kScale = 17, kHidden = 18, kOne = 19, kFirstVirtual = 20, kLeastAlignment = 16;
Descriptor tensor(int64_t id, const Four& extents, const Four& strides, int type, int64_t alignment = kLeastAlignment);
// y = mode(x, b), or the choice of t between them; b and t may be null. `axis`: of an index.
Descriptor pointwise(int mode, const Descriptor& x, const Descriptor& b, const Descriptor& y,
                     const Descriptor& t = nullptr, int64_t axis = -1);
int data_type(DType dtype);
// A graph of attention consists of these.
std::vector<Descriptor> operations_of(const StepSpec& attention);

}  // namespace freight::cuda
