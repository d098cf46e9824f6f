// Tensors mixed from templates: cell[r] = Σₖ α[r, k]·T[k], weight[tile] = factor·cell, and the
// gradients.
//
// *Direct* sets have few templates and uses (nested tiling). One launch computes the tensors of all
// of them, another all gradients (mix_direct.cu). Other sets store their cells in memory: a matrix
// product per set (cuBLASLt), and one launch that copies the tiles of all sets (mix.cu), or two if
// some are copied in strips (mix_strips.cu). Operands of the products are first packed as `act`s,
// in rows that are multiples of 16 bytes: with rows of 247 elements the product takes four times as
// long.

// One use of a cell. `kind`: 1 if the gradient is an `act`.
struct Use {
  u64 tensor;             // offset in the parameters
  u32 set, cell, inputs, row, col, rows, cols, kind;
  float factor;
  u32 unused;
};

struct Set {
  u64 blocks, coefficients;  // offset in the parameters
  // Offsets in bytes in the scratch memory, for products: cells[cells][len], packed α[cells][width]
  // and T[width][len], and their gradients as floats.
  u64 cells, alpha, templates, dalpha, dtemplates;
  u32 count, positions, cols, len, first_use, both, mixed;
  u32 width, cell_count;  // count padded to 16 bytes; number of cells
  float weight_decay;            // of the mixed tensors
};

__device__ __forceinline__ act* acts(char* scratch, u64 at) { return reinterpret_cast<act*>(scratch + at); }
__device__ __forceinline__ float* floats(char* scratch, u64 at) { return reinterpret_cast<float*>(scratch + at); }

// A piece of work: index of a PIECE of the cells, uses or operands of a set, or of a piece of its
// strips.
struct Piece { u32 of, first; };

#define PIECE 2048
#define EACH 8  // adjacent elements per thread

// Position of an element in a template: row (output times position) and column.
struct At { u32 row, col; };

__device__ __forceinline__ At at_number(const Set& s, u32 i) { return At{i / s.cols, i % s.cols}; }

// Offset of the element in a use's tensor. Returns whether it is part of the tile.
__device__ __forceinline__ bool place(const Set& s, const Use& u, At n, u64& at) {
  at = u.tensor + ((u64)u.row * s.positions + n.row) * u.inputs + u.col + n.col;
  return n.row < u.rows * s.positions && n.col < u.cols;
}

// Whether a thread's EACH elements belong to one cell. Offsets of tensors, templates and cells are
// multiples of 64 elements, so such a set is copied in vectors.
__device__ __forceinline__ bool whole(const Set& s) { return s.len % EACH == 0; }

// Number of adjacent elements of a template that are adjacent in the tensor and either all in the
// tile or all outside: EACH, half of it (templates of 4 channels), or 1 in any other case.
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

// The same for half as many elements, with half the alignment.
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

// Loads elements i.. of an array of length `len`, and zeros beyond it.
__device__ __forceinline__ void load_numbers(const float* p, u32 i, u32 len, bool step, float* v) {
  if (step) return load_floats(p + i, v);
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = i + e < len ? p[i + e] : 0.f;
}

// Whether a use's tensor is written as floats, because something reads them: a caller, weight decay
// of tensors, or kernels without bf16 copies.
__device__ __forceinline__ bool wide(const Set& s, const Use& u, u32 all_copies) {
  return all_copies || !u.kind || s.weight_decay;
}

// Writes elements i.. of a cell to a use's tensor.
__device__ __forceinline__ void write(const Set& s, const Use& u, u32 i, const float* cell, u32 all_copies,
                                      float* parameters, act* copies) {
  bool in_full = wide(s, u, all_copies);
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

__device__ __forceinline__ float gradient_of(const Set& s, const Use& u, u64 at, const float* parameters,
                                             const float* gradients, const act* narrow) {
  float g = u.kind ? to_float(narrow[at]) : gradients[at];
  return s.weight_decay ? fmaf(s.weight_decay, parameters[at], g) : g;
}

// d = dL/dcell of elements i..: sums over every use of the cell, in order.
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
      if (s.weight_decay) {
        float w[EACH];
        load_floats(parameters + at, w);
#pragma unroll
        for (int e = 0; e < EACH; e++) g[e] = fmaf(s.weight_decay, w[e], g[e]);
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
        if (s.weight_decay) {
          float w[EACH / 2];
          load_half(parameters + at, w);
#pragma unroll
          for (int e = 0; e < EACH / 2; e++) g[e] = fmaf(s.weight_decay, w[e], g[e]);
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
