// Copies between cells and tensors in *strips*, for sets of short rows whose tensors consist of
// whole runs of `act`s (`in_strips` in bank/mix.rs). Neighbouring threads copy neighbouring
// elements of a tensor, across cells. A template row of 8 inputs is 16 bytes of a weight's row; if
// threads followed a cell, each thread would access another row. A strip has as many cells (or
// uses) as needed for SIDE times EACH elements per row. A piece is (set, index of a strip and of
// ROWS of its rows).

#define SIDE 16
#define ROWS 96
// Rows that a thread loads ahead. One at a time, gathering 146 MB takes 73 µs, twice the memory
// time.
#define AHEAD 4

// The cell or use that a thread copies, its first column, and its rows.
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

// Offset of the first row of a lane's column in a use's tensor. Returns the number of its rows in
// the tile.
__device__ __forceinline__ u32 column(const Set& s, const Use& u, u32 col, u64& at) {
  place(s, u, At{0, col}, at);
  return col < u.cols ? u.rows * s.positions : 0;
}

// EACH elements as stored in memory.
#if BF16
struct Run { uint4 bits; };
__device__ __forceinline__ Run fetch_run(const act* p) { return Run{*reinterpret_cast<const uint4*>(p)}; }
__device__ __forceinline__ void read_values(const Run& run, float* v) {
  *reinterpret_cast<Pack<EACH>*>(v) = unpack<EACH>(Raw<EACH>{run.bits});
}
#else
struct Run { float f[EACH]; };
__device__ __forceinline__ Run fetch_run(const act* p) {
  Run run;
  load_floats(p, run.f);
  return run;
}
__device__ __forceinline__ void read_values(const Run& run, float* v) {
#pragma unroll
  for (int e = 0; e < EACH; e++) v[e] = run.f[e];
}
#endif

extern "C" __global__ void __launch_bounds__(256, 4)
    mix_scatter_strips(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets, u32 all_copies,
                       float* parameters, act* copies, char* scratch) {
  Piece piece = pieces[blockIdx.x];
  Set s = sets[piece.of];
  u32 begin = first_use[s.first_use], end = first_use[s.first_use + s.cell_count];
  Lane lane = lane_of(s, piece.first);
  if (lane.of >= end - begin) return;
  Use u = uses[begin + lane.of];
  u64 to;
  lane.end = min(lane.end, column(s, u, lane.col, to));
  bool in_full = wide(s, u, all_copies);
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
      read_values(runs[a], v);
#pragma unroll
      for (int e = 0; e < EACH; e++) v[e] *= u.factor;
      u64 at = to + (u64)row * u.inputs;
      if (in_full) store_floats(parameters + at, v);
      if (u.kind) store_acts(copies + at, v);
    }
  }
}

// Arguments as for mix_gather. These sets have no f32 gradients besides `act`s.
extern "C" __global__ void __launch_bounds__(256, 3)
    mix_gather_strips(const Piece* pieces, const Use* uses, const u32* first_use, const Set* sets,
                      const float* parameters, const float*, const act* narrow, char* scratch) {
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
        read_values(runs[a], g);
        if (s.weight_decay) {
          float w[EACH];
          load_floats(parameters + from + (u64)row * u.inputs, w);
#pragma unroll
          for (int e = 0; e < EACH; e++) g[e] = fmaf(s.weight_decay, w[e], g[e]);
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
