// Arrow's C data interface, read without its library: https://arrow.apache.org/docs/format/CDataInterface.html. Arrays
// are read where they are, and released with the table.
#include <cmath>
#include <cstring>
#include <limits>

#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "tables.h"

namespace freight::python {

namespace {

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

template <class T>
std::shared_ptr<T> released_at_end(T value) {
  return {new T(value), [](T* p) {
            if (p->release) p->release(p);
            delete p;
          }};
}

// An array of a column from its row `begin` on.
struct Part {
  const ArrowArray* array;
  int64_t begin;

  bool missing(int64_t i) const {
    const auto* const valid = static_cast<const uint8_t*>(array->n_buffers > 0 ? array->buffers[0] : nullptr);
    const int64_t at = begin + i;
    return array->null_count != 0 && valid && !(valid[at >> 3] >> (at & 7) & 1);
  }
  template <class T>
  const T* values(int buffer = 1) const {
    return static_cast<const T*>(array->buffers[buffer]);
  }
};

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

template <class T>
Segment numbers(const Part& p, int64_t rows) {
  const T* const v = p.values<T>() + p.begin;
  const auto number = [p, v](int64_t i) { return p.missing(i) ? kMissing : static_cast<double>(v[i]); };
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    constexpr T kExact = T{1} << 53;
    for (int64_t i = 0; i < rows; ++i) {
      if (p.missing(i) || (v[i] <= kExact && (std::is_unsigned_v<T> || v[i] + kExact >= 0))) continue;
      return {.rows = rows, .text = [p, v](int64_t row, std::string& room) -> std::string_view {
                room = p.missing(row) ? "" : std::to_string(v[row]);
                return room;
              }};
    }
  }
  return {.rows = rows, .number = numbers_by(number)};
}

template <class Offset>
Segment strings(const Part& p, int64_t rows) {
  const Offset* const ends = p.values<Offset>() + p.begin;
  const char* const bytes = p.values<char>(2);
  return {.rows = rows, .text = [=](int64_t i, std::string&) -> std::string_view {
            if (p.missing(i)) return {};
            return {bytes + ends[i], static_cast<size_t>(ends[i + 1] - ends[i])};
          }};
}

// Short strings are in the view itself, of 16 bytes; others in a buffer whose number and offset it has.
Segment string_views(const Part& p, int64_t rows) {
  return {.rows = rows, .text = [p](int64_t i, std::string&) -> std::string_view {
            if (p.missing(i)) return {};
            const char* const view = p.values<char>() + 16 * (p.begin + i);
            int32_t size = 0, buffer = 0, offset = 0;
            std::memcpy(&size, view, 4);
            std::memcpy(&buffer, view + 8, 4);
            std::memcpy(&offset, view + 12, 4);
            const char* const text = size <= 12 ? view + 4 : p.values<char>(2 + buffer) + offset;
            return {text, static_cast<size_t>(size)};
          }};
}

template <class T>
Segment dates(const Part& p, int64_t rows, int64_t factor, int64_t per_second) {
  const T* const v = p.values<T>() + p.begin;
  return times(
      rows, [=](int64_t i) { return static_cast<int64_t>(v[i]) * factor; }, [p](int64_t i) { return p.missing(i); },
      per_second);
}

template <class T>
Segment decimals(const Part& p, int64_t rows, double scale) {
  const char* const v = p.values<char>() + sizeof(T) * static_cast<size_t>(p.begin);
  return {.rows = rows, .number = numbers_by([=](int64_t i) {
                          T value = 0;
                          std::memcpy(&value, v + sizeof(T) * static_cast<size_t>(i), sizeof value);
                          return p.missing(i) ? kMissing : static_cast<double>(value) / scale;
                        })};
}

Segment segment_of(const ArrowSchema& schema, const Part& p, int64_t rows, const std::string& column);

// Codes into the strings or numbers of a dictionary.
Segment categories(const ArrowSchema& schema, const Part& p, int64_t rows, const std::string& column) {
  ArrowSchema of_codes = schema;
  of_codes.dictionary = nullptr;
  const Segment codes = segment_of(of_codes, p, rows, column);
  const ArrowArray* const dictionary = p.array->dictionary;
  const Segment words = segment_of(*schema.dictionary, {dictionary, dictionary->offset}, dictionary->length, column);
  const auto code = [number = codes.number](int64_t i) {
    const double v = number->value(i);
    return std::isnan(v) ? int64_t{-1} : static_cast<int64_t>(v);
  };
  if (words.number) {
    return {.rows = rows,
            .number = numbers_by([=](int64_t i) { return code(i) < 0 ? kMissing : words.number->value(code(i)); })};
  }
  return {.rows = rows,
          .text = [=](int64_t i, std::string& room) -> std::string_view {
            return code(i) < 0 ? std::string_view() : words.text(code(i), room);
          },
          .code = code};
}

Segment booleans(const Part& p, int64_t rows) {
  const auto code = [p](int64_t i) -> int64_t {
    const int64_t at = p.begin + i;
    return p.missing(i) ? -1 : p.values<uint8_t>()[at >> 3] >> (at & 7) & 1;
  };
  return {.rows = rows,
          .text = [=](int64_t i, std::string&) -> std::string_view {
            return code(i) < 0 ? "" : code(i) == 1 ? "True" : "False";
          },
          .code = code};
}

Segment segment_of(const ArrowSchema& schema, const Part& p, int64_t rows, const std::string& column) {
  if (schema.dictionary) return categories(schema, p, rows, column);
  const std::string format = schema.format;
  switch (format[0]) {
    case 'n': return {.rows = rows, .number = numbers_by([](int64_t) { return kMissing; })};
    case 'b': return booleans(p, rows);
    case 'c': return numbers<int8_t>(p, rows);
    case 'C': return numbers<uint8_t>(p, rows);
    case 's': return numbers<int16_t>(p, rows);
    case 'S': return numbers<uint16_t>(p, rows);
    case 'i': return numbers<int32_t>(p, rows);
    case 'I': return numbers<uint32_t>(p, rows);
    case 'l': return numbers<int64_t>(p, rows);
    case 'L': return numbers<uint64_t>(p, rows);
    case 'f': return numbers<float>(p, rows);
    case 'g': return numbers<double>(p, rows);
    case 'u': return strings<int32_t>(p, rows);
    case 'U': return strings<int64_t>(p, rows);
    default: break;
  }
  if (format == "vu") return string_views(p, rows);
  if (format == "tdD") return dates<int32_t>(p, rows, 86400, 1);
  if (format == "tdm") return dates<int64_t>(p, rows, 1, 1000);
  if (starts_with(format, "ts")) {
    const int64_t per_second = format[2] == 's' ? 1 : format[2] == 'm' ? 1000 : format[2] == 'u' ? 1000000 : 1000000000;
    return dates<int64_t>(p, rows, 1, per_second);
  }
  if (starts_with(format, "d:")) {  // precision, scale, bits if not 128
    const std::vector<std::string> parts = split(format.substr(2), ',');
    const double scale = std::pow(10.0, std::stoi(parts[1]));
    const std::string bits = parts.size() > 2 ? parts[2] : "128";
    if (bits == "128") return decimals<__int128>(p, rows, scale);
    if (bits == "64") return decimals<int64_t>(p, rows, scale);
    if (bits == "32") return decimals<int32_t>(p, rows, scale);
  }
  raise<TypeError>("column ", excerpt(column),
                   ": expected numbers, booleans, strings, categories or dates, got Arrow's type ", excerpt(format));
}

}  // namespace

void add_arrow(Table& table, const nb::capsule& capsule, const std::string& name) {
  auto* const stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (!stream) throw nb::python_error();
  const auto check = [&](int code) {
    const char* const why = code != 0 && stream->get_last_error ? stream->get_last_error(stream) : nullptr;
    if (code != 0) raise<ValueError>(name, ": the Arrow stream failed: ", why ? why : std::strerror(code));
  };
  ArrowSchema read{};
  check(stream->get_schema(stream, &read));
  const auto schema = released_at_end(read);
  const bool wide = std::strcmp(schema->format, "+s") == 0;
  const int64_t width = wide ? schema->n_children : 1;
  std::vector<InputColumn> columns(static_cast<size_t>(width));
  int64_t rows = 0;
  while (true) {
    ArrowArray next{};
    check(stream->get_next(stream, &next));
    if (!next.release) break;
    const auto chunk = released_at_end(next);
    table.keep(chunk);
    for (int64_t k = 0; k < width; ++k) {
      const ArrowArray* const array = wide ? chunk->children[k] : chunk.get();
      const ArrowSchema& type = wide ? *schema->children[k] : *schema;
      const int64_t begin = array->offset + (wide ? chunk->offset : 0);
      const std::string& title = wide ? std::string(type.name) : name;
      columns[static_cast<size_t>(k)].segments.push_back(segment_of(type, {array, begin}, chunk->length, title));
    }
    rows += chunk->length;
  }
  for (int64_t k = 0; k < width; ++k) {
    InputColumn& c = columns[static_cast<size_t>(k)];
    c.name = wide ? schema->children[k]->name : name;
    table.add(std::move(c), rows);
  }
}

}  // namespace freight::python
