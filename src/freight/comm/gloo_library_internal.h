// Gloo's transport over TCP, loaded at run time. Building needs Gloo's headers, since its interface consists of C++
// classes. Only one function is looked up in the library; it makes an object, and everything else is a virtual function
// of that object and of those it returns.
#pragma once
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <string>

namespace freight::comm {

// Gloo's device that moves bytes from and to `address`, a numeric one of this host, and to it alone. Starts a thread.
// Throws Error(device) where the library is missing or its classes are not those of the headers that Freight was built
// with. Loaded once and never closed; FREIGHT_GLOO names its file.
std::shared_ptr<gloo::transport::Device> gloo_device(const std::string& address);

}  // namespace freight::comm
