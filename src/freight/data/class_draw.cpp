// See class_draw.h.
#include "freight/data/class_draw.h"

#include <map>

#include "freight/base/philox.h"

namespace freight::data {

std::vector<int64_t> draw_by_class(std::span<const int64_t> labels, uint64_t seed, int64_t epoch) {
  constexpr uint32_t kDrawStream = 0x636c6472;
  std::map<int64_t, std::vector<int64_t>> members;
  for (size_t i = 0; i < labels.size(); ++i) members[labels[i]].push_back(static_cast<int64_t>(i));
  const size_t n = labels.size(), k = members.size();
  std::vector<int64_t> drawn;
  drawn.reserve(n);
  size_t place = 0;
  for (auto& [label, samples] : members) {
    PhiloxStream random(seed, static_cast<uint64_t>(epoch), kDrawStream + static_cast<uint32_t>(label));
    for (size_t i = samples.size(); i-- > 1;) {
      std::swap(samples[i], samples[random.below(static_cast<uint32_t>(i + 1))]);
    }
    // The classes that occur once more than others go round with the epochs.
    const size_t turn = (place++ + static_cast<size_t>(epoch)) % k;
    const size_t count = n / k + (turn < n % k ? 1 : 0);
    for (size_t i = 0; i < count; ++i) drawn.push_back(samples[i % samples.size()]);
  }
  return drawn;
}

}  // namespace freight::data
