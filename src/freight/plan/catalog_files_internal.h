// The catalog files that are compiled in; internal to plan/.
#pragma once

namespace freight::plan {

// The texts of catalog/devices.json, catalog/prices.json and catalog/links.json.
const char* device_file();
const char* price_file();
const char* link_file();

}  // namespace freight::plan
