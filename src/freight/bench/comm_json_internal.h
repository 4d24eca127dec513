// JSON of how much computing and summing slow each other down, for the files of `bench comm` and `bench compare
// --world`.
#pragma once
#include <string>

#include "freight/io/json_library.h"
#include "freight/plan/parallel.h"

namespace freight::bench {

nlohmann::ordered_json json_of(const plan::BesideCompute& beside);
// Throws Error(data) that names `source`, or the JSON library's error if a key is missing.
plan::BesideCompute read_beside(const nlohmann::json& from, const std::string& source);

}  // namespace freight::bench
