// See torch_file.h. The formats differ in where the bytes of storages lie:
// - zip: NAME/data.pkl, NAME/data/KEY, NAME/byteorder. torch.save stores members; deflated ones are read, too.
// - legacy: pickles of a magic number, the protocol, the writer's types, the content, and the keys of the storages;
// then
//   for each key its size in elements (u64) and its bytes.
// - tar: `storages` and `tensors` are pickles with bytes between them, `pickle` names tensors by their id.
#include "freight/io/torch_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/io/little_endian_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/torch_internal.h"
#include "freight/io/zip_internal.h"

namespace freight::io {

namespace {

using TorchTensors = std::vector<std::pair<std::string, TorchTensor>>;

struct TorchContent {
  TorchTensors tensors;
  std::map<std::string, ByteView> storages;  // by key
  Endian endian = Endian::little;
  std::vector<ZipContent> unpacked;  // what storages that were deflated are views of
};

template <class... Parts>
[[noreturn]] void bad_torch(const std::string& name, const Parts&... parts) {
  fail(ErrorKind::checkpoint, name, parts...);
}

// The number at the beginning of the legacy format, as pickles of protocol 1 write it.
constexpr std::string_view kDecimalMagic = "119547037146038801333356";

constexpr size_t kTarBlock = 512, kTarMagicAt = 257;

bool is_tar(ByteView bytes) {
  return bytes.size() >= kTarBlock && std::memcmp(bytes.data() + kTarMagicAt, "ustar", 5) == 0;
}

// A path that an archive may not have: a program that unpacks it would write outside of its folder.
bool leaves_folder(const std::string& path) {
  if (path.empty() || path.starts_with('/') || path.find('\\') != std::string::npos) return true;
  if (path.find('\0') != std::string::npos || (path.size() > 1 && path[1] == ':')) return true;
  const std::vector<std::string> parts = split(path, '/');
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

void check_paths(const std::vector<std::string>& paths, const std::string& name) {
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    if (leaves_folder(path)) bad_torch(name, "refused: the path of its member ", excerpt(path), " leaves the folder");
    if (!seen.insert(path).second) bad_torch(name, "refused: two members named ", excerpt(path));
  }
}

bool is_archive(ByteView bytes) {
  const auto begins = [&](std::string_view mark) {
    return bytes.size() >= mark.size() && std::memcmp(bytes.data(), mark.data(), mark.size()) == 0;
  };
  return is_zip(bytes) || is_gzip(bytes) || is_tar(bytes) || begins("BZh") ||
         begins(
             "\xfd"
             "7zXZ") ||
         begins("7z\xbc\xaf");
}

// The one folder of the archive, with its slash: "archive/".
std::string folder_of(const std::vector<std::string>& paths, const std::string& name) {
  constexpr std::string_view kContent = "data.pkl";
  std::vector<std::string> folders;
  for (const std::string& path : paths) {
    const size_t slash = path.find('/');
    if (slash != std::string::npos && path.substr(slash + 1) == kContent) folders.push_back(path.substr(0, slash + 1));
  }
  if (folders.size() != 1) {
    bad_torch(name, "a zip archive, but none of PyTorch: expected one member FOLDER/data.pkl, got ", folders.size(),
              " among ", paths.size(), " members, the first is ", paths.empty() ? "none" : excerpt(paths[0]));
  }
  for (const std::string& path : paths) {
    if (!path.starts_with(folders[0])) {
      bad_torch(name, "refused: its member ", excerpt(path), " is outside of the folder ", excerpt(folders[0]));
    }
    if (path == folders[0] + "constants.pkl") {
      bad_torch(name,
                "a TorchScript archive (torch.jit.save), which contains code: save the weights alone, in PyTorch: ",
                "torch.save(model.state_dict(), FILE)");
    }
  }
  return folders[0];
}

// Members are small in the archive and whatever they claim unpacked.
void check_sizes(const std::vector<ZipMember>& members, size_t file, const std::string& name) {
  double claimed = 0;
  for (const ZipMember& m : members) claimed += static_cast<double>(m.size);
  if (claimed > static_cast<double>(most_unpacked(file))) {
    bad_torch(name, "refused: ", human_bytes(static_cast<double>(file)), " unpack to ", human_bytes(claimed),
              ", more than a file of weights would");
  }
  need_memory(claimed, name, "its members");
}

TorchContent read_zip(ByteView bytes, const std::string& name) {
  const ZipArchive archive(bytes, name, ErrorKind::checkpoint);
  std::vector<std::string> paths;
  bool checksums = false;  // set_crc32_options(False) of PyTorch writes none
  for (const ZipMember& m : archive.members()) {
    paths.push_back(m.name);
    checksums = checksums || m.crc != 0;
  }
  check_paths(paths, name);
  check_sizes(archive.members(), bytes.size(), name);
  const std::string folder = folder_of(paths, name), data = folder + "data/";
  TorchContent out;
  ByteView pickle;
  for (const ZipMember& m : archive.members()) {
    ZipContent& content = out.unpacked.emplace_back(archive.read(m, checksums));
    if (m.name.starts_with(data)) {
      out.storages[m.name.substr(data.size())] = content.view;
      continue;
    }
    if (is_archive(content.view)) bad_torch(name, "refused: its member ", excerpt(m.name), " is an archive itself");
    if (m.name == folder + "data.pkl") pickle = content.view;
    if (m.name != folder + "byteorder") continue;
    const std::string order(content.view.begin(), content.view.end());
    if (order != "little" && order != "big") bad_torch(name, "unknown byte order ", excerpt(order));
    out.endian = order == "big" ? Endian::big : Endian::little;
  }
  out.tensors = TorchPickle(read_pickle(pickle, name, torch_global), name).state_dict();
  return out;
}

// Pickles and numbers one after another.
class TorchStream {
 public:
  TorchStream(ByteView bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  TorchPickle pickle(std::map<std::string, TorchTensor> by_id = {}) {
    Pickle p = read_pickle(bytes_.subspan(at_), name_, torch_global);
    at_ += p.size;
    return {std::move(p), name_, std::move(by_id)};
  }
  ByteView take(uint64_t size, const std::string& what) {
    if (size > bytes_.size() - at_) {
      bad_torch(name_, "truncated: ", what, " needs ", size, " bytes at ", at_, " in a file of ", bytes_.size());
    }
    const ByteView v = bytes_.subspan(at_, size);
    at_ += size;
    return v;
  }
  uint64_t word(int size, const std::string& what) { return little_endian(take(static_cast<uint64_t>(size), what)); }
  // The size in elements, then the elements.
  ByteView storage(size_t element, const std::string& what) {
    const uint64_t count = word(8, what);
    if (count > bytes_.size() / element) bad_torch(name_, "truncated: ", what, " has ", count, " elements");
    return take(count * element, what);
  }
  void need_end() const {
    if (at_ != bytes_.size()) bad_torch(name_, bytes_.size() - at_, " bytes after the last storage");
  }

 private:
  ByteView bytes_;
  const std::string& name_;
  size_t at_ = 0;
};

std::string in_words(const std::string& key) { return cat("storage ", excerpt(key)); }

TorchContent read_legacy(ByteView bytes, const std::string& name) {
  TorchStream in(bytes, name);
  const std::string magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  if (const TorchPickle first = in.pickle(); first.root().text != magic && first.root().text != kDecimalMagic) {
    bad_torch(name, "a pickle, but none of PyTorch: it lacks PyTorch's number at the beginning, and contains ",
              to_string(first.root().kind));
  }
  if (const TorchPickle protocol = in.pickle(); protocol.root().integer != 1001) {
    bad_torch(name, "unknown version of PyTorch's format: expected 1001, got ", protocol.root().integer);
  }
  in.pickle();  // sizes of the writer's types; elements are little-endian always
  TorchPickle content = in.pickle();
  const TorchPickle keys = in.pickle();
  const std::map<std::string, TorchStorage> storages = content.storages();
  TorchContent out;
  for (const PickleRef ref : keys.root().items) {
    const std::string key = keys.key(ref);
    const auto it = storages.find(key);
    if (it == storages.end()) bad_torch(name, in_words(key), " belongs to no tensor");
    const ByteView of_it = in.storage(it->second.type ? it->second.type->type.size : 1, in_words(key));
    if (!out.storages.emplace(key, of_it).second) bad_torch(name, "two storages ", excerpt(key));
  }
  in.need_end();
  out.tensors = content.state_dict();
  return out;
}

// The members by name. Links, folders and other names than those of PyTorch are refused.
std::map<std::string, ByteView> tar_members(ByteView bytes, const std::string& name) {
  std::map<std::string, ByteView> all;
  std::vector<std::string> paths;
  for (size_t at = 0; at + kTarBlock <= bytes.size() && bytes[at] != 0;) {
    const ByteView head = bytes.subspan(at, kTarBlock);
    const auto octal = [&](size_t from, size_t digits) {
      uint64_t v = 0;
      for (size_t i = from; i < from + digits && head[i] >= '0' && head[i] <= '7'; ++i) v = v * 8 + (head[i] - '0');
      return v;
    };
    uint64_t sum = 0;
    for (size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : head[i];
    if (octal(148, 6) != sum) bad_torch(name, "corrupt tar archive: checksum of the header at ", at, " differs");
    const std::string path(head.begin(), std::find(head.begin(), head.begin() + 100, '\0'));
    const uint64_t size = octal(124, 11);
    at += kTarBlock;
    if (size > bytes.size() - at) bad_torch(name, "truncated tar archive: ", excerpt(path), " has ", size, " bytes");
    if (head[156] != '0' && head[156] != 0)
      bad_torch(name, "refused: its member ", excerpt(path), " is not a regular file");
    paths.push_back(path);
    all[path] = bytes.subspan(at, size);
    at += std::min((size + kTarBlock - 1) / kTarBlock * kTarBlock, bytes.size() - at);
  }
  check_paths(paths, name);
  for (const auto& [path, content] : all) {
    constexpr std::string_view kKnown[] = {"storages", "tensors", "pickle", "sys_info"};
    if (std::find(std::begin(kKnown), std::end(kKnown), path) == std::end(kKnown)) {
      bad_torch(name, "refused: a tar archive with the member ", excerpt(path),
                ", expected PyTorch's: storages, tensors, pickle, sys_info");
    }
  }
  return all;
}

TorchContent read_tar(ByteView bytes, const std::string& name) {
  std::map<std::string, ByteView> members = tar_members(bytes, name);
  TorchContent out;
  std::map<std::string, TorchStorage> storages;
  TorchStream in(members["storages"], name);
  const TorchPickle count = in.pickle();
  for (int64_t n = count.root().integer; n > 0; --n) {
    const TorchPickle head = in.pickle();  // (key, location, class)
    const PickleValue& root = head.root();
    if (root.kind != PickleKind::tuple || root.items.size() != 3)
      bad_torch(name, "a storage of the tar format is damaged");
    TorchStorage s{.key = head.key(root.items[0]), .type = torch_storage(head[root.items[2]].text)};
    if (!s.type) bad_torch(name, in_words(s.key), ": unknown class ", excerpt(head[root.items[2]].text));
    out.storages[s.key] = in.storage(s.type->type.size, in_words(s.key));
    s.whole = s.size = out.storages[s.key].size() / s.type->type.size;
    storages[s.key] = s;
  }
  const TorchPickle views = in.pickle();  // [(key, key of the whole, offset, size), ...]
  for (const PickleRef ref : views.root().items) {
    const std::vector<PickleRef>& v = views.items(ref, 4, "a view of a storage");
    const auto root = storages.find(views.key(v[1]));
    if (root == storages.end())
      bad_torch(name, "a view of the storage ", excerpt(views.key(v[1])), ", which is missing");
    TorchStorage s = root->second;
    s.begin = static_cast<uint64_t>(views.integer(v[2], "the offset of a view"));
    s.size = static_cast<uint64_t>(views.integer(v[3], "the size of a view"));
    if (s.begin > s.whole || s.size > s.whole - s.begin) bad_torch(name, in_words(s.key), ": a view leaves it");
    storages[views.key(v[0])] = s;
  }
  std::map<std::string, TorchTensor> tensors;
  TorchStream of_tensors(members["tensors"], name);
  const TorchPickle tensor_count = of_tensors.pickle();
  for (int64_t n = tensor_count.root().integer; n > 0; --n) {
    const TorchPickle head = of_tensors.pickle();  // (key, key of the storage, class)
    const PickleValue& root = head.root();
    if (root.kind != PickleKind::tuple || root.items.size() != 3)
      bad_torch(name, "a tensor of the tar format is damaged");
    const auto storage = storages.find(head.key(root.items[1]));
    if (storage == storages.end()) bad_torch(name, "a tensor's storage is missing");
    TorchTensor t{.storage = storage->second, .type = storage->second.type->type};
    const uint64_t axes = of_tensors.word(4, "a tensor");
    of_tensors.take(4, "a tensor");  // the count of axes was written in 8 bytes
    const auto read = [&](std::vector<int64_t>& to) {
      for (uint64_t i = 0; i < axes; ++i) to.push_back(static_cast<int64_t>(of_tensors.word(8, "a tensor")));
    };
    read(t.shape);
    read(t.stride);
    t.offset = static_cast<int64_t>(of_tensors.word(8, "a tensor"));
    tensors[head.key(root.items[0])] = t;
  }
  out.tensors = TorchStream(members["pickle"], name).pickle(std::move(tensors)).state_dict();
  return out;
}

bool contiguous(const TorchTensor& t) {
  int64_t expected = 1;
  for (size_t axis = t.shape.size(); axis-- > 0;) {
    if (t.shape[axis] != 1 && t.stride[axis] != expected) return false;
    expected *= t.shape[axis];
  }
  return true;
}

// The elements in row-major order. `src` begins with that at (0, 0, ...); every stride stays within it.
Bytes gathered(const TorchTensor& t, const uint8_t* src, int64_t count) {
  const size_t size = t.type.size, axes = t.shape.size();
  Bytes out(static_cast<size_t>(count) * size);
  std::vector<int64_t> at(axes, 0);
  int64_t from = 0;
  for (uint8_t* to = out.data(); to != out.data() + out.size(); to += size) {
    std::memcpy(to, src + from * static_cast<int64_t>(size), size);
    for (size_t axis = axes; axis-- > 0;) {
      from += t.stride[axis];
      if (++at[axis] < t.shape[axis]) break;
      from -= t.stride[axis] * t.shape[axis];
      at[axis] = 0;
    }
  }
  return out;
}

class TorchArrays {
 public:
  TorchArrays(const TorchContent& content, std::span<uint8_t> file, const std::string& name,
              std::shared_ptr<void> owner)
      : content_(content), file_(file), name_(name), owner_(std::move(owner)) {}

  SafeTensors make() {
    check_all();
    SafeTensors out;
    std::set<std::string> names;
    for (const auto& [key, tensor] : content_.tensors) {
      if (!names.insert(key).second) bad(key, "appears twice");
      out.tensors.emplace_back(key, array(key, tensor));
    }
    return out;
  }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const std::string& key, const Parts&... parts) const {
    fail(ErrorKind::checkpoint, name_, "tensor '", excerpt(key), "': ", parts...);
  }

  // Before anything is made: a tensor of stride 0 is as large as its shape says, whatever the file contains.
  void check_all() const {
    double bytes = 0;
    for (const auto& [key, t] : content_.tensors) {
      const auto shape = checked_shape(t.shape, t.type.size);
      if (!shape) bad(key, "shape has too many axes or elements");
      bytes += static_cast<double>(shape->numel()) * static_cast<double>(t.type.size);
      check_place(key, t, shape->numel());
    }
    if (bytes > static_cast<double>(most_unpacked(file_.size()))) {
      bad_torch(name_, "refused: the tensors of a file of ", human_bytes(static_cast<double>(file_.size())), " take ",
                human_bytes(bytes), ", more than a file of weights would");
    }
    need_memory(bytes, name_, "its tensors");
  }

  void check_place(const std::string& key, const TorchTensor& t, int64_t count) const {
    const auto it = content_.storages.find(t.storage.key);
    if (it == content_.storages.end()) bad(key, "its storage ", excerpt(t.storage.key), " is not in the file");
    const uint64_t element = t.storage.type ? t.storage.type->type.size : 1, there = it->second.size();
    if (t.storage.whole > there / element || t.storage.whole * element != there) {
      bad(key, "its storage has ", there, " bytes, expected ", t.storage.whole, " elements of ", element, " bytes");
    }
    const uint64_t most = t.storage.size * element / t.type.size;
    int64_t last = t.offset;
    bool within = t.offset >= 0;
    for (size_t axis = 0; within && axis < t.shape.size(); ++axis) {
      int64_t reach = 0;
      within = t.stride[axis] >= 0 && !__builtin_mul_overflow(t.shape[axis] - 1, t.stride[axis], &reach) &&
               !__builtin_add_overflow(last, reach, &last);
    }
    if (!within || (count > 0 && static_cast<uint64_t>(last) >= most)) {
      bad(key, "leaves its storage of ", most, " elements");
    }
  }

  Array array(const std::string& key, const TorchTensor& t) {
    const DType dtype = *dtype_of(t.type);
    const Shape shape(t.shape);
    const int64_t count = shape.numel();
    if (count == 0) return Array(dtype, shape);
    const size_t element = t.storage.type ? t.storage.type->type.size : 1;
    const ByteView storage = content_.storages.at(t.storage.key);
    const uint8_t* src = storage.data() + t.storage.begin * element + static_cast<size_t>(t.offset) * t.type.size;
    Bytes copied;
    size_t bytes = static_cast<size_t>(count) * t.type.size;
    if (contiguous(t)) {
      const bool own = std::greater_equal<>()(src, file_.data()) && std::less<>()(src, file_.data() + file_.size());
      const bool aligned = reinterpret_cast<uintptr_t>(src) % size_of(dtype) == 0;
      // Tensors that share a storage would change with each other.
      if (own && aligned && keeps_bytes(t.type, content_.endian) && borrowed_.insert(t.storage.key).second) {
        return {dtype, shape, Storage::borrow(file_.data() + (src - file_.data()), bytes, owner_)};
      }
    } else {
      copied = gathered(t, src, count);
      src = copied.data();
    }
    Array a(dtype, shape);
    const std::string fault = read_elements(t.type, content_.endian, {src, bytes}, a);
    if (!fault.empty()) bad(key, fault);
    return a;
  }

  const TorchContent& content_;
  std::span<uint8_t> file_;
  const std::string& name_;
  std::shared_ptr<void> owner_;
  std::set<std::string> borrowed_;
};

}  // namespace

bool is_torch_file(ByteView bytes) {
  // Pickles begin with their protocol, or, of protocols 0 and 1, with a container, a mark or a name.
  constexpr std::string_view kFirst = "\x80(]}c";
  const std::string number = cat("L", kDecimalMagic);
  return is_zip(bytes) || is_tar(bytes) ||
         (bytes.size() > number.size() && std::memcmp(bytes.data(), number.data(), number.size()) == 0) ||
         (!bytes.empty() && kFirst.find(static_cast<char>(bytes[0])) != std::string_view::npos);
}

SafeTensors parse_torch_file(std::span<uint8_t> bytes, const std::string& name, std::shared_ptr<void> owner) {
  return reading(name, [&] {
    const TorchContent content = is_zip(bytes)   ? read_zip(bytes, name)
                                 : is_tar(bytes) ? read_tar(bytes, name)
                                                 : read_legacy(bytes, name);
    return TorchArrays(content, bytes, name, owner).make();
  });
}

}  // namespace freight::io
