// Sleeps on words of shared memory. Linux only.
#pragma once
#include <atomic>
#include <cstdint>

namespace freight::comm {

// Sleeps while `word` is `value`, for at most `seconds`; it may also return early. Any process that maps the word may
// change it and must then call wake_all.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t value, double seconds);
void wake_all(const std::atomic<uint32_t>& word);

}  // namespace freight::comm
