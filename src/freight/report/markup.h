// Text in HTML and SVG. Everything that comes from a file (class names, paths, documents) passes through escaped()
// exactly once, where it is put into the page.
#pragma once
#include <string>
#include <string_view>

#include "freight/io/file.h"

namespace freight::report {

// Escapes text, also for attributes in double quotes. Control characters, bytes that are not UTF-8 and marks that
// change the text direction become U+FFFD; newlines and tabs stay.
std::string escaped(std::string_view text);
// The first `limit` characters of a UTF-8 text, followed by "..." if it was cut.
std::string shortened(const std::string& text, size_t limit);
std::string base64(io::ByteView bytes);
// A number with four significant digits: "0.4351", "91.86", "12,300".
std::string figure(double v);
// A percentage with a non-breaking space: "93.1 %".
std::string percent(double share);

}  // namespace freight::report
