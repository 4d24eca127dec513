// What a layer says of itself for model specs and listings: its type and the settings that differ from their defaults,
// in the order of the spec. Values only; JSON is made and read in the models room.
#pragma once
#include <string>
#include <vector>

#include "freight/ops/options.h"

namespace freight::nn {

struct Setting {
  enum class Kind { integer, number, flag, text, extents };
  std::string key;
  Kind kind = Kind::integer;
  int64_t integer = 0;
  double number = 0;
  bool flag = false;
  std::string text = {};
  Extents extents = 0;
};

struct Config {
  std::string type;  // "" where the module has no spec form
  std::vector<Setting> settings = {};

  Config& integer(const char* key, int64_t v) {
    settings.push_back({.key = key, .kind = Setting::Kind::integer, .integer = v});
    return *this;
  }
  Config& number(const char* key, double v, double usual) {
    if (v != usual) settings.push_back({.key = key, .kind = Setting::Kind::number, .number = v});
    return *this;
  }
  Config& integer(const char* key, int64_t v, int64_t usual) { return v == usual ? *this : integer(key, v); }
  Config& flag(const char* key, bool v, bool usual) {
    if (v != usual) settings.push_back({.key = key, .kind = Setting::Kind::flag, .flag = v});
    return *this;
  }
  Config& text(const char* key, const std::string& v, const std::string& usual) {
    if (v != usual) settings.push_back({.key = key, .kind = Setting::Kind::text, .text = v});
    return *this;
  }
  Config& extents(const char* key, const Extents& v) {
    settings.push_back({.key = key, .kind = Setting::Kind::extents, .extents = v});
    return *this;
  }
  Config& extents(const char* key, const Extents& v, const Extents& usual) {
    return v == usual ? *this : extents(key, v);
  }
};

}  // namespace freight::nn
