// Internal to the reader of PyTorch's files: what the formats have in common, and the tensors of a pickle.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "freight/io/foreign_internal.h"
#include "freight/io/pickle_internal.h"

namespace freight::io {

// An element type by the names of its storage class ("" where it has none of its own), and of the dtype.
struct TorchType {
  const char* storage;  // "FloatStorage"
  const char* dtype;    // "float32"
  ForeignType type;
};
const TorchType* torch_type(DType dtype);                 // that has its bytes
const TorchType* torch_storage(std::string_view global);  // "torch.FloatStorage", "torch.cuda.FloatStorage"; or null

PickleGlobal torch_global(std::string_view global);  // for read_pickle

// A part of a storage, in elements: what an id in a pickle names.
struct TorchStorage {
  std::string key;                          // of its bytes
  const TorchType* type = nullptr;          // null: untyped, of bytes
  uint64_t whole = 0, begin = 0, size = 0;  // elements of the storage; the part of it
};
struct TorchTensor {
  TorchStorage storage;
  ForeignType type = {};
  int64_t offset = 0;  // in elements of the storage
  std::vector<int64_t> shape = {}, stride = {};
};

// Finds state dicts and tensors in a pickle. `name` is of the file, for errors, and outlives this.
class TorchPickle {
 public:
  // `by_id`: the tensors that ids name, in the tar format.
  TorchPickle(Pickle pickle, const std::string& name, std::map<std::string, TorchTensor> by_id = {})
      : pickle_(std::move(pickle)), name_(name), by_id_(std::move(by_id)) {}
  const PickleValue& root() const { return pickle_[pickle_.root]; }
  // The tensors by name, in order.
  std::vector<std::pair<std::string, TorchTensor>> state_dict();
  // The storages of the whole pickle by key, each with the type that the pickle first says.
  std::map<std::string, TorchStorage> storages() const;

  // The items of a tuple or list of at least so many; `what` is for errors.
  const std::vector<PickleRef>& items(PickleRef ref, size_t least, const char* what) const;
  int64_t integer(PickleRef ref, const char* what) const;  // from 0 on
  std::string key(PickleRef ref) const;                    // a text or an integer
  const PickleValue& operator[](PickleRef ref) const { return pickle_[ref]; }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const;
  const TorchTensor* tensor_of_id(const PickleValue& v) const;
  bool is_tensor(PickleRef ref) const;
  bool has_tensors(PickleRef ref);
  TorchTensor tensor(PickleRef ref) const;
  TorchTensor rebuilt(const std::string& function, const std::vector<PickleRef>& arguments) const;
  TorchStorage storage(PickleRef ref) const;
  std::vector<int64_t> extents(PickleRef ref, const char* what) const;
  std::optional<PickleRef> find_state_dict(PickleRef ref, std::set<PickleRef>& seen);

  Pickle pickle_;
  const std::string& name_;
  std::map<std::string, TorchTensor> by_id_;
  std::map<PickleRef, bool> has_tensors_;
};

}  // namespace freight::io
