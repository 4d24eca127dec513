// Text as token numbers, and its batches. Documents are padded with 0 to one of a few lengths (buckets: each has one
// plan), corpora are cut into windows in which every token's target is the next one. N samples, T tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "freight/data/feed.h"
#include "freight/data/text.h"
#include "freight/data/tokenizer.h"

namespace freight::data {

// Documents one after the other: number i has tokens [offsets[i], offsets[i + 1]).
struct TokenSet {
  std::vector<int32_t> tokens;         // of all documents, one after the other
  std::vector<int64_t> offsets = {0};  // where each begins, and the end
  std::vector<int64_t> labels;         // class numbers; none of a corpus
  int64_t cut = 0;                     // documents that were longer than max_length

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }  // documents
  // Tokens of document i.
  int64_t length(int64_t i) const { return offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)]; }
};

// The end of a too long document that is kept.
enum class Keep : uint8_t { start, end };  // of a document that is too long
// At most `max_length` tokens of each document (0: all); one without any token becomes one unknown token. The same
// for any number of threads.
TokenSet encode(const TextPart& part, const Tokenizer& tokenizer, int64_t max_length = 0, Keep keep = Keep::start);

// 32, 64, 128, ... below max_length, then max_length itself.
std::vector<int64_t> bucket_lengths(int64_t max_length);

// The documents of a set that are padded to one length.
struct LengthCount {
  int64_t length = 0;     // in tokens
  int64_t documents = 0;  // how many
};
// One for each of `lengths` (rising), also where there are no documents of it. Throws Error(usage) for a document
// longer than all.
std::vector<LengthCount> count_lengths(const TokenSet& set, const std::vector<int64_t>& lengths);
// The parts of a set of documents; empty where samples are none, or all have one length.
struct DocumentLengths {
  std::vector<LengthCount> train;  // as count_lengths() has them
  std::vector<LengthCount> test;   // the same of the test part
};

// Settings of document_feed and window_feed.
struct TokenFeedOptions {
  int64_t batch_size = 64;  // documents or windows per batch
  bool shuffle = false;     // within the buckets, and the batches over all buckets; of windows also where they begin
  bool by_class = false;    // of documents: an epoch draws them so that all classes are equally frequent
  uint64_t seed = 0;        // of the order
  bool drop_last = false;   // leaves the short batch of a bucket out where it has a full one
};
// The batches that an epoch makes of so many documents of one length, or windows.
int64_t batches_of(int64_t samples, const TokenFeedOptions& options);
// Inputs i32 (N, L), L the least of `lengths` (rising) that all documents of the batch fit into, targets i64 (N).
// Every document is in exactly one batch of an epoch (but see drop_last). Throws Error(usage) for a document longer
// than all lengths.
std::unique_ptr<Feed> document_feed(std::shared_ptr<const TokenSet> set, std::vector<int64_t> lengths,
                                    const TokenFeedOptions& options);
// Inputs and targets i32 (N, length): windows that follow each other and do not overlap; every token but the first is
// a target once, the last window is padded. Shuffled, the windows of an epoch begin at a place drawn for it, and what
// is left at the ends is not used. Throws Error(data) for fewer than two tokens, shuffled fewer than length + 1.
std::unique_ptr<Feed> window_feed(std::shared_ptr<const TokenSet> set, int64_t length, const TokenFeedOptions& options);

}  // namespace freight::data
