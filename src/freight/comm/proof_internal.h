// Two processes of a job prove to each other that they know its token without sending it: each gives the other a random
// number, and gets a keyed hash of that number and of the message. Messages are structs with a member `proof`.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace freight::comm {

using Proof = std::array<unsigned char, 32>;
using Nonce = std::array<unsigned char, 32>;

constexpr std::array<char, 8> kMagic = {'F', 'R', 'E', 'I', 'G', 'H', 'T', '1'};

// The first message of the listening process.
struct Challenge {
  std::array<char, 8> magic = kMagic;
  Nonce nonce{};
};

// Both throw Error(runtime) if the system provides no random numbers.
Nonce new_nonce();
std::string new_token();  // 32 hexadecimal digits
// HMAC-SHA256 (RFC 2104) of the sender's role, the nonce of the other end and the message.
Proof proof_of(const std::string& token, const char* who, const Nonce& asked, const std::string& said);
bool is_same(const Proof& a, const Proof& b);  // takes the same time wherever they differ

template <class T>
std::string bytes_in(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
bool proves(const T& message, const std::string& rest, const std::string& token, const char* who, const Nonce& asked) {
  T plain = message;
  plain.proof = {};
  return is_same(proof_of(token, who, asked, bytes_in(plain) + rest), message.proof);
}

template <class T>
void prove(T& message, const std::string& rest, const std::string& token, const char* who, const Nonce& asked) {
  message.proof = {};
  message.proof = proof_of(token, who, asked, bytes_in(message) + rest);
}

template <size_t N>
void put_text(std::array<char, N>& to, const std::string& text) {
  const size_t n = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), n);
  to[n] = 0;
}
template <size_t N>
std::string text_in(const std::array<char, N>& from) {
  return std::string(from.data(), ::strnlen(from.data(), N));
}

}  // namespace freight::comm
