// Writes a state_dict as torch.save does (torch_file.h): a pickle of protocol 2 that names storages, and the storages.
#include <map>

#include "freight/base/error.h"
#include "freight/io/little_endian_internal.h"
#include "freight/io/torch_file.h"
#include "freight/io/torch_internal.h"
#include "freight/io/zip_internal.h"

namespace freight::io {

namespace {

// The opcodes of a state_dict. Nothing is put into the memo: a file of 1,000 tensors has 200 KB of names.
class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x02"; }
  PickleWriter& raw(std::string_view opcodes) {
    out_ += opcodes;
    return *this;
  }
  PickleWriter& global(std::string_view module, std::string_view name) {
    return raw(cat("c", module, "\n", name, "\n"));
  }
  PickleWriter& text(std::string_view s) { return raw("X").little(s.size(), 4).raw(s); }
  PickleWriter& integer(int64_t v) { return raw("\x8a\x08").little(static_cast<uint64_t>(v), 8); }
  PickleWriter& tuple(const std::vector<int64_t>& items) {
    raw("(");
    for (const int64_t i : items) integer(i);
    return raw("t");
  }
  const std::string& bytes() const { return out_; }

 private:
  PickleWriter& little(uint64_t v, int size) {
    put_little_endian(out_, v, size);
    return *this;
  }
  std::string out_;
};

// _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()); elements that have no storage class of their
// own lie in an untyped one, and _v3 has the dtype as well.
void write_tensor(PickleWriter& p, const Array& a, const TorchType& type, const std::string& key) {
  const bool typed = *type.storage != '\0';
  p.global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3").raw("((").text("storage");
  typed ? p.global("torch", type.storage) : p.global("torch.storage", "UntypedStorage");
  p.text(key).text("cpu").integer(typed ? a.numel() : static_cast<int64_t>(a.bytes())).raw("tQ").integer(0);
  std::vector<int64_t> strides(a.shape().vector().size(), 1);
  for (size_t axis = strides.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * a.shape()[static_cast<int>(axis)];
  }
  p.tuple(a.shape().vector()).tuple(strides).raw("\x89").global("collections", "OrderedDict").raw(")R");
  if (!typed) p.global("torch", type.dtype);
  p.raw("tR");
}

ByteView view_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

}  // namespace

void save_torch_file(const std::string& path, const SafeTensors& content) {
  PickleWriter p;
  std::vector<std::pair<std::string, ByteView>> storages;
  std::map<std::pair<const void*, size_t>, std::string> known;  // tied weights lie in one storage
  p.global("collections", "OrderedDict").raw(")R(");
  for (const auto& [name, a] : content.tensors) {
    const TorchType* const type = torch_type(a.dtype());
    if (!type) fail(ErrorKind::usage, path, "tensor '", name, "': PyTorch's files have no ", a.dtype());
    auto [it, fresh] = known.try_emplace({a.bytes() > 0 ? a.raw() : nullptr, a.bytes()}, cat(storages.size()));
    if (fresh || a.bytes() == 0) {
      it->second = cat(storages.size());
      storages.emplace_back(it->second, ByteView(static_cast<const uint8_t*>(a.raw()), a.bytes()));
    }
    p.text(name);
    write_tensor(p, a, *type, it->second);
  }
  p.raw("u.");
  AtomicFile file(path);
  ZipWriter zip(file, path, 64);  // as PyTorch aligns storages
  zip.add("archive/data.pkl", view_of(p.bytes()));
  zip.add("archive/byteorder", view_of("little"));
  for (const auto& [key, bytes] : storages) zip.add("archive/data/" + key, bytes);
  zip.add("archive/version", view_of("3\n"));
  zip.finish();
  file.commit();
}

}  // namespace freight::io
