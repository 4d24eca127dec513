// The two kinds of membership, and what a launcher hands down to the processes of an elastic job.
#pragma once
#include <array>
#include <memory>
#include <string>

#include "freight/comm/membership.h"

namespace freight::comm {

// `text`: FREIGHT_ELASTIC's. "4,5": descriptors of the table of roster_internal.h and of the launcher's bell.
std::unique_ptr<Membership> roster_membership(const Launch& launch, const std::string& text);

// "doors 1 a:20170 a:20171 b:20172": the fewest with which the job goes on, and where each of its processes is met, by
// number.
constexpr const char* kDoors = "doors ";
std::unique_ptr<Membership> network_membership(const Launch& launch, const JobOptions& options,
                                               const std::string& text);

// Throws Error(usage) that names `variable`, whose text is none that the launcher sets.
[[noreturn]] void refuse_inherited(const char* variable, const std::string& text);
// Open descriptors that this process inherited, and its children will not: "4,5".
void read_descriptors(const char* variable, const std::string& text, int* to, size_t count);
template <size_t N>
std::array<int, N> descriptors_in(const char* variable, const std::string& text) {
  std::array<int, N> all{};
  read_descriptors(variable, text, all.data(), N);
  return all;
}

}  // namespace freight::comm
