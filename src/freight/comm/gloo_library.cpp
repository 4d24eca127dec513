// See gloo_library_internal.h.
#include <dlfcn.h>
#include <gloo/transport/tcp/attr.h>
#include <link.h>

#include <array>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/comm/gloo_library_internal.h"
#include "freight/comm/signal_guards_internal.h"

namespace freight::comm {

namespace {

struct GlooFunctions {
  std::shared_ptr<gloo::transport::Device> (*create_device)(const gloo::transport::tcp::attr&);
};

// The virtual table of a class, and the number of its functions in the headers that Freight was built with; the table
// has two more words. Another version of Gloo under the same file name has other functions there.
struct FunctionTable {
  const char* symbol;
  size_t functions;
};
constexpr std::array kTables = {
    FunctionTable{"_ZTVN4gloo9transport3tcp6DeviceE", 7}, FunctionTable{"_ZTVN4gloo9transport3tcp7ContextE", 5},
    FunctionTable{"_ZTVN4gloo9transport3tcp4PairE", 22}, FunctionTable{"_ZTVN4gloo9transport3tcp13UnboundBufferE", 9}};

void check_layout(Library& library) {
  for (const FunctionTable& table : kTables) {
    void* const found = ::dlsym(library.handle, table.symbol);
    Dl_info info{};
    void* entry = nullptr;
    const bool known = found && ::dladdr1(found, &info, &entry, RTLD_DL_SYMENT) != 0 && entry != nullptr;
    const size_t words = known ? static_cast<const ElfW(Sym)*>(entry)->st_size / sizeof(void*) : 0;
    if (words == table.functions + 2) continue;
    library.why = cat(library.path, " is another version of Gloo than Freight was built with: ", table.symbol, " has ",
                      words, " words, expected ", table.functions + 2, "; install Debian 12's libgloo-dev");
    return;
  }
}

const Loaded<GlooFunctions>& gloo_functions() {
  static const Loaded<GlooFunctions>& loaded = *[] {
    // Never closed: its threads may outlive the objects with static lifetime here.
    auto* l = new Loaded<GlooFunctions>;
    const std::string named = env::get("FREIGHT_GLOO");
    l->library = load_library({named.empty() ? "libgloo.so.0" : named}, "libgloo-dev", "",
                              {"_ZN4gloo9transport3tcp12CreateDeviceERKNS1_4attrE"}, &l->functions,
                              "not Gloo, or one without TCP", LibraryKind::system);
    if (l->library.why.empty()) check_layout(l->library);
    return l;
  }();
  return loaded;
}

}  // namespace

std::shared_ptr<gloo::transport::Device> gloo_device(const std::string& address) {
  const Loaded<GlooFunctions>& gloo = gloo_functions();
  if (!gloo.library.why.empty()) {
    fail(ErrorKind::device, "Gloo", "moves bytes between hosts and cannot be used: ", gloo.library.why);
  }
  gloo::transport::tcp::attr attr;
  attr.hostname = address;
  const AllSignalsBlocked blocked;  // Gloo's thread must not receive SIGPIPE when a connection is closed
  try {
    return gloo.functions.create_device(attr);
  } catch (const std::exception& e) {
    fail(ErrorKind::runtime, "Gloo", "cannot use the address ", address, ": ", e.what());
  }
}

}  // namespace freight::comm
