// `freight bench compare` and `classic` have this in common: devices and figures on the command line, and results on
// the terminal.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "freight/bench/output.h"

namespace freight::app {

// The devices that --devices lists (device_list.h), each once; "" stands for all of this machine, a number for the
// first of these. Throws Error(device) for one that is not there.
std::vector<std::string> parse_devices(const std::string& text);
// "cpu=0.4,opencl:0=1.2": numbers above 0 by device. Throws Error(usage) naming the flag for what is not of `devices`.
std::map<std::string, double> parse_figures(const std::string& flag, const std::string& text,
                                            const std::vector<std::string>& devices);
// A table with notes between its rows.
void print(const bench::Listing& listing);
// Throws where write_output() could not write there: measurements of minutes would be lost.
void need_writable(const std::string& path);
// Writes a file whole or not at all and says so, with its size; `path` "" writes none.
void write_output(const std::string& path, const std::string& text);

}  // namespace freight::app
