// See json_internal.h. The library's own parser neither limits depth nor sees that a key stands twice, so the tree is
// built here from its events.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "freight/base/printable.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::io {

namespace {

std::string twice_fault(const std::string& key) {
  return cat("the key \"", excerpt(key), "\" appears twice in one object");
}
std::string syntax_fault(std::string_view text, size_t at, const std::exception& e) {
  const std::string_view before = text.substr(0, at == 0 ? 0 : at - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  return cat("not valid JSON at line ", line, ", column ", before.size() - (before.rfind('\n') + 1) + 1, ": ",
             json_fault(e));
}
std::string size_fault(std::string_view text) {
  return text.size() <= kMaxJsonBytes ? std::string()
                                      : cat("JSON of ", text.size(), " bytes, the limit is ", kMaxJsonBytes);
}

// The events of both kinds of documents are the same, so that one instance of the library's parsers serves both.
using Events = nlohmann::json_sax<nlohmann::json>;
using Form = nlohmann::json::input_format_t;

bool read_events(std::string_view text, Form form, Events& events) {
  return nlohmann::json::sax_parse(text.begin(), text.end(), &events, form);
}

// `fault` says why the events ended early.
template <class Json>
class Builder : public Events {
 public:
  Builder(std::string_view text, Form form) : text_(text), form_(form) {}

  Json document;
  std::string fault;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override {
    keys_.pop_back();
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& text) override {
    key_ = std::move(text);
    if (keys_.back().insert(key_).second) return true;
    fault = twice_fault(key_);
    return false;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    fault =
        form_ == Form::json ? syntax_fault(text_, at, e) : cat("not valid UBJSON at byte ", at, ": ", json_fault(e));
    return false;
  }

 private:
  Json* place(Json&& value) {
    if (open_.empty()) {
      document = std::move(value);
      return &document;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    using Object = typename Json::object_t;
    auto& members = parent.template get_ref<Object&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      // Not emplace: it looks through all members for the key, which is known to be new.
      typename Object::Container& list = members;
      list.emplace_back(key_, std::move(value));
      return &list.back().second;
    } else {
      return &members.emplace(key_, std::move(value)).first->second;
    }
  }
  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& value) {
    if (open_.size() == kMaxJsonDepth) {
      fault = cat("nested deeper than ", kMaxJsonDepth, " levels of JSON");
      return false;
    }
    if (value.is_object()) keys_.emplace_back();
    open_.push_back(place(std::move(value)));
    return true;
  }

  std::string_view text_;
  Form form_;
  std::string key_;
  std::vector<Json*> open_;                            // a parent never grows while a child is open: pointers hold
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
};

// The members of one object, without those of values that are objects or arrays themselves.
class FlatReader : public Events {
 public:
  using Member = std::function<bool(const std::string& key, const JsonValue& value)>;
  FlatReader(std::string_view text, const Member& member) : text_(text), member_(member) {}

  std::string fault;

  bool null() override { return value(JsonType::null, ""); }
  bool boolean(bool v) override { return value(JsonType::boolean, v ? "true" : "false"); }
  bool number_integer(int64_t v) override { return number(v); }
  bool number_unsigned(uint64_t v) override { return number(v); }
  bool number_float(double, const std::string& written) override { return value(JsonType::fraction, written); }
  bool string(std::string& v) override { return value(JsonType::text, v); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return depth_ == 0 ? open() : nested("an object"); }
  bool start_array(size_t) override { return depth_ == 0 ? no_object() : nested("an array"); }
  bool end_object() override { return end_array(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) key_.swap(text);
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    fault = syntax_fault(text_, at, e);
    return false;
  }

 private:
  template <class Number>
  bool number(Number v) {
    char text[24];
    return value(JsonType::integer, {text, static_cast<size_t>(std::to_chars(text, text + sizeof text, v).ptr - text)});
  }
  bool value(JsonType type, std::string_view text) {
    if (depth_ == 0) return no_object();
    if (depth_ > 1 || member_(key_, {type, text})) return true;
    fault = twice_fault(key_);
    return false;
  }
  bool nested(const char* what) { return value(JsonType::nested, what) && open(); }
  bool open() {
    if (depth_ == kMaxJsonDepth) {
      fault = cat("nested deeper than ", kMaxJsonDepth, " levels of JSON");
      return false;
    }
    ++depth_;
    return true;
  }
  bool no_object() {
    fault = cat("expected an object: {\"column\": value, ...}, got ", excerpt(text_));
    return false;
  }

  std::string_view text_;
  const Member& member_;
  std::string key_;
  size_t depth_ = 0;  // objects and arrays that are open
};

// Gives the fault of the text, or "".
template <class Json>
std::string build(std::string_view text, Form form, Json& out) {
  Builder<Json> builder(text, form);
  const bool good = read_events(text, form, builder);
  out = std::move(builder.document);
  return good ? std::string() : builder.fault;
}
template <class Json>
std::string build_from_text(std::string_view text, Json& out) {
  std::string fault = size_fault(text);
  return fault.empty() ? build(text, Form::json, out) : fault;
}

}  // namespace

std::string json_fault(const std::exception& e) {
  std::string text = e.what();
  if (const size_t at = text.find("; last read"); at != std::string::npos) text.resize(at);
  if (const size_t at = text.find("] "); starts_with(text, "[json.") && at != std::string::npos) text.erase(0, at + 2);
  if (const size_t at = text.find(": syntax error "); at != std::string::npos) text.erase(0, at + 2);
  return excerpt(text);
}

void read_flat_json(std::string_view text, const std::string& name, ErrorKind kind,
                    const std::function<bool(const std::string& key, const JsonValue& value)>& member) {
  if (const std::string fault = size_fault(text); !fault.empty()) fail(kind, name, fault);
  FlatReader reader(text, member);
  if (!read_events(text, Form::json, reader)) fail(kind, name, reader.fault);
}

template <class Json>
Json parse_json(std::string_view text, const std::string& name, ErrorKind kind) {
  Json out;
  if (const std::string fault = build_from_text(text, out); !fault.empty()) fail(kind, name, fault);
  return out;
}

nlohmann::json parse_ubjson(std::span<const uint8_t> bytes, const std::string& name, ErrorKind kind) {
  nlohmann::json out;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::string fault = build(text, Form::ubjson, out); !fault.empty()) fail(kind, name, fault);
  return out;
}

template <class Json>
Json read_json(const std::string& path, ErrorKind kind) {
  return parse_json<Json>(read_text(path), path, kind);
}

template <class Json>
std::optional<Json> try_parse_json(std::string_view text) {
  std::optional<Json> out(std::in_place);
  if (!build_from_text(text, *out).empty()) out.reset();
  return out;
}

template nlohmann::json parse_json(std::string_view, const std::string&, ErrorKind);
template nlohmann::ordered_json parse_json(std::string_view, const std::string&, ErrorKind);
template nlohmann::json read_json(const std::string&, ErrorKind);
template nlohmann::ordered_json read_json(const std::string&, ErrorKind);
template std::optional<nlohmann::json> try_parse_json(std::string_view);
template std::optional<nlohmann::ordered_json> try_parse_json(std::string_view);

}  // namespace freight::io

namespace nlohmann {

template class detail::serializer<json>;
template class detail::serializer<ordered_json>;

}  // namespace nlohmann
