// Batch norm in one launch: rows stay in shared memory between the pass that sums and the pass that writes.
//
// All multiprocessors of an H200 hold 29 MB between them, the activations of WRN-28-10 at batch 128 are 10, 21 and 42 MB:
// most of an activation is read from memory once instead of twice, and what does not fit is read again while the cache
// still has it. Three launches and their gaps become one.
//
// A block is one of `slabs` that share the rows of a slice of `width` channels of one of `sets` of statistics; there are at
// most as many blocks as multiprocessors, and the launch is cooperative, so the blocks of a slice can wait for each other.
// Each then adds the sums of all slabs, in f64 and in the same order. What all sets add to (running statistics, gradients
// of joint parameters) is added by whichever set ends last, again in order. No float atomics: the same bits every time.
//
// A thread has VEC channels and `count` rows, of which it sums the last first. The first `kept` of these stay where they were
// copied to; the others pass through a ring of cells. Then it writes them in the opposite order: what was not kept
// was read last, and the ring still holds the last of it. No thread reads another's cells, so none waits for another.

// Threads of a block at most, copies that a thread has under way, rows of a third tensor that it reads at once: `THREADS`,
// `DEPTH` in norm_once.rs.
#define THREADS 512
#define DEPTH 8
#define OTHERS 4

extern __shared__ uint4 cells[];

// Processors before sm_80 copy at once.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_async(uint4* to, const act* from) {
  u32 address = (u32)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all groups but the last `RECENT` are there.
template <int RECENT> __device__ __forceinline__ void wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(RECENT) : "memory");
}

#else
__device__ __forceinline__ void copy_async(uint4* to, const act* from) { *to = *reinterpret_cast<const uint4*>(from); }
__device__ __forceinline__ void close_group() {}
template <int RECENT> __device__ __forceinline__ void wait_but() {}
#endif

// Waits for the other blocks of the slice. `barrier` is {count, generation}; but for the generation it is left as it was
// found, so launches with other numbers of blocks may use it next.
__device__ void wait_for_slice(u32* barrier, u32 blocks) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    volatile u32* generation = barrier + 1;
    u32 before = *generation;
    __threadfence();
    if (atomicAdd(barrier, 1) == blocks - 1) {
      *barrier = 0;
      __threadfence();
      atomicAdd(barrier + 1, 1);
    } else {
      while (*generation == before) {}
    }
    __threadfence();
  }
  __syncthreads();
}

// Whether this block is the last of `sets` to come here; what the others wrote before can then be read. `ticket` is zero
// again afterwards.
__device__ bool comes_last(u32* ticket, u32 sets) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    last = atomicAdd(ticket, 1) == sets - 1;
    if (last) *ticket = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

// How the blocks of a launch are given rows and channels: `Slices` in norm_once.rs.
struct Division { u32 rows, channels, width, slices, slabs, sets, kept; };

// The rows of a thread, in the order of summing; STREAMS tensors are read of each.
template <int STREAMS> struct Share {
  static constexpr u32 RING = DEPTH / STREAMS;
  u32 rows, channels, width, slabs, kept, slab, slice, set, thread, threads, count, each, group;
  u64 column, start;
  __device__ Share(const Division& d)
      : rows(d.rows), channels(d.channels), width(d.width), slabs(d.slabs), kept(d.kept) {
    group = blockIdx.x / slabs;
    slab = blockIdx.x % slabs;
    slice = group % d.slices;
    set = group / d.slices;
    start = (u64)set * rows * channels;
    threads = blockDim.x * blockDim.y;
    thread = threadIdx.y * blockDim.x + threadIdx.x;
    column = (u64)slice * width + threadIdx.x * VEC;
    each = slabs * blockDim.y;
    count = (rows + each - 1) / each;
  }
  __device__ __forceinline__ u32 row(u32 i) const { return (count - 1 - i) * each + slab * blockDim.y + threadIdx.y; }
  // Only the row summed first may not be there.
  __device__ __forceinline__ bool has(u32 i) const { return i < count && (i > 0 || row(0) < rows); }
  __device__ __forceinline__ u64 at(u32 i) const { return start + (u64)row(i) * channels + column; }
  __device__ __forceinline__ uint4* cell(u32 i) const {
    return cells + (u64)(i < kept ? i : kept + i % RING) * STREAMS * threads + thread;
  }
  __device__ __forceinline__ void copy(u32 i, const act* x, const act* dy) const {
    uint4* to = cell(i);
    copy_async(to, x + at(i));
    if (STREAMS == 2) copy_async(to + threads, dy + at(i));
  }
  __device__ __forceinline__ Raw<VEC> held(u32 i, int stream) const { return Raw<VEC>{cell(i)[stream * threads]}; }
  // Behind all cells.
  __device__ float* space() const {
    return reinterpret_cast<float*>(cells + (u64)(kept + (count > kept ? RING : 0)) * STREAMS * threads);
  }

  __device__ __forceinline__ void begin(const act* x, const act* dy) const {
    for (u32 i = 0; i < RING; i++) {
      if (has(i)) copy(i, x, dy);
      close_group();
    }
  }

  // After `begin`: what else is loaded between the two is under way together with the first rows.
  template <class F> __device__ __forceinline__ void sum(const act* x, const act* dy, F&& take) const {
    for (u32 i = 0; i < count; i++) {
      wait_but<RING - 1>();
      if (has(i)) take(held(i, 0), STREAMS == 2 ? held(i, 1) : Raw<VEC>{});
      if (has(i + RING)) copy(i + RING, x, dy);
      close_group();
    }
  }

  // `other` is a tensor that is read now only, or null.
  template <class F>
  __device__ __forceinline__ void write(const act* x, const act* dy, const act* other, F&& put) const {
    for (i64 next = (i64)count - 1; next >= 0; next -= OTHERS) {
      Raw<VEC> old[OTHERS];
      if (other)
#pragma unroll
        for (int u = 0; u < OTHERS; u++)
          if (next - u >= 0 && has(next - u)) old[u] = fetch<VEC>(other + at(next - u));
#pragma unroll
      for (int u = 0; u < OTHERS; u++) {
        i64 i = next - u;
        if (i < 0) break;
        if (i >= kept) wait_but<RING - 1>();
        if (has(i)) put(at(i), held(i, 0), STREAMS == 2 ? held(i, 1) : Raw<VEC>{}, old[u]);
        if (i >= (i64)kept + RING) copy(i - RING, x, dy);
        if (i >= kept) close_group();
      }
    }
  }

  // Adds two sums per channel over all blocks of the group: those of its channel c are then in the result's [c] and
  // [width + c]. `partials` is [set][slice][slab][2][width].
  __device__ double* total(const float* a, const float* b, float* partials, u32* barriers) const {
    float* space = this->space();
    u32 columns = 2 * width, half = (blockDim.y + 1) / 2;
    float* mine = space + (threadIdx.y % half) * columns + threadIdx.x * VEC;
    if (threadIdx.y >= half)
#pragma unroll
      for (int j = 0; j < VEC; j++) { mine[j] = a[j]; mine[width + j] = b[j]; }
    __syncthreads();
    if (threadIdx.y < half) {
      bool pair = threadIdx.y + half < blockDim.y;
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        mine[j] = pair ? a[j] + mine[j] : a[j];
        mine[width + j] = pair ? b[j] + mine[width + j] : b[j];
      }
    }
    __syncthreads();
    // As many threads per column as there are, then one.
    u32 parts = max(threads / columns, 1u), part = thread / columns;
    if (parts > 1 && part < parts) {
      float sum = 0.f;
      for (u32 t = part; t < half; t += parts) sum += space[t * columns + thread % columns];
      space[part * columns + thread % columns] = sum;  // row `part` is this thread's own
    }
    __syncthreads();
    partials += (u64)group * slabs * columns;
    for (u32 i = thread; i < columns; i += threads) {
      float sum = 0.f;
      for (u32 t = 0; t < (parts > 1 ? min(parts, half) : half); t++) sum += space[t * columns + i];
      __stcg(partials + slab * columns + i, sum);
    }
    wait_for_slice(barriers + 2 * group, slabs);
    double* totals = reinterpret_cast<double*>(space);
    if (part < parts)
      for (u32 i = parts > 1 ? thread % columns : thread; i < columns; i += parts > 1 ? columns : threads) {
        double sum = 0;
#pragma unroll 8
        for (u32 s = parts > 1 ? part : 0; s < slabs; s += parts) sum += __ldcg(partials + s * columns + i);
        totals[(parts > 1 ? part * columns : 0) + i] = sum;
      }
    __syncthreads();
    for (u32 i = thread; i < columns; i += threads)
      for (u32 p = 1; p < parts; p++) totals[i] += totals[p * columns + i];
    __syncthreads();
    return totals;
  }
};

// μ, 1/σ and the running statistics, then y = clamp(γ·(x − μ)/σ + β + residual). x or residual may be y; `rule` as in
// norm.cu. `copy` gets x, where it is not null.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_forward_once(const act* x, const act* residual, act* y, act* copy, const float* gamma, const float* beta, float* mean,
                      float* inverse, float epsilon, int rule, float momentum, const u32* control, float* running_mean,
                      float* running_variance, Division d, u32 parameter_sets, float low, float high, float* partials,
                      u32* barriers, u32* tickets) {
  Share<1> share(d);
  u32 width = d.width, own = parameter_sets == 1 ? 0 : share.set * d.channels;
  share.begin(x, nullptr);
  // Distances from the first row: no precision is lost where the mean is far from zero. Whoever writes that row (x may be
  // y) has waited until all have read it.
  Pack<VEC> k = load<VEC>(x + share.start + share.column);
  float s[VEC], q[VEC], scale[VEC], shift[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    s[j] = q[j] = 0.f;
    scale[j] = gamma[own + share.column + j];
    shift[j] = beta[own + share.column + j];
  }
  share.sum(x, nullptr, [&](const Raw<VEC>& raw, const Raw<VEC>&) {
    Pack<VEC> v = unpack<VEC>(raw);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float d = v.f[j] - k.f[j];
      s[j] += d;
      q[j] = fmaf(d, d, q[j]);
    }
  });
  double* totals = share.total(s, q, partials, barriers);
  float* lines = reinterpret_cast<float*>(totals + 2 * width);
  double per_row = 1.0 / d.rows;
  for (u32 i = share.thread; i < width; i += share.threads) {
    double distance = totals[i] * per_row, m2 = totals[width + i] - totals[i] * distance;
    if (m2 < 0) m2 = 0;
    lines[i] = (float)distance;
    lines[width + i] = (float)(1.0 / sqrt(m2 * per_row + (double)epsilon));
    lines[2 * width + i] = (float)(m2 / (d.rows - 1.0));
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    u32 i = threadIdx.x * VEC + j;
    scale[j] *= lines[width + i];
    shift[j] = fmaf(-(k.f[j] + lines[i]), scale[j], shift[j]);
  }
  share.write(x, nullptr, residual, [&](u64 at, const Raw<VEC>& raw, const Raw<VEC>&, const Raw<VEC>& old) {
    Pack<VEC> p = unpack<VEC>(raw), o;
    if (residual) o = unpack<VEC>(old);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]);
      p.f[j] = clamp(residual ? z + o.f[j] : z, low, high);
    }
    store<VEC>(y + at, p);
    if (copy) *reinterpret_cast<uint4*>(copy + at) = raw.bits;
  });
  if (share.slab != 0) return;
  // As many sets of running statistics as of parameters; the others are the means of their sets' updates.
  u32 sharing = d.sets / parameter_sets, total_columns = d.sets * d.channels;
  float* set_variance = partials + (u64)d.slabs * 2 * total_columns;
  if (threadIdx.y == 0)
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      u32 i = threadIdx.x * VEC + j, c = share.set * d.channels + share.column + j;
      mean[c] = k.f[j] + lines[i];
      inverse[c] = lines[width + i];
      set_variance[c] = lines[2 * width + i];
    }
  if (!rule || (sharing > 1 && !comes_last(tickets + share.slice, d.sets)) || threadIdx.y != 0) return;
  double weight = rule == 1 ? (double)momentum : 1.0 / (control[1] > 0 ? control[1] : 1);
  u32 first = sharing > 1 ? 0 : share.set;
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    double m = 0, v = 0;
    for (u32 set = first; set < first + sharing; set++) {
      m += __ldcg(mean + set * d.channels + share.column + j);
      v += __ldcg(set_variance + set * d.channels + share.column + j);
    }
    u32 c = own + share.column + j;
    running_mean[c] = (float)((1.0 - weight) * running_mean[c] + weight / sharing * m);
    running_variance[c] = (float)((1.0 - weight) * running_variance[c] + weight / sharing * v);
  }
}

// dβ = Σdz, dγ = Σdz·x̂, dx (+)= γ/σ·(dz − Σdz/M − x̂·Σ(dz·x̂)/M). dx may be dy, or null.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_backward_once(const act* x, const act* dy, act* dx, const float* gamma, const float* beta, const float* mean,
                       const float* inverse, float* dscale, float* dshift, int add_parameters, int add, Division d,
                       u32 parameter_sets, float low, float high, float* partials, u32* barriers, u32* tickets) {
  Share<2> share(d);
  u32 width = d.width, own = parameter_sets == 1 ? 0 : share.set * d.channels, mine = share.set * d.channels;
  share.begin(x, dy);
  float mu[VEC], scale[VEC], shift[VEC], s[VEC], q[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    u32 c = share.column + j;
    mu[j] = mean[mine + c];
    scale[j] = gamma[own + c] * inverse[mine + c];
    shift[j] = fmaf(-mu[j], scale[j], beta[own + c]);
    s[j] = q[j] = 0.f;
  }
  share.sum(x, dy, [&](const Raw<VEC>& raw, const Raw<VEC>& gradient) {
    Pack<VEC> p = unpack<VEC>(raw), g = unpack<VEC>(gradient);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]), dz = z > low && z < high ? g.f[j] : 0.f;
      s[j] += dz;
      q[j] = fmaf(dz, p.f[j] - mu[j], q[j]);
    }
  });
  double* totals = share.total(s, q, partials, barriers);
  float slope[VEC], offset[VEC], per_row = 1.f / d.rows;
  float* set_sums = partials + (u64)d.slabs * 2 * d.sets * d.channels;
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    u32 i = threadIdx.x * VEC + j, c = share.column + j;
    float r = inverse[mine + c], ds = (float)totals[i], dq = (float)totals[width + i] * r;
    slope[j] = -scale[j] * r * dq * per_row;
    offset[j] = -scale[j] * ds * per_row - slope[j] * mu[j];
    if (share.slab == 0 && threadIdx.y == 0) {
      set_sums[2 * mine + c] = ds;
      set_sums[2 * mine + d.channels + c] = dq;
    }
  }
  auto put = [&](u64 at, const Raw<VEC>& raw, const Raw<VEC>& gradient, const Raw<VEC>& old) {
    Pack<VEC> p = unpack<VEC>(raw), g = unpack<VEC>(gradient), o;
    if (add) o = unpack<VEC>(old);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]), dz = z > low && z < high ? g.f[j] : 0.f;
      float r = fmaf(scale[j], dz, fmaf(slope[j], p.f[j], offset[j]));
      p.f[j] = add ? o.f[j] + r : r;
    }
    store<VEC>(dx + at, p);
  };
  if (dx) share.write(x, dy, add ? dx : nullptr, put);
  u32 sharing = d.sets / parameter_sets, first = sharing > 1 ? 0 : share.set;
  if (share.slab != 0 || (sharing > 1 && !comes_last(tickets + share.slice, d.sets)) || threadIdx.y != 0) return;
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    u32 c = share.column + j;
    float s = add_parameters ? dshift[own + c] : 0.f, q = add_parameters ? dscale[own + c] : 0.f;
    for (u32 set = first; set < first + sharing; set++) {
      s += __ldcg(set_sums + 2 * set * d.channels + c);
      q += __ldcg(set_sums + (2 * set + 1) * d.channels + c);
    }
    dshift[own + c] = s;
    dscale[own + c] = q;
  }
}
