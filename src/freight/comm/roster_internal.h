// The table by which a launcher tells the processes of an elastic job who is in it (crew_internal.h writes it), and by
// which they tell the launcher how far they are (membership.h). It is a memory file without a name that they inherit:
// nothing is left of it, however they end. Zeros are its first state.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace freight::comm {

constexpr size_t kMostMembers = 64;

struct RosterSeat {
  std::atomic<int32_t> ready;  // the process that may be let in; 0: it is not prepared yet
  std::atomic<uint32_t> left;  // the generation whose meeting it has left, and awaits another
  std::atomic<uint32_t> met;   // the last one at which it is
  std::atomic<int64_t> steps;  // that it did since it was let in
};

struct Roster {
  std::atomic<uint32_t> version;     // odd while what follows, down to `events`, is being written
  std::atomic<uint32_t> generation;  // of the list; 0: there is none yet. Processes sleep on this word
  std::atomic<uint32_t> count;
  std::array<std::atomic<uint32_t>, kMostMembers> members;  // numbers of processes, in the order of ranks
  std::array<char, 512> events;                             // who left and who came; ends with a zero

  std::atomic<uint32_t> broken;    // the last generation that is over since a member was lost
  std::atomic<uint32_t> over;      // 1: the job does not go on
  std::atomic<uint32_t> given_up;  // 1: a process says so, which the launcher makes known
  std::atomic<uint32_t> began;     // 1: a first rank has made what the job leaves
  std::atomic<uint64_t> identity;  // of program and data of the first process that was prepared; 0: none was
  std::array<RosterSeat, kMostMembers> seats;
};

}  // namespace freight::comm
