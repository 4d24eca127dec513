// catalog/weights.json, which is compiled in; internal to store/.
#pragma once

namespace freight::store {

const char* weights_catalog();

}  // namespace freight::store
