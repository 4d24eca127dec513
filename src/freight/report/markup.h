// Text that goes into HTML and SVG. Whatever comes from a file (class names, paths, documents) passes through escaped()
// once, at the place where it is put into the page.
#pragma once
#include <string>
#include <string_view>

#include "freight/io/file.h"

namespace freight::report {

// For text and for attributes in double quotes. Control characters and bytes that are not UTF-8 become U+FFFD, so do
// the marks that turn the direction of what follows; line ends and tabs stay.
std::string escaped(std::string_view text);
// The first `limit` characters of a UTF-8 text, "..." behind them where it was cut.
std::string shortened(const std::string& text, size_t limit);
std::string base64(io::ByteView bytes);
// Four digits that count: "0.4351", "91.86", "12,300".
std::string figure(double v);
// "93.1 %", with a space that does not break.
std::string percent(double share);

}  // namespace freight::report
