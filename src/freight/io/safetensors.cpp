// See safetensors.h. The header is read by a SAX parser: order is kept, duplicate keys are seen, and a hostile header
// builds no tree.
#include "freight/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "freight/base/error.h"
#include "freight/io/digest.h"
#include "freight/io/foreign_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/little_endian_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/weights_file.h"

namespace freight::io {

namespace {
using Json = nlohmann::json;

struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Accepts {"__metadata__": {string: string}, NAME: {"dtype": string, "shape": [n...], "data_offsets": [a, b]}, ...}.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  std::map<std::string, std::string> metadata;
  std::vector<Entry> entries;
  std::string fault;

  bool start_object(size_t) override {
    if (depth_ == 0) return ++depth_ == 1;
    if (depth_ != 1 || list_) return bad("an object where none is allowed");
    depth_ = 2;
    if (!in_metadata_) entries.emplace_back().name = key_;
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) {
      const Entry& e = entries.back();
      if (!e.has_dtype || !e.has_shape || !e.has_offsets) return bad("dtype, shape or data_offsets is missing");
    }
    --depth_;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      key_ = text;
      in_metadata_ = text == "__metadata__";
      return names_.insert(text).second || bad("duplicate name");
    }
    field_ = text;
    if (in_metadata_) return !metadata.contains(text) || bad("duplicate key in the metadata");
    Entry& e = entries.back();
    bool* seen = field_ == "dtype"          ? &e.has_dtype
                 : field_ == "shape"        ? &e.has_shape
                 : field_ == "data_offsets" ? &e.has_offsets
                                            : nullptr;
    if (!seen) return bad(cat("unknown field '", field_, "'"));
    if (*seen) return bad(cat("duplicate field '", field_, "'"));
    *seen = true;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && !list_ && in_metadata_) {
      metadata[field_] = text;
      return true;
    }
    if (depth_ != 2 || list_ || field_ != "dtype") return bad("unexpected string");
    entries.back().dtype = text;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || list_ || in_metadata_ || field_ == "dtype") return bad("unexpected list");
    list_ = field_ == "shape" ? &entries.back().shape : &entries.back().offsets;
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool number_unsigned(uint64_t v) override {
    if (!list_) return bad("unexpected number");
    if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return bad("number out of range");
    if (list_->size() > 64) return bad("too many axes");
    list_->push_back(static_cast<int64_t>(v));
    return true;
  }
  bool number_integer(int64_t) override { return bad("negative number"); }
  bool number_float(double, const std::string&) override { return bad("number that is not an integer"); }
  bool boolean(bool) override { return bad("unexpected boolean"); }
  // Some writers say of a file without metadata that they are null.
  bool null() override { return (depth_ == 1 && in_metadata_) || bad("unexpected null"); }
  bool binary(binary_t&) override { return bad("unexpected binary"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    fault = cat("not valid JSON at byte ", at);
    return false;
  }

 private:
  bool bad(const std::string& what) {
    fault = key_.empty() ? what : cat(what, " ('", key_, "')");
    return false;
  }
  int depth_ = 0;
  bool in_metadata_ = false;
  std::vector<int64_t>* list_ = nullptr;
  std::string key_, field_;
  std::unordered_set<std::string> names_;
};

struct Named {
  const char* name;
  ForeignType type;
};
constexpr Named kTypes[] = {{"F32", {'f', 4}},  {"F64", {'f', 8}}, {"F16", {'f', 2}},     {"BF16", {'B', 2}},
                            {"I8", {'i', 1}},   {"I16", {'i', 2}}, {"I32", {'i', 4}},     {"I64", {'i', 8}},
                            {"U8", {'u', 1}},   {"U16", {'u', 2}}, {"U32", {'u', 4}},     {"U64", {'u', 8}},
                            {"BOOL", {'b', 1}}, {"C64", {'c', 8}}, {"F8_E4M3", {'4', 1}}, {"F8_E5M2", {'5', 1}}};

uint64_t header_size_of(ByteView prefix, uint64_t file_size, const std::string& name) {
  if (ends_with(name, ".onnx")) fail(ErrorKind::checkpoint, name, "is an ONNX file, expected a .safetensors file");
  if (file_size < 8) fail(ErrorKind::checkpoint, name, "truncated safetensors file: ", file_size, " bytes");
  const uint64_t n = little_endian(prefix.first(8));
  if (n > kMaxSafetensorsHeader) {
    fail(ErrorKind::checkpoint, name, "not a safetensors file: header of ", n, " bytes, the limit is ",
         kMaxSafetensorsHeader);
  }
  if (n > file_size - 8) {
    fail(ErrorKind::checkpoint, name, "truncated safetensors file: header of ", n, " bytes in a file of ", file_size);
  }
  return n;
}

// A tensor as the header describes it, whose bytes are there.
struct Described {
  std::string name;
  ForeignType type;
  Shape shape;
  size_t begin = 0, bytes = 0;  // behind the header
  DType dtype() const { return *dtype_of(type); }
  bool as_in_memory() const { return keeps_bytes(type, Endian::little); }
};
struct Contents {
  std::map<std::string, std::string> metadata;
  std::vector<Described> tensors;
};
// Reads the header of a file that has so many bytes behind it.
Contents read_header(ByteView header, uint64_t body_size, const std::string& name);

// Converts and checks elements that are in the file in another form than in memory.
void convert(const Described& t, ByteView bytes, Array& out, const std::string& name) {
  const std::string fault = read_elements(t.type, Endian::little, bytes, out);
  if (!fault.empty()) fail(ErrorKind::checkpoint, name, "tensor '", t.name, "': ", fault);
}

// `own`: where the bytes may be borrowed from, kept alive by `owner`; null where they must be copied.
SafeTensors parse(ByteView bytes, const std::string& name, uint8_t* own, const std::shared_ptr<void>& owner);
}  // namespace

const Array* SafeTensors::find(const std::string& name) const {
  for (const auto& [key, array] : tensors) {
    if (key == name) return &array;
  }
  return nullptr;
}

SafeTensors parse_safetensors(ByteView bytes, const std::string& name) {
  return reading(name, [&] { return parse(bytes, name, nullptr, {}); });
}

SafeTensors parse_safetensors(std::span<uint8_t> bytes, const std::string& name, std::shared_ptr<void> owner) {
  return reading(name, [&] { return parse(bytes, name, bytes.data(), owner); });
}

SafeTensors load_safetensors(const std::string& path) {
  if (std::optional<SafeTensors> file = load_safetensors_in_place(path)) return *std::move(file);
  const auto bytes = std::make_shared<Bytes>(read_file(path));
  return parse_safetensors({bytes->data(), bytes->size()}, path, bytes);
}

bool starts_safetensors(ByteView bytes) {
  if (bytes.size() < 9 || bytes[8] != '{') return false;
  return little_endian(bytes.first(8)) <= kMaxSafetensorsHeader;
}

// Each tensor begins where Storage::allocate would let it begin, so that it can become a variable's as it is.
std::optional<SafeTensors> load_safetensors_in_place(const std::string& path) {
  constexpr size_t kStart = 9, kAlignment = 64;
  const PartsOfFile file(path);
  Bytes start(kStart);
  if (file.size() < kStart) return std::nullopt;
  file.read({{0, start.data(), kStart}});
  if (!starts_safetensors(start)) return std::nullopt;
  return reading(path, [&] {
    Bytes text(header_size_of(start, file.size(), path));
    const size_t body = 8 + text.size();
    file.read({{8, text.data(), text.size()}});
    Contents header = read_header(text, file.size() - body, path);
    size_t all = 0;
    const auto place = [&](const Described& t) {
      return std::exchange(all, all + (t.bytes + kAlignment - 1) / kAlignment * kAlignment);
    };
    std::vector<size_t> places;
    for (const Described& t : header.tensors) places.push_back(place(t));
    need_memory(static_cast<double>(all), path, "its bytes");
    const std::shared_ptr<Storage> block = Storage::allocate(all);
    auto* const to = static_cast<uint8_t*>(block->data());
    std::vector<PartsOfFile::Part> parts;
    for (size_t i = 0; i < places.size(); ++i) {
      parts.push_back({body + header.tensors[i].begin, to + places[i], header.tensors[i].bytes});
    }
    file.read(parts);
    SafeTensors out;
    out.metadata = std::move(header.metadata);
    for (size_t i = 0; i < places.size(); ++i) {
      const Described& t = header.tensors[i];
      Array array;
      if (t.as_in_memory()) {
        array = Array(t.dtype(), t.shape, Storage::borrow(to + places[i], t.bytes, block));
      } else {
        array = Array(t.dtype(), t.shape);
        convert(t, {to + places[i], t.bytes}, array, path);
      }
      out.tensors.emplace_back(t.name, std::move(array));
    }
    return out;
  });
}

namespace {

Contents read_header(ByteView header, uint64_t body_size, const std::string& name) {
  if (header.empty() || header[0] != '{') {
    fail(ErrorKind::checkpoint, name, "not a safetensors file: the header does not start with '{'");
  }
  HeaderReader reader;
  if (!Json::sax_parse(header.begin(), header.end(), &reader)) {
    fail(ErrorKind::checkpoint, name, "bad safetensors header: ", reader.fault);
  }

  Contents out;
  out.metadata = std::move(reader.metadata);
  // Types, shapes and ranges first, so that nothing is allocated for a file that lies.
  for (const Entry& e : reader.entries) {
    const auto* t =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Named& n) { return e.dtype == n.name; });
    if (t == std::end(kTypes)) {
      fail(ErrorKind::checkpoint, name, "tensor '", e.name, "': element type '", e.dtype, "' is not supported");
    }
    const auto shape = checked_shape(e.shape, 16);
    if (!shape) fail(ErrorKind::checkpoint, name, "tensor '", e.name, "': shape has too many axes or elements");
    if (e.offsets.size() != 2 || e.offsets[0] > e.offsets[1] || static_cast<uint64_t>(e.offsets[1]) > body_size) {
      fail(ErrorKind::checkpoint, name, "tensor '", e.name, "': data_offsets out of range, the file contains ",
           body_size, " bytes of data");
    }
    const int64_t need = shape->numel() * static_cast<int64_t>(t->type.size);
    if (e.offsets[1] - e.offsets[0] != need) {
      fail(ErrorKind::checkpoint, name, "tensor '", e.name, "': shape ", *shape, " of ", e.dtype, " needs ", need,
           " bytes, data_offsets give ", e.offsets[1] - e.offsets[0]);
    }
    out.tensors.push_back({e.name, t->type, *shape, static_cast<size_t>(e.offsets[0]), static_cast<size_t>(need)});
  }
  std::vector<size_t> order(reader.entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return reader.entries[a].offsets < reader.entries[b].offsets; });
  int64_t end = 0;
  for (const size_t i : order) {
    const Entry& e = reader.entries[i];
    if (e.offsets[0] != end) {
      fail(ErrorKind::checkpoint, name, "tensor '", e.name,
           "': ", e.offsets[0] < end ? "overlaps" : "leaves a gap after", " the one before: starts at ", e.offsets[0],
           ", expected ", end);
    }
    end = e.offsets[1];
  }
  if (static_cast<uint64_t>(end) != body_size) {
    fail(ErrorKind::checkpoint, name, "bytes after the last tensor: expected ", end, ", got ", body_size);
  }
  return out;
}

SafeTensors parse(ByteView bytes, const std::string& name, uint8_t* own, const std::shared_ptr<void>& owner) {
  const uint64_t header_size = header_size_of(bytes, bytes.size(), name);
  const ByteView body = bytes.subspan(8 + header_size);
  Contents header = read_header(bytes.subspan(8, header_size), body.size(), name);
  SafeTensors out;
  out.metadata = std::move(header.metadata);
  for (const Described& t : header.tensors) {
    const ByteView src = body.subspan(t.begin, t.bytes);
    const bool aligned = reinterpret_cast<uintptr_t>(src.data()) % size_of(t.dtype()) == 0;
    if (own && aligned && t.as_in_memory()) {
      auto storage = Storage::borrow(own + (src.data() - bytes.data()), src.size(), owner);
      out.tensors.emplace_back(t.name, Array(t.dtype(), t.shape, std::move(storage)));
      continue;
    }
    Array a(t.dtype(), t.shape);
    convert(t, src, a, name);
    out.tensors.emplace_back(t.name, std::move(a));
  }
  return out;
}

// A file as it will stand on disk: the beginning, then the bytes of the tensors.
struct Layout {
  std::string head;
  std::vector<ByteView> pieces;
};

Layout layout_of(const std::string& path, const SafeTensors& content) {
  // Wide element types come first in the data, so that every tensor is aligned to its element.
  std::vector<size_t> order(content.tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size_of(content.tensors[a].second.dtype()) > size_of(content.tensors[b].second.dtype());
  });
  std::vector<size_t> begin(order.size());
  size_t total = 0;
  for (const size_t i : order) {
    begin[i] = total;
    total += content.tensors[i].second.bytes();
  }
  std::string header = "{";
  try {
    if (!content.metadata.empty()) header += "\"__metadata__\":" + Json(content.metadata).dump() + ",";
    std::unordered_set<std::string> seen{"__metadata__"};
    for (size_t i = 0; i < content.tensors.size(); ++i) {
      const auto& [name, a] = content.tensors[i];
      if (!seen.insert(name).second) fail(ErrorKind::usage, path, "tensor name '", name, "' is taken or reserved");
      if (*info(a.dtype()).safetensors == '\0')
        fail(ErrorKind::usage, path, "tensor '", name, "': safetensors files have no ", a.dtype(),
             "; save an npz file");
      header += cat(Json(name).dump(), ":{\"dtype\":\"", info(a.dtype()).safetensors,
                    "\",\"shape\":", Json(a.shape().vector()).dump(), ",\"data_offsets\":[", begin[i], ",",
                    begin[i] + a.bytes(), "]},");
    }
  } catch (const Json::exception& e) {
    fail(ErrorKind::usage, path, "a name or metadata value is not valid UTF-8: ", e.what());
  }
  if (header.back() == ',') header.pop_back();
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxSafetensorsHeader)
    fail(ErrorKind::usage, path, "header of ", header.size(), " bytes is above the limit");
  Layout out;
  put_little_endian(out.head, header.size(), 8);
  out.head += header;
  for (const size_t i : order) {
    const Array& a = content.tensors[i].second;
    out.pieces.emplace_back(static_cast<const uint8_t*>(a.raw()), a.bytes());
  }
  return out;
}

void write(const std::string& path, const Layout& layout) {
  AtomicFile file(path);
  file.write(layout.head);
  for (const ByteView piece : layout.pieces) file.write(piece);
  file.commit();
}

}  // namespace

void save_safetensors(const std::string& path, const SafeTensors& content) { write(path, layout_of(path, content)); }

PartHashes save_hashed_safetensors(const std::string& path, const SafeTensors& content) {
  const Layout layout = layout_of(path, content);
  std::vector<ByteView> all{{reinterpret_cast<const uint8_t*>(layout.head.data()), layout.head.size()}};
  all.insert(all.end(), layout.pieces.begin(), layout.pieces.end());
  std::future<PartHashes> hashes = std::async(std::launch::async, [&] { return part_hashes(all); });
  write(path, layout);
  return hashes.get();
}

}  // namespace freight::io
