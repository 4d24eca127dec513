// Common to `freight bench compare` and its workloads: devices and figures on the command line, and results on the
// terminal.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "freight/bench/output.h"

namespace freight::app {

// The devices in --devices (device_list.h), each once; "" means all devices of this machine, a number the first of
// them. Throws Error(device) for one that does not exist.
std::vector<std::string> parse_devices(const std::string& text);
// Parses "cpu=0.4,opencl:0=1.2": numbers above 0 by device. Throws Error(usage) that names the flag for a device that
// is not in `devices`.
std::map<std::string, double> parse_figures(const std::string& flag, const std::string& text,
                                            const std::vector<std::string>& devices);
// A table with notes between its rows.
void print(const bench::Listing& listing);
// Throws if write_output() could not write there: minutes of measurements would be lost.
void need_writable(const std::string& path);
// Writes a file atomically and reports it with its size; nothing if `path` is "".
void write_output(const std::string& path, const std::string& text);

}  // namespace freight::app
