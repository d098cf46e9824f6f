// Bank views: a tensor is a slice of a bank or interpolated from one. One thread per element that
// is written.
//
// A bank is in input-major order, a tensor in position-major order: column j is position j %
// positions of input j / positions.

struct View {
  u64 tensor, source;                // offsets in the parameters
  u64 row_factors, column_factors;   // offsets, for kind FACTORS
  u32 len, source_len;               // numbers of elements
  u32 positions, cols, source_row;   // source_row: elements of a row in the bank
  u32 kind;
  u32 row_taps, column_taps;         // offsets of the taps and reaches of its axes
  u32 row_reach, column_reach;
};

// (1 - weight)·x[lower] + weight·x[lower + 1]. At the last element the weight is 0.
struct Tap { u32 lower; float weight; };
struct Reach { u32 first, end; };

// Index of a PIECE of a tensor.
struct Piece { u32 of, first; };

// Elements of a bank, at most as many as threads, and the range of the list of views that read
// them.
struct BankPiece { u64 first; u32 count, views, views_end, unused; };

// A row of a view with factors, or COLUMNS of its columns from the first on.
struct Line { u32 view, first, is_columns; };

#define PIECE 2048
#define COLUMNS 32

enum { STRETCHED, SLICE, FACTORS };

__device__ __forceinline__ u32 upper(Tap t) { return t.lower + (t.weight > 0.f); }
__device__ __forceinline__ float weight_of(Tap t, u32 from) { return t.lower == from ? 1.f - t.weight : t.weight; }
__device__ __forceinline__ float blend(float lower, float upper, float weight) {
  return fmaf(weight, upper, (1.f - weight) * lower);
}

extern "C" __global__ void views_forward(const Piece* pieces, const View* views, const Tap* taps, float* parameters) {
  Piece piece = pieces[blockIdx.x];
  View v = views[piece.of];
  const float* source = parameters + v.source;
  u32 row = v.positions * v.cols;
  for (u32 n = threadIdx.x; n < PIECE; n += blockDim.x) {
    u32 i = piece.first * PIECE + n;
    if (i >= v.len) return;
    u32 r = i / row, in_row = i % row, position = in_row / v.cols, input = in_row % v.cols;
    u32 column = input * v.positions + position;
    float value;
    if (v.kind != STRETCHED) {
      value = source[r * row + column];
      if (v.kind == FACTORS) value *= parameters[v.row_factors + r] * parameters[v.column_factors + input];
    } else {
      Tap a = taps[v.row_taps + r], b = taps[v.column_taps + column];
      const float *low = source + a.lower * v.source_row, *high = source + upper(a) * v.source_row;
      u32 other = upper(b);
      value = blend(blend(low[b.lower], high[b.lower], a.weight), blend(low[other], high[other], a.weight), b.weight);
    }
    parameters[v.tensor + i] = value;
  }
}

// Gradient that an interpolated tensor gives to bank element i of its slice: for each column that
// reads it, all rows.
__device__ __forceinline__ float stretched(const View& v, u32 i, const Tap* taps, const Reach* reaches, const float* dw) {
  u32 row = v.positions * v.cols, r = i / v.source_row, c = i % v.source_row;
  Reach rows = reaches[v.row_reach + r], columns = reaches[v.column_reach + c];
  u32 input = columns.first / v.positions, position = columns.first % v.positions;
  float sum = 0.f;
  for (u32 column = columns.first; column < columns.end; column++) {
    const float* d = dw + position * v.cols + input;
    float blended = 0.f;
    for (u32 k = rows.first; k < rows.end; k++) blended = fmaf(weight_of(taps[v.row_taps + k], r), d[k * row], blended);
    sum = fmaf(weight_of(taps[v.column_taps + column], c), blended, sum);
    if (++position == v.positions) position = 0, input++;
  }
  return sum;
}

// Sums over all views of an element, in order.
extern "C" __global__ void views_backward(const BankPiece* pieces, const u32* readers, const View* views, const Tap* taps,
                                          const Reach* reaches, const float* parameters, float* gradients) {
  BankPiece piece = pieces[blockIdx.x];
  if (threadIdx.x >= piece.count) return;
  u64 at = piece.first + threadIdx.x;
  float sum = 0.f;
  for (u32 n = piece.views; n < piece.views_end; n++) {
    View v = views[readers[n]];
    if (at < v.source || at - v.source >= v.source_len) continue;
    u32 i = at - v.source;
    const float* dw = gradients + v.tensor;
    if (v.kind != STRETCHED) {
      u32 row = v.source_row, in_row = i % row, input = in_row / v.positions;
      float d = dw[i - in_row + in_row % v.positions * v.cols + input];
      if (v.kind == FACTORS) d *= parameters[v.row_factors + i / row] * parameters[v.column_factors + input];
      sum += d;
    } else {
      sum += stretched(v, i, taps, reaches, dw);
    }
  }
  gradients[at] = sum;
}

// Gradients of the factors of a row, or of some columns. Neighbouring threads read neighbouring
// elements of the tensor.
extern "C" __global__ void views_factors(const Line* lines, const View* views, const float* parameters, float* gradients) {
  __shared__ double sums[256];  // one per thread
  Line line = lines[blockIdx.x];
  View v = views[line.view];
  u32 t = threadIdx.x, row = v.source_row, width = line.is_columns ? COLUMNS : 1, input = line.first + t % COLUMNS;
  const float *slice = parameters + v.source, *dw = gradients + v.tensor;
  const float *rows = parameters + v.row_factors, *columns = parameters + v.column_factors;
  double sum = 0.;
  if (!line.is_columns) {
    u32 at = line.first * row;
    for (u32 n = t; n < row; n += blockDim.x) {
      u32 i = n % v.cols;
      sum += (double)dw[at + n] * (columns[i] * slice[at + i * v.positions + n / v.cols]);
    }
  } else if (input < v.cols) {
    for (u32 n = t / COLUMNS; n < v.len / v.cols; n += blockDim.x / COLUMNS) {
      u32 r = n / v.positions;
      sum += (double)dw[n * v.cols + input] * (rows[r] * slice[r * row + input * v.positions + n % v.positions]);
    }
  }
  sums[t] = sum;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half >= width; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (!line.is_columns && t == 0) gradients[v.row_factors + line.first] = sums[0];
  if (line.is_columns && t < COLUMNS && input < v.cols) gradients[v.column_factors + input] = sums[t];
}
