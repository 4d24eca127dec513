// The page at `/`: page/index.html, which cmake/page.cmake puts into the library.
#pragma once
#include <string>

namespace freight::serve {

const char* page_html();

struct Page {
  std::string html;
  // Content-Security-Policy: allows the page's own script and style by their hashes, requests to this server, and
  // nothing else.
  std::string policy;
};
const Page& page();

}  // namespace freight::serve
