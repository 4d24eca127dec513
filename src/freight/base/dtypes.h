// Sets of element types: which types a function takes, and the groups of types that documents name.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "freight/base/dtype.h"

namespace freight {

// A set of element types.
class DTypes {
 public:
  constexpr DTypes() = default;  // empty
  constexpr DTypes(std::initializer_list<DType> types) {
    for (const DType t : types) bits_ |= 1u << static_cast<unsigned>(t);
  }
  constexpr bool empty() const { return bits_ == 0; }                                          // contains no type
  constexpr bool has(DType t) const { return (bits_ >> static_cast<unsigned>(t) & 1u) != 0; }  // contains it
  constexpr bool has(DTypes other) const { return (bits_ & other.bits_) == other.bits_; }      // all of them
  constexpr DTypes without(DTypes other) const { return DTypes(bits_ & ~other.bits_); }        // the difference
  std::vector<DType> list() const;  // in the order of the enumeration
  friend constexpr DTypes operator|(DTypes a, DTypes b) { return DTypes(a.bits_ | b.bits_); }  // the union
  friend constexpr bool operator==(DTypes a, DTypes b) = default;

 private:
  constexpr explicit DTypes(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = 0;
};

namespace dtypes {
inline constexpr DTypes kBool{DType::boolean}, kDouble{DType::f32, DType::f64};  // bool; f32 and f64
inline constexpr DTypes kFloating = kDouble | DTypes{DType::bf16, DType::f16};   // f32, f64, bf16, f16
inline constexpr DTypes kInteger{DType::i32, DType::i64, DType::u8,  DType::i8,  // signed and unsigned
                                 DType::i16, DType::u16, DType::u32, DType::u64};
inline constexpr DTypes kComplex{DType::c64, DType::c128};                 // c64 and c128
inline constexpr DTypes kNumber = kFloating | kInteger;                    // the real types with arithmetic
inline constexpr DTypes kReal = kNumber | kBool, kAll = kReal | kComplex;  // all but the complex types; all
}  // namespace dtypes

// "floating, integers, bool"; "f32, f64"; "all".
std::string to_string(DTypes types);

}  // namespace freight
