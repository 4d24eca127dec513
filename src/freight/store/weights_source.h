// Weights by the name of their source, `torchvision:resnet50`, `hf:ORG/NAME` or an address, as local files. The caches
// are those of PyTorch and Hugging Face: what other tools left there is found, and what is downloaded here, they find.
// Sources and addresses are catalog/weights.json. Errors are Error(data) that names address, file and folder.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/io/fetch.h"

namespace freight::store {

// torchvision's weights of a built-in model, as the catalog lists them.
struct PublishedWeights {
  std::string model, weights;  // "resnet50", "IMAGENET1K_V2"; the first of a model are torchvision's default
  std::string file;            // "resnet50-11ad3fa6.pth": the first digits of its SHA-256 are in the name
  double mib = 0, top1 = 0;    // size; accuracy on ImageNet-1k in percent
};
const std::vector<PublishedWeights>& published_weights();

// A file of weights on this machine.
struct WeightsFile {
  std::string path = {}, address = {};  // the address is "" where it is not known
  std::string sha256 = {};
  int64_t bytes = 0;
};
struct LocalWeights {
  std::string path = {};                // for load_weights: a file of weights, or the index of several
  std::vector<WeightsFile> files = {};  // the file; of an index, the index and its files
  std::string license = {};             // as the source states it; "" where it does not
  std::string page = {};                // where it is stated; "" for an address
  std::string model = {};               // the built-in model that they are of; "" where the source does not say
};

struct WeightsOptions {
  // What is in a cache is used as it is, without a connection. Otherwise the newest version of a repository is asked
  // for, and the cache is used where that is not possible.
  bool prefer_cache = true;
  io::FetchOptions fetch = {};  // for downloads: progress, signals
};

// True for torchvision:NAME, hf:ORG/NAME, http://... and https://...
bool names_weights_source(const std::string& text);
// The local file of a source, which is downloaded where needed. The SHA-256 of each file is verified where it is
// published. The forms:
//   torchvision:MODEL, torchvision:MODEL/IMAGENET1K_V1
//   hf:ORG/NAME, hf:ORG/NAME@REVISION, hf:ORG/NAME/FILE
//   https://HOST/.../FILE, also with #sha256=HEX
LocalWeights find_weights(const std::string& source, const WeightsOptions& options = {});
// What is known without a connection about a source's license; both are empty for what is no source.
struct SourceTerms {
  std::string license = {}, page = {};  // as in LocalWeights
};
SourceTerms terms_of(const std::string& source);
// For --weights: the path of a source's local file. Other texts are paths, and are returned as they are; where no such
// file exists, but a source has that name, it throws Error(data) with the nearest.
std::string weights_path(const std::string& text, const WeightsOptions& options = {});

}  // namespace freight::store
