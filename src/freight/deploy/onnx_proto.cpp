// See onnx_proto_internal.h. A message is a list of pieces: text made here, and arrays that are written from where they
// lie, so that a large net is never copied.
#include "freight/base/error.h"
#include "freight/deploy/onnx_proto_internal.h"
#include "freight/io/file.h"

namespace freight::deploy::onnx {

namespace {

class Message {
 public:
  Message& integer(int field, int64_t v) {
    tag(field, kVarint);
    varint(static_cast<uint64_t>(v));
    return *this;
  }
  Message& number(int field, float v) {
    tag(field, kFixed32);
    const auto* p = reinterpret_cast<const char*>(&v);  // little-endian, as every machine that Freight runs on
    text().append(p, sizeof v);
    size_ += sizeof v;
    return *this;
  }
  Message& string(int field, std::string_view s) {
    tag(field, kBytes);
    varint(s.size());
    text().append(s);
    size_ += s.size();
    return *this;
  }
  Message& bytes(int field, const Array& array) {
    tag(field, kBytes);
    varint(array.bytes());
    pieces_.push_back({{}, array});
    size_ += array.bytes();
    return *this;
  }
  Message& message(int field, const Message& m) {
    tag(field, kBytes);
    varint(m.size_);
    for (const ProtoChunk& p : m.pieces_) {
      if (p.array.defined()) {
        pieces_.push_back(p);
      } else {
        text().append(p.text);
      }
    }
    size_ += m.size_;
    return *this;
  }
  size_t size() const { return size_; }
  void write(io::AtomicFile& file) const {
    for (const ProtoChunk& p : pieces_) {
      if (p.array.defined()) {
        file.write(p.array.raw(), p.array.bytes());
      } else {
        file.write(p.text);
      }
    }
  }

 private:
  enum Wire : uint8_t { kVarint = 0, kBytes = 2, kFixed32 = 5 };
  struct ProtoChunk {
    std::string text;
    Array array;
  };

  std::string& text() {
    if (pieces_.empty() || pieces_.back().array.defined()) pieces_.emplace_back();
    return pieces_.back().text;
  }
  void tag(int field, Wire wire) { varint(static_cast<uint64_t>(field) << 3 | wire); }
  void varint(uint64_t v) {
    do {
      const auto low = static_cast<uint8_t>(v & 0x7f);
      v >>= 7;
      text() += static_cast<char>(v != 0 ? low | 0x80 : low);
      ++size_;
    } while (v != 0);
  }

  std::vector<ProtoChunk> pieces_;
  size_t size_ = 0;
};

Message message_of(const Attribute& a) {
  enum Type : int64_t { kFloat = 1, kInt = 2, kString = 3, kFloats = 6, kInts = 7, kStrings = 8 };
  Message m;
  m.string(1, a.name);
  if (const auto* i = std::get_if<int64_t>(&a.value)) return m.integer(3, *i).integer(20, kInt);
  if (const auto* f = std::get_if<float>(&a.value)) return m.number(2, *f).integer(20, kFloat);
  if (const auto* s = std::get_if<std::string>(&a.value)) return m.string(4, *s).integer(20, kString);
  if (const auto* all = std::get_if<std::vector<float>>(&a.value)) {
    for (const float f : *all) m.number(7, f);
    return m.integer(20, kFloats);
  }
  if (const auto* all = std::get_if<std::vector<std::string>>(&a.value)) {
    for (const std::string& s : *all) m.string(9, s);
    return m.integer(20, kStrings);
  }
  for (const int64_t i : std::get<std::vector<int64_t>>(a.value)) m.integer(8, i);
  return m.integer(20, kInts);
}

Message message_of(const Node& n) {
  Message m;
  for (const std::string& name : n.inputs) m.string(1, name);
  for (const std::string& name : n.outputs) m.string(2, name);
  m.string(3, n.name).string(4, n.op);
  for (const Attribute& a : n.attributes) m.message(5, message_of(a));
  if (!n.domain.empty()) m.string(7, n.domain);
  return m;
}

Message message_of(const Initializer& t) {
  Message m;
  for (const int64_t d : t.array.shape()) m.integer(1, d);
  return m.integer(2, data_type(t.array.dtype())).string(8, t.name).bytes(9, t.array);
}

Message message_of(const ValueInfo& v) {
  Message shape;
  for (const Extent& e : v.shape) {
    shape.message(1, e.name.empty() ? Message().integer(1, e.value) : Message().string(2, e.name));
  }
  const Message tensor = Message().integer(1, data_type(v.dtype)).message(2, shape);
  return Message().string(1, v.name).message(2, Message().message(1, tensor));
}

}  // namespace

int64_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1;
    case DType::u8: return 2;
    case DType::i32: return 6;
    case DType::i64: return 7;
    case DType::boolean: return 9;
    case DType::f16: return 10;
    case DType::f64: return 11;
    case DType::bf16: return 16;
    case DType::i8: return 3;
    case DType::u16: return 4;
    case DType::i16: return 5;
    case DType::u32: return 12;
    case DType::u64: return 13;
    case DType::c64:
    case DType::c128:
      fail(ErrorKind::usage, "onnx", "the exported operators do not support complex numbers: got ", dtype);
  }
  return 0;
}

void save(const std::string& path, const Model& model) {
  Message graph;
  for (const Node& n : model.nodes) graph.message(1, message_of(n));
  graph.string(2, model.name.empty() ? "net" : model.name);  // must not be empty; a spec may have no name
  for (const Initializer& t : model.initializers) graph.message(5, message_of(t));
  for (const ValueInfo& v : model.inputs) graph.message(11, message_of(v));
  for (const ValueInfo& v : model.outputs) graph.message(12, message_of(v));
  Message file;
  file.integer(1, kIrVersion).string(2, "freight").string(3, model.producer_version).message(7, graph);
  file.message(8, Message().string(1, "").integer(2, kOpset));
  if (model.trees) file.message(8, Message().string(1, kTreesDomain).integer(2, kTreesOpset));
  for (const auto& [key, value] : model.metadata) file.message(14, Message().string(1, key).string(2, value));
  if (file.size() > kMaxBytes) {
    fail(ErrorKind::capacity, path, "the ONNX file would have ", file.size(), " bytes, the format allows ", kMaxBytes);
  }
  io::AtomicFile out(path);
  file.write(out);
  out.commit();
}

}  // namespace freight::deploy::onnx
