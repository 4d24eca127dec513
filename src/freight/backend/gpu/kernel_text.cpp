// See kernel_text.h.
#include "freight/backend/gpu/kernel_text.h"

#include <algorithm>
#include <cstring>

#include "freight/backend/gpu/faults.h"

namespace freight::gpu {

std::string hash_name(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  std::string name;
  for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[h >> shift & 15];
  return name;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

int64_t span(const Operand& o) { return static_cast<int64_t>(layout_bytes(o.type, o.layout) / size_of(o.type.dtype)); }

int64_t largest_span(const StepSpec& spec) {
  int64_t most = 0;
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) most = std::max(most, span(o));
  }
  return most;
}

std::string Elements::load(const std::string& index) const {
  const std::string stored = cat(pointer, "[", index, "]");
  if (dtype == DType::boolean) return cat("(uchar)(", stored, " != 0)");
  return wide(dtype) == dtype ? stored : cat("from_", dtype, "(", stored, ")");
}

std::string Elements::store(const std::string& index, const std::string& value) const {
  const std::string to = cat(pointer, "[", index, "] = ");
  if (dtype == DType::boolean) return cat(to, "(", value, ") != 0;");
  return cat(to, wide(dtype) == dtype ? value : cat("to_", dtype, "(", value, ")"), ";");
}

Elements KernelText::operand(int index, DType dtype, bool written, size_t byte_offset) {
  const size_t i = arguments_.size();
  parameters_ += cat("GLOBAL ", written ? "" : "const ", stored_type(dtype), "* p", i, ", const i64 o", i, ", ");
  prologue_ += cat("  FIRST(p", i, ", o", i, ");\n");
  arguments_.push_back({index, size_of(dtype), byte_offset});
  return {cat("p", i), dtype};
}

std::string KernelText::checked(const std::string& index, const Node& node, int64_t rows) {
  const std::string words = operand(kFaults, DType::i64, true).pointer, check = number(index_check(node, rows));
  return cat("in_range(", index, ", ", number(rows), ", ", words, ", ", check, ")");
}

std::string KernelText::number(int64_t value) {
  numbers_.push_back(value);
  return cat("g.v[", numbers_.size() - 1, "]");
}

// Granlund and Montgomery, "Division by invariant integers using multiplication": exact for e < 2^31.
std::string KernelText::quotient(const std::string& e, int64_t divisor) {
  int bits = 0;
  while (bits < 31 && int64_t{1} << bits < divisor) ++bits;
  const uint64_t power = uint64_t{1} << (31 + bits), d = static_cast<uint64_t>(std::max<int64_t>(divisor, 1));
  const auto factor = static_cast<int32_t>(static_cast<uint32_t>((power + d - 1) / d));
  const std::string exact = number(divisor), multiplied = number(factor), shifted = number(31 + bits);
  return cat("divide_idx_t(", e, ", ", exact, ", ", multiplied, ", ", shifted, ")");
}

std::string KernelText::split(const std::string& e, int64_t extent, const std::string& outer,
                              const std::string& inner) {
  const std::string divided = quotient(e, extent);
  return cat("const idx_t ", outer, " = ", divided, ", ", inner, " = ", e, " - ", outer, " * ", number(extent), "; ");
}

void KernelText::begin_elements(int64_t count) {
  count_ = count;
  line("const idx_t e = ELEMENT;");
  line("if (e >= ", number(count), ") return;");
}

Launch KernelText::finish_elements(const char* purpose, int64_t elements) {
  return finish(purpose, std::max(count_, elements) + kLanes, ceil_div(count_, kLanes), kLanes);
}

Lowered KernelText::finish_step(const char* purpose, int64_t elements) {
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = purpose};
  if (count_ > 0) lowered.launches.push_back(finish_elements(purpose, elements));
  return lowered;
}

Launch KernelText::finish(const char* purpose, int64_t elements, int64_t groups, int64_t lanes) {
  if (numbers_.empty()) numbers_.push_back(0);
  const auto beyond_int = [](int64_t v) { return v > INT32_MAX || v < INT32_MIN; };
  const bool wide_index = elements > INT32_MAX || std::any_of(numbers_.begin(), numbers_.end(), beyond_int);
  const char* index_type = wide_index ? "i64" : "int";
  std::string text = cat("typedef struct { ", index_type, " v[", numbers_.size(), "]; } numbers_@;\nKERNEL(", lanes,
                         ") void @(", parameters_, "const numbers_@ g) {\n", prologue_, body_, "}\n");
  text = replaced(std::move(text), "idx_t", index_type);
  Launch launch;
  launch.entry = cat(purpose, "_", hash_name(text));
  launch.source = replaced(std::move(text), "@", launch.entry);
  launch.arguments = arguments_;
  launch.groups = static_cast<size_t>(groups);
  launch.lanes = static_cast<size_t>(lanes);
  const size_t each = wide_index ? sizeof(int64_t) : sizeof(int32_t);
  launch.numbers.resize(numbers_.size() * each);
  for (size_t i = 0; i < numbers_.size(); ++i) {  // little-endian: the low bytes come first
    std::memcpy(launch.numbers.data() + i * each, &numbers_[i], each);
  }
  return launch;
}

}  // namespace freight::gpu
