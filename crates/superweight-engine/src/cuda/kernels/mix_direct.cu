// Direct sets: computes tensors from templates and coefficients, and their gradients, without cells
// in memory.

#define CHUNK 4   // templates that a thread keeps in registers in the backward pass
#define CELLS 64  // largest number of cells of a direct set
#define WARPS 8

// Work on a direct set: the elements of its templates from `first` on. In the backward pass, of
// CHUNK templates from `block` on.
struct DirectPiece {
  u64 partials;
  u32 of, first, block, unused;
};

// Writes the tensors of direct sets. A thread block processes all uses of its piece, so that
// templates are read once.
extern "C" __global__ void __launch_bounds__(256)
    mix_direct(const DirectPiece* pieces, const Use* uses, const u32* first_use, const Set* sets, u32 all_copies,
               float* parameters, act* copies) {
  DirectPiece piece = pieces[blockIdx.x];
  if (piece.block) return;
  Set s = sets[piece.of];
  u32 i = piece.first + threadIdx.x * EACH;
  if (i >= s.len) return;
  bool step = whole(s);
  u32 cell = ~0u, end = first_use[s.first_use + s.cell_count];
  float v[EACH];
  for (u32 n = first_use[s.first_use]; n < end; n++) {
    Use u = uses[n];
    const float* block = parameters + s.blocks;
    if (u.cell != cell) {
      cell = u.cell;
      if (!s.mixed) load_numbers(block, i, s.len, step, v);
      else {
        const float* alpha = parameters + s.coefficients + (u64)cell * s.count;
#pragma unroll
        for (int e = 0; e < EACH; e++) v[e] = 0.f;
        for (u32 k = 0; k < s.count; k++, block += s.len) {
          float t[EACH], a = alpha[k];
          load_numbers(block, i, s.len, step, t);
#pragma unroll
          for (int e = 0; e < EACH; e++) v[e] = fmaf(a, t[e], v[e]);
        }
      }
    }
    write(s, u, i, v, all_copies, parameters, copies);
  }
}

// Sums four values over a warp. Lane l gets the sum of value l % 4.
__device__ __forceinline__ float sum_of_four(const float* v) {
  bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  float a = (odd ? v[1] : v[0]) + __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
  float b = (odd ? v[3] : v[2]) + __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
  float c = (high ? b : a) + __shfl_xor_sync(~0u, high ? a : b, 2);
  for (int o = 4; o < 32; o <<= 1) c += __shfl_xor_sync(~0u, c, o);
  return c;
}

// Direct sets: dL/dT, and partials[piece][cell][k] of dL/dα. One block of 256 threads per piece.
extern "C" __global__ void __launch_bounds__(256, 2)
    mix_direct_backward(const DirectPiece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                        const float* parameters, float* gradients, const act* narrow, float* partials) {
  __shared__ float part[CELLS][CHUNK][WARPS];
  DirectPiece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u32 i = piece.first + threadIdx.x * EACH, count = min(s.count - piece.block, CHUNK);
  bool step = whole(s), valid = i < s.len;
  const float* alpha = parameters + s.coefficients + piece.block;
  u64 blocks = s.blocks + (u64)piece.block * s.len;
  float t[CHUNK][EACH], dt[CHUNK][EACH];
#pragma unroll
  for (u32 k = 0; k < CHUNK; k++) {
#pragma unroll
    for (u32 e = 0; e < EACH; e++) t[k][e] = dt[k][e] = 0.f;
    if (s.mixed && valid && k < count) load_numbers(parameters + blocks + (u64)k * s.len, i, s.len, step, t[k]);
  }
  for (u32 cell = 0; cell < s.cell_count; cell++) {
    float d[EACH], da[CHUNK];
#pragma unroll
    for (u32 e = 0; e < EACH; e++) d[e] = 0.f;
    if (valid) gather(s, uses, first_use, cell, i, parameters, gradients, narrow, d);
    if (!s.mixed) {
#pragma unroll
      for (u32 e = 0; e < EACH; e++) dt[0][e] += d[e];
      continue;
    }
#pragma unroll
    for (u32 k = 0; k < CHUNK; k++) {
      float a = k < count ? alpha[cell * s.count + k] : 0.f;
      da[k] = 0.f;
#pragma unroll
      for (u32 e = 0; e < EACH; e++) {
        dt[k][e] = fmaf(a, d[e], dt[k][e]);
        da[k] = fmaf(d[e], t[k][e], da[k]);
      }
    }
    float sum = sum_of_four(da);
    if (threadIdx.x % 32 < CHUNK) part[cell][threadIdx.x % 32][threadIdx.x / 32] = sum;
  }
  if (s.mixed) {
    __syncthreads();
    for (u32 n = threadIdx.x; n < s.cell_count * CHUNK; n += 32 * WARPS) {
      u32 cell = n / CHUNK, k = n % CHUNK;
      if (k >= count) continue;
      float v = 0.f;
#pragma unroll
      for (u32 w = 0; w < WARPS; w++) v += part[cell][k][w];
      partials[piece.partials + cell * s.count + piece.block + k] = v;
    }
  }
  if (!s.both || !valid) return;
#pragma unroll
  for (u32 k = 0; k < CHUNK; k++) {
    if (k >= count) break;
    float* to = gradients + blocks + (u64)k * s.len + i;
    if (step) store_floats(to, dt[k]);
    else {
#pragma unroll
      for (u32 e = 0; e < EACH; e++)
        if (i + e < s.len) to[e] = dt[k][e];
    }
  }
}

// dL/dα of direct sets: sums the partials of a set's pieces, in order. One warp per coefficient.
// `table` has, per warp, the offset of the coefficient, its first partial, and their stride and
// count.
struct Coefficient { u64 at, first; u32 stride, count; };

extern "C" __global__ void mix_coefficients(const Coefficient* table, u32 count, const float* partials,
                                            float* gradients) {
  u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (warp >= count) return;
  Coefficient c = table[warp];
  double sum = 0;
  for (u32 i = lane; i < c.count; i += 32) sum += partials[c.first + (u64)i * c.stride];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) gradients[c.at] = (float)sum;
}
