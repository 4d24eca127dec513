// See dialect.h. Conversions of the 16-bit types go by integer bits, as in base/dtype.h: no device needs an extension.
#include "freight/backend/gpu/dialect.h"

#include "freight/base/strings.h"

namespace freight::gpu {

namespace {

constexpr const char* kWords = R"(
#ifdef __OPENCL_VERSION__
#define KERNEL(lanes) __kernel __attribute__((reqd_work_group_size(lanes, 1, 1)))
#define GLOBAL __global
#define LOCAL __local
#define DEVICE inline
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define BARRIER_ALL barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define GROUP get_group_id(0)
#define LANE get_local_id(0)
#define ELEMENT get_global_id(0)
#define FIRST(p, o) p += o
#define FIRST_INTO(word, value) atomic_cmpxchg((volatile __global int*)(word), 0, value) /* 0: it was the first */
#define UNROLL /* as the compiler likes: one for a CPU takes minutes over what helps a GPU */
#define UNROLL_8
#define as_bits as_uint
#define as_real as_float
typedef long i64;
typedef ulong u64;
typedef char i8;
typedef short i16;
/* All lanes of a group get what COMBINE makes of their `acc`: a tree in local memory. */
#define SHARE(type, lanes, all, acc, COMBINE) \
  LOCAL type all[lanes]; \
  all[LANE] = acc; \
  BARRIER; \
  for (int apart = lanes / 2; apart > 0; apart /= 2) { \
    if (LANE < apart) all[LANE] = COMBINE(all[LANE], all[LANE + apart]); \
    BARRIER; \
  } \
  acc = all[0]
#else
#define KERNEL(lanes) extern "C" __global__ __launch_bounds__(lanes, 1) /* without the 1 ptxas spills some */
#define GLOBAL
#define LOCAL __shared__
#define DEVICE static __device__ inline
#define BARRIER __syncthreads()
#define BARRIER_ALL __syncthreads()
#define GROUP blockIdx.x
#define LANE threadIdx.x
#define ELEMENT (blockIdx.x * (i64)blockDim.x + threadIdx.x)
#define FIRST(p, o) /* an address says it all */
#define FIRST_INTO(word, value) atomicCAS((int*)(word), 0, value)
#define UNROLL _Pragma("unroll")
#define UNROLL_8 _Pragma("unroll 8")
#define as_bits __float_as_uint
#define as_real __uint_as_float
typedef long long i64;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
/* The same by shuffles within each warp, then over the warps in order. */
#define SHARE(type, lanes, all, acc, COMBINE) \
  LOCAL type all[lanes / 32]; \
  for (int apart = 16; apart > 0; apart /= 2) { \
    const type other = __shfl_xor_sync(0xffffffffu, acc, apart); \
    acc = COMBINE(acc, other); \
  } \
  if (LANE % 32 == 0) all[LANE / 32] = acc; \
  BARRIER; \
  acc = all[0]; \
  for (int warp = 1; warp < lanes / 32; ++warp) acc = COMBINE(acc, all[warp])
#endif
/* NaN wins over maxima and minima. */
#define SUM_OF(a, b) ((a) + (b))
#define MAX_OF(a, b) ((b) != (b) || (b) > (a) ? (b) : (a))
#define MIN_OF(a, b) ((b) != (b) || (b) < (a) ? (b) : (a))

DEVICE float from_bf16(ushort b) { return as_real((uint)b << 16); }
DEVICE ushort to_bf16(float f) {
  const uint u = as_bits(f);
  return f != f ? (ushort)((u >> 16) | 0x40u) : (ushort)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
DEVICE float from_f16(ushort b) {
  const uint sign = ((uint)b & 0x8000u) << 16, e = ((uint)b >> 10) & 0x1fu, m = (uint)b & 0x3ffu;
  if (e == 0) {
    const float v = (float)m * 0x1p-24f;
    return sign ? -v : v;
  }
  return as_real(sign | (e == 31 ? 0xffu : e + 112) << 23 | m << 13);
}
DEVICE ushort to_f16(float f) {
  const uint u = as_bits(f), m = u & 0x7fffffffu;
  uint h;
  if (m > 0x7f800000u) h = 0x7e00u;
  else if (m >= 0x477ff000u) h = 0x7c00u;
  else if (m < 0x38800000u) h = as_bits(as_real(m) + 0.5f) - 0x3f000000u;
  else h = (m - 0x38000000u + 0xfffu + ((m >> 13) & 1u)) >> 13;
  return (ushort)(((u >> 16) & 0x8000u) | h);
}

/* Toward zero; NaN gives 0, what lies outside of the type its nearest end. */
#define round_to_i32(a) ((a) != (a) ? 0 : (a) <= -2147483648.0f ? (-2147483647 - 1) : (a) >= 2147483648.0f ? 2147483647 : (int)(a))
#define round_to_i64(a) ((a) != (a) ? (i64)0 : (a) <= -0x1p63f ? (i64)1 << 63 : (a) >= 0x1p63f ? ~((i64)1 << 63) : (i64)(a))
#define round_to_u8(a) (uchar)((a) > 0 ? ((a) >= 255 ? 255 : (int)(a)) : 0)
#define round_to_i8(a) (i8)((a) != (a) ? 0 : (a) <= -128 ? -128 : (a) >= 127 ? 127 : (int)(a))
#define round_to_i16(a) (i16)((a) != (a) ? 0 : (a) <= -32768 ? -32768 : (a) >= 32767 ? 32767 : (int)(a))
#define round_to_u16(a) (ushort)((a) > 0 ? ((a) >= 65535 ? 65535 : (int)(a)) : 0)
#define round_to_u32(a) ((a) > 0 ? ((a) >= 4294967296.0f ? ~(uint)0 : (uint)(a)) : (uint)0)
#define round_to_u64(a) ((a) > 0 ? ((a) >= 0x1p64f ? ~(u64)0 : (u64)(a)) : (u64)0)

/* e / d for e >= 0: in 32 bits by a multiplication, with the numbers of KernelText::quotient. */
DEVICE int divide_int(int e, int d, int factor, int shift) { return (int)((u64)(uint)e * (uint)factor >> shift); }
DEVICE i64 divide_i64(i64 e, i64 d, i64 factor, i64 shift) { return e / d; }

/* Whether an index is one; else the fault words say which check it failed (faults.h). An earlier fault is the cause, and
   stays. */
DEVICE int in_range(i64 index, i64 rows, GLOBAL i64* faults, i64 check) {
  if (index >= 0 && index < rows) return 1;
  if (FIRST_INTO(faults, (int)check) == 0) faults[1] = index;
  return 0;
}

DEVICE u64 power_of_u64(u64 base, u64 exponent) {
  u64 result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

/* Philox4x32-10 and its draws, as in base/philox.h. */
typedef struct { uint v[4]; } philox4;
DEVICE philox4 philox(u64 key, u64 lo, u64 hi) {
  philox4 c;
  uint k0 = (uint)key, k1 = (uint)(key >> 32);
  c.v[0] = (uint)lo; c.v[1] = (uint)(lo >> 32); c.v[2] = (uint)hi; c.v[3] = (uint)(hi >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c.v[0], p1 = (u64)0xCD9E8D57u * c.v[2];
    const uint n0 = (uint)(p1 >> 32) ^ c.v[1] ^ k0, n2 = (uint)(p0 >> 32) ^ c.v[3] ^ k1;
    c.v[1] = (uint)p1; c.v[3] = (uint)p0; c.v[0] = n0; c.v[2] = n2;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return c;
}
DEVICE float draw_uniform(i64 seed, i64 step, uint stream, i64 index) {
  const philox4 r = philox((u64)seed, (u64)index >> 2, ((u64)stream << 32) ^ (u64)step);
  return (float)(r.v[index & 3] >> 8) * 0x1p-24f;
}
DEVICE float draw_normal(i64 seed, i64 step, uint stream, i64 index) {
  const philox4 r = philox((u64)seed, (u64)index, ((u64)stream << 32) ^ (u64)step);
  const widest u1 = ((widest)r.v[0] + 1.0f) * 0x1p-32f, u2 = (widest)r.v[1] * 0x1p-32f;
  return (float)(sqrt(-2.0f * log(u1)) * cos(TWO_PI * u2));
}
)";

}  // namespace

std::string dialect(bool f64) {
  const char* begin = f64 ? "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n"
                            "typedef double widest;\n#define TWO_PI 6.283185307179586\n"
                          : "typedef float widest;\n#define TWO_PI 6.2831853f\n";
  return cat(begin, kWords);
}

const char* stored_type(DType dtype) {
  if (wide(dtype) != dtype) return "ushort";
  return info(dtype).c_name;
}

const char* value_type(DType dtype) { return stored_type(wide(dtype)); }

}  // namespace freight::gpu
