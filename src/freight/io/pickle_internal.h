// Python's pickles as data. A pickle is a program for a stack machine that may call any function of Python; this reader
// builds plain values and containers, keeps the few calls that its caller knows as data (name and arguments), and
// refuses everything else by its name. Nothing is ever called. What the calls mean is the caller's business
// (torch_file.cpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "freight/io/file.h"

namespace freight::io {

enum class PickleKind : uint8_t {
  none,
  boolean,
  integer,
  large_integer,  // one beyond 64 bits: its bytes as text
  number,         // a float, whose value is dropped
  text,
  bytes,
  tuple,
  list,
  dict,  // keys and values by turns
  set,
  global,     // a known name: its text
  call,       // a known function and its arguments, a tuple; the state of the object where the pickle sets one
  persistent  // an object outside of the pickle: its id
};
const char* to_string(PickleKind kind);  // "a list"

using PickleRef = uint32_t;  // index of a value; containers may contain each other, even themselves

struct PickleValue {
  PickleKind kind = PickleKind::none;
  uint16_t depth = 0;  // of the containers in it when it was made
  int64_t integer = 0;
  std::string text;
  std::vector<PickleRef> items;
};

struct Pickle {
  std::vector<PickleValue> values;
  PickleRef root = 0;
  size_t size = 0;  // in bytes, with its end mark

  const PickleValue& operator[](PickleRef ref) const { return values[ref]; }
};

// The caller's decision on a name "module.name": a function may be called, the state of an object set. Plain containers
// of Python are known anyway.
enum class PickleGlobal : uint8_t { refused, value, function, object };

inline constexpr size_t kMaxPickleBytes = size_t{64} << 20;
inline constexpr size_t kMaxPickleValues = size_t{1} << 21;
inline constexpr int kMaxPickleDepth = 100;

// Reads the pickle with which the bytes begin, of any protocol. Throws Error(checkpoint) that begins with `name` and
// says what is refused, or damaged.
Pickle read_pickle(ByteView bytes, const std::string& name, PickleGlobal (*known)(std::string_view global));

}  // namespace freight::io
