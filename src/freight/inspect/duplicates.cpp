// See duplicates.h.
#include "freight/inspect/duplicates.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "freight/base/philox.h"
#include "freight/data/dataset.h"

namespace freight::inspect {

namespace {

// A group larger than this shares a hash by chance, as blank images do: its members are compared with the first ones.
constexpr size_t kMostCompared = 64;

class Pairs {
 public:
  void add(const Duplicate& d) { all_.try_emplace({d.first, d.second}, d); }
  bool has(int64_t a, int64_t b) const { return all_.contains({a, b}); }
  std::vector<Duplicate> sorted() const {
    std::vector<Duplicate> out;
    for (const auto& [key, d] : all_) out.push_back(d);
    return out;
  }

 private:
  std::map<std::pair<int64_t, int64_t>, Duplicate> all_;
};

// Pairs each sample with the first one of equal hash, which then stands for it: it is no longer usable.
void add_equal(const std::vector<uint64_t>& hashes, std::vector<bool>& usable, Pairs& pairs) {
  std::unordered_map<uint64_t, int64_t> first;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (!usable[i]) continue;
    const auto [at, fresh] = first.try_emplace(hashes[i], static_cast<int64_t>(i));
    if (fresh) continue;
    pairs.add({.first = at->second, .second = static_cast<int64_t>(i), .same = true});
    usable[i] = false;
  }
}

// Calls compare(i, j) for samples that share a key.
template <class F>
void for_candidates(const std::vector<std::pair<uint64_t, int64_t>>& sorted_keys, const F& compare) {
  for (size_t begin = 0; begin < sorted_keys.size();) {
    size_t end = begin;
    while (end < sorted_keys.size() && sorted_keys[end].first == sorted_keys[begin].first) ++end;
    for (size_t j = begin + 1; j < end; ++j) {
      for (size_t i = begin; i < std::min(j, begin + kMostCompared); ++i) {
        compare(sorted_keys[i].second, sorted_keys[j].second);
      }
    }
    begin = end;
  }
}

// Thumbnails as vectors of mean 0 and length 1, whose product is the correlation. A plain image has none.
std::vector<float> unit_thumbnails(const std::vector<const ImageSamples*>& parts, std::vector<bool>& usable) {
  constexpr int64_t kSize = ImageSamples::kThumbnail;
  constexpr double kPlain = 4;  // standard deviation in steps of a byte
  std::vector<float> out;
  size_t number = 0;
  for (const ImageSamples* part : parts) {
    for (int64_t i = 0; i < part->count(); ++i, ++number) {
      const uint8_t* x = part->thumbnail(i);
      double sum = 0, square = 0;
      for (int64_t k = 0; k < kSize; ++k) {
        sum += x[k];
        square += static_cast<double>(x[k]) * x[k];
      }
      const double mean = sum / kSize, deviation = std::sqrt(std::max(0.0, square / kSize - mean * mean));
      if (deviation < kPlain) usable[number] = false;
      const double scale = deviation < kPlain ? 0 : 1 / (deviation * std::sqrt(static_cast<double>(kSize)));
      for (int64_t k = 0; k < kSize; ++k) out.push_back(static_cast<float>((x[k] - mean) * scale));
    }
  }
  return out;
}

// The mean of all images tells nothing about one: signs are taken of what differs from it.
std::vector<float> mean_of(const std::vector<float>& vectors, int64_t size) {
  std::vector<double> sum(static_cast<size_t>(size));
  const auto n = static_cast<int64_t>(vectors.size()) / size;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < size; ++k) sum[static_cast<size_t>(k)] += vectors[static_cast<size_t>(i * size + k)];
  }
  std::vector<float> mean;
  for (const double s : sum) mean.push_back(static_cast<float>(s / static_cast<double>(std::max<int64_t>(n, 1))));
  return mean;
}

// Letters and digits in lower case, words separated by one blank. Bytes above 127 are letters of other alphabets.
std::string plain_words(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128 || std::isalnum(byte) != 0) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// Hashes of all three words in a row, sorted; of a shorter text that of the whole.
std::vector<uint64_t> phrases(const std::string& plain) {
  std::vector<size_t> begins{0};
  for (size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == ' ') begins.push_back(i + 1);
  }
  constexpr size_t kWords = 3;
  std::vector<uint64_t> out;
  if (begins.size() < kWords) return {data::hash_of(plain.data(), plain.size(), 0)};
  for (size_t i = 0; i + kWords <= begins.size(); ++i) {
    const size_t end = i + kWords < begins.size() ? begins[i + kWords] - 1 : plain.size();
    out.push_back(data::hash_of(plain.data() + begins[i], end - begins[i], 0));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

double jaccard(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<uint64_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return static_cast<double>(common.size()) / static_cast<double>(a.size() + b.size() - common.size());
}

// A permutation of 64-bit numbers (the finalizer of MurmurHash3), another one for each seed.
uint64_t mixed(uint64_t x, uint64_t seed) {
  x ^= seed * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

}  // namespace

std::vector<Duplicate> duplicate_images(const std::vector<const ImageSamples*>& parts) {
  constexpr int64_t kSize = ImageSamples::kThumbnail;
  // 1 - (1 - 0.968^20)^10 = 0.9994 of the pairs at an angle of 5.7 degrees (correlation 0.995) share a code.
  constexpr int64_t kBits = 20, kTables = 10;
  Pairs pairs;
  std::vector<uint64_t> content;
  std::vector<bool> usable;
  bool pictures = true;
  for (const ImageSamples* part : parts) {
    content.insert(content.end(), part->content.begin(), part->content.end());
    usable.insert(usable.end(), part->readable.begin(), part->readable.end());
    pictures = pictures && part->pictures;
  }
  add_equal(content, usable, pairs);
  if (!pictures) return pairs.sorted();
  const std::vector<float> vectors = unit_thumbnails(parts, usable), mean = mean_of(vectors, kSize);
  const auto vector = [&](int64_t i) { return vectors.data() + i * kSize; };
  for (int64_t table = 0; table < kTables; ++table) {
    PhiloxStream random(static_cast<uint64_t>(table), 0, 0);
    std::vector<float> directions(static_cast<size_t>(kBits * kSize));
    for (float& d : directions) d = random.normal();
    std::array<float, kBits> offsets{};
    for (int64_t b = 0; b < kBits; ++b) {
      for (int64_t k = 0; k < kSize; ++k) {
        offsets[static_cast<size_t>(b)] +=
            directions[static_cast<size_t>(b * kSize + k)] * mean[static_cast<size_t>(k)];
      }
    }
    std::vector<std::pair<uint64_t, int64_t>> keys;
    for (size_t i = 0; i < content.size(); ++i) {
      if (!usable[i]) continue;
      uint64_t code = 0;
      const float* const x = vector(static_cast<int64_t>(i));
      for (int64_t b = 0; b < kBits; ++b) {
        const float* const d = directions.data() + b * kSize;
        float sum = -offsets[static_cast<size_t>(b)];
        for (int64_t k = 0; k < kSize; ++k) sum += d[k] * x[k];
        code = code << 1 | (sum > 0 ? 1 : 0);
      }
      keys.emplace_back(code, static_cast<int64_t>(i));
    }
    std::sort(keys.begin(), keys.end());
    for_candidates(keys, [&](int64_t i, int64_t j) {
      if (pairs.has(i, j)) return;
      float correlation = 0;
      for (int64_t k = 0; k < kSize; ++k) correlation += vector(i)[k] * vector(j)[k];
      if (correlation >= kSameImage) pairs.add({.first = i, .second = j, .similarity = correlation});
    });
  }
  return pairs.sorted();
}

std::vector<Duplicate> duplicate_texts(const std::vector<std::string>& texts) {
  // 1 - (1 - 0.8^4)^16 = 0.9998 of the pairs with four of five phrases in common share a code.
  constexpr uint64_t kRows = 4, kBands = 16;
  Pairs pairs;
  std::vector<uint64_t> content;
  std::vector<std::vector<uint64_t>> sets;
  for (const std::string& text : texts) {
    const std::string plain = plain_words(text);
    content.push_back(data::hash_of(plain.data(), plain.size(), 0));
    sets.push_back(phrases(plain));
  }
  std::vector<bool> usable(texts.size(), true);
  add_equal(content, usable, pairs);
  for (uint64_t band = 0; band < kBands; ++band) {
    std::vector<std::pair<uint64_t, int64_t>> keys;
    for (size_t i = 0; i < sets.size(); ++i) {
      if (!usable[i]) continue;
      uint64_t code = band;
      for (uint64_t row = 0; row < kRows; ++row) {
        uint64_t least = ~uint64_t{0};
        for (const uint64_t phrase : sets[i]) least = std::min(least, mixed(phrase, band * kRows + row + 1));
        code = mixed(code ^ least, row + 1);
      }
      keys.emplace_back(code, static_cast<int64_t>(i));
    }
    std::sort(keys.begin(), keys.end());
    for_candidates(keys, [&](int64_t i, int64_t j) {
      if (pairs.has(i, j)) return;
      const double similarity = jaccard(sets[static_cast<size_t>(i)], sets[static_cast<size_t>(j)]);
      if (similarity >= kSameText) pairs.add({.first = i, .second = j, .similarity = similarity});
    });
  }
  return pairs.sorted();
}

}  // namespace freight::inspect
