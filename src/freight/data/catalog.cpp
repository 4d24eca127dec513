// See catalog.h.
#include "freight/data/catalog.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "freight/base/cache.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/data/cells.h"
#include "freight/data/digits.h"
#include "freight/data/source.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"

namespace freight::data {

namespace {
std::vector<CatalogEntry> with_tables(std::vector<CatalogEntry> entries) {
  for (CatalogEntry& table : table_entries()) entries.push_back(std::move(table));
  return entries;
}
}  // namespace

const std::vector<CatalogEntry>& catalog() {
  static const std::vector<CatalogEntry> kCatalog = with_tables({
      {"digits",
       "built-in: synthetic images that look like handwritten digits",
       kDigitsTrain,
       kDigitsTest,
       10,
       "1x28x28",
       {},
       {},
       {}},
      {"mnist",
       "handwritten digits (LeCun, Cortes)",
       60000,
       10000,
       10,
       "1x28x28",
       {{"train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422},
        {"train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881},
        {"t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877},
        {"t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542}},
       {"mnist", "MNIST/raw", "MNIST", "."},
       {"https://ossci-datasets.s3.amazonaws.com/mnist"}},
      {"fashion-mnist",
       "images of clothes in the layout of MNIST (Zalando)",
       60000,
       10000,
       10,
       "1x28x28",
       {{"train-images-idx3-ubyte.gz", "", 0},
        {"train-labels-idx1-ubyte.gz", "", 0},
        {"t10k-images-idx3-ubyte.gz", "", 0},
        {"t10k-labels-idx1-ubyte.gz", "", 0}},
       {"fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "fashion_mnist"},
       {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"}},
      {"cifar10",
       "32x32 color photographs (Krizhevsky), binary records",
       50000,
       10000,
       10,
       "3x32x32",
       {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", 30730000},
        {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", 30730000},
        {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", 30730000},
        {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", 30730000},
        {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", 30730000},
        {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", 30730000}},
       {"cifar10", "cifar-10-batches-bin", "cifar-10", "CIFAR10", "."},
       {}},
      {"imdb",
       "film reviews, good or bad (Maas et al. 2011)",
       25000,
       25000,
       2,
       "text",
       {},
       {"aclImdb", "imdb"},
       {},
       true},
      {"sst2",
       "sentences and phrases of film reviews, good or bad (Socher et al. 2013)",
       60614,
       872,
       2,
       "text",
       {{"train.tsv.gz", "", 0}, {"dev.tsv", "", 0}, {"test.tsv", "", 0}},
       {"sst2", "SST-2"},
       {},
       true},
      {"ag_news",
       "news in four topics (Zhang et al. 2015)",
       120000,
       7600,
       4,
       "text",
       {{"train.csv", "", 0}, {"test.csv", "", 0}, {"classes.txt", "", 0}},
       {"ag_news", "ag_news_csv"},
       {},
       true},
      {"sms_spam",
       "text messages, ham or spam (Almeida et al. 2011); no test set",
       5574,
       0,
       2,
       "text",
       {{"SMSSpamCollection", "6292852506516bde49acaa774ae7cef026a31ae604f59452654f196350330113", 477907}},
       {"sms_spam", "SMSSpamCollection"},
       {},
       true},
      {"tinyshakespeare",
       "a corpus for language models: 40,000 lines of Shakespeare; no test set",
       1115394,
       0,
       0,
       "characters",
       {{"input.txt", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394}},
       {"tinyshakespeare"},
       {"https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"},
       true},
  });
  return kCatalog;
}

const CatalogEntry* find_entry(const std::string& name) {
  const auto& all = catalog();
  const auto it = std::find_if(all.begin(), all.end(), [&](const CatalogEntry& e) { return e.name == name; });
  return it == all.end() ? nullptr : &*it;
}

std::vector<std::string> search_dirs(const LoadOptions& options) {
  std::vector<std::string> out;
  for (const std::string& dir : {options.data_dir, env::get("FREIGHT_DATA"), cache_path("data")}) {
    if (!dir.empty()) out.push_back(dir);
  }
  return out;
}

std::string download_dir(const LoadOptions& options) {
  const std::vector<std::string> dirs = search_dirs(options);
  if (dirs.empty()) fail(ErrorKind::usage, "--data-dir", "is missing: there is no cache directory to keep datasets in");
  return dirs.front();
}

TrainTest load(const std::string& name_or_path, const LoadOptions& options) {
  return Source(name_or_path, options).load(options);
}

TextSet load_text(const std::string& name_or_path, const LoadOptions& options) {
  return Source(name_or_path, options).load_text(options);
}

bool Verification::ok() const {
  return bad.empty() &&
         std::none_of(files.begin(), files.end(), [](const File& f) { return f.state == File::State::differs; });
}

namespace {
// All parts: what is held out during training and what is kept for the very end may be different folders.
Verification verify_images(Verification v, const Source& source, LoadOptions options,
                           const std::function<bool(int64_t, int64_t)>& poll) {
  const TrainTest sets = source.load(options);
  std::vector<std::string> paths = sets.train.files->paths;
  paths.insert(paths.end(), sets.test.files->paths.begin(), sets.test.files->paths.end());
  options.images.held_out = HeldOut::test;
  const TrainTest last = source.load(options);
  if (last.test.files->paths != sets.test.files->paths) {
    paths.insert(paths.end(), last.test.files->paths.begin(), last.test.files->paths.end());
  }
  std::sort(paths.begin(), paths.end());
  bool stopped = false;
  v.bad = check_images(paths, [&](int64_t done, int64_t total) {
    stopped = stopped || (poll && !poll(done, total));
    return !stopped;
  });
  if (stopped) fail(ErrorKind::runtime, v.where, "stopped before all images were read");
  v.images = static_cast<int64_t>(paths.size());
  v.train = describe(sets.train);
  v.test = describe(sets.test);
  v.train_fingerprint = sets.train.fingerprint();
  v.test_fingerprint = sets.test.fingerprint();
  return v;
}

// Reads both parts for every way of holding out; each bad document is told once.
void verify_text(Verification& v, const Source& source, LoadOptions options) {
  std::set<std::string> seen;
  options.text.bad = {.on_bad = OnBad::skip, .report = [&](const BadSample& bad) {
                        if (seen.insert(bad.path).second) v.bad.push_back(bad);
                      }};
  const TextSet set = source.load_text(options);
  v.documents = set.train.count() + set.test.count();
  v.train = cat("train ", describe(set, set.train));
  v.test = cat("test ", describe(set, set.test));
  v.train_fingerprint = fingerprint(set.train);
  v.test_fingerprint = fingerprint(set.test);
  for (const HeldOut part : {HeldOut::validation, HeldOut::test}) {
    options.text.held_out = part;
    const TextSet other = source.load_text(options);
    if (fingerprint(other.test) != v.test_fingerprint) v.documents += other.test.count();
  }
}

void verify_table(Verification& v, const Source& source) {
  const TableSet set = source.table();
  const auto read = [&](const TablePart& part, const char* what, std::string& said, uint64_t& mark) {
    said = cat(what, " no rows of its own");
    if (part.empty()) return;
    const Cells cells = read_part(set, part, {});
    said = cat(what, " ", with_commas(cells.rows()), " rows of ", cells.columns.size(), " columns");
    mark = fingerprint(cells);
  };
  read(set.train, "train", v.train, v.train_fingerprint);
  read(set.test, "test", v.test, v.test_fingerprint);
}
}  // namespace

Verification verify(const std::string& name_or_path, const LoadOptions& options,
                    const std::function<bool(int64_t, int64_t)>& poll) {
  Verification v;
  const Source source(name_or_path, options);
  v.where = source.path();
  const Content content = source.content();
  if (content == Content::images) return verify_images(v, source, options, poll);
  const CatalogEntry* entry = source.entry();
  std::error_code ignored;
  if (!v.where.empty() && std::filesystem::is_directory(v.where, ignored)) {
    std::vector<std::string> paths;
    for (const auto& e : std::filesystem::directory_iterator(v.where)) {
      if (e.is_regular_file()) paths.push_back(e.path().string());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      Verification::File file{path, io::sha256_of(path), Verification::File::State::unknown};
      for (const CatalogFile& known : entry ? entry->files : std::vector<CatalogFile>{}) {
        if (known.sha256.empty() || std::filesystem::path(path).filename() != known.name) continue;
        file.state =
            known.sha256 == file.sha256 ? Verification::File::State::matches : Verification::File::State::differs;
      }
      v.files.push_back(std::move(file));
    }
  }
  if (content == Content::documents || content == Content::corpus) {
    verify_text(v, source, options);
    return v;
  }
  if (content == Content::table) {
    verify_table(v, source);
    return v;
  }
  const TrainTest sets = source.load(options);
  v.train = describe(sets.train);
  v.test = describe(sets.test);
  v.train_fingerprint = sets.train.fingerprint();
  v.test_fingerprint = sets.test.fingerprint();
  return v;
}

}  // namespace freight::data
