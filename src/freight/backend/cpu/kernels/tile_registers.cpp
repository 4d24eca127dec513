// Gives the registers of a program their memory: slots, which steps that need them at different times share, constants,
// and operands in place.
#include <algorithm>
#include <map>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/tile_chain.h"
#include "freight/base/error.h"

namespace freight::cpu {

namespace {

class Placement {
 public:
  Placement(CompiledTiles& tiles, std::vector<TileRegister>& registers) : k_(tiles), registers_(registers) {}

  void run() {
    allocate_slots();
    number_pointers();
    use_pointers();
  }

 private:
  using Where = TileRegister::Where;

  TileRegister& at(int v) { return registers_[static_cast<size_t>(v)]; }
  const Access& access(int i) { return k_.accesses[static_cast<size_t>(i)]; }

  void allocate_slots() {
    for (const TileStep& s : k_.setup) {
      if (s.dst >= 0) at(s.dst).pinned = true;
    }
    size_t widest = 4;
    for (TileRegister& v : registers_) {
      if (v.where != Where::slot) continue;
      const size_t size = v.reg == Reg::f32 ? 4 : 8;
      if (v.pinned) {
        v.pointer = new_slot(elements_of(v.extent), size);
      } else {
        widest = std::max(widest, size);
      }
    }
    // A chain takes all its links over a few vectors, then over the next: what one of them reads stays until it ends.
    std::map<int, size_t> last_use;
    for (size_t i = 0; i < k_.body.size(); ++i) {
      const size_t end = end_of_chain(k_.body, i);
      for (int r : {k_.body[i].a, k_.body[i].b, k_.body[i].c}) last_use[r] = end;
    }
    std::vector<int> free;
    for (size_t i = 0; i < k_.body.size(); ++i) {
      TileStep& s = k_.body[i];
      if (s.dst >= 0 && at(s.dst).where == Where::slot) {
        if (free.empty()) {
          at(s.dst).pointer = new_slot(elements_of(kFull), widest);
        } else {
          at(s.dst).pointer = free.back();
          free.pop_back();
        }
      }
      for (const auto& [r, last] : last_use) {
        if (last == i && r >= 0 && at(r).where == Where::slot && !at(r).pinned) free.push_back(at(r).pointer);
      }
    }
  }

  int64_t elements_of(Extent e) const {
    const int64_t rows = (e & kRow) == 0 ? 1 : k_.tile_rows + k_.strip_rows * (kGroup - 1);
    return rows * ((e & kCol) != 0 ? k_.piece : 1);
  }
  int new_slot(int64_t elements, size_t size) {
    k_.slots.push_back(k_.slot_bytes);
    // 128 bytes beyond the elements keep slots from sharing their low address bits.
    k_.slot_bytes += static_cast<size_t>(round_up(elements * static_cast<int64_t>(size), 64)) + 128;
    return static_cast<int>(k_.slots.size()) - 1;
  }

  // Gives constants and operands their pointers behind the slots, and says with which tiles those of operands move.
  void number_pointers() {
    int next = static_cast<int>(k_.slots.size());
    for (TileRegister& v : registers_) {
      if (v.where != Where::constant) continue;
      k_.constants.push_back(v.bits);
      v.pointer = next++;
    }
    for (TileRegister& v : registers_) {
      if (v.where != Where::operand) continue;
      v.pointer = next++;
      const Access& a = access(v.access);
      const TileMove move{v.pointer, a.operand, size_of(a.dtype)};
      (a.extent == kScalar ? k_.setup_moves
       : a.extent == kCol  ? k_.col_moves
       : a.extent == kRow  ? k_.row_moves
                           : k_.full_moves)
          .push_back(move);
    }
    if (next > kMaxPointers)
      fail(ErrorKind::device, "tile", "the region is too large: ", next, " operands and registers");
  }

  // Puts numbers of pointers in the place of virtual registers.
  void use_pointers() {
    for (std::vector<TileStep>* steps : {&k_.setup, &k_.body}) {
      for (TileStep& s : *steps) {
        for (int* r : {&s.dst, &s.a, &s.b, &s.c}) {
          if (*r >= 0) *r = at(*r).pointer;
        }
      }
    }
    for (TileSum& s : k_.sums) {
      s.wide = at(s.wide).pointer;
      if (s.narrow >= 0) s.narrow = at(s.narrow).pointer;
    }
  }

  CompiledTiles& k_;
  std::vector<TileRegister>& registers_;
};

}  // namespace

void place_registers(CompiledTiles& tiles, std::vector<TileRegister>& registers) { Placement(tiles, registers).run(); }

}  // namespace freight::cpu
