// JSON of what computing and summing cost each other, for the files of `bench comm` and `bench compare --world`.
#pragma once
#include <string>

#include "freight/io/json_library.h"
#include "freight/plan/parallel.h"

namespace freight::bench {

nlohmann::ordered_json json_of(const plan::BesideCompute& beside);
// Throws Error(data) that names `source`, or what the library throws where a key is missing.
plan::BesideCompute read_beside(const nlohmann::json& from, const std::string& source);

}  // namespace freight::bench
