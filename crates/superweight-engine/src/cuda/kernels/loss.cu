// Softmax and cross-entropy: one warp per row, sums in f64. One block adds the rows' results in a
// fixed order.

#define WARPS 4

__device__ __forceinline__ float warp_max(float v) {
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
__device__ __forceinline__ double warp_sum(double v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ __forceinline__ u32 warp_count(u32 v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}

// Maximum of a row and Σ exp(x − max). A row with NaN has the sum NaN.
__device__ __forceinline__ void exponentials(const act* x, u32 classes, u32 lane, float& max, double& sum) {
  max = -HUGE;
  for (u32 c = lane; c < classes; c += 32) max = fmaxf(max, to_float(x[c]));
  max = warp_max(max);
  sum = 0;
  for (u32 c = lane; c < classes; c += 32) sum += expf(to_float(x[c]) - max);
  sum = warp_sum(sum);
}

extern "C" __global__ void softmax_forward(const act* x, act* y, u32 rows, u32 classes) {
  u32 row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += (u64)row * classes;
  y += (u64)row * classes;
  float max;
  double sum;
  exponentials(x, classes, lane, max, sum);
  float share = (float)(1.0 / sum);
  for (u32 c = lane; c < classes; c += 32) y[c] = to_act(expf(to_float(x[c]) - max) * share);
}

extern "C" __global__ void softmax_backward(const act* y, const act* dy, act* dx, u32 rows, u32 classes, int add) {
  u32 row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  y += (u64)row * classes;
  dy += (u64)row * classes;
  dx += (u64)row * classes;
  double dot = 0;
  for (u32 c = lane; c < classes; c += 32) dot += (double)to_float(y[c]) * to_float(dy[c]);
  dot = warp_sum(dot);
  for (u32 c = lane; c < classes; c += 32) {
    float g = to_float(y[c]) * (to_float(dy[c]) - (float)dot);
    dx[c] = to_act(add ? to_float(dx[c]) + g : g);
  }
}

// Number of valid rows per segment. Each row of the batch is `heads` rows here.
__device__ __forceinline__ u32 valid_rows(const u32* control, u32 per_segment, u32 heads) {
  u32 most = per_segment / heads;
  return (control[0] < most ? control[0] : most) * heads;
}

// found[row] = loss, top-1, top-5. The target is `classes_of` or `probabilities`. `write`: 0 no
// gradient, 1 set, 2 add.
extern "C" __global__ void cross_entropy(const act* logits, const u32* classes_of, const act* probabilities,
                                         const u32* control, u32 rows, u32 classes, u32 segments, u32 heads,
                                         float smoothing, float weight, float* found, act* gradient, int write) {
  u32 row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  u32 per_segment = rows / segments, valid = valid_rows(control, per_segment, heads);
  const act* z = logits + (u64)row * classes;
  const act* p = probabilities ? probabilities + (u64)row * classes : 0;
  act* g = gradient + (u64)row * classes;
  if (row % per_segment >= valid) {
    if (lane < 3) found[row * 3 + lane] = 0.f;
    if (write == 1)
      for (u32 c = lane; c < classes; c += 32) g[c] = to_act(0.f);
    return;
  }
  u32 wanted;
  if (p) {
    // The first of the largest probabilities.
    float best = -HUGE;
    wanted = classes;
    for (u32 c = lane; c < classes; c += 32)
      if (to_float(p[c]) > best) { best = to_float(p[c]); wanted = c; }
    for (int o = 16; o; o >>= 1) {
      float other = __shfl_xor_sync(~0u, best, o);
      u32 at = __shfl_xor_sync(~0u, wanted, o);
      if (other > best || (other == best && at < wanted)) { best = other; wanted = at; }
    }
    if (wanted >= classes) wanted = 0;
  } else {
    wanted = classes_of[row];
    if (wanted >= classes) {
      if (lane < 3) found[row * 3 + lane] = NOT_A_NUMBER;
      if (write)
        for (u32 c = lane; c < classes; c += 32) g[c] = to_act(NOT_A_NUMBER);
      return;
    }
  }
  float max;
  double sum;
  exponentials(z, classes, lane, max, sum);
  double log_sum = max + log(sum), uniform = (double)smoothing / classes, sharp = 1.0 - (double)smoothing;
  double loss = 0, mass = 0;
  float best = to_float(z[wanted]);
  u32 ahead = 0;
  for (u32 c = lane; c < classes; c += 32) {
    double t = uniform + (p ? sharp * to_float(p[c]) : c == wanted ? sharp : 0.0);
    float v = to_float(z[c]);
    loss += t * (log_sum - v);
    mass += t;
    ahead += v > best || (v == best && c < wanted);
  }
  loss = warp_sum(loss);
  mass = warp_sum(mass);
  ahead = warp_count(ahead);
  if (lane == 0) {
    found[row * 3] = (float)loss;
    found[row * 3 + 1] = best == best && ahead < 1 ? 1.f : 0.f;
    found[row * 3 + 2] = best == best && ahead < 5 ? 1.f : 0.f;
  }
  if (!write) return;
  float factor = weight / (float)(valid * segments);
  for (u32 c = lane; c < classes; c += 32) {
    double t = uniform + (p ? sharp * to_float(p[c]) : c == wanted ? sharp : 0.0);
    double q = (double)expf(to_float(z[c]) - max) / sum;
    float d = factor * (float)(q * mass - t);
    g[c] = to_act(write == 2 ? to_float(g[c]) + d : d);
  }
}

// metrics = mean loss, top-1, top-5, number of valid rows. One block of 256 threads.
extern "C" __global__ void cross_entropy_finish(const float* found, const u32* control, u32 rows, u32 segments,
                                                u32 heads, float* metrics) {
  __shared__ double part[3][256];
  double s[3] = {0, 0, 0};
  for (u32 r = threadIdx.x; r < rows; r += 256)
    for (int i = 0; i < 3; i++) s[i] += found[r * 3 + i];
  for (int i = 0; i < 3; i++) part[i][threadIdx.x] = s[i];
  __syncthreads();
  for (u32 half = 128; half; half >>= 1) {
    if (threadIdx.x < half)
      for (int i = 0; i < 3; i++) part[i][threadIdx.x] += part[i][threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    u32 valid = valid_rows(control, rows / segments, heads);
    float counted = (float)(valid * segments);
    metrics[0] = counted > 0.f ? (float)(part[0][0] / counted) : 0.f;
    metrics[1] = (float)part[1][0];
    metrics[2] = (float)part[2][0];
    metrics[3] = counted;
  }
}
