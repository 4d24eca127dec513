// See weights_file.h.
#include "freight/io/weights_file.h"

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/memory_need.h"
#include "freight/io/torch_file.h"

namespace freight::io {

namespace {

bool is_json_object(ByteView bytes) {
  for (const uint8_t c : bytes) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c == '{';
  }
  return false;
}

// The weights in the bytes of one file, no index.
SafeTensors parse_weights(const std::shared_ptr<Bytes>& bytes, const std::string& path) {
  const std::span<uint8_t> span(bytes->data(), bytes->size());
  if (is_gzip(span)) fail(ErrorKind::checkpoint, path, "is compressed by gzip: unpack it first (gunzip)");
  if (!starts_safetensors(span) && is_torch_file(span)) return parse_torch_file(span, path, bytes);
  return parse_safetensors(span, path, bytes);
}

// {"metadata": {...}, "weight_map": {"conv1.weight": "model-00001-of-00002.safetensors", ...}}, as Hugging Face splits
// safetensors files and PyTorch's. The files lie next to the index.
SafeTensors load_shards(const nlohmann::json& index, const std::string& path) {
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    fail(ErrorKind::checkpoint, path, "is JSON, but no index of weights: it has no object 'weight_map'");
  }
  std::map<std::string, std::set<std::string>> names;  // by file
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail(ErrorKind::checkpoint, path, "weight_map: ", excerpt(name), ": expected a file name");
    names[file.get<std::string>()].insert(name);
  }
  const auto beside = [&](const std::string& file) {
    return (std::filesystem::path(path).parent_path() / file).string();
  };
  for (const auto& [file, expected] : names) {  // before any of them is read: they may have many gigabytes
    if (file.empty() || file == "." || file == ".." ||
        file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      fail(ErrorKind::checkpoint, path, "refused: weight_map: the path ", excerpt(file),
           " leaves the folder of the index");
    }
    if (!file_exists(beside(file))) {
      fail(ErrorKind::data, beside(file), "is missing: ", path, " names ", names.size(),
           " files, which lie next to it");
    }
  }
  SafeTensors all;
  for (const auto& [file, expected] : names) {
    const std::string shard = beside(file);
    std::optional<SafeTensors> in_place = load_safetensors_in_place(shard);
    SafeTensors part =
        in_place ? *std::move(in_place) : parse_weights(std::make_shared<Bytes>(read_file(shard)), shard);
    std::set<std::string> missing = expected;
    for (auto& [name, tensor] : part.tensors) {
      if (missing.erase(name) == 0) {
        fail(ErrorKind::checkpoint, shard, "contains the tensor ", excerpt(name), ", which ", path,
             expected.contains(name) ? " has twice" : " does not have in this file");
      }
      all.tensors.emplace_back(name, std::move(tensor));
    }
    if (!missing.empty()) {
      fail(ErrorKind::checkpoint, shard, "lacks the tensor ", excerpt(*missing.begin()), ", which ", path,
           " has in this file", missing.size() > 1 ? cat(", and ", missing.size() - 1, " more") : "");
    }
  }
  return all;
}

}  // namespace

SafeTensors load_weights_file(const std::string& path) {
  return reading(path, [&] {
    if (std::optional<SafeTensors> file = load_safetensors_in_place(path)) return *std::move(file);
    const auto bytes = std::make_shared<Bytes>(read_file(path));
    if (starts_safetensors(*bytes) || !is_json_object(*bytes)) return parse_weights(bytes, path);
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    return load_shards(parse_json<nlohmann::json>(text, path, ErrorKind::checkpoint), path);
  });
}

bool names_torch_file(const std::string& path) {
  return path.ends_with(".pth") || path.ends_with(".pt") || path.ends_with(".bin");
}

}  // namespace freight::io
