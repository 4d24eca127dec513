// See page_internal.h.
#include <openssl/evp.h>

#include <array>

#include "freight/base/error.h"
#include "freight/serve/page_internal.h"

namespace freight::serve {

namespace {

// 'sha256-...' of the text between <tag> and </tag>.
std::string hash_of(const std::string& html, const std::string& tag) {
  const size_t first = html.find(cat("<", tag, ">")) + tag.size() + 2, last = html.find(cat("</", tag, ">"));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  FREIGHT_CHECK(last != std::string::npos &&
                    EVP_Digest(html.data() + first, last - first, digest.data(), &size, EVP_sha256(), nullptr) == 1,
                "the page's <", tag, ">");
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> text{};
  const int length = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(size));
  return cat("'sha256-", std::string(text.begin(), text.begin() + length), "'");
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
