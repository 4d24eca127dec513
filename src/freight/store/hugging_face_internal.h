// Repositories of Hugging Face: their cache on this machine, and downloads into it. Internal to store/.
#pragma once
#include <optional>
#include <string>

#include "freight/store/weights_source.h"

namespace freight::store {

// "ORG/NAME", "ORG/NAME@REVISION", "ORG/NAME/FILE".
struct HubName {
  std::string repository, revision = "main";
  std::string file = {};  // empty: the usual file of weights
};
// Throws Error(usage) for other texts.
HubName parse_hub_name(const std::string& text);

// What the cache has, without a connection.
std::optional<LocalWeights> cached_hub_weights(const HubName& name, const std::string& address);
LocalWeights find_hub_weights(const HubName& name, const std::string& address, const WeightsOptions& options);

}  // namespace freight::store
