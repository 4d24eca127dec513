// See page_internal.h.
#include <nettle/base64.h>
#include <nettle/sha2.h>

#include <array>

#include "freight/base/error.h"
#include "freight/serve/page_internal.h"

namespace freight::serve {

namespace {

// 'sha256-...' of the text between <tag> and </tag>.
std::string hash_of(const std::string& html, const std::string& tag) {
  const size_t first = html.find(cat("<", tag, ">")) + tag.size() + 2, last = html.find(cat("</", tag, ">"));
  FREIGHT_CHECK(last != std::string::npos, "the page's <", tag, ">");
  sha256_ctx state;
  sha256_init(&state);
  sha256_update(&state, last - first, reinterpret_cast<const uint8_t*>(html.data()) + first);
  std::array<uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&state, digest.size(), digest.data());
  std::string text(BASE64_ENCODE_RAW_LENGTH(digest.size()), ' ');
  base64_encode_raw(text.data(), digest.size(), digest.data());
  return cat("'sha256-", text, "'");
}

}  // namespace

const Page& page() {
  static const Page kPage = [] {
    Page p{.html = page_html(), .policy = {}};
    p.policy =
        cat("default-src 'none'; script-src ", hash_of(p.html, "script"), "; style-src ", hash_of(p.html, "style"),
            "; img-src blob: data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'");
    return p;
  }();
  return kPage;
}

}  // namespace freight::serve
