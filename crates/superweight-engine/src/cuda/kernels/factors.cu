// Coefficients as products: alpha[r, k] = pattern[p of r, k]·gain[g of r, k], and their gradients.

struct Factors {
  u64 alpha, patterns, gains;                    // offsets in the parameters
  u32 count, rows, pattern_count;                // K, number of rows of alpha, number of patterns
  u32 first_row, first_pattern, first_gain;  // offsets of its rows, pattern starts, gain starts
};

struct Row { u32 pattern, gain; };

// Pieces of work: a PIECE of the rows of a set, or LANES coefficients of a gain.
struct Piece { u32 of, first; };
struct GainPiece { u32 of, gain, first, unused; };

#define PIECE 2048
#define LANES 32
#define DEEP 8

extern "C" __global__ void factors_multiply(const Piece* pieces, const Factors* all, const Row* rows, float* parameters) {
  Piece piece = pieces[blockIdx.x];
  Factors f = all[piece.of];
  for (u32 n = threadIdx.x; n < PIECE; n += blockDim.x) {
    u64 i = (u64)piece.first * PIECE + n;
    if (i >= (u64)f.rows * f.count) return;
    u32 k = i % f.count;
    Row r = rows[f.first_row + i / f.count];
    parameters[f.alpha + i] = parameters[f.patterns + (u64)r.pattern * f.count + k] * parameters[f.gains + (u64)r.gain * f.count + k];
  }
}

// One thread per element of a pattern. It sums over all rows of alpha that use the pattern, in
// order.
extern "C" __global__ void factors_patterns(const Piece* pieces, const Factors* all, const Row* rows, const u32* order,
                                            const u32* starts, const float* parameters, float* gradients) {
  Piece piece = pieces[blockIdx.x];
  Factors f = all[piece.of];
  for (u32 n = threadIdx.x; n < PIECE; n += blockDim.x) {
    u64 i = (u64)piece.first * PIECE + n;
    if (i >= (u64)f.pattern_count * f.count) return;
    u32 k = i % f.count;
    const u32* start = starts + f.first_pattern + i / f.count;
    float sum = 0.f;
    for (u32 at = start[0]; at < start[1]; at++) {
      u32 row = order[f.first_row + at];
      Row r = rows[f.first_row + row];
      sum = fmaf(gradients[f.alpha + (u64)row * f.count + k], parameters[f.gains + (u64)r.gain * f.count + k], sum);
    }
    gradients[f.patterns + i] = sum;
  }
}

// One block per LANES coefficients of a gain. Each of DEEP threads takes every DEEPth row; the
// first adds their sums.
extern "C" __global__ void factors_gains(const GainPiece* pieces, const Factors* all, const Row* rows, const u32* starts,
                                         const float* parameters, float* gradients) {
  __shared__ float sums[DEEP][LANES];
  GainPiece piece = pieces[blockIdx.x];
  Factors f = all[piece.of];
  u32 lane = threadIdx.x % LANES, deep = threadIdx.x / LANES, k = piece.first + lane;
  u32 first = starts[f.first_gain + piece.gain], end = starts[f.first_gain + piece.gain + 1];
  float sum = 0.f;
  if (k < f.count)
    for (u32 row = first + deep; row < end; row += DEEP) {
      u64 pattern = rows[f.first_row + row].pattern;
      sum = fmaf(gradients[f.alpha + (u64)row * f.count + k], parameters[f.patterns + pattern * f.count + k], sum);
    }
  sums[deep][lane] = sum;
  __syncthreads();
  if (deep || k >= f.count) return;
  for (u32 d = 1; d < DEEP; d++) sum += sums[d][lane];
  gradients[f.gains + (u64)piece.gain * f.count + k] = sum;
}
