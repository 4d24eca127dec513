// The fake NVRTC: "machine code" is the text itself, which the fake driver compiles for the host. A text that contains
// the value of FAKE_NVRTC_REFUSES does not compile.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/cuda/fake_cuda/interfaces.h"

struct _nvrtcProgram {
  std::string text, log;
};

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}
int nvrtcGetSupportedArchs(int* all) {
  all[0] = 80;
  all[1] = 90;
  all[2] = 100;
  return 0;
}
int nvrtcCreateProgram(_nvrtcProgram** program, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  *program = new _nvrtcProgram{text, ""};
  return 0;
}
int nvrtcDestroyProgram(_nvrtcProgram** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(_nvrtcProgram* program, int, const char* const*) {
  const char* refused = std::getenv("FAKE_NVRTC_REFUSES");
  if (!refused || program->text.find(refused) == std::string::npos) return 0;
  program->log = std::string("freight.cu(1): error: identifier \"") + refused + "\" is undefined";
  return fake::nvrtc::kCompilation;
}
int nvrtcGetProgramLogSize(_nvrtcProgram* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(_nvrtcProgram* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
int nvrtcGetCUBINSize(_nvrtcProgram* program, size_t* size) {
  *size = program->text.size() + 1;
  return 0;
}
int nvrtcGetCUBIN(_nvrtcProgram* program, char* code) {
  std::memcpy(code, program->text.c_str(), program->text.size() + 1);
  return 0;
}
int nvrtcGetPTXSize(_nvrtcProgram* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(_nvrtcProgram* program, char* code) { return nvrtcGetCUBIN(program, code); }
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
}
