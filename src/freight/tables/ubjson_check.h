// Looks through bytes that are said to be UBJSON, before a parser that recurses or allocates by what they say sees
// them. It takes the part of the format that XGBoost writes.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace freight::tables {

// Lists and objects within each other: XGBoost's files have eight.
constexpr int kMostUbjsonDepth = 32;

// The fault of the bytes; empty where they are one value of UBJSON, nested at most that deep, whose lengths lie
// within them and whose objects have no key twice. Of two equal keys one parser takes the first, another one the last,
// so that what is checked would not be what is read.
std::string ubjson_fault(std::span<const uint8_t> bytes);

}  // namespace freight::tables
