// Mutated models, checkpoints and texts: what comes from files that users share. Only freight::Error may come out.
#include <gtest/gtest.h>

#include "freight/data/tokenizer.h"
#include "freight/io/metrics.h"
#include "freight/store/bundle.h"
#include "freight/train/checkpoint.h"
#include "tests/support/files.h"
#include "tests/support/fuzz.h"

namespace freight {
namespace {
using namespace freight::testing;

constexpr const char* kNet = R"({"format": "freight-model-1", "name": "n", "input": [1, 4, 4], "net": [
  {"type": "Flatten"}, {"type": "Linear", "in": 16, "out": 3}, {"type": "ReLU"}, {"type": "Linear", "in": 3, "out": 2},
  {"type": "GraphModule", "buffers": "s", "graph":
    "graph { %0 = input \"x\" : f32[N,2] %1 = state \"w\" : f32[2,2] %2 = state \"s\" : f32[1] %3 = matmul(%0, %1) : f32[N,2] return %3 }"}]})";

store::Bundle small_bundle() {
  store::Bundle b;
  b.model = models::from_spec(kNet, "n");
  b.preprocessing = {.input = {1, 4, 4}, .mean = {0.5f}, .std = {0.25f}};
  b.classes = {"a", "b"};
  b.provenance = {{"data", "digits"}, {"val_split", "-1"}};
  return b;
}

// `rounds` damaged variants of a text; how many were refused.
template <class F>
int mutated(const std::string& valid, uint32_t stream, int rounds, F&& use) {
  int refused = 0;
  for (int i = 0; i < fuzz_rounds(rounds); ++i) {
    PhiloxStream r(2026, static_cast<uint64_t>(i), stream);
    try {
      use(mutate(valid, r));
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& e) {
      ADD_FAILURE() << "mutation " << i << " lets out: " << e.what();
    }
  }
  return refused;
}

TEST(Fuzz, Bundles) {
  const TemporaryDir dir;
  save_bundle(dir / "f", small_bundle());
  fuzz(read_text(dir / "f"), 30, 1500,
       [](io::ByteView b) { store::from_file(io::parse_safetensors(b, "fuzzed"), "fuzzed"); });
}

TEST(Fuzz, MetadataOfBundles) {
  const io::SafeTensors valid = store::to_file(small_bundle());
  uint32_t stream = 31;
  for (const auto& [key, text] : valid.metadata) {
    SCOPED_TRACE(key);
    const int refused = mutated(text, stream++, 400, [&, key = key](const std::string& bad) {
      io::SafeTensors file = valid;
      file.metadata[key] = bad;
      store::from_file(file, "fuzzed");
    });
    EXPECT_GT(refused, 40);
  }
}

TEST(Fuzz, Manifests) {
  const std::string hash(64, 'a');
  const std::string valid = cat(
      R"({"format": "freight-checkpoint-3", "step": 3, "files": {"model.safetensors": {"bytes": 40, "part_bytes": 16, )",
      R"("xxh3_128": [")", hash, "\", \"", hash, "\", \"", hash, "\"]}}}");
  EXPECT_EQ(train::hashes_in(valid, "model.safetensors", "valid").parts.size(), 3u);
  fuzz(valid, 40, 2000, [](io::ByteView b) { train::hashes_in(text_of(b), "model.safetensors", "fuzzed"); });
}

// Whatever a manifest says, the file beside it is only read as far as it goes.
TEST(Fuzz, HashesOfManifests) {
  const TemporaryDir dir;
  const std::string text(1000, 'x'), path = dir / "f";
  io::write_file_atomic(path, std::string_view(text));
  PhiloxStream r(2026, 0, 41);
  for (int i = 0; i < fuzz_rounds(500); ++i) {
    io::PartHashes hashes{
        .bytes = r.below(2) ? 1000 : r.bits(), .part = r.below(2) ? r.below(2000) : r.bits(), .parts = {}};
    hashes.parts.resize(r.below(20));
    EXPECT_THROW(io::read_verified(path, hashes), Error);
  }
}

TEST(Fuzz, StatesOfRuns) {
  const train::Snapshot taken = train::snapshot(
      small_bundle(), {.place = {.step = 3, .test = {.count = 5, .top1 = 50.0}}, .variables = {}, .config = {}});
  uint32_t stream = 42;
  for (const auto& [key, text] : taken.state.metadata) {
    SCOPED_TRACE(key);
    const int refused = mutated(text, stream++, 1000, [&, key = key](const std::string& bad) {
      std::map<std::string, std::string> metadata = taken.state.metadata;
      metadata[key] = bad;
      train::Checkpoint c;
      train::read_state(metadata, "fuzzed", c);
      if (c.place.step < 0 || c.place.epoch < 1 || c.place.batch < 0) throw std::logic_error("a place out of range");
    });
    EXPECT_GT(refused, 100);
  }
}

TEST(Fuzz, RowsOfMetrics) {
  const std::string valid = io::to_json_line({.step = 3, .epoch = 1, .loss = 0.5, .mem_bytes = 7, .time = 1});
  mutated(valid, 50, 3000, [](const std::string& line) { io::from_json_line(line); });
}

TEST(Fuzz, TextsForTokenizers) {
  const std::vector<std::string> texts = {"The cat saw the dog, 3.5 times!",
                                          "\xc3\x89t\xc3\xa9 \xe5\xa5\xbd \xf0\x9f\x98\x80 it's",
                                          "na\xc3\xafve \xef\xac\x81 \xe2\x80\x8b x\xcc\x81"};
  uint32_t stream = 60;
  for (const auto kind : {data::TokenizerKind::word, data::TokenizerKind::character, data::TokenizerKind::bpe}) {
    const auto tokenizer = data::learn_tokenizer(
        texts, {.kind = kind, .limit = kind == data::TokenizerKind::bpe ? 60 : 0, .min_count = 1});
    for (const std::string& valid : texts) {
      const int refused = mutated(valid, stream++, 700, [&](const std::string& text) {
        const std::vector<int32_t> tokens = tokenizer->encode(text);
        for (const int32_t id : tokens) {
          if (id < 1 || id >= tokenizer->size()) throw std::logic_error("a number out of range");
        }
        tokenizer->decode(tokens);
      });
      EXPECT_GT(refused, 0);
    }
  }
}

}  // namespace
}  // namespace freight
