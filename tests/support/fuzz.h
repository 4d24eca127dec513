// Fuzzing of parsers: damaged variants of a valid text go through; only freight::Error may come out.
// Deterministic; meant for the address sanitizer as well. FREIGHT_FUZZ_TIMES=100 makes a long run (CONTRIBUTING.md).
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/io/file.h"

namespace freight::testing {

// One to four edits: bits, bytes of note, cuts, repeats, digits of header numbers.
inline std::string mutate(std::string s, PhiloxStream& r) {
  const auto at = [&] { return static_cast<size_t>(r.below(static_cast<uint32_t>(s.size()))); };
  for (uint32_t edits = 1 + r.below(4); edits > 0 && !s.empty(); --edits) {
    switch (r.below(7)) {
      case 0: s[at()] ^= static_cast<char>(1 << r.below(8)); break;
      case 1: s[at()] = "\x00\xff\x7f\x80\x01"[r.below(5)]; break;
      case 2: s.resize(at()); break;
      case 3: s.insert(at(), s.substr(at(), r.below(64))); break;
      case 4: s.erase(at(), 1 + r.below(16)); break;
      case 5: s[at() % std::min<size_t>(s.size(), 160)] = static_cast<char>(r.bits()); break;
      default:  // a digit or bracket of a text header
        if (const size_t p = s.find_first_of("0123456789[](){}:,'\"", at()); p != std::string::npos) {
          s[p] = "0123456789[](){}:,'\"-"[r.below(21)];
        }
    }
  }
  return s;
}

// A hundred times as many rounds with FREIGHT_FUZZ_TIMES=100: those of a short run come first.
inline int fuzz_rounds(int rounds) {
  const char* times = std::getenv("FREIGHT_FUZZ_TIMES");
  return rounds * (times ? std::max(1, std::atoi(times)) : 1);
}

// `parse` must name its source "fuzzed".
inline void fuzz(const std::string& valid, uint32_t stream, int rounds,
                 const std::function<void(io::ByteView)>& parse) {
  ASSERT_NO_THROW(parse({reinterpret_cast<const uint8_t*>(valid.data()), valid.size()}));
  int refused = 0;
  rounds = fuzz_rounds(rounds);
  for (int i = 0; i < rounds; ++i) {
    PhiloxStream r(2026, static_cast<uint64_t>(i), stream);
    const std::string text = mutate(valid, r);
    // A block of exactly this size, so that the sanitizer sees the first byte beyond it.
    io::Bytes exact(text.size());
    std::copy(text.begin(), text.end(), exact.data());
    try {
      parse(exact);
    } catch (const Error& e) {
      ++refused;
      EXPECT_NE(std::string(e.what()).find("fuzzed"), std::string::npos) << e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "mutation " << i << " lets out: " << e.what();
    }
  }
  EXPECT_GT(refused, rounds / 4);
}

}  // namespace freight::testing
