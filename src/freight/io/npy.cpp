// The .npy format: magic, version, a Python dict literal {descr, fortran_order, shape}, then the elements. See npy.h.
#include "freight/io/npy.h"

#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/io/foreign_internal.h"
#include "freight/io/little_endian_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy_internal.h"

namespace freight::io {

namespace {
constexpr char kNpyMagic[] = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> dims;
  bool has_descr = false, has_order = false, has_shape = false;
};

// Reads the dict literal; knows just the three keys and value forms that the format allows.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    Header h;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !h.has_descr) {
        if (peek() == '[') bad("structured element types are not supported");
        h.descr = quoted();
        h.has_descr = true;
      } else if (key == "fortran_order" && !h.has_order) {
        h.fortran = boolean();
        h.has_order = true;
      } else if (key == "shape" && !h.has_shape) {
        h.dims = tuple();
        h.has_shape = true;
      } else {
        bad(cat("unexpected key '", key, "'"));
      }
      if (!take(',') && peek() != '}') bad("missing comma");
    }
    if (peek() != '\0') bad("text after the dictionary");
    if (!h.has_descr || !h.has_order || !h.has_shape) bad("descr, fortran_order or shape is missing");
    return h;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorKind::data, name_, "bad npy header: ", what, " (at character ", at_, ")");
  }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) bad(cat("expected '", c, "'"));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') bad("expected a quoted string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) bad("unterminated string");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    bad("expected True or False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    expect('(');
    while (!take(')')) {
      if (!std::isdigit(static_cast<unsigned char>(peek()))) bad("expected a non-negative size");
      int64_t v = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v)) {
          bad("size out of range");
        }
        ++at_;
      }
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
      dims.push_back(v);
      if (!take(',') && peek() != ')') bad("expected ',' or ')'");
    }
    return dims;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

struct Element {
  ForeignType type;
  Endian endian;
};

std::optional<Element> element_of(const std::string& descr) {
  if (descr.size() < 3 || !std::strchr("<>|=", descr[0])) return {};
  const std::optional<uint64_t> size = parse_number<uint64_t>(std::string_view(descr).substr(2));
  if (!size) return {};
  Element e{{descr[1], *size}, descr[0] == '>' ? Endian::big : Endian::little};
  if (descr[1] == 'B' || !dtype_of(e.type)) return {};
  return e;
}

// Fortran order stores the transpose in C order: reads `src` (reversed extents) into `dst` of `shape`.
void transpose_into(const uint8_t* src, uint8_t* dst, const Shape& shape, size_t size) {
  const int rank = shape.rank();
  const int64_t n = shape.numel();
  if (n == 0) return;
  Shape stride = shape;  // of the source, in elements
  int64_t step = 1;
  for (int i = 0; i < rank; ++i) {
    stride[i] = step;
    step *= shape[i];
  }
  Shape index = Shape::filled(rank, 0);
  int64_t at = 0;
  for (int64_t k = 0; k < n; ++k) {
    std::memcpy(dst + static_cast<size_t>(k) * size, src + static_cast<size_t>(at) * size, size);
    for (int axis = rank - 1; axis >= 0; --axis) {
      at += stride[axis];
      if (++index[axis] < shape[axis]) break;
      at -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// The part in front of the elements.
struct Head {
  Header said;
  Element element;
  Shape shape;
  size_t size = 0;  // bytes
};

Head parse_head(ByteView bytes, const std::string& name) {
  if (bytes.size() < 10 || !is_npy(bytes)) {
    fail(ErrorKind::data, name, "not an npy file: wrong magic number");
  }
  const int version = bytes[6];
  if (version < 1 || version > 3) fail(ErrorKind::data, name, "unknown npy version ", version, ", expected 1, 2 or 3");
  const size_t prefix = version == 1 ? 10 : 12;
  if (bytes.size() < prefix) fail(ErrorKind::data, name, "truncated npy file: ", bytes.size(), " bytes");
  const size_t header_size = little_endian(bytes.subspan(8, prefix - 8));
  if (header_size > kMaxNpyHeader || header_size > bytes.size() - prefix) {
    fail(ErrorKind::data, name, "truncated or corrupt npy file: header of ", header_size, " bytes in a file of ",
         bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + prefix, header_size);
  Header h = HeaderParser(text, name).parse();
  const auto element = element_of(h.descr);
  if (!element) {
    const bool objects = h.descr.find('O') != std::string::npos,
               texts = h.descr.find_first_of("US") != std::string::npos;
    fail(ErrorKind::data, name, "element type '", h.descr, "' is not supported",
         objects ? ": only Python reads its objects; save an array of numbers"
         : texts ? ": arrays of texts are not read; save numbers, or a table as CSV or JSON lines"
                 : "");
  }
  const auto shape = checked_shape(h.dims, 16);
  if (!shape) fail(ErrorKind::data, name, "bad npy header: shape has too many axes or elements");
  return {std::move(h), *element, *shape, prefix + header_size};
}
}  // namespace

std::pair<DType, Shape> npy_type(ByteView first, const std::string& name) {
  const Head head = parse_head(first, name);
  return {*dtype_of(head.element.type), head.shape};
}

Array parse_npy(ByteView bytes, const std::string& name) {
  const auto [said, element, shape, before] = parse_head(bytes, name);
  const size_t size = element.type.size;
  const ByteView body = bytes.subspan(before);
  const auto need = static_cast<size_t>(shape.numel()) * size;
  if (body.size() != need) {
    fail(ErrorKind::data, name, body.size() < need ? "truncated npy file" : "bytes after the npy array", ": shape ",
         shape, " of '", said.descr, "' needs ", need, " bytes, got ", body.size());
  }
  Array out(*dtype_of(element.type), shape);
  std::string fault;
  if (said.fortran && shape.rank() > 1) {
    Bytes turned(need);
    transpose_into(body.data(), turned.data(), shape, size);
    fault = read_elements(element.type, element.endian, turned, out);
  } else {
    fault = read_elements(element.type, element.endian, body, out);
  }
  if (!fault.empty()) fail(ErrorKind::data, name, fault);
  return out;
}

Array computable(const Array& array, const std::string& name) {
  const DType dtype = array.dtype();
  const bool common = dtype == DType::u8 || dtype == DType::i32 || dtype == DType::i64;
  if (common || !(is_integer(dtype) || is_complex(dtype))) return array;
  if (is_complex(dtype)) fail(ErrorKind::data, name, "expected real numbers, got ", dtype, array.shape());
  if (dtype == DType::u64) {
    const auto* values = array.data<uint64_t>();
    for (int64_t i = 0; i < array.numel(); ++i) {
      if (values[i] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        fail(ErrorKind::data, name, "unsigned element ", i, " is ", values[i], ", above the range of i64");
    }
  }
  return array.cast(dtype == DType::u32 || dtype == DType::u64 ? DType::i64 : DType::i32);
}

bool is_npy(ByteView bytes) { return bytes.size() >= 6 && std::memcmp(bytes.data(), kNpyMagic, 6) == 0; }

Array load_npy(const std::string& path) {
  return reading(path, [&] { return parse_npy(read_file(path), path); });
}

std::string npy_header(DType dtype, const Shape& shape) {
  std::string dict = cat("{'descr': '", info(dtype).npy, "', 'fortran_order': False, 'shape': (");
  for (const int64_t d : shape) dict += cat(d, ", ");
  if (shape.rank() > 1) dict.resize(dict.size() - 2);
  if (shape.rank() == 1) dict.pop_back();
  dict += "), }";
  const size_t padded = (10 + dict.size() + 1 + 63) / 64 * 64 - 10;  // the elements start at a multiple of 64
  dict.resize(padded - 1, ' ');
  std::string out(kNpyMagic, 6);
  put_little_endian(out, 1, 2);  // version 1.0
  put_little_endian(out, padded, 2);
  return out + dict + "\n";
}

void save_npy(const std::string& path, const Array& array) {
  const Array a = array.dtype() == DType::bf16 ? array.cast(DType::f32) : array;
  AtomicFile file(path);
  file.write(npy_header(a.dtype(), a.shape()));
  file.write(a.raw(), a.bytes());
  file.commit();
}

}  // namespace freight::io
