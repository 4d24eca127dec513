// A CSV file of texts of two unbalanced classes.
#pragma once
#include <cstdint>
#include <string>

#include "freight/base/strings.h"

namespace freight::test {

// Every `rare_of`-th text is spam; the words of a class are seldom among those of the other.
inline std::string unbalanced_texts(int64_t count, int64_t rare_of) {
  std::string csv = "text,label\n";
  for (int64_t i = 0; i < count; ++i) {
    const bool rare = i % rare_of == 0;
    csv += cat(rare == (i % 7 != 0) ? "win a prize now" : "see you at lunch", " word", i % 13, " word", i % 5, ",",
               rare ? "spam" : "ham", "\n");
  }
  return csv;
}

}  // namespace freight::test
