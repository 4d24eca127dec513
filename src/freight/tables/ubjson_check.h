// Checks bytes that should be UBJSON before a parser sees them that recurses and allocates as they say. It accepts the
// part of the format that XGBoost writes.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace freight::tables {

// The depth of nested lists and objects; XGBoost's files have eight.
constexpr int kMostUbjsonDepth = 32;

// The error in the bytes; empty if they are one UBJSON value, not nested too deep, whose lengths stay within the bytes
// and whose objects have no duplicate keys. Of duplicate keys some parsers take the first and others the last, so that
// what is checked would not be what is read.
std::string ubjson_fault(std::span<const uint8_t> bytes);

}  // namespace freight::tables
