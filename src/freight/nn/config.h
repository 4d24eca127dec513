// What a layer says of itself for model specs and listings: its type and the settings that differ from their defaults,
// in the order of the declaration (layer_type.h). JSON is made and read in the models module.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/ops/options.h"

namespace freight::nn {

class Module;

// A module within a module.
struct Child {
  std::string name;                // within the module
  std::shared_ptr<Module> module;  // shared with who made it
  friend bool operator==(const Child&, const Child&) = default;
};

// A field of a layer with a value of one of the kinds.
struct Setting {
  enum class Kind { integer, number, flag, text, extents, layer, layers };  // the kinds of values; layers are children
  std::string key;                                                          // as in specs
  Kind kind = Kind::integer;                                                // which of the values below holds
  int64_t integer = 0;                                                      // Kind::integer
  double number = 0;                                                        // Kind::number
  bool flag = false;                                                        // Kind::flag
  std::string text = {};                                                    // Kind::text
  Extents extents = 0;                                                      // Kind::extents
  std::vector<Child> children = {};  // of a layer one without a name, or none; of layers all of them
  friend bool operator==(const Setting&, const Setting&) = default;
};

// A layer's type and settings.
struct Config {
  std::string type;                    // "" where the module has no spec form
  std::vector<Setting> settings = {};  // those that differ from their defaults
};

}  // namespace freight::nn
