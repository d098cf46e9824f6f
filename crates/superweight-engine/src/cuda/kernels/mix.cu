// Tensors mixed from blocks: cell[r] = Σₖ α[r, k]·T[k], weight[tile] = factor·cell, and back.
//
// *Direct* sets have few blocks (nested tiling): one launch makes the tensors of all of them, another takes all gradients.
// The others go through cells in memory: a matrix product per set (cuBLASLt), and one launch that moves all tiles. Their
// operands are packed first, as `act`s and in rows of whole 16 bytes: with rows of 247 numbers the product takes four times
// as long.

// A cell at its place. `kind`: 1 where the gradient is an `act`.
struct Use {
  u64 tensor;             // numbers from the start of the parameters
  u32 set, cell, inputs, row, col, rows, cols, kind;
  float factor;
  u32 unused;
};

struct Set {
  u64 blocks, coefficients;  // numbers from the start of the parameters
  // Bytes from the start of the scratch memory, for products: cells[cells][len], α[cells][width] and T[width][len] packed;
  // their gradients, as floats.
  u64 cells, alpha, templates, dalpha, dtemplates;
  u32 count, positions, cols, len, first_use, direct, both, mixed;
  u32 width, cell_count;  // count, a whole number of 16 bytes; cells
};

__device__ __forceinline__ act* acts(char* scratch, u64 at) { return reinterpret_cast<act*>(scratch + at); }
__device__ __forceinline__ float* floats(char* scratch, u64 at) { return reinterpret_cast<float*>(scratch + at); }

// A piece of work: numbers first.. of a use (or of the cell of a set).
struct Piece { u32 of, first; };

#define PIECE 2048
#define EACH 8  // numbers of a thread, side by side

// Where number i of a block lies in a use's tensor, if it is part of the tile.
__device__ __forceinline__ bool place(const Set& s, const Use& u, u32 i, u64& at) {
  u32 c = i % s.cols, rp = i / s.cols, p = rp % s.positions, r = rp / s.positions;
  at = u.tensor + ((u64)(u.row + r) * s.positions + p) * u.inputs + u.col + c;
  return r < u.rows && c < u.cols;
}

// Whether EACH numbers side by side in a block lie side by side in the tensor, all of them in the tile or none: then they
// are moved as one. Offsets of tensors and blocks are multiples of 64 numbers.
__device__ __forceinline__ bool in_step(const Set& s) { return s.cols % EACH == 0; }
__device__ __forceinline__ bool in_step(const Set& s, const Use& u) {
  return ((s.cols | u.cols | u.inputs | u.col) % EACH) == 0;
}

__device__ __forceinline__ void load_floats(const float* p, float* v) {
  float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
  v[0] = a.x; v[1] = a.y; v[2] = a.z; v[3] = a.w;
  v[4] = b.x; v[5] = b.y; v[6] = b.z; v[7] = b.w;
}

__device__ __forceinline__ void store_floats(float* p, const float* v) {
  reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
  reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

__device__ __forceinline__ void load_acts(const act* p, float* v) {
#if BF16
  *reinterpret_cast<Pack<EACH>*>(v) = load<EACH>(p);
#else
  load_floats(p, v);
#endif
}

__device__ __forceinline__ void store_acts(act* p, const float* v) {
#if BF16
  store<EACH>(p, *reinterpret_cast<const Pack<EACH>*>(v));
#else
  store_floats(p, v);
#endif
}

// Numbers i.. of something of this length; zeros beyond it.
__device__ __forceinline__ void load_numbers(const float* p, u32 i, u32 len, bool step, float* v) {
  if (step) return load_floats(p + i, v);
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = i + e < len ? p[i + e] : 0.f;
}

// Writes the tensors: straight from blocks where a set is direct, else from its cells. A block of threads per piece.
extern "C" __global__ void mix_forward(const Piece* pieces, const Use* uses, const Set* sets, float* parameters,
                                       act* copies, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Use u = uses[piece.of];
  Set s = sets[u.set];
  u32 i = piece.first + threadIdx.x * EACH;
  if (i >= s.len) return;
  bool step = in_step(s);
  u64 at;
  bool whole = in_step(s, u);
  bool inside = place(s, u, i, at);
  if (whole && !inside) return;
  float v[EACH];
  if (!s.direct) {
    const act* cell = acts(scratch, s.cells) + (u64)u.cell * s.len;
    if (step) load_acts(cell + i, v);
    else
      for (int e = 0; e < EACH; e++) v[e] = i + e < s.len ? to_float(cell[i + e]) : 0.f;
  } else if (!s.mixed) load_numbers(parameters + s.blocks, i, s.len, step, v);
  else {
    const float* alpha = parameters + s.coefficients + (u64)u.cell * s.count;
    const float* block = parameters + s.blocks;
#pragma unroll
    for (int e = 0; e < EACH; e++) v[e] = 0.f;
    for (u32 k = 0; k < s.count; k++, block += s.len) {
      float t[EACH], a = alpha[k];
      load_numbers(block, i, s.len, step, t);
#pragma unroll
      for (int e = 0; e < EACH; e++) v[e] = fmaf(a, t[e], v[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] *= u.factor;
  if (whole) {
    store_floats(parameters + at, v);
    if (u.kind) store_acts(copies + at, v);
    return;
  }
  for (int e = 0; e < EACH; e++)
    if (i + e < s.len && place(s, u, i + e, at)) {
      parameters[at] = v[e];
      if (u.kind) copies[at] = to_act(v[e]);
    }
}

__device__ __forceinline__ float gradient_of(const Use& u, u64 at, const float* gradients, const act* narrow) {
  return u.kind ? to_float(narrow[at]) : gradients[at];
}

// d = dL/dcell of numbers i..: every use of the cell, in order.
__device__ __forceinline__ void gather(const Set& s, const Use* uses, const u32* first_use, u32 cell, u32 i,
                                       const float* gradients, const act* narrow, float* d) {
#pragma unroll
  for (int e = 0; e < EACH; e++) d[e] = 0.f;
  for (u32 n = first_use[s.first_use + cell]; n < first_use[s.first_use + cell + 1]; n++) {
    Use u = uses[n];
    u64 at;
    if (in_step(s, u)) {
      if (!place(s, u, i, at)) continue;
      float g[EACH];
      if (u.kind) load_acts(narrow + at, g);
      else load_floats(gradients + at, g);
#pragma unroll
      for (int e = 0; e < EACH; e++) d[e] = fmaf(u.factor, g[e], d[e]);
    } else {
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (i + e < s.len && place(s, u, i + e, at)) d[e] = fmaf(u.factor, gradient_of(u, at, gradients, narrow), d[e]);
    }
  }
}

// α and T of the sets that are not direct, packed; a piece is (set, which PIECE of both).
extern "C" __global__ void mix_pack(const Piece* pieces, const Set* sets, const float* parameters, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u64 alphas = (u64)s.cell_count * s.width, all = alphas + (u64)s.width * s.len;
  const float *alpha = parameters + s.coefficients, *blocks = parameters + s.blocks;
  for (u32 n = threadIdx.x; n < PIECE; n += blockDim.x) {
    u64 i = (u64)piece.first * PIECE + n;
    if (i >= all) return;
    if (i < alphas) {
      u32 row = i / s.width, k = i % s.width;
      acts(scratch, s.alpha)[i] = to_act(k < s.count ? alpha[(u64)row * s.count + k] : 0.f);
    } else {
      u64 j = i - alphas;
      acts(scratch, s.templates)[j] = to_act(j < (u64)s.count * s.len ? blocks[j] : 0.f);
    }
  }
}

// The gradients of both where they belong.
extern "C" __global__ void mix_unpack(const Piece* pieces, const Set* sets, float* gradients, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u64 alphas = (u64)s.cell_count * s.width, all = alphas + (s.both ? (u64)s.count * s.len : 0);
  for (u32 n = threadIdx.x; n < PIECE; n += blockDim.x) {
    u64 i = (u64)piece.first * PIECE + n;
    if (i >= all) return;
    if (i < alphas) {
      u32 row = i / s.width, k = i % s.width;
      if (k < s.count) gradients[s.coefficients + (u64)row * s.count + k] = floats(scratch, s.dalpha)[i];
    } else {
      gradients[s.blocks + i - alphas] = floats(scratch, s.dtemplates)[i - alphas];
    }
  }
}

// cells = dL/dcell of the sets that are not direct. A piece is (set, which PIECE of all its cells).
extern "C" __global__ void mix_gather(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                                      const float* gradients, const act* narrow, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u64 count = (u64)s.cell_count * s.len, i = (u64)piece.first * PIECE + threadIdx.x * EACH;
  if (i >= count) return;
  act* cells = acts(scratch, s.cells);
  float d[EACH];
  if (in_step(s)) {
    gather(s, uses, first_use, i / s.len, i % s.len, gradients, narrow, d);
    return store_acts(cells + i, d);
  }
  for (int e = 0; e < EACH; e++)
    if (i + e < count) {
      // Cells of an odd length end anywhere: one number at a time, the first of those gathered.
      gather(s, uses, first_use, (i + e) / s.len, (i + e) % s.len, gradients, narrow, d);
      cells[i + e] = to_act(d[0]);
    }
}

#define MOST 8
#define WARPS 8

// Direct sets: dL/dT, and partials[piece][cell][k] of dL/dα. A block of 256 threads per piece of a set's block.
extern "C" __global__ void __launch_bounds__(256, 2)
    mix_backward(const Piece* pieces, const u64* partial_at, const Use* uses, const u32* first_use, const Set* sets,
                 const float* parameters, float* gradients, const act* narrow, float* partials) {
  __shared__ float part[MOST][WARPS];
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u32 cells = s.cell_count, i = piece.first + threadIdx.x * EACH;
  bool step = in_step(s), valid = i < s.len;
  const float* alpha = parameters + s.coefficients;
  const float* blocks = parameters + s.blocks;
  float dt[MOST][EACH];
#pragma unroll
  for (u32 k = 0; k < MOST; k++)
#pragma unroll
    for (u32 e = 0; e < EACH; e++) dt[k][e] = 0.f;
  for (u32 cell = 0; cell < cells; cell++) {
    float d[EACH];
    if (valid) gather(s, uses, first_use, cell, i, gradients, narrow, d);
    if (!s.mixed) {
      if (valid) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) dt[0][e] += d[e];
      }
      continue;
    }
#pragma unroll
    for (u32 k = 0; k < MOST; k++) {
      if (k >= s.count) break;
      float da = 0.f;
      if (valid) {
        float t[EACH], a = alpha[cell * s.count + k];
        load_numbers(blocks + (u64)k * s.len, i, s.len, step, t);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
          dt[k][e] = fmaf(a, d[e], dt[k][e]);
          da = fmaf(d[e], t[e], da);
        }
      }
      for (int o = 16; o; o >>= 1) da += __shfl_xor_sync(~0u, da, o);
      if (threadIdx.x % 32 == 0) part[k][threadIdx.x / 32] = da;
    }
    __syncthreads();
    if (threadIdx.x < s.count) {
      float v = 0.f;
      for (int w = 0; w < WARPS; w++) v += part[threadIdx.x][w];
      partials[partial_at[blockIdx.x] + cell * s.count + threadIdx.x] = v;
    }
    __syncthreads();
  }
  if (!s.both || !valid) return;
#pragma unroll
  for (u32 k = 0; k < MOST; k++) {
    if (k >= s.count) break;
    float* to = gradients + s.blocks + (u64)k * s.len + i;
    if (step) store_floats(to, dt[k]);
    else {
#pragma unroll
      for (u32 e = 0; e < EACH; e++)
        if (i + e < s.len) to[e] = dt[k][e];
    }
  }
}

// dL/dα of direct sets: the partials of a set's pieces, in order. A warp per coefficient; `table` has, per warp,
// where the coefficient lies, its first partial, their distance and number.
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
