// Internal to io/image: the JPEG decoder, in a file of its own because libjpeg has its own way of failing.
#pragma once
#include <string>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

// u8 (H, W, C), C 1 or 3. Throws Error(data).
Array decode_jpeg(ByteView bytes, const std::string& name);

}  // namespace freight::io
