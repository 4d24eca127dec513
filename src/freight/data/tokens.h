// Text as token numbers, and its batches. Documents are padded with 0 to one of a few lengths (buckets, each with one
// plan); corpora are cut into windows, in which the target of every token is the next one. N samples, T tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "freight/data/feed.h"
#include "freight/data/text.h"
#include "freight/data/tokenizer.h"

namespace freight::data {

// Concatenated documents: document i has tokens [offsets[i], offsets[i + 1]).
struct TokenSet {
  std::vector<int32_t> tokens;         // of all documents
  std::vector<int64_t> offsets = {0};  // the beginning of each document, and the end of the last
  std::vector<int64_t> labels;         // class numbers; empty for a corpus
  Array targets = {};                  // (N, K), where documents have values or several labels, in place of classes
  int64_t cut = 0;                     // the number of documents that were longer than max_length

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }  // documents
  // The number of tokens of document i.
  int64_t length(int64_t i) const { return offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)]; }
};

// The part of a too long document that is kept.
enum class Keep : uint8_t { start, end };  // its start or its end
// Encodes at most `max_length` tokens of each document (0: all). A document without a token becomes one unknown token.
// The result is the same for any number of threads.
TokenSet encode(const TextPart& part, const Tokenizer& tokenizer, int64_t max_length = 0, Keep keep = Keep::start);

// The lengths 32, 64, 128, ... below max_length, then max_length.
std::vector<int64_t> bucket_lengths(int64_t max_length);

// The number of documents that are padded to one length.
struct LengthCount {
  int64_t length = 0;     // in tokens
  int64_t documents = 0;  // their number
};
// Counts the documents for each of the ascending `lengths`, with zeros. Throws Error(usage) for a document that is
// longer than all of them.
std::vector<LengthCount> count_lengths(const TokenSet& set, const std::vector<int64_t>& lengths);
// The document lengths of both splits; empty if samples are not documents, or all have one length.
struct DocumentLengths {
  std::vector<LengthCount> train;  // count_lengths() of the training set
  std::vector<LengthCount> test;   // count_lengths() of the held-out set
};

// Settings of document_feed and window_feed.
struct TokenFeedOptions {
  int64_t batch_size = 64;  // documents or windows per batch
  bool shuffle = false;     // shuffles documents in buckets, and batches; for windows, also the offset of the first
  bool by_class = false;    // of documents: an epoch draws them so that all classes are equally frequent
  uint64_t seed = 0;        // of the order
  bool drop_last = false;   // skips the short batch of a bucket that has a full one
  bool numbers = false;     // of documents: targets are their numbers i64 (N), and inputs i32 (N, 0)
};
// The number of batches in an epoch of `samples` documents of one length, or of windows.
int64_t batches_of(int64_t samples, const TokenFeedOptions& options);
// Batches of documents: inputs i32 (N, L), where L is the smallest of the ascending `lengths` that all documents of the
// batch fit into, and targets i64 (N), or as in the set. Every document is in exactly one batch of an epoch (unless
// drop_last). Throws Error(usage) for a document longer than all lengths.
std::unique_ptr<Feed> document_feed(std::shared_ptr<const TokenSet> set, std::vector<int64_t> lengths,
                                    const TokenFeedOptions& options);
// The documents in the order of such batches, if they are not shuffled.
std::vector<int64_t> document_order(const TokenSet& set, const std::vector<int64_t>& lengths);
// Batches of windows: inputs and targets i32 (N, length) of consecutive windows without overlap. Every token except the
// first is a target once, and the last window is padded. With shuffle the first window of an epoch begins at a random
// offset, and tokens that are left at the ends are not used. Throws Error(data) for fewer than two tokens, with shuffle
// fewer than length + 1.
std::unique_ptr<Feed> window_feed(std::shared_ptr<const TokenSet> set, int64_t length, const TokenFeedOptions& options);

}  // namespace freight::data
