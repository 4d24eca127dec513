// What the command says of LAPACK libraries: the one in use, none, broken ones, and matrices that one cannot do.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "freight/io/npy.h"
#include "run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

std::string stand_in(const std::string& name) {
  return "FREIGHT_LAPACK=" + binary_dir() + "/tests/fake_lapack/" + name + ".so";
}

Ran eigenvalues_of(const Array& x, const std::string& library) {
  const std::string path = scratch_dir() + "/x.npy";
  io::save_npy(path, x);
  return run_freight({"linalg", "eigh", path, "--json"}, "", {library});
}

TEST(LapackCommand, DevicesSayWhatComputesEigenvalues) {
  const auto text = [](const std::string& library) {
    const Ran r = run_freight({"devices", "--json"}, "", {library});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out).at("devices").at(0).at("lapack").get<std::string>();
  };
  EXPECT_NE(text(stand_in("bits32")).find("tests/fake_lapack/bits32.so"), std::string::npos);
  EXPECT_NE(text(stand_in("bits64")).find("integers of 64 bits"), std::string::npos);
  EXPECT_EQ(text("FREIGHT_LAPACK=none"), "the reference loops, which are slow: FREIGHT_LAPACK=none");
  EXPECT_NE(text(stand_in("lacks_geev")).find("has no dgeev_"), std::string::npos);
  EXPECT_NE(run_freight({"devices"}).out.find("eigenvalues and singular values by "), std::string::npos);
}

TEST(LapackCommand, WithoutLapackTheReferenceLoopsCompute) {
  const Ran r = eigenvalues_of(Array::of(std::vector<double>{2, 1, 1, 2}, {2, 2}), "FREIGHT_LAPACK=none");
  ASSERT_EQ(r.code, 0) << r.err;
  const Json values = Json::parse(r.out).at("results").at(0).at("values");
  EXPECT_NEAR(values.at(0).get<double>(), 1, 1e-14);
  EXPECT_NEAR(values.at(1).get<double>(), 3, 1e-14);
}

TEST(LapackCommand, ALibraryThatIsNamedAndCannotBeUsedEndsTheCommand) {
  const Array x = Array::of(std::vector<double>{2, 1, 1, 2}, {2, 2});
  for (const std::string& library : {std::string("FREIGHT_LAPACK=/nowhere.so"), stand_in("lacks_geev")}) {
    const Ran r = eigenvalues_of(x, library);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find("FREIGHT_LAPACK: cannot be used: "), std::string::npos) << r.err;
  }
}

// The stand-ins do 1 x 1 matrices alone, and say of others that iterations did not converge.
TEST(LapackCommand, AMatrixOnWhichLapackFailsIsNamed) {
  for (const char* library : {"bits32", "bits64"}) {
    Array x(DType::f32, {2, 3, 3, 3});
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 5);
    const Ran r = eigenvalues_of(x, stand_in(library));
    EXPECT_EQ(r.code, 3) << r.err;
    EXPECT_NE(r.err.find("eigh: matrix (0, 0) of f32[2,3,3,3]: LAPACK's ssyevd (info 2) did not converge"),
              std::string::npos)
        << r.err;
  }
}

}  // namespace
}  // namespace freight::test
