// Tensors mixed from blocks: cell[r] = Σₖ α[r, k]·T[k], weight[tile] = factor·cell, and back.
//
// *Direct* sets have few blocks and uses (nested tiling): one launch makes the tensors of all of them, another takes all
// gradients. The others go through cells in memory: a matrix product per set (cuBLASLt), and one launch that moves the tiles of all sets, or two where some go in strips. Their
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
  u32 count, positions, cols, len, first_use, both, mixed;
  u32 width, cell_count;  // count, a whole number of 16 bytes; cells
  float decay;            // of the tensors
};

__device__ __forceinline__ act* acts(char* scratch, u64 at) { return reinterpret_cast<act*>(scratch + at); }
__device__ __forceinline__ float* floats(char* scratch, u64 at) { return reinterpret_cast<float*>(scratch + at); }

// A piece of work: which PIECE of the cells, uses or operands of a set, or which piece of its strips.
struct Piece { u32 of, first; };

#define PIECE 2048
#define EACH 8  // numbers of a thread, side by side

// A number of a block, by its row (outputs times positions) and column.
struct At { u32 row, col; };

__device__ __forceinline__ At at_number(const Set& s, u32 i) { return At{i / s.cols, i % s.cols}; }

// Where it lies in a use's tensor, if it is part of the tile.
__device__ __forceinline__ bool place(const Set& s, const Use& u, At n, u64& at) {
  at = u.tensor + ((u64)u.row * s.positions + n.row) * u.inputs + u.col + n.col;
  return n.row < u.rows * s.positions && n.col < u.cols;
}

// Whether a thread's EACH numbers are of one cell. Offsets of tensors, blocks and cells are multiples of 64 numbers, so those
// of such a set are moved as one.
__device__ __forceinline__ bool whole(const Set& s) { return s.len % EACH == 0; }

// How many numbers side by side in a block lie side by side in the tensor, all of them in the tile or none: EACH, half of it
// (blocks of 4 channels), or 1 that nobody counts on.
__device__ __forceinline__ u32 run(const Set& s, const Use& u) {
  u32 all = s.cols | u.cols | u.inputs | u.col;
  return all % EACH == 0 ? EACH : all % (EACH / 2) == 0 ? EACH / 2 : 1;
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

// Half as many, from an address that is a multiple of half as many bytes.
__device__ __forceinline__ void load_half(const float* p, float* v) {
  float4 a = *reinterpret_cast<const float4*>(p);
  v[0] = a.x; v[1] = a.y; v[2] = a.z; v[3] = a.w;
}

__device__ __forceinline__ void store_half(float* p, const float* v) {
  *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
}

#if BF16
__device__ __forceinline__ void load_half(const act* p, float* v) {
  uint2 a = *reinterpret_cast<const uint2*>(p);
  v[0] = __uint_as_float(a.x << 16); v[1] = __uint_as_float(a.x & 0xffff0000u);
  v[2] = __uint_as_float(a.y << 16); v[3] = __uint_as_float(a.y & 0xffff0000u);
}

__device__ __forceinline__ void store_half(act* p, const float* v) {
  *reinterpret_cast<uint2*>(p) = make_uint2(pack2(v[0], v[1]), pack2(v[2], v[3]));
}
#endif

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

// Whether a use's tensor is written as floats: where somebody reads these. Convolutions do not where there are copies for
// them, and decay of tensors does.
__device__ __forceinline__ bool wide(const Set& s, const Use& u, u32 everyone) {
  return everyone || !u.kind || s.decay;
}

// A use's tensor, numbers i.. of its cell.
__device__ __forceinline__ void write(const Set& s, const Use& u, u32 i, const float* cell, u32 everyone,
                                      float* parameters, act* copies) {
  bool in_full = wide(s, u, everyone);
  float v[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = cell[e] * u.factor;
  u64 at;
  u32 side_by_side = run(s, u);
  if (side_by_side == EACH) {
    if (!place(s, u, at_number(s, i), at)) return;
    if (in_full) store_floats(parameters + at, v);
    if (u.kind) store_acts(copies + at, v);
    return;
  }
  if (side_by_side == EACH / 2 && whole(s)) {
#pragma unroll
    for (int e = 0; e < EACH; e += EACH / 2) {
      if (!place(s, u, at_number(s, i + e), at)) continue;
      if (in_full) store_half(parameters + at, v + e);
      if (u.kind) store_half(copies + at, v + e);
    }
    return;
  }
  for (int e = 0; e < EACH; e++)
    if (i + e < s.len && place(s, u, at_number(s, i + e), at)) {
      if (in_full) parameters[at] = v[e];
      if (u.kind) copies[at] = to_act(v[e]);
    }
}

// Writes the tensors of sets that are not direct, from their cells. A piece is (set, which PIECE of all its uses).
extern "C" __global__ void mix_scatter(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                                       u32 everyone, float* parameters, act* copies, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u32 first = first_use[s.first_use], end = first_use[s.first_use + s.cell_count];
  const act* cells = acts(scratch, s.cells);
  u64 count = (u64)(end - first) * s.len, n = (u64)piece.first * PIECE + threadIdx.x * EACH;
  if (n >= count) return;
  if (whole(s)) {
    Use u = uses[first + n / s.len];
    u32 i = n % s.len;
    float v[EACH];
    load_acts(cells + (u64)u.cell * s.len + i, v);
    return write(s, u, i, v, everyone, parameters, copies);
  }
  // Cells of an odd length end anywhere.
  for (u64 m = n; m < n + EACH && m < count; m++) {
    Use u = uses[first + m / s.len];
    u32 i = m % s.len;
    u64 at;
    if (!place(s, u, at_number(s, i), at)) continue;
    float v = to_float(cells[(u64)u.cell * s.len + i]) * u.factor;
    if (wide(s, u, everyone)) parameters[at] = v;
    if (u.kind) copies[at] = to_act(v);
  }
}

__device__ __forceinline__ float gradient_of(const Set& s, const Use& u, u64 at, const float* parameters,
                                             const float* gradients, const act* narrow) {
  float g = u.kind ? to_float(narrow[at]) : gradients[at];
  return s.decay ? fmaf(s.decay, parameters[at], g) : g;
}

// d = dL/dcell of numbers i..: every use of the cell, in order.
__device__ __forceinline__ void gather(const Set& s, const Use* uses, const u32* first_use, u32 cell, u32 i,
                                       const float* parameters, const float* gradients, const act* narrow, float* d) {
#pragma unroll
  for (int e = 0; e < EACH; e++) d[e] = 0.f;
  for (u32 n = first_use[s.first_use + cell]; n < first_use[s.first_use + cell + 1]; n++) {
    Use u = uses[n];
    u64 at;
    u32 side_by_side = run(s, u);
    if (side_by_side == EACH) {
      if (!place(s, u, at_number(s, i), at)) continue;
      float g[EACH];
      if (u.kind) load_acts(narrow + at, g);
      else load_floats(gradients + at, g);
      if (s.decay) {
        float w[EACH];
        load_floats(parameters + at, w);
#pragma unroll
        for (int e = 0; e < EACH; e++) g[e] = fmaf(s.decay, w[e], g[e]);
      }
#pragma unroll
      for (int e = 0; e < EACH; e++) d[e] = fmaf(u.factor, g[e], d[e]);
    } else if (side_by_side == EACH / 2 && whole(s)) {
#pragma unroll
      for (int half = 0; half < EACH; half += EACH / 2) {
        if (!place(s, u, at_number(s, i + half), at)) continue;
        float g[EACH / 2];
        if (u.kind) load_half(narrow + at, g);
        else load_half(gradients + at, g);
        if (s.decay) {
          float w[EACH / 2];
          load_half(parameters + at, w);
#pragma unroll
          for (int e = 0; e < EACH / 2; e++) g[e] = fmaf(s.decay, w[e], g[e]);
        }
#pragma unroll
        for (int e = 0; e < EACH / 2; e++) d[half + e] = fmaf(u.factor, g[e], d[half + e]);
      }
    } else {
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (i + e < s.len && place(s, u, at_number(s, i + e), at))
          d[e] = fmaf(u.factor, gradient_of(s, u, at, parameters, gradients, narrow), d[e]);
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
                                      const float* parameters, const float* gradients, const act* narrow,
                                      char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  act* cells = acts(scratch, s.cells);
  float d[EACH];
  u64 count = (u64)s.cell_count * s.len, i = (u64)piece.first * PIECE + threadIdx.x * EACH;
  if (i >= count) return;
  if (whole(s)) {
    gather(s, uses, first_use, i / s.len, i % s.len, parameters, gradients, narrow, d);
    return store_acts(cells + i, d);
  }
  for (int e = 0; e < EACH; e++)
    if (i + e < count) {
      // Cells of an odd length end anywhere: one number at a time, the first of those gathered.
      gather(s, uses, first_use, (i + e) / s.len, (i + e) % s.len, parameters, gradients, narrow, d);
      cells[i + e] = to_act(d[0]);
    }
}

// The same in *strips*, for sets of short rows whose tensors are all of whole runs of `act`s (`Mixer::new` says which): threads side
// by side take what lies side by side in a tensor, across cells. A row of a block of 8 inputs is 16 bytes of a row of weights; threads
// that went along a cell would touch as many rows as they are. Strips are of so many cells (or uses) that their rows have SIDE
// times EACH numbers together, a piece is (set, which ROWS of which strip).
#define SIDE 16
#define ROWS 96
#define AHEAD 4  // rows that a thread has under way: one at a time is half as fast as memory is

// Which cell or use a thread moves, from which column on, and which rows.
struct Lane { u32 of, col, row, end, step; };

__device__ __forceinline__ Lane lane_of(const Set& s, u32 piece) {
  u32 per = s.cols / EACH, cells = per < SIDE ? SIDE / per : 1, across = per * cells;
  u32 rows = s.len / s.cols, parts = (rows + ROWS - 1) / ROWS, first = piece % parts * ROWS;
  u32 at = threadIdx.x % across, row = threadIdx.x / across;
  Lane lane;
  lane.of = piece / parts * cells + at / per;
  lane.col = at % per * EACH;
  lane.step = blockDim.x / across;
  lane.end = min(first + ROWS, rows);
  lane.row = row < lane.step ? first + row : lane.end;
  return lane;
}

// Where the first row of a lane's column lies in a use's tensor, and how many rows of it are in the tile.
__device__ __forceinline__ u32 column(const Set& s, const Use& u, u32 col, u64& at) {
  place(s, u, At{0, col}, at);
  return col < u.cols ? u.rows * s.positions : 0;
}

// EACH numbers as they lie in memory.
#if BF16
struct Run { uint4 bits; };
__device__ __forceinline__ Run fetch_run(const act* p) { return Run{*reinterpret_cast<const uint4*>(p)}; }
__device__ __forceinline__ void numbers(const Run& run, float* v) {
  *reinterpret_cast<Pack<EACH>*>(v) = unpack<EACH>(Raw<EACH>{run.bits});
}
#else
struct Run { float f[EACH]; };
__device__ __forceinline__ Run fetch_run(const act* p) {
  Run run;
  load_floats(p, run.f);
  return run;
}
__device__ __forceinline__ void numbers(const Run& run, float* v) {
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = run.f[e];
}
#endif

extern "C" __global__ void __launch_bounds__(256, 4)
    mix_scatter_strips(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets, u32 everyone,
                       float* parameters, act* copies, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u32 begin = first_use[s.first_use], end = first_use[s.first_use + s.cell_count];
  Lane lane = lane_of(s, piece.first);
  if (lane.of >= end - begin) return;
  Use u = uses[begin + lane.of];
  u64 to;
  lane.end = min(lane.end, column(s, u, lane.col, to));
  bool in_full = wide(s, u, everyone);
  const act* cell = acts(scratch, s.cells) + (u64)u.cell * s.len + lane.col;
  for (u32 first = lane.row; first < lane.end; first += AHEAD * lane.step) {
    Run runs[AHEAD];
#pragma unroll
    for (u32 a = 0; a < AHEAD; a++) {
      u32 row = first + a * lane.step;
      if (row < lane.end) runs[a] = fetch_run(cell + row * s.cols);
    }
#pragma unroll
    for (u32 a = 0; a < AHEAD; a++) {
      u32 row = first + a * lane.step;
      if (row >= lane.end) break;
      float v[EACH];
      numbers(runs[a], v);
#pragma unroll
      for (int e = 0; e < EACH; e++) v[e] *= u.factor;
      u64 at = to + (u64)row * u.inputs;
      if (in_full) store_floats(parameters + at, v);
      if (u.kind) store_acts(copies + at, v);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, 3)
    mix_gather_strips(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                      const float* parameters, const act* narrow, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  Lane lane = lane_of(s, piece.first);
  if (lane.of >= s.cell_count) return;
  u32 begin = first_use[s.first_use + lane.of], end = first_use[s.first_use + lane.of + 1];
  act* cell = acts(scratch, s.cells) + (u64)lane.of * s.len + lane.col;
  for (u32 first = lane.row; first < lane.end; first += AHEAD * lane.step) {
    float d[AHEAD][EACH] = {};
    for (u32 n = begin; n < end; n++) {
      Use u = uses[n];
      u64 from;
      u32 inside = min(lane.end, column(s, u, lane.col, from));
      Run runs[AHEAD];
#pragma unroll
      for (u32 a = 0; a < AHEAD; a++) {
        u32 row = first + a * lane.step;
        if (row < inside) runs[a] = fetch_run(narrow + from + (u64)row * u.inputs);
      }
#pragma unroll
      for (u32 a = 0; a < AHEAD; a++) {
        u32 row = first + a * lane.step;
        if (row >= inside) break;
        float g[EACH];
        numbers(runs[a], g);
        if (s.decay) {
          float w[EACH];
          load_floats(parameters + from + (u64)row * u.inputs, w);
#pragma unroll
          for (int e = 0; e < EACH; e++) g[e] = fmaf(s.decay, w[e], g[e]);
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) d[a][e] = fmaf(u.factor, g[e], d[a][e]);
      }
    }
#pragma unroll
    for (u32 a = 0; a < AHEAD; a++) {
      u32 row = first + a * lane.step;
      if (row < lane.end) store_acts(cell + row * s.cols, d[a]);
    }
  }
}

#define CHUNK 4   // blocks that a thread of the backward pass keeps in registers
#define CELLS 64  // of a direct set, at most
#define WARPS 8

// Work on a direct set: numbers first.. of its blocks; going back, of CHUNK of them, from `block` on.
struct DirectPiece {
  u64 partials;
  u32 of, first, block, unused;
};

// Direct sets: writes their tensors. A block of threads does all uses of its piece, so that blocks are fetched once.
extern "C" __global__ void __launch_bounds__(256)
    mix_direct(const DirectPiece* pieces, const Use* uses, const u32* first_use, const Set* sets, u32 everyone,
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
    write(s, u, i, v, everyone, parameters, copies);
  }
}

// The sums of four numbers over a warp; lane l gets that of number l % 4.
__device__ __forceinline__ float sum_of_four(const float* v) {
  bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  float a = (odd ? v[1] : v[0]) + __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
  float b = (odd ? v[3] : v[2]) + __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
  float c = (high ? b : a) + __shfl_xor_sync(~0u, high ? a : b, 2);
  for (int o = 4; o < 32; o <<= 1) c += __shfl_xor_sync(~0u, c, o);
  return c;
}

// Direct sets: dL/dT, and partials[piece][cell][k] of dL/dα. A block of 256 threads per piece.
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
