// See protocol.h. The JSON is read by a SAX handler: the numbers of tensors go straight into flat lists, everything
// else into a small document whose depth and number of values are limited.
#include "freight/serve/protocol.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::serve {

namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 16;       // of the document and of nested data
constexpr size_t kMaxValues = 10'000;  // of the document, without the data of tensors
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxTexts = 65'536;  // per input: an empty text takes 4 bytes of the body, but 32 of memory
constexpr DataType kTypes[] = {DataType::fp32,  DataType::fp64,  DataType::uint8,
                               DataType::int32, DataType::int64, DataType::bytes};
constexpr uint64_t kMostInt64 = std::numeric_limits<int64_t>::max();
// Up to here every integer is a double; larger ones that are not become this.
constexpr int64_t kMostExact = int64_t{1} << 53;

// The "data" of one input, and how its lists are nested.
struct Data {
  std::vector<double> numbers;
  std::vector<std::pair<size_t, int64_t>> exact;  // the elements that are written as integers from 2^53 on
  std::vector<std::string> texts;
  bool given = false;
  std::vector<int64_t> extents;  // the lengths of the lists at each depth
  bool ragged = false;           // lists of one depth have different lengths
};

// Builds the document without the `data` of inputs[i], which goes to data[i].
class Reader : public nlohmann::json_sax<json> {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  json document;
  std::vector<Data> data;

  bool null() override {
    if (in_data()) refuse("null is not an element of a tensor (NaN has no JSON form)");
    return add(nullptr);
  }
  bool boolean(bool value) override {
    if (in_data()) refuse("true and false are not elements of a tensor that a model accepts");
    return add(value);
  }
  bool number_integer(number_integer_t value) override { return in_data() ? integer(value) : add(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_data()) return add(value);
    return value <= kMostInt64 ? integer(static_cast<int64_t>(value)) : number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return in_data() ? number(value) : add(value); }
  bool string(string_t& value) override {
    if (!in_data()) return add(std::move(value));
    if (data.back().texts.size() == kMaxTexts) refuse(cat("an input has more than ", kMaxTexts, " texts"));
    data.back().texts.push_back(std::move(value));
    return element();
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override {
    if (in_data()) refuse("an object is not an element of a tensor");
    return open(json::object());
  }
  bool start_array(size_t) override {
    if (!in_data()) {
      if (!is_data()) return open(json::array());
      data.resize(document["inputs"].size());
      if (data.back().given) refuse("an input has \"data\" twice");
      data.back().given = true;
    }
    if (open_lists_.size() == kMaxDepth) refuse(cat("data is nested deeper than ", kMaxDepth));
    if (in_data()) ++open_lists_.back();
    open_lists_.push_back(0);
    return true;
  }
  bool end_array() override {
    if (!in_data()) return close();
    Data& d = data.back();
    const size_t depth = open_lists_.size() - 1;
    if (d.extents.size() <= depth) d.extents.resize(depth + 1, kUnknown);
    if (d.extents[depth] == kUnknown) d.extents[depth] = open_lists_.back();
    d.ragged = d.ragged || d.extents[depth] != open_lists_.back();
    open_lists_.pop_back();
    // Elements are only allowed in the innermost lists.
    if (in_data()) return true;
    if (element_depth_ != 0 && element_depth_ != d.extents.size()) d.ragged = true;
    element_depth_ = 0;
    return true;
  }
  bool end_object() override { return close(); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t place, const std::string&, const nlohmann::detail::exception& e) override {
    refuse(cat("not valid JSON at byte ", place, ": ", io::json_fault(e)));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(ErrorKind::usage, name_, what); }

  bool in_data() const { return !open_lists_.empty(); }
  // Counts an element, a number or text, of a tensor.
  bool element() {
    if (element_depth_ == 0) element_depth_ = open_lists_.size();
    if (element_depth_ != open_lists_.size()) data.back().ragged = true;
    ++open_lists_.back();
    return true;
  }
  // True if the value that begins now is inputs[i].data.
  bool is_data() const {
    return open_.size() == 3 && key_ == "data" && open_[2]->is_object() && document.contains("inputs") &&
           open_[1] == &document["inputs"] && open_[1]->is_array();
  }
  bool integer(int64_t value) {
    if (value >= kMostExact || value <= -kMostExact) data.back().exact.emplace_back(data.back().numbers.size(), value);
    return number(static_cast<double>(value));
  }
  bool number(double value) {
    data.back().numbers.push_back(value);
    return element();
  }
  json* place(json&& value) {
    if (++values_ > kMaxValues) refuse(cat("more than ", kMaxValues, " JSON values other than the tensors' data"));
    if (open_.empty()) {
      document = std::move(value);
      return &document;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    const auto [at, fresh] = parent.emplace(key_, std::move(value));
    if (!fresh) refuse(cat("\"", excerpt(key_), "\" appears twice in an object"));
    return &*at;
  }
  bool add(json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(json&& value) {
    if (open_.size() == kMaxDepth) refuse(cat("the JSON is nested deeper than ", kMaxDepth));
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string name_, key_;
  std::vector<json*> open_;  // a parent never grows while a child is open, so the pointers stay valid
  static constexpr int64_t kUnknown = -1;
  std::vector<int64_t> open_lists_;  // of data: how many members each open list has so far
  size_t element_depth_ = 0;         // the number of lists around its first element; 0: there was none
  size_t values_ = 0;
};

struct Parser {
  io::ByteView rest;  // binary tensors that were not read yet
  std::string name;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorKind::usage, name, parts...);
  }

  // A member of the expected kind; null if it is missing.
  const json* find(const json& object, const char* key, json::value_t kind, const char* kind_name) const {
    const auto it = object.find(key);
    if (it == object.end()) return nullptr;
    const bool number = kind == json::value_t::number_unsigned && it->is_number_unsigned();
    if (!number && it->type() != kind) refuse("\"", key, "\" must be ", kind_name, ", got ", it->type_name());
    return &*it;
  }
  const json& need(const json& object, const char* key, json::value_t kind, const char* kind_name) const {
    const json* found = find(object, key, kind, kind_name);
    if (!found) refuse("\"", key, "\" is missing");
    return *found;
  }
  std::string text(const json& object, const char* key) const {
    return need(object, key, json::value_t::string, "a text").get<std::string>();
  }
  const json& parameters(const json& object) const {
    static const json kNone = json::object();
    const json* found = find(object, "parameters", json::value_t::object, "an object");
    return found ? *found : kNone;
  }
  bool flag(const json& object, const char* key) const {
    const json* found = find(object, key, json::value_t::boolean, "true or false");
    return found && found->get<bool>();
  }

  DataType datatype(const json& input, const std::string& input_name) const {
    const std::string got = text(input, "datatype");
    for (const DataType type : kTypes) {
      if (got == to_string(type)) return type;
    }
    refuse("input \"", excerpt(input_name), "\": expected one of FP32, FP64, UINT8, INT32, INT64, BYTES, got datatype ",
           excerpt(got));
  }

  Shape shape(const json& input, const std::string& input_name) const {
    const json& list = need(input, "shape", json::value_t::array, "a list of integers");
    if (list.empty() || list.size() > kMaxRank) {
      refuse("input \"", excerpt(input_name), "\": a shape has 1 to ", kMaxRank, " sizes, got ", list.size());
    }
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const json& extent : list) {
      if (!extent.is_number_unsigned() || extent.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
        refuse("input \"", excerpt(input_name), "\": the sizes of a shape are integers from 0 to ",
               std::numeric_limits<int32_t>::max(), ", got ",
               excerpt(extent.dump(-1, ' ', false, json::error_handler_t::replace)));
      }
      extents.push_back(extent.get<int64_t>());
      if (__builtin_mul_overflow(count, extents.back(), &count)) {
        refuse("input \"", excerpt(input_name), "\": the shape has too many elements");
      }
    }
    return Shape(extents);
  }

  io::ByteView take(size_t size, const std::string& input_name) {
    if (size > rest.size()) {
      refuse("input \"", excerpt(input_name), "\": binary_data_size is ", size, ", but ", rest.size(),
             " bytes are left of the body");
    }
    const io::ByteView out = rest.first(size);
    rest = rest.subspan(size);
    return out;
  }

  // Texts, each preceded by its length in four bytes, little-endian.
  std::vector<std::string> unpack(io::ByteView bytes, const std::string& input_name) const {
    std::vector<std::string> out;
    while (!bytes.empty()) {
      uint32_t size = 0;
      if (bytes.size() < sizeof size) refuse("input \"", excerpt(input_name), "\": a length of BYTES is truncated");
      std::memcpy(&size, bytes.data(), sizeof size);
      bytes = bytes.subspan(sizeof size);
      if (out.size() == kMaxTexts) refuse("input \"", excerpt(input_name), "\": more than ", kMaxTexts, " texts");
      if (size > bytes.size()) {
        refuse("input \"", excerpt(input_name), "\": a text of ", size, " bytes, but ", bytes.size(), " are left");
      }
      out.emplace_back(reinterpret_cast<const char*>(bytes.data()), size);
      bytes = bytes.subspan(size);
    }
    return out;
  }

  void check_count(size_t got, const NamedTensor& t) const {
    if (static_cast<int64_t>(got) != t.shape.numel()) {
      refuse("input \"", excerpt(t.name), "\": shape ", t.shape, " needs ", t.shape.numel(), " elements, got ", got);
    }
  }

  void read_binary(NamedTensor& t, io::ByteView bytes) const {
    if (t.type == DataType::bytes) {
      t.texts = unpack(bytes, t.name);
      return check_count(t.texts.size(), t);
    }
    const size_t size = size_of(array_type(t.type));
    if (bytes.size() % size != 0) {
      refuse("input \"", excerpt(t.name), "\": ", bytes.size(), " bytes are not a whole number of ", to_string(t.type));
    }
    check_count(bytes.size() / size, t);
    t.values = Array(array_type(t.type), t.shape);
    if (!bytes.empty()) std::memcpy(t.values.raw(), bytes.data(), bytes.size());
  }

  // Checks that data is flat, or nested like the shape.
  void check_nesting(const Data& data, const NamedTensor& t) const {
    if (data.ragged) {
      refuse("input \"", excerpt(t.name), "\": the lists of data differ in length or depth, shape ", t.shape,
             " needs a flat list or equal ones");
    }
    if (data.extents.size() > 1 && data.extents != t.shape.vector()) {
      refuse("input \"", excerpt(t.name), "\": data is nested as [", joined(data.extents), "], shape ", t.shape,
             " needs that nesting or a flat list");
    }
  }
  static std::string joined(const std::vector<int64_t>& extents) {
    std::vector<std::string> texts;
    for (const int64_t e : extents) texts.push_back(std::to_string(e));
    return join(texts, ",");
  }

  void read_numbers(NamedTensor& t, Data& data) const {
    check_nesting(data, t);
    if (t.type == DataType::bytes) {
      if (!data.numbers.empty()) refuse("input \"", excerpt(t.name), "\": expected strings for BYTES, got a number");
      check_count(data.texts.size(), t);
      t.texts = std::move(data.texts);
      return;
    }
    if (!data.texts.empty())
      refuse("input \"", excerpt(t.name), "\": ", to_string(t.type), " expects numbers, got a string");
    check_count(data.numbers.size(), t);
    t.values = Array(array_type(t.type), t.shape);
    for (size_t i = 0; i < data.numbers.size(); ++i) {
      const double v = data.numbers[i];
      switch (t.type) {
        case DataType::fp32: t.values.data<float>()[i] = static_cast<float>(v); break;
        case DataType::fp64: t.values.data<double>()[i] = v; break;
        case DataType::uint8:
          if (v != std::floor(v) || v < 0 || v > 255) out_of_range(t, i, v, "0 to 255");
          t.values.data<uint8_t>()[i] = static_cast<uint8_t>(v);
          break;
        case DataType::int64: break;  // read below
        default:
          if (v != std::floor(v) || v < std::numeric_limits<int32_t>::min() ||
              v > std::numeric_limits<int32_t>::max()) {
            out_of_range(t, i, v, "32 bits");
          }
          t.values.data<int32_t>()[i] = static_cast<int32_t>(v);
      }
    }
    if (t.type == DataType::int64) read_int64(t, data);
  }
  // Reads integers exactly as written, even if no double equals them. A number in another form, such as 1e18, may have
  // been rounded from 2^53 on.
  void read_int64(NamedTensor& t, const Data& data) const {
    auto exact = data.exact.begin();
    for (size_t i = 0; i < data.numbers.size(); ++i) {
      int64_t& to = t.values.data<int64_t>()[i];
      if (exact != data.exact.end() && exact->first == i) {
        to = (exact++)->second;
        continue;
      }
      const double v = data.numbers[i];
      if (v != std::floor(v) || std::abs(v) >= static_cast<double>(kMostExact)) {
        out_of_range(t, i, v, "64 bits, which need all their digits from 2^53 on");
      }
      to = static_cast<int64_t>(v);
    }
  }
  [[noreturn]] void out_of_range(const NamedTensor& t, size_t i, double v, const char* range) const {
    refuse("input \"", excerpt(t.name), "\": element ", i, " is ", v, ", ", to_string(t.type), " holds integers of ",
           range);
  }

  NamedTensor input(const json& j, Data& data) {
    if (!j.is_object()) refuse("an input must be an object, got ", j.type_name());
    NamedTensor t;
    t.name = text(j, "name");
    t.type = datatype(j, t.name);
    t.shape = shape(j, t.name);
    const json& p = parameters(j);
    if (p.contains("shared_memory_region"))
      refuse("input \"", excerpt(t.name), "\": shared memory is not offered; send data");
    if (const json* size = find(p, "binary_data_size", json::value_t::number_unsigned, "a count of bytes")) {
      if (data.given) refuse("input \"", excerpt(t.name), "\" has both data and binary_data_size");
      read_binary(t, take(size->get<size_t>(), t.name));
    } else {
      if (!data.given) refuse("input \"", excerpt(t.name), "\": \"data\" is missing, a list (or binary_data_size)");
      read_numbers(t, data);
    }
    if (t.type == DataType::fp32) need_finite<float>(t);
    if (t.type == DataType::fp64) need_finite<double>(t);
    return t;
  }

  template <class T>
  void need_finite(const NamedTensor& t) const {
    const T* values = t.values.data<T>();
    for (int64_t i = 0; i < t.values.numel(); ++i) {
      if (!std::isfinite(values[i])) {
        refuse("input \"", excerpt(t.name), "\": element ", i, " is ", values[i], ", expected finite numbers");
      }
    }
  }

  WantedOutput output(const json& j) const {
    if (!j.is_object()) refuse("an output must be an object, got ", j.type_name());
    WantedOutput o{.name = text(j, "name")};
    const json& p = parameters(j);
    if (p.contains("shared_memory_region")) refuse("output \"", excerpt(o.name), "\": shared memory is not offered");
    o.binary = flag(p, "binary_data");
    if (const json* k = find(p, "classification", json::value_t::number_unsigned, "a count of classes")) {
      o.classification = static_cast<int64_t>(std::min<uint64_t>(k->get<uint64_t>(), 1 << 20));
    }
    return o;
  }

  static DType array_type(DataType type) {
    switch (type) {
      case DataType::fp64: return DType::f64;
      case DataType::uint8: return DType::u8;
      case DataType::int32: return DType::i32;
      case DataType::int64: return DType::i64;
      default: return DType::f32;
    }
  }
};

// Appends the binary form of a tensor.
void append_binary(std::string& out, const NamedTensor& t) {
  if (t.type != DataType::bytes) {
    out.append(static_cast<const char*>(t.values.raw()), t.values.bytes());
    return;
  }
  for (const std::string& text : t.texts) {
    const auto size = static_cast<uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out += text;
  }
}

// A text as JSON. Most names need no escapes, and making a serializer for each costs more than writing the response's
// numbers.
std::string quoted(const std::string& text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; });
  return plain ? cat("\"", text, "\"") : json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string json_text(const NamedTensor& t, size_t i) {
  switch (t.type) {
    case DataType::fp32: return cat(t.values.data<float>()[i]);
    case DataType::fp64: return cat(t.values.data<double>()[i]);
    case DataType::uint8: return cat(static_cast<int>(t.values.data<uint8_t>()[i]));
    case DataType::int32: return cat(t.values.data<int32_t>()[i]);
    case DataType::int64: return cat(t.values.data<int64_t>()[i]);
    case DataType::bytes: break;
  }
  return quoted(t.texts[i]);
}

}  // namespace

const char* to_string(DataType type) {
  switch (type) {
    case DataType::fp32: return "FP32";
    case DataType::fp64: return "FP64";
    case DataType::uint8: return "UINT8";
    case DataType::int32: return "INT32";
    case DataType::int64: return "INT64";
    case DataType::bytes: return "BYTES";
  }
  return "";
}

InferRequest parse_infer(io::ByteView body, std::optional<size_t> json_size, const std::string& name) {
  Parser p{{}, name};
  if (json_size) {
    if (*json_size > body.size()) {
      p.refuse("Inference-Header-Content-Length is ", *json_size, ", the body has ", body.size(), " bytes");
    }
    p.rest = body.subspan(*json_size);
    body = body.first(*json_size);
  }
  Reader reader(name);
  json::sax_parse(body.data(), body.data() + body.size(), &reader);
  const json& j = reader.document;
  if (!j.is_object()) p.refuse("the JSON must be an object with \"inputs\", got ", j.type_name());
  InferRequest r;
  if (j.contains("id")) r.id = p.text(j, "id");
  const json& inputs = p.need(j, "inputs", json::value_t::array, "a list");
  if (inputs.empty()) p.refuse("\"inputs\" is empty");
  reader.data.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) r.inputs.push_back(p.input(inputs[i], reader.data[i]));
  if (!p.rest.empty()) p.refuse(p.rest.size(), " bytes follow the binary tensors");
  r.binary_outputs = p.flag(p.parameters(j), "binary_data_output");
  if (const json* outputs = p.find(j, "outputs", json::value_t::array, "a list")) {
    std::set<std::string> names;
    for (const json& output : *outputs) {
      r.outputs.push_back(p.output(output));
      // Each mention would make a copy of the whole result.
      if (!names.insert(r.outputs.back().name).second)
        p.refuse("output \"", excerpt(r.outputs.back().name), "\" is named twice");
    }
  }
  return r;
}

InferResponse write_infer(const std::string& model, const std::string& id, const std::vector<Output>& outputs) {
  // Written without a JSON library, since every request does this.
  std::string text = cat("{\"model_name\":", quoted(model), ",\"model_version\":\"1\"");
  if (!id.empty()) text += cat(",\"id\":", quoted(id));
  text += ",\"outputs\":[";
  std::string binary;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedTensor& t = outputs[i].tensor;
    text += cat(i ? "," : "", "{\"name\":", quoted(t.name), ",\"datatype\":\"", to_string(t.type),
                "\",\"shape\":", t.shape);
    if (outputs[i].binary) {
      const size_t before = binary.size();
      append_binary(binary, t);
      text += cat(",\"parameters\":{\"binary_data_size\":", binary.size() - before, "}}");
      continue;
    }
    text += ",\"data\":[";
    for (int64_t k = 0; k < t.shape.numel(); ++k) {
      const auto at = static_cast<size_t>(k);
      if (k) text += ',';
      text += json_text(t, at);
    }
    text += "]}";
  }
  text += "]}";
  if (binary.empty()) return {text, {}};
  const size_t size = text.size();
  return {text + binary, size};
}

std::string error_json(const std::string& text) { return cat("{\"error\":", quoted(text), "}"); }

}  // namespace freight::serve
