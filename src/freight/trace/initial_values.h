// The first elements of variables: made at first need (VariableImpl::materialize), or ahead of it by another thread
// while the caller plans. Their bits depend neither on who draws them nor on how many threads do. Internal to the
// library.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "freight/trace/tracer.h"

namespace freight::trace {

// Held by whoever gives a variable its first elements, and when ours are drawn ahead.
std::mutex& initial_values_mutex();
// The variable's elements by its Init, under the mutex above. Uses what was drawn ahead.
std::shared_ptr<Storage> initial_elements(const VariableImpl& variable);
// Gives up what was drawn ahead for one whose elements come from elsewhere.
void forget_drawn(const VariableImpl& variable);
// Sets all elements of a block to a number.
void fill(void* elements, const Type& type, double value);

// While it lives, another thread draws elements for those of the variables that have none yet, in their order, as far
// as it comes, and then has the system clear the memory of large ones that begin with zeros. Who first needs one of
// them ends that thread, and computes the rest with all threads. One that nobody asks for stays as it was. Nothing is
// done where there is one thread to compute with, little to draw, or too little memory.
class DrawAhead {
 public:
  explicit DrawAhead(const std::vector<std::shared_ptr<VariableImpl>>& variables);
  ~DrawAhead();
  DrawAhead(const DrawAhead&) = delete;
  DrawAhead& operator=(const DrawAhead&) = delete;
  // Ends the thread, if it still works, and returns the bytes of memory that it has filled.
  size_t stop();
  class Work;

 private:
  std::unique_ptr<Work> work_;
};

}  // namespace freight::trace
