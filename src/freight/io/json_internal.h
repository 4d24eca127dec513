// The one way in which JSON from outside is read: with limits on size and depth, no key twice in one object, and errors
// that name the file. Only the inference protocol and the header of safetensors files, which build no tree, have SAX
// readers of their own. Installed headers know nothing of JSON.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "freight/base/error.h"

namespace freight::io {

// Deep enough for a spec whose layers are nested as deep as models allow, two levels for each; far below the depth at
// which walking a document takes the whole stack.
inline constexpr size_t kMaxJsonDepth = 200;
// A document takes up to 25 times its size of memory.
inline constexpr size_t kMaxJsonBytes = size_t{16} << 20;

// Json: nlohmann::json, or nlohmann::ordered_json where the order of keys matters. Throws Error(kind) that begins with
// `name`: not JSON (with line and column), too long, too deep, a key twice in one object.
template <class Json>
Json parse_json(std::string_view text, const std::string& name, ErrorKind kind = ErrorKind::usage);
// The same of UBJSON, a binary form, of any length: what reads a file bounds that.
nlohmann::json parse_ubjson(std::span<const uint8_t> bytes, const std::string& name, ErrorKind kind);
// The same of a file. One that cannot be read is Error(data).
template <class Json>
Json read_json(const std::string& path, ErrorKind kind = ErrorKind::usage);
// The same of text that may be damaged, a line of a log: nothing where parse_json would throw.
template <class Json>
std::optional<Json> try_parse_json(std::string_view text);

enum class JsonType : uint8_t { null, boolean, integer, fraction, text, nested };
// A value of an object as text: a number as it is written, a string without its escapes, "true", "false", "" for null;
// of an object or array (nested) its kind, "an object" or "an array".
struct JsonValue {
  JsonType type = JsonType::null;
  std::string_view text;
};
// Reads a text that is one object without making a tree of it: a row of a table. `member` is called for each key of the
// object and its value; what nested values contain is skipped. It returns false for a key that it was called for
// before. Throws as parse_json does.
void read_flat_json(std::string_view text, const std::string& name, ErrorKind kind,
                    const std::function<bool(const std::string& key, const JsonValue& value)>& member);

// The text of an exception of the JSON library, without its numbers and what it echoes of the input: at most a line.
std::string json_fault(const std::exception& e);

}  // namespace freight::io
