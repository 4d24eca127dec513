// See torch_internal.h.
#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/io/torch_internal.h"

namespace freight::io {

namespace {

constexpr TorchType kTorchTypes[] = {{"FloatStorage", "float32", {'f', 4}},
                                     {"DoubleStorage", "float64", {'f', 8}},
                                     {"HalfStorage", "float16", {'f', 2}},
                                     {"BFloat16Storage", "bfloat16", {'B', 2}},
                                     {"LongStorage", "int64", {'i', 8}},
                                     {"IntStorage", "int32", {'i', 4}},
                                     {"ShortStorage", "int16", {'i', 2}},
                                     {"CharStorage", "int8", {'i', 1}},
                                     {"ByteStorage", "uint8", {'u', 1}},
                                     {"BoolStorage", "bool", {'b', 1}},
                                     {"ComplexFloatStorage", "complex64", {'c', 8}},
                                     {"ComplexDoubleStorage", "complex128", {'c', 16}},
                                     {"", "uint16", {'u', 2}},
                                     {"", "uint32", {'u', 4}},
                                     {"", "uint64", {'u', 8}},
                                     {"", "float8_e4m3fn", {'4', 1}},
                                     {"", "float8_e5m2", {'5', 1}},
                                     {"", "float8_e4m3fnuz", {'x', 1}},
                                     {"", "float8_e5m2fnuz", {'y', 1}}};

// Functions that give a tensor. The first three take the storage, offset, shape and strides.
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor",
                           kRebuildTensor2 = "torch._utils._rebuild_tensor_v2",
                           kRebuildTensor3 = "torch._utils._rebuild_tensor_v3",
                           kRebuildParameter = "torch._utils._rebuild_parameter",
                           kRebuildParameterWithState = "torch._utils._rebuild_parameter_with_state",
                           kRebuildFromType = "torch._tensor._rebuild_from_type_v2",
                           kParameter = "torch.nn.parameter.Parameter", kSize = "torch.Size";
constexpr std::string_view kTensorFunctions[] = {
    kRebuildTensor, kRebuildTensor2, kRebuildTensor3, kRebuildParameter, kRebuildParameterWithState, kRebuildFromType};

// The keys under which programs put the state_dict of a model in a checkpoint, the likeliest first.
constexpr std::string_view kStateDicts[] = {"state_dict", "model_state_dict", "model_state", "model",  "module",
                                            "net",        "network",          "weights",     "params", "ema_state_dict",
                                            "model_ema",  "state_dict_ema"};
// Many tensors may name one text or tuple of any length, which each would copy.
constexpr size_t kLongestName = 4096, kMostAxes = 64;

template <class List>
bool among(std::string_view text, const List& list) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

bool is_untyped_storage(std::string_view global) {
  return global == "torch.storage.UntypedStorage" || global == "torch.UntypedStorage";
}

// "FloatStorage" of "torch.FloatStorage" and "torch.cuda.FloatStorage"; else empty.
std::string_view torch_class(std::string_view global) {
  for (const std::string_view module : {"torch.cuda.", "torch."}) {
    if (!global.starts_with(module)) continue;
    const std::string_view name = global.substr(module.size());
    return name.find('.') == std::string_view::npos ? name : std::string_view();
  }
  return {};
}

const TorchType* torch_dtype(std::string_view global) {
  for (const TorchType& t : kTorchTypes) {
    if (torch_class(global) == t.dtype) return &t;
  }
  return nullptr;
}

// "torch.FloatTensor": torch 0.1 made an empty one, whose state is what _rebuild_tensor takes.
bool is_tensor_class(std::string_view global) {
  const std::string_view name = torch_class(global);
  constexpr std::string_view kEnd = "Tensor";
  return name.ends_with(kEnd) && torch_storage(cat("torch.", name.substr(0, name.size() - kEnd.size()), "Storage"));
}

}  // namespace

const TorchType* torch_type(DType dtype) {
  for (const TorchType& t : kTorchTypes) {
    if (keeps_bytes(t.type, Endian::little) && dtype_of(t.type) == dtype) return &t;
    if (dtype == DType::boolean && t.type.kind == 'b') return &t;
  }
  return nullptr;
}

const TorchType* torch_storage(std::string_view global) {
  const std::string_view name = torch_class(global);
  for (const TorchType& t : kTorchTypes) {
    if (!name.empty() && name == t.storage) return &t;
  }
  return nullptr;
}

PickleGlobal torch_global(std::string_view global) {
  constexpr std::string_view kClasses[] = {"torch.Tensor", "torch.nn.parameter.Buffer"};
  if (among(global, kTensorFunctions) || global == kSize) return PickleGlobal::function;
  if (global == kParameter || is_tensor_class(global)) return PickleGlobal::object;
  const bool value =
      torch_storage(global) || torch_dtype(global) || is_untyped_storage(global) || among(global, kClasses);
  return value ? PickleGlobal::value : PickleGlobal::refused;
}

template <class... Parts>
void TorchPickle::bad(const Parts&... parts) const {
  fail(ErrorKind::checkpoint, name_, parts...);
}

const std::vector<PickleRef>& TorchPickle::items(PickleRef ref, size_t least, const char* what) const {
  const PickleValue& v = pickle_[ref];
  if ((v.kind != PickleKind::tuple && v.kind != PickleKind::list) || v.items.size() < least) {
    bad(what, ": expected a tuple of at least ", least, " values, got ", to_string(v.kind), " of ", v.items.size());
  }
  return v.items;
}

int64_t TorchPickle::integer(PickleRef ref, const char* what) const {
  const PickleValue& v = pickle_[ref];
  if (v.kind != PickleKind::integer || v.integer < 0) {
    bad(what, ": expected an integer from 0 on, got ",
        v.kind == PickleKind::integer ? cat(v.integer) : std::string(to_string(v.kind)));
  }
  return v.integer;
}

std::string TorchPickle::key(PickleRef ref) const {
  const PickleValue& v = pickle_[ref];
  if (v.kind == PickleKind::text && v.text.size() <= kLongestName) return v.text;
  if (v.kind == PickleKind::integer) return cat(v.integer);
  bad("the key of a storage: expected a string or an integer, got ", to_string(v.kind));
}

// A torch.Size or a tuple.
std::vector<int64_t> TorchPickle::extents(PickleRef ref, const char* what) const {
  const PickleValue& v = pickle_[ref];
  if (v.kind == PickleKind::call && pickle_[v.items[0]].text == kSize) {
    return extents(items(v.items[1], 1, what)[0], what);
  }
  std::vector<int64_t> out;
  if (v.items.size() > kMostAxes) bad(what, " has ", v.items.size(), " axes");
  for (const PickleRef i : items(ref, 0, what)) out.push_back(integer(i, what));
  return out;
}

// ("storage", class, key, location, size), in the format before zip with a view: None or (key, offset, size).
TorchStorage TorchPickle::storage(PickleRef ref) const {
  const PickleValue& v = pickle_[ref];
  if (v.kind != PickleKind::persistent) bad("a tensor's storage: expected one of the file, got ", to_string(v.kind));
  const std::vector<PickleRef>& id = items(v.items[0], 5, "the id of a storage");
  const PickleValue &kind = pickle_[id[0]], &type = pickle_[id[1]];
  if (kind.text != "storage") bad("the id of an object: expected a storage, got ", excerpt(kind.text));
  TorchStorage s{.key = key(id[2]), .type = torch_storage(type.text)};
  if (!s.type && !is_untyped_storage(type.text))
    bad("storage ", excerpt(s.key), ": unknown class ", excerpt(type.text));
  s.whole = s.size = static_cast<uint64_t>(integer(id[4], "the size of a storage"));
  if (id.size() > 5 && pickle_[id[5]].kind != PickleKind::none) {
    const std::vector<PickleRef>& view = items(id[5], 3, "a view of a storage");
    s.begin = static_cast<uint64_t>(integer(view[1], "the offset of a view"));
    s.size = static_cast<uint64_t>(integer(view[2], "the size of a view"));
    if (s.begin > s.whole || s.size > s.whole - s.begin) {
      bad("storage ", excerpt(s.key), ": a view of ", s.size, " elements from ", s.begin, " on leaves its ", s.whole);
    }
  }
  return s;
}

std::map<std::string, TorchStorage> TorchPickle::storages() const {
  std::map<std::string, TorchStorage> all;
  for (PickleRef i = 0; i < pickle_.values.size(); ++i) {
    if (pickle_[i].kind != PickleKind::persistent) continue;
    TorchStorage s = storage(i);
    all.try_emplace(s.key, s);
  }
  return all;
}

const TorchTensor* TorchPickle::tensor_of_id(const PickleValue& v) const {
  if (by_id_.empty() || v.kind != PickleKind::persistent) return nullptr;
  const auto it = by_id_.find(key(v.items[0]));
  return it == by_id_.end() ? nullptr : &it->second;
}

bool TorchPickle::is_tensor(PickleRef ref) const {
  const PickleValue& v = pickle_[ref];
  if (tensor_of_id(v)) return true;
  if (v.kind != PickleKind::call) return false;
  const std::string& function = pickle_[v.items[0]].text;
  return among(function, kTensorFunctions) || function == kParameter ||
         (v.items.size() == 3 && is_tensor_class(function));
}

TorchTensor TorchPickle::tensor(PickleRef ref) const {
  const PickleValue& v = pickle_[ref];
  if (const TorchTensor* const known = tensor_of_id(v)) return *known;
  if (!is_tensor(ref)) bad("a parameter: expected a tensor, got ", to_string(v.kind));
  const std::string& function = pickle_[v.items[0]].text;
  if (is_tensor_class(function)) return rebuilt(std::string(kRebuildTensor), items(v.items[2], 4, "a tensor"));
  return rebuilt(function, items(v.items[1], 0, "a tensor"));
}

TorchTensor TorchPickle::rebuilt(const std::string& function, const std::vector<PickleRef>& arguments) const {
  const size_t least = function == kRebuildTensor3 ? 7 : function == kRebuildFromType ? 3 : 1;
  // The state of a Parameter is whether it is trained, and its hooks.
  const bool parameter =
      function == kRebuildParameter || function == kRebuildParameterWithState || function == kParameter;
  const bool from_storage = !parameter && function != kRebuildFromType;
  if (arguments.size() < (from_storage ? std::max<size_t>(least, 4) : least)) {
    bad(function, ": got ", arguments.size(), " arguments");
  }
  if (parameter) return tensor(arguments[0]);
  if (function == kRebuildFromType) {  // (function, class, arguments, attributes)
    const std::string& inner = pickle_[arguments[0]].text;
    if (!among(inner, kTensorFunctions))
      bad(function, ": expected a function that gives a tensor, got ", excerpt(inner));
    // A tuple is complete before it is used, so it cannot contain itself. A list can.
    const PickleKind kind = pickle_[arguments[2]].kind;
    if (kind != PickleKind::tuple) bad("the arguments of a tensor: expected a tuple, got ", to_string(kind));
    return rebuilt(inner, items(arguments[2], 0, "the arguments of a tensor"));
  }
  TorchTensor t{.storage = storage(arguments[0])};
  t.offset = integer(arguments[1], "the offset of a tensor");
  t.shape = extents(arguments[2], "the shape of a tensor");
  t.stride = extents(arguments[3], "the strides of a tensor");
  if (t.shape.size() != t.stride.size())
    bad("a tensor has ", t.shape.size(), " axes and ", t.stride.size(), " strides");
  const TorchType* type = t.storage.type;
  if (function == kRebuildTensor3) type = torch_dtype(pickle_[arguments[6]].text);
  if (!type) bad("a tensor's element type is not supported: ", excerpt(pickle_[arguments.back()].text));
  const size_t metadata = function == kRebuildTensor3 ? 7 : 6;
  if (arguments.size() > metadata && !pickle_[arguments[metadata]].items.empty()) {
    bad("a tensor is a conjugate or negative view: save tensor.resolve_conj().resolve_neg()");
  }
  t.type = type->type;
  if (t.storage.type && t.storage.type->type.size != t.type.size) {
    bad("a tensor of ", type->dtype, " lies in a ", t.storage.type->storage);
  }
  return t;
}

// Each dict is looked through once: a pickle may contain one a million times.
bool TorchPickle::has_tensors(PickleRef ref) {
  const PickleValue& v = pickle_[ref];
  if (v.kind != PickleKind::dict) return false;
  const auto [it, fresh] = has_tensors_.try_emplace(ref, false);
  for (size_t i = 0; fresh && !it->second && i + 1 < v.items.size(); i += 2) {
    it->second = pickle_[v.items[i]].kind == PickleKind::text && is_tensor(v.items[i + 1]);
  }
  return it->second;
}

std::optional<PickleRef> TorchPickle::find_state_dict(PickleRef ref, std::set<PickleRef>& seen) {
  const PickleValue& v = pickle_[ref];
  if (v.kind != PickleKind::dict || !seen.insert(ref).second) return {};
  std::map<std::string_view, PickleRef> dicts;
  std::vector<std::string> with_tensors;
  for (size_t i = 0; i + 1 < v.items.size(); i += 2) {
    const PickleValue& name = pickle_[v.items[i]];
    if (name.kind != PickleKind::text || pickle_[v.items[i + 1]].kind != PickleKind::dict) continue;
    dicts[name.text] = v.items[i + 1];
    if (has_tensors(v.items[i + 1])) with_tensors.push_back(excerpt(name.text));
  }
  for (const std::string_view known : kStateDicts) {
    const auto it = dicts.find(known);
    if (it == dicts.end()) continue;
    if (const auto found = find_state_dict(it->second, seen)) return found;
  }
  if (has_tensors(ref)) return ref;
  if (with_tensors.empty()) return {};
  if (with_tensors.size() == 1) {
    return std::find_if(dicts.begin(), dicts.end(), [&](const auto& d) { return has_tensors(d.second); })->second;
  }
  with_tensors.resize(std::min<size_t>(with_tensors.size(), 8));
  bad("contains several state dicts, none under a usual name: ", join(with_tensors, ", "),
      "; save the one to load in a file of its own");
}

std::vector<std::pair<std::string, TorchTensor>> TorchPickle::state_dict() {
  std::set<PickleRef> seen;
  const std::optional<PickleRef> at = find_state_dict(pickle_.root, seen);
  if (!at) {
    bad("contains ", is_tensor(pickle_.root) ? "a tensor" : to_string(root().kind),
        root().kind == PickleKind::dict ? " without tensors by name" : "",
        ", expected a state_dict (tensors by name) or a checkpoint that contains one");
  }
  const std::vector<PickleRef>& found = pickle_[*at].items;
  std::vector<std::pair<std::string, TorchTensor>> out;
  for (size_t i = 0; i + 1 < found.size(); i += 2) {
    const PickleValue& name = pickle_[found[i]];
    if (name.kind != PickleKind::text || !is_tensor(found[i + 1])) continue;
    if (name.text.size() > kLongestName) bad("a tensor's name has ", name.text.size(), " bytes");
    out.emplace_back(name.text, tensor(found[i + 1]));
  }
  // DataParallel and torch.compile wrap a network, and its names with it.
  for (const std::string_view prefix : {"module.", "_orig_mod.", "module."}) {
    const bool all = std::all_of(out.begin(), out.end(), [&](const auto& t) { return t.first.starts_with(prefix); });
    for (auto& [name, tensor] : out) name.erase(0, all ? prefix.size() : 0);
  }
  return out;
}

}  // namespace freight::io
