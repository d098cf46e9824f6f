// Tensors mixed from blocks: cell[r] = Σₖ α[r, k]·T[k], weight[tile] = factor·cell, and back.
//
// *Direct* sets have few blocks (nested tiling): one launch makes the tensors of all of them, another takes all gradients.
// The others go through cells in memory: a matrix product per set (cuBLASLt), and one launch that moves all tiles.

// A cell at its place. `kind`: 1 where the gradient is an `act`.
struct Use {
  u64 tensor;             // numbers from the start of the parameters
  u32 set, cell, inputs, row, col, rows, cols, kind;
  float factor;
  u32 unused;
};

struct Set {
  u64 blocks, coefficients;  // numbers from the start of the parameters
  u64 cells;                 // numbers from the start of the scratch memory
  u32 count, positions, cols, len, first_use, direct, both, mixed;
};

// A piece of work: numbers first.. of a use (or of the cell of a set).
struct Piece { u32 of, first; };

#define PIECE 2048

// Where number i of a block lies in a use's tensor, if it is part of the tile.
__device__ __forceinline__ bool place(const Set& s, const Use& u, u32 i, u64& at) {
  u32 c = i % s.cols, rp = i / s.cols, p = rp % s.positions, r = rp / s.positions;
  at = u.tensor + ((u64)(u.row + r) * s.positions + p) * u.inputs + u.col + c;
  return r < u.rows && c < u.cols;
}

// Writes the tensors: straight from blocks where a set is direct, else from its cells. A block of threads per piece.
extern "C" __global__ void mix_forward(const Piece* pieces, const Use* uses, const Set* sets, float* parameters,
                                       act* copies, const float* cells) {
  Piece piece = pieces[blockIdx.x];
  Use u = uses[piece.of];
  Set s = sets[u.set];
  u32 end = piece.first + PIECE < s.len ? piece.first + PIECE : s.len;
  const float* alpha = parameters + s.coefficients + (u64)u.cell * s.count;
  const float* blocks = parameters + s.blocks;
  const float* cell = cells + s.cells + (u64)u.cell * s.len;
  for (u32 i = piece.first + threadIdx.x; i < end; i += blockDim.x) {
    u64 at;
    if (!place(s, u, i, at)) continue;
    float v;
    if (!s.direct) v = cell[i];
    else if (!s.mixed) v = blocks[i];
    else {
      v = 0.f;
      for (u32 k = 0; k < s.count; k++) v = fmaf(alpha[k], blocks[(u64)k * s.len + i], v);
    }
    v *= u.factor;
    parameters[at] = v;
    if (u.kind) copies[at] = to_act(v);
  }
}

__device__ __forceinline__ float gradient_of(const Use& u, u64 at, const float* gradients, const act* narrow) {
  return u.kind ? to_float(narrow[at]) : gradients[at];
}

// dL/dcell of number i: every use of the cell, in order.
__device__ __forceinline__ float gather(const Set& s, const Use* uses, const u32* first_use, u32 cell, u32 i,
                                        const float* gradients, const act* narrow) {
  float d = 0.f;
  for (u32 n = first_use[s.first_use + cell]; n < first_use[s.first_use + cell + 1]; n++) {
    Use u = uses[n];
    u64 at;
    if (place(s, u, i, at)) d = fmaf(u.factor, gradient_of(u, at, gradients, narrow), d);
  }
  return d;
}

// cells = dL/dcell of the sets that are not direct; a piece is (set, first number of all its cells).
extern "C" __global__ void mix_gather(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                                      const u32* cell_counts, const float* gradients, const act* narrow, float* cells) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u64 count = (u64)cell_counts[piece.of] * s.len, first = (u64)piece.first * PIECE;
  u64 end = first + PIECE < count ? first + PIECE : count;
  for (u64 i = first + threadIdx.x; i < end; i += blockDim.x)
    cells[s.cells + i] = gather(s, uses, first_use, i / s.len, i % s.len, gradients, narrow);
}

#define MOST 8
#define WARPS 8

// Direct sets: dL/dT, and partials[piece][cell][k] of dL/dα. A block of 256 threads per piece of a set's block.
extern "C" __global__ void mix_backward(const Piece* pieces, const u64* partial_at, const Use* uses,
                                        const u32* first_use, const Set* sets, const u32* cell_counts,
                                        const float* parameters, float* gradients, const act* narrow, float* partials) {
  __shared__ float part[MOST][WARPS];
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u32 cells = cell_counts[piece.of];
  const float* alpha = parameters + s.coefficients;
  const float* blocks = parameters + s.blocks;
  const u32 EACH = PIECE / 256;
  float dt[MOST][EACH];
#pragma unroll
  for (u32 k = 0; k < MOST; k++)
#pragma unroll
    for (u32 e = 0; e < EACH; e++) dt[k][e] = 0.f;
  for (u32 cell = 0; cell < cells; cell++) {
    float da[MOST];
#pragma unroll
    for (u32 k = 0; k < MOST; k++) da[k] = 0.f;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
      u32 i = piece.first + e * 256 + threadIdx.x;
      if (i >= s.len) continue;
      float d = gather(s, uses, first_use, cell, i, gradients, narrow);
      if (!s.mixed) {
        dt[0][e] += d;
        continue;
      }
#pragma unroll
      for (u32 k = 0; k < MOST; k++)
        if (k < s.count) {
          dt[k][e] = fmaf(alpha[cell * s.count + k], d, dt[k][e]);
          da[k] = fmaf(d, blocks[(u64)k * s.len + i], da[k]);
        }
    }
    if (!s.mixed) continue;
#pragma unroll
    for (u32 k = 0; k < MOST; k++) {
      float v = da[k];
      for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
      if (threadIdx.x % 32 == 0) part[k][threadIdx.x / 32] = v;
    }
    __syncthreads();
    if (threadIdx.x < s.count) {
      float v = 0.f;
      for (int w = 0; w < WARPS; w++) v += part[threadIdx.x][w];
      partials[partial_at[blockIdx.x] + cell * s.count + threadIdx.x] = v;
    }
    __syncthreads();
  }
  if (!s.both) return;
#pragma unroll
  for (u32 k = 0; k < MOST; k++)
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
      u32 i = piece.first + e * 256 + threadIdx.x;
      if (k < s.count && i < s.len) gradients[s.blocks + (u64)k * s.len + i] = dt[k][e];
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

// to[r, c] = from[r, c], or 0 where `from` has no such row or column. Rows are filled up to whole 16 bytes before a product
// and cut back after it.
extern "C" __global__ void resize(const float* from, u32 from_rows, u32 from_cols, float* to, u32 to_rows, u32 to_cols) {
  u64 n = (u64)to_rows * to_cols;
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u32 row = (u32)(i / to_cols), col = (u32)(i % to_cols);
    to[i] = row < from_rows && col < from_cols ? from[(u64)row * from_cols + col] : 0.f;
  }
}
