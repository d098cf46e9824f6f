// Definitions shared by all kernels. `act` is an activation, a weight as convolutions read it, or
// dL/dW: bf16 bits or a float. No headers are included: bf16 is handled as bits, so NVRTC needs no
// include path.
//
// The compiler's command line defines BF16 as 0 or 1.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#if BF16
typedef unsigned short act;
#define VEC 8
__device__ __forceinline__ float to_float(act v) { return __uint_as_float((u32)v << 16); }
__device__ __forceinline__ u32 pack2(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ act to_act(float v) { return (act)(pack2(v, 0.f) & 0xffffu); }
#else
typedef float act;
#define VEC 4
__device__ __forceinline__ float to_float(act v) { return v; }
__device__ __forceinline__ act to_act(float v) { return v; }
#endif

// V values at once. V is VEC (one access of 16 bytes, to an aligned address) or 1.
template <int V> struct Pack { float f[V]; };

// V values as stored in memory: half the registers in bf16, for kernels that load several ahead.
template <int V> struct Raw { uint4 bits; };
template <> struct Raw<1> { act bits; };

template <int V> __device__ __forceinline__ Raw<V> fetch(const act* p) {
  return Raw<V>{*reinterpret_cast<const uint4*>(p)};
}
template <> __device__ __forceinline__ Raw<1> fetch<1>(const act* p) { return Raw<1>{*p}; }

// Loads values that are not read again soon; they leave the cache first.
template <int V> __device__ __forceinline__ Raw<V> fetch_last(const act* p) {
  return Raw<V>{__ldcs(reinterpret_cast<const uint4*>(p))};
}
template <> __device__ __forceinline__ Raw<1> fetch_last<1>(const act* p) { return Raw<1>{*p}; }

template <int V> __device__ __forceinline__ Pack<V> unpack(const Raw<V>& raw) {
  u32 w[4] = {raw.bits.x, raw.bits.y, raw.bits.z, raw.bits.w};
  Pack<V> r;
#if BF16
#pragma unroll
  for (int i = 0; i < V / 2; i++) {
    r.f[2 * i] = __uint_as_float(w[i] << 16);
    r.f[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
  }
#else
#pragma unroll
  for (int i = 0; i < V; i++) r.f[i] = __uint_as_float(w[i]);
#endif
  return r;
}
template <> __device__ __forceinline__ Pack<1> unpack<1>(const Raw<1>& raw) { return Pack<1>{{to_float(raw.bits)}}; }

template <int V> __device__ __forceinline__ Pack<V> load(const act* p) { return unpack<V>(fetch<V>(p)); }

template <int V> __device__ __forceinline__ void store(act* p, const Pack<V>& r) {
  if (V == 1) {
    *p = to_act(r.f[0]);
  } else {
#if BF16
    uint4 v;
    v.x = pack2(r.f[0], r.f[1 % V]);
    v.y = pack2(r.f[2 % V], r.f[3 % V]);
    v.z = pack2(r.f[4 % V], r.f[5 % V]);
    v.w = pack2(r.f[6 % V], r.f[7 % V]);
    *reinterpret_cast<uint4*>(p) = v;
#else
    *reinterpret_cast<float4*>(p) = make_float4(r.f[0], r.f[1 % V], r.f[2 % V], r.f[3 % V]);
#endif
  }
}

// NaN passes: both comparisons are false.
__device__ __forceinline__ float clamp(float v, float low, float high) {
  return v < low ? low : (v > high ? high : v);
}

__device__ __forceinline__ u64 thread_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 thread_count() { return (u64)gridDim.x * blockDim.x; }

#define HUGE __uint_as_float(0x7f800000u)
#define NOT_A_NUMBER __uint_as_float(0x7fffffffu)
