// Memory that a file asks for: a few bytes of one may claim, or unpack to, more than any machine has. Readers ask here
// before they make what a file says, and name it where memory runs out in spite of that.
#pragma once
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "freight/base/error.h"

namespace freight::io {

// Bytes that this process may take at most: the machine's memory, or less where a container or a limit of the process
// (ulimit -v) says so.
uint64_t memory_limit();

// Throws Error(capacity) that begins with `name` where `bytes` are above memory_limit(); `what` takes them ("its 3
// arrays", "the rows").
void need_memory(double bytes, const std::string& name, const std::string& what);

// Bytes that a gzip file of so many may unpack to. Text and numbers become a tenth or a fiftieth; a thousandth, which
// deflate reaches, is of zeros alone, and a few megabytes of those would keep a reader busy for minutes.
uint64_t most_unpacked(uint64_t packed);
// Throws Error(data) that begins with `name`: it unpacks to more than that.
[[noreturn]] void unpacks_to_more(const std::string& name, uint64_t packed);

[[noreturn]] void no_memory_for(const std::string& name);  // Error(capacity): reading it takes more than there is
bool says_no_memory(const Error& error);                   // of what arrays throw where their memory runs out

// Gives what `read` does. Where memory runs out within it, the error names the file, as others do.
template <class Read>
auto reading(const std::string& name, Read&& read) {
  try {
    return read();
  } catch (const Error& e) {
    if (says_no_memory(e)) no_memory_for(name);
    throw;
  } catch (const std::bad_alloc&) {
    no_memory_for(name);
  } catch (const std::length_error&) {  // a container of more elements than can be numbered
    no_memory_for(name);
  }
}

}  // namespace freight::io
