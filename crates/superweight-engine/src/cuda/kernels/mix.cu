// Sets that are not mixed directly: packs the operands of their products, and copies between cells
// and tensors.

// Writes the tensors of these sets from their cells. A piece is (set, index of a PIECE of all its
// uses).
extern "C" __global__ void mix_scatter(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                                       u32 all_copies, float* parameters, act* copies, char* scratch) {
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
    return write(s, u, i, v, all_copies, parameters, copies);
  }
  // Cells whose length is not a multiple of EACH may end inside a thread's elements.
  for (u64 m = n; m < n + EACH && m < count; m++) {
    Use u = uses[first + m / s.len];
    u32 i = m % s.len;
    u64 at;
    if (!place(s, u, at_number(s, i), at)) continue;
    float v = to_float(cells[(u64)u.cell * s.len + i]) * u.factor;
    if (wide(s, u, all_copies)) parameters[at] = v;
    if (u.kind) copies[at] = to_act(v);
  }
}

// Packs α and T of these sets. A piece is (set, index of a PIECE of both).
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

// Unpacks the gradients of α and T.
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

// cells = dL/dcell of these sets. A piece is (set, index of a PIECE of all its cells).
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
      // Cells whose length is not a multiple of EACH: one element at a time, the first of those
      // gathered.
      gather(s, uses, first_use, (i + e) / s.len, (i + e) % s.len, parameters, gradients, narrow, d);
      cells[i + e] = to_act(d[0]);
    }
}
