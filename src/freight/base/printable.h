// Names of files and classes as text for a terminal and for messages: they may hold anything, and be of any length.
#pragma once
#include <string>
#include <string_view>

namespace freight {

// Control characters, C1's in UTF-8 too, as \n, \t, \x1b, but for those in `kept`: what a file or class is called must
// not move a terminal's cursor.
std::string printable(std::string_view text, std::string_view kept = {});
// At most a line of what somebody wrote, for messages: an error never repeats a megabyte.
std::string excerpt(std::string_view text);

// One word of a command that can be pasted into a shell: quoted where it holds more than letters, digits and ./_-+:,@%=
std::string shell_word(std::string_view text);

}  // namespace freight
