// The text part of `freight data info`; see data_text.cpp.
#pragma once
#include <string>

#include "freight/data/text.h"
#include "freight/io/json_library.h"

namespace freight::app {

nlohmann::ordered_json text_json(const data::TextSet& set, const std::string& path);
void print_text(const data::TextSet& set, const std::string& path);

}  // namespace freight::app
