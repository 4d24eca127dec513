// What a layer says of itself for model specs and listings: its type and the settings that differ from their defaults,
// in the order of the declaration (layer_type.h). Values only; JSON is made and read in the models room.
#pragma once
#include <string>
#include <vector>

#include "freight/ops/options.h"

namespace freight::nn {

struct Setting {
  // layer and layers are children of containers: their values are modules, which a Setting does not hold.
  enum class Kind { integer, number, flag, text, extents, layer, layers };
  std::string key;
  Kind kind = Kind::integer;
  int64_t integer = 0;
  double number = 0;
  bool flag = false;
  std::string text = {};
  Extents extents = 0;
  friend bool operator==(const Setting&, const Setting&) = default;
};

struct Config {
  std::string type;  // "" where the module has no spec form
  std::vector<Setting> settings = {};
};

}  // namespace freight::nn
