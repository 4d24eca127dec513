// See proof_internal.h.
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <sys/random.h>

#include <cerrno>

#include "freight/base/error.h"
#include "freight/comm/proof_internal.h"

namespace freight::comm {

namespace {

template <size_t N>
std::array<unsigned char, N> random_bytes() {
  std::array<unsigned char, N> bytes{};
  if (::getrandom(bytes.data(), N, 0) != static_cast<ssize_t>(N)) {
    fail(ErrorKind::runtime, "rendezvous", "the system returns no random numbers: ", std::strerror(errno));
  }
  return bytes;
}

}  // namespace

Nonce new_nonce() { return random_bytes<std::tuple_size_v<Nonce>>(); }

std::string new_token() {
  std::string text;
  constexpr const char* kDigits = "0123456789abcdef";
  for (const unsigned char b : random_bytes<16>()) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

Proof proof_of(const std::string& token, const char* who, const Nonce& asked, const std::string& said) {
  std::string text = who;
  text.append(reinterpret_cast<const char*>(asked.data()), asked.size());
  text += said;
  hmac_sha256_ctx state;
  hmac_sha256_set_key(&state, token.size(), reinterpret_cast<const uint8_t*>(token.data()));
  hmac_sha256_update(&state, text.size(), reinterpret_cast<const uint8_t*>(text.data()));
  Proof proof{};
  hmac_sha256_digest(&state, proof.size(), proof.data());
  return proof;
}

bool is_same(const Proof& a, const Proof& b) { return memeql_sec(a.data(), b.data(), a.size()) == 1; }

}  // namespace freight::comm
