// The JSON library, included in place of <nlohmann/json.hpp>. Its writer is compiled once, in json.cpp: in every unit
// of compilation that writes a document it took half a second for each of the two kinds of objects.
#pragma once
#include <nlohmann/json.hpp>

namespace nlohmann {

extern template class detail::serializer<json>;
extern template class detail::serializer<ordered_json>;

}  // namespace nlohmann
