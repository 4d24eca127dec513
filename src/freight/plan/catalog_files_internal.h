// The catalogue files that are compiled in; internal to the room.
#pragma once

namespace freight::plan {

// The texts of catalog/devices.json and catalog/prices.json.
const char* device_file();
const char* price_file();

}  // namespace freight::plan
