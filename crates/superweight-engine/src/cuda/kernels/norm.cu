// Batch norm in NHWC: rows are pixels, and a row has C channels. Memory bandwidth limits it, so
// every pass reads 16 bytes per thread if the number of channels allows it (V = VEC), and single
// elements otherwise (V = 1).
//
// A block is (packs of channels, TY rows). blockIdx.x selects rows, blockIdx.y packs of channels,
// and blockIdx.z the statistics set or segment. Sums: a thread adds its rows in f32, a block its
// threads in order, and `*_finish` the blocks in f64 and in order. Without atomics the bits are the
// same every time.

#define U 4

// Passes that sum visit the rows backward, passes that write visit them forward. So the rows that
// were read (or written by the previous layer) last are still in the cache. WRN-28-10, batch 128,
// H200, all 25 norms (`swn bench ops`): statistics 0.56 → 0.50 ms, backward 1.38 → 1.32.
__device__ __forceinline__ u32 backward(u32 row, u32 rows) { return rows - 1 - row; }

template <int V> struct Place {
  u32 c, rows, step, first;
  bool valid;
  __device__ Place(u32 rows, u32 channels) : rows(rows) {
    c = (blockIdx.y * blockDim.x + threadIdx.x) * V;
    first = blockIdx.x * blockDim.y + threadIdx.y;
    step = gridDim.x * blockDim.y;
    valid = c < channels;
  }
};

// Adds the sums of a block's threads and writes them to partials[set][block][2][C].
template <int V>
__device__ void block_sums(const float* a, const float* b, float* partials, u32 channels, const Place<V>& at) {
  extern __shared__ float shared[];
  u32 width = blockDim.x * V;
  float* mine = shared + threadIdx.y * 2 * width + threadIdx.x * V;
#pragma unroll
  for (int j = 0; j < V; j++) { mine[j] = a[j]; mine[width + j] = b[j]; }
  __syncthreads();
  float* to = partials + ((u64)blockIdx.z * gridDim.x + blockIdx.x) * 2 * channels;
  for (u32 i = threadIdx.y * blockDim.x + threadIdx.x; i < 2 * width; i += blockDim.x * blockDim.y) {
    float sum = 0.f;
    for (u32 t = 0; t < blockDim.y; t++) sum += shared[t * 2 * width + i];
    u32 c = blockIdx.y * width + i % width;
    if (c < channels) to[(i / width) * channels + c] = sum;
  }
}

// Sums of x − k and (x − k)², where k is the first row of the set. This stays precise if the mean
// is far from zero.
template <int V> __device__ void statistics(const act* x, float* partials, u32 rows, u32 channels) {
  Place<V> at(rows, channels);
  x += (u64)blockIdx.z * rows * channels;
  float s[V], q[V];
#pragma unroll
  for (int j = 0; j < V; j++) s[j] = q[j] = 0.f;
  if (at.valid) {
    Pack<V> k = load<V>(x + at.c);
    for (u32 r = at.first; r < rows; r += U * at.step) {
      Raw<V> raw[U];
#pragma unroll
      for (int u = 0; u < U; u++)
        raw[u] = fetch<V>(x + (u64)(r + u * at.step < rows ? backward(r + u * at.step, rows) : 0) * channels + at.c);
#pragma unroll
      for (int u = 0; u < U; u++) {
        Pack<V> v = unpack<V>(raw[u]);
#pragma unroll
        for (int j = 0; j < V; j++) {
          // Beyond the last row this is the first row again, with distance zero.
          float d = v.f[j] - k.f[j];
          s[j] += d;
          q[j] = fmaf(d, d, q[j]);
        }
      }
    }
  }
  block_sums<V>(s, q, partials, channels, at);
}
extern "C" __global__ void norm_statistics_v(const act* x, float* partials, u32 rows, u32 channels) {
  statistics<VEC>(x, partials, rows, channels);
}
extern "C" __global__ void norm_statistics_1(const act* x, float* partials, u32 rows, u32 channels) {
  statistics<1>(x, partials, rows, channels);
}

// Adds two columns of partials[blocks][2][C] for 32 channels with 32 threads each. With 8 threads
// the memory latency exceeded the time of the sums. The first thread returns the sums.
#define PARTS 32

__device__ __forceinline__ void add_partials(const float* partials, u32 blocks, u32 channels, u32 c, double& a,
                                             double& b) {
  __shared__ double sa[PARTS][33], sb[PARTS][33];
  a = b = 0;
  if (c < channels) {
#pragma unroll 8
    for (u32 p = threadIdx.y; p < blocks; p += PARTS) {
      a += partials[(u64)p * 2 * channels + c];
      b += partials[((u64)p * 2 + 1) * channels + c];
    }
  }
  __syncthreads();
  sa[threadIdx.y][threadIdx.x] = a;
  sb[threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  if (threadIdx.y != 0) return;
  a = b = 0;
  for (int i = 0; i < PARTS; i++) { a += sa[i][threadIdx.x]; b += sb[i][threadIdx.x]; }
}

// Block (32, PARTS), grid ceil(C/32). `rule`: 0 keeps the running statistics, 1 momentum, 2 average
// over a pass.
extern "C" __global__ void norm_statistics_finish(const act* x, const float* partials, u32 blocks, u32 sets, u32 rows,
                                                  u32 channels, float epsilon, float* mean, float* inverse, int rule,
                                                  float momentum, const u32* control, float* running_mean,
                                                  float* running_variance, u32 running_sets) {
  u32 c = blockIdx.x * 32 + threadIdx.x;
  double weight = rule == 1 ? (double)momentum : rule == 2 ? 1.0 / (control[1] > 0 ? control[1] : 1) : 0.0;
  u32 sharing = sets / running_sets;
  for (u32 set = 0; set < sets; set++) {
    double s, q;
    add_partials(partials + (u64)set * blocks * 2 * channels, blocks, channels, c, s, q);
    if (threadIdx.y == 0 && c < channels) {
      double k = to_float(x[(u64)set * rows * channels + c]);
      double distance = s / rows, m = k + distance, m2 = q - s * distance;
      if (m2 < 0) m2 = 0;
      mean[set * channels + c] = (float)m;
      inverse[set * channels + c] = (float)(1.0 / sqrt(m2 / rows + (double)epsilon));
      if (rule) {
        u32 at = (running_sets == 1 ? 0 : set) * channels + c;
        double kept = set % sharing == 0 ? 1.0 - weight : 1.0, share = weight / sharing;
        running_mean[at] = (float)(kept * running_mean[at] + share * m);
        running_variance[at] = (float)(kept * running_variance[at] + share * (m2 / (rows - 1.0)));
      }
    }
  }
}

// γ/σ and β − μ·γ/σ of a channel, the same values in both passes. `epsilon` < 0: `second` is 1/σ,
// otherwise the variance.
struct Moments {
  const float *mean, *second, *gamma, *beta;
  float epsilon;
  u32 statistic_sets, parameter_sets;
};

struct Channel { float mean, inverse, gamma, scale, shift; };

__device__ __forceinline__ Channel channel_of(const Moments& m, u32 segment, u32 c, u32 channels) {
  u32 s = (m.statistic_sets == 1 ? 0 : segment) * channels + c, p = (m.parameter_sets == 1 ? 0 : segment) * channels + c;
  Channel r;
  r.mean = m.mean[s];
  r.inverse = m.epsilon < 0.f ? m.second[s] : 1.f / sqrtf(m.second[s] + m.epsilon);
  r.gamma = m.gamma[p];
  r.scale = r.gamma * r.inverse;
  r.shift = m.beta[p] - r.mean * r.scale;
  return r;
}

// y = clamp(x·scale + shift + residual). x or residual may be y.
template <int V, bool RESIDUAL>
__device__ void apply(const act* x, const act* residual, act* y, Moments m, u32 rows, u32 channels, float low,
                      float high) {
  Place<V> at(rows, channels);
  if (!at.valid) return;
  u64 base = (u64)blockIdx.z * rows * channels + at.c;
  float scale[V], shift[V];
#pragma unroll
  for (int j = 0; j < V; j++) {
    Channel c = channel_of(m, blockIdx.z, at.c + j, channels);
    scale[j] = c.scale;
    shift[j] = c.shift;
  }
  for (u32 r = at.first; r < rows; r += U * at.step) {
    Raw<V> v[U], o[U];
#pragma unroll
    for (int u = 0; u < U; u++)
      if (r + u * at.step < rows) {
        u64 i = base + (u64)(r + u * at.step) * channels;
        v[u] = fetch_last<V>(x + i);
        if (RESIDUAL) o[u] = fetch_last<V>(residual + i);
      }
#pragma unroll
    for (int u = 0; u < U; u++)
      if (r + u * at.step < rows) {
        Pack<V> p = unpack<V>(v[u]), q;
        if (RESIDUAL) q = unpack<V>(o[u]);
#pragma unroll
        for (int j = 0; j < V; j++) {
          float z = fmaf(p.f[j], scale[j], shift[j]);
          p.f[j] = clamp(RESIDUAL ? z + q.f[j] : z, low, high);
        }
        store<V>(y + base + (u64)(r + u * at.step) * channels, p);
      }
  }
}

#define APPLY(NAME, V, RESIDUAL)                                                                                       \
  extern "C" __global__ void __launch_bounds__(256, 3) NAME(const act* x, const act* residual, act* y, const float* mean, const float* second,   \
                                  const float* gamma, const float* beta, float epsilon, u32 statistic_sets,            \
                                  u32 parameter_sets, u32 rows, u32 channels, float low, float high) {                 \
    apply<V, RESIDUAL>(x, residual, y, Moments{mean, second, gamma, beta, epsilon, statistic_sets, parameter_sets},    \
                       rows, channels, low, high);                                                                     \
  }
APPLY(norm_apply_v, VEC, false)
APPLY(norm_apply_1, 1, false)
APPLY(norm_apply_residual_v, VEC, true)
APPLY(norm_apply_residual_1, 1, true)

__device__ __forceinline__ float masked(float x, float dy, float scale, float shift, float low, float high) {
  float z = fmaf(x, scale, shift);
  return z > low && z < high ? dy : 0.f;
}

// Sums of dz and dz·(x − μ) per segment.
template <int V>
__device__ void gradient_sums(const act* x, const act* dy, Moments m, float* partials, u32 rows, u32 channels,
                              float low, float high) {
  Place<V> at(rows, channels);
  float s[V], q[V];
#pragma unroll
  for (int j = 0; j < V; j++) s[j] = q[j] = 0.f;
  if (at.valid) {
    u64 base = (u64)blockIdx.z * rows * channels + at.c;
    float mean[V], scale[V], shift[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
      Channel c = channel_of(m, blockIdx.z, at.c + j, channels);
      mean[j] = c.mean;
      scale[j] = c.scale;
      shift[j] = c.shift;
    }
    for (u32 r = at.first; r < rows; r += U * at.step) {
      Raw<V> v[U], d[U];
#pragma unroll
      for (int u = 0; u < U; u++) {
        // Beyond the last row, any row: it is ignored below.
        u64 i = base + (u64)backward(r + u * at.step < rows ? r + u * at.step : r, rows) * channels;
        v[u] = fetch<V>(x + i);
        d[u] = fetch<V>(dy + i);
      }
#pragma unroll
      for (int u = 0; u < U; u++) {
        if (r + u * at.step >= rows) break;
        Pack<V> p = unpack<V>(v[u]), g = unpack<V>(d[u]);
#pragma unroll
        for (int j = 0; j < V; j++) {
          float dz = masked(p.f[j], g.f[j], scale[j], shift[j], low, high);
          s[j] += dz;
          q[j] = fmaf(dz, p.f[j] - mean[j], q[j]);
        }
      }
    }
  }
  block_sums<V>(s, q, partials, channels, at);
}

#define SUMS(NAME, V)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 3) NAME(const act* x, const act* dy, const float* mean, const float* second,                 \
                                  const float* gamma, const float* beta, float epsilon, u32 statistic_sets,            \
                                  u32 parameter_sets, float* partials, u32 rows, u32 channels, float low,              \
                                  float high) {                                                                        \
    gradient_sums<V>(x, dy, Moments{mean, second, gamma, beta, epsilon, statistic_sets, parameter_sets}, partials,     \
                     rows, channels, low, high);                                                                       \
  }
SUMS(norm_sums_v, VEC)
SUMS(norm_sums_1, 1)

// dβ, dγ, and lines[segment][2][C]: slope = −Σ(γ·dz·x̂)/(M·σ²) and offset = −Σ(γ·dz)/(M·σ). `sums`
// has room for [segments][2][C]. Block (32, PARTS), grid ceil(C/32).
extern "C" __global__ void norm_sums_finish(const float* partials, u32 blocks, u32 segments, const float* mean,
                                            const float* second, const float* gamma, const float* beta, float epsilon,
                                            u32 statistic_sets, u32 parameter_sets, u32 rows, u32 channels,
                                            float* dscale, float* dshift, int add, float* sums, float* lines) {
  u32 c = blockIdx.x * 32 + threadIdx.x;
  Moments m{mean, second, gamma, beta, epsilon, statistic_sets, parameter_sets};
  for (u32 segment = 0; segment < segments; segment++) {
    double s, q;
    add_partials(partials + (u64)segment * blocks * 2 * channels, blocks, channels, c, s, q);
    if (threadIdx.y == 0 && c < channels) {
      sums[segment * 2 * channels + c] = (float)s;
      sums[(segment * 2 + 1) * channels + c] = (float)(q * channel_of(m, segment, c, channels).inverse);
    }
  }
  if (threadIdx.y != 0 || c >= channels) return;
  for (u32 set = 0; set < parameter_sets; set++) {
    u32 from = parameter_sets == 1 ? 0 : set, to = parameter_sets == 1 ? segments : set + 1;
    float s = add ? dshift[set * channels + c] : 0.f, q = add ? dscale[set * channels + c] : 0.f;
    for (u32 segment = from; segment < to; segment++) {
      s += sums[segment * 2 * channels + c];
      q += sums[(segment * 2 + 1) * channels + c];
    }
    dshift[set * channels + c] = s;
    dscale[set * channels + c] = q;
  }
  // With running statistics (epsilon ≥ 0) the two sums vanish from dx.
  bool from_batch = epsilon < 0.f;
  for (u32 segment = 0; segment < segments; segment++) {
    u32 from = statistic_sets == 1 ? 0 : segment, to = statistic_sets == 1 ? segments : segment + 1;
    double a = 0, b = 0, count = (double)(to - from) * rows;
    for (u32 other = from; other < to; other++) {
      double g = channel_of(m, other, c, channels).gamma;
      a += g * sums[other * 2 * channels + c];
      b += g * sums[(other * 2 + 1) * channels + c];
    }
    double inverse = channel_of(m, segment, c, channels).inverse;
    lines[segment * 2 * channels + c] = from_batch ? (float)(-inverse * inverse * b / count) : 0.f;
    lines[(segment * 2 + 1) * channels + c] = from_batch ? (float)(-inverse * a / count) : 0.f;
  }
}

// dx (+)= scale·dz + (slope·x + (offset − slope·μ)). dx may be dy.
template <int V>
__device__ void gradient(const act* x, const act* dy, act* dx, Moments m, const float* lines, u32 rows, u32 channels,
                         float low, float high, int add) {
  Place<V> at(rows, channels);
  if (!at.valid) return;
  u64 base = (u64)blockIdx.z * rows * channels + at.c;
  float scale[V], shift[V], slope[V], offset[V];
#pragma unroll
  for (int j = 0; j < V; j++) {
    Channel c = channel_of(m, blockIdx.z, at.c + j, channels);
    scale[j] = c.scale;
    shift[j] = c.shift;
    slope[j] = lines[blockIdx.z * 2 * channels + at.c + j];
    offset[j] = lines[(blockIdx.z * 2 + 1) * channels + at.c + j] - slope[j] * c.mean;
  }
  for (u32 r = at.first; r < rows; r += 2 * at.step) {
    Raw<V> v[2], d[2], o[2];
#pragma unroll
    for (int u = 0; u < 2; u++)
      if (r + u * at.step < rows) {
        u64 i = base + (u64)(r + u * at.step) * channels;
        v[u] = fetch_last<V>(x + i);
        d[u] = fetch_last<V>(dy + i);
        if (add) o[u] = fetch<V>(dx + i);
      }
#pragma unroll
    for (int u = 0; u < 2; u++)
      if (r + u * at.step < rows) {
        Pack<V> p = unpack<V>(v[u]), g = unpack<V>(d[u]), old;
        if (add) old = unpack<V>(o[u]);
#pragma unroll
        for (int j = 0; j < V; j++) {
          float dz = masked(p.f[j], g.f[j], scale[j], shift[j], low, high);
          float dx = fmaf(scale[j], dz, fmaf(slope[j], p.f[j], offset[j]));
          p.f[j] = add ? old.f[j] + dx : dx;
        }
        store<V>(dx + base + (u64)(r + u * at.step) * channels, p);
      }
  }
}

#define GRADIENT(NAME, V)                                                                                              \
  extern "C" __global__ void __launch_bounds__(256, 3) NAME(const act* x, const act* dy, act* dx, const float* mean, const float* second,        \
                                  const float* gamma, const float* beta, float epsilon, u32 statistic_sets,            \
                                  u32 parameter_sets, const float* lines, u32 rows, u32 channels, float low,           \
                                  float high, int add) {                                                               \
    gradient<V>(x, dy, dx, Moments{mean, second, gamma, beta, epsilon, statistic_sets, parameter_sets}, lines, rows,   \
                channels, low, high, add);                                                                             \
  }
GRADIENT(norm_gradient_v, VEC)
GRADIENT(norm_gradient_1, 1)

// Channel scale: y (+)= x·r[segment]. x may be y.
template <int V>
__device__ void scale_rows(const act* x, const float* r, act* y, u32 rows, u32 channels, int add) {
  Place<V> at(rows, channels);
  if (!at.valid) return;
  u64 base = (u64)blockIdx.z * rows * channels + at.c;
  for (u32 row = at.first; row < rows; row += at.step) {
    u64 i = base + (u64)row * channels;
    Pack<V> v = load<V>(x + i), o;
    if (add) o = load<V>(y + i);
#pragma unroll
    for (int j = 0; j < V; j++) {
      float s = v.f[j] * r[blockIdx.z * channels + at.c + j];
      v.f[j] = add ? o.f[j] + s : s;
    }
    store<V>(y + i, v);
  }
}
extern "C" __global__ void scale_rows_v(const act* x, const float* r, act* y, u32 rows, u32 channels, int add) {
  scale_rows<VEC>(x, r, y, rows, channels, add);
}
extern "C" __global__ void scale_rows_1(const act* x, const float* r, act* y, u32 rows, u32 channels, int add) {
  scale_rows<1>(x, r, y, rows, channels, add);
}

// Sums of dy·x per segment.
template <int V> __device__ void scale_sums(const act* x, const act* dy, float* partials, u32 rows, u32 channels) {
  Place<V> at(rows, channels);
  float s[V], q[V];
#pragma unroll
  for (int j = 0; j < V; j++) s[j] = q[j] = 0.f;
  if (at.valid)
    for (u32 row = at.first; row < rows; row += at.step) {
      u64 i = (u64)blockIdx.z * rows * channels + at.c + (u64)row * channels;
      Pack<V> v = load<V>(x + i), d = load<V>(dy + i);
#pragma unroll
      for (int j = 0; j < V; j++) s[j] = fmaf(v.f[j], d.f[j], s[j]);
    }
  block_sums<V>(s, q, partials, channels, at);
}
extern "C" __global__ void scale_sums_v(const act* x, const act* dy, float* partials, u32 rows, u32 channels) {
  scale_sums<VEC>(x, dy, partials, rows, channels);
}
extern "C" __global__ void scale_sums_1(const act* x, const act* dy, float* partials, u32 rows, u32 channels) {
  scale_sums<1>(x, dy, partials, rows, channels);
}
extern "C" __global__ void scale_sums_finish(const float* partials, u32 blocks, u32 segments, u32 channels,
                                             float* dscale, int add) {
  u32 c = blockIdx.x * 32 + threadIdx.x;
  for (u32 segment = 0; segment < segments; segment++) {
    double s, q;
    add_partials(partials + (u64)segment * blocks * 2 * channels, blocks, channels, c, s, q);
    if (threadIdx.y == 0 && c < channels) {
      float* to = dscale + segment * channels + c;
      *to = add ? *to + (float)s : (float)s;
    }
  }
}
