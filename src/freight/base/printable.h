// Names of files and classes as text for a terminal: they may hold anything.
#pragma once
#include <string>
#include <string_view>

namespace freight {

// Control characters, C1's in UTF-8 too, as \n, \t, \x1b, but for those in `kept`: what a file or class is called must
// not move a terminal's cursor.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace freight
