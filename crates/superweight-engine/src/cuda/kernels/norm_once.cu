// Batch norm in one launch: rows stay in shared memory between the pass that sums and the pass that writes.
//
// All multiprocessors of an H200 hold 29 MB between them, the activations of WRN-28-10 at batch 128 are 10, 21 and 42 MB:
// most of an activation is read from memory once instead of twice, and what does not fit is read again while the cache
// still has it. Three launches and their gaps become one.
//
// A block (x, y, z) is one of the slabs that share the rows of slice y, `width` channels, of set z of statistics; there are at
// most as many blocks as multiprocessors, and the launch is cooperative, so the blocks of a slice can wait for each other.
// Each sends its sums to the others in letters, then adds all of them, in f64 and in the same order. What all sets add to
// (running statistics, gradients of joint parameters) is added by whichever set ends last, again in order. No float
// atomics: the same bits every time.
//
// A thread has VEC channels and `count` rows, of which it sums the last first. The first `kept` of these stay where they were
// copied to; the others pass through a ring of cells. Then it writes them in the opposite order: what was not kept
// was read last, and the ring still holds the last of it. No thread reads another's cells, so none waits for another.

// Threads of a block at most, copies that a thread has under way: `THREADS`, `DEPTH` in norm_once.rs. Rows of a third
// tensor that a thread has under way.
#define THREADS 512
#define DEPTH 8
#define AHEAD 4

extern __shared__ uint4 cells[];

// Processors before sm_80 copy at once. With `there` false zeros are copied; the address is good all the same.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_async(uint4* to, const act* from, bool there = true) {
  u32 address = (u32)__cvta_generic_to_shared(to);
  int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all groups but the last `RECENT` are there.
template <int RECENT> __device__ __forceinline__ void wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(RECENT) : "memory");
}
#else
__device__ __forceinline__ void copy_async(uint4* to, const act* from, bool there = true) {
  *to = there ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
}
__device__ __forceinline__ void close_group() {}
template <int RECENT> __device__ __forceinline__ void wait_but() {}
#endif

// A letter is a sum and, in the same 8 bytes, the number of the launch it belongs to: who sees the number has the sum, and
// no fence or barrier is needed.
__device__ __forceinline__ void send(u64* letter, float sum, u32 launch) {
  u64 bits = (u64)launch << 32 | __float_as_uint(sum);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(letter), "l"(bits) : "memory");
}
__device__ __forceinline__ u64 look(const u64* letter) {
  u64 bits;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(letter) : "memory");
  return bits;
}

// Where blocks leave each other something. `turn` is {launches so far, blocks of this one that have all their letters}.
struct Meeting { u64* letters; float* set_sums; u32 *tickets, *turn; };

// Whether this block is the last of `sets` to come here; what the others wrote before can then be read. `ticket` is zero
// again afterwards.
__device__ bool comes_last(u32* ticket, u32 sets) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    last = atomicInc(ticket, sets - 1) == sets - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

// How the blocks of a launch are given rows and channels: `Slices` in norm_once.rs. `each` is how many rows further a
// thread's next one is.
struct Division { u32 rows, channels, width, each, count, kept; };

// The rows of a thread, in the order of summing; STREAMS tensors are read of each. Cells are counted in 16 bytes.
template <int STREAMS> struct Share {
  static constexpr u32 RING = DEPTH / STREAMS;
  u32 width, count, kept, thread, threads, size, ring, launch;
  u64 first, row, step;  // elements: of the set's first row, of the row that is summed last and written first, between rows
  bool whole;            // whether the row summed first is there; all others are
  __device__ Share(const Division& d, const Meeting& meeting) : width(d.width), count(d.count), kept(d.kept) {
    threads = blockDim.x * blockDim.y;
    thread = threadIdx.y * blockDim.x + threadIdx.x;
    size = STREAMS * threads;
    ring = thread + kept * size;
    u32 top = blockIdx.x * blockDim.y + threadIdx.y;
    first = (u64)blockIdx.z * d.rows * d.channels + column();
    row = first + (u64)top * d.channels;
    step = (u64)d.each * d.channels;
    whole = top + (count - 1) * d.each < d.rows;
    launch = __ldcg(meeting.turn) + 1;
  }
  __device__ __forceinline__ u32 column() const { return blockIdx.y * width + threadIdx.x * VEC; }
  __device__ __forceinline__ u32 cell(u32 i) const {
    return i < kept ? thread + i * size : ring + (i - kept) % RING * size;
  }
  __device__ __forceinline__ void copy(u32 cell, const act* x, const act* dy, u64 at, bool there = true) const {
    copy_async(cells + cell, x + (there ? at : first));
    if (STREAMS == 2) copy_async(cells + cell + threads, dy + (there ? at : first), there);
    // A row that is not there is the first one instead, or has no gradient: it adds nothing to sums.
  }
  __device__ __forceinline__ Raw<VEC> held(u32 cell, int stream) const { return Raw<VEC>{cells[cell + stream * threads]}; }
  // Behind all cells.
  __device__ float* space() const {
    return reinterpret_cast<float*>(cells + (u64)(kept + (count > kept ? RING : 0)) * size);
  }

  __device__ __forceinline__ void begin(const act* x, const act* dy) const {
#pragma unroll
    for (u32 i = 0; i < RING; i++) {
      if (i < count) copy(cell(i), x, dy, row + (count - 1 - i) * step, i > 0 || whole);
      close_group();
    }
  }

  // After `begin`: what else is loaded between the two is under way together with the first rows.
  template <class F> __device__ __forceinline__ void sum(const act* x, const act* dy, F&& take) const {
    u32 from = thread, to = cell(RING), end = ring + RING * size;
    u64 at = row + ((i64)count - 1 - RING) * (i64)step;
    for (u32 i = 0; i < count; i++) {
      wait_but<RING - 1>();
      take(held(from, 0), STREAMS == 2 ? held(from, 1) : Raw<VEC>{});
      if (i + RING < count) copy(to, x, dy, at);
      close_group();
      from += size;
      to += size;
      if (from == end) from = ring;
      if (to == end) to = ring;
      at -= step;
    }
  }

  // `other` is a tensor that is read now only.
  template <bool OTHER, class F>
  __device__ __forceinline__ void write(const act* x, const act* dy, const act* other, F&& put) const {
    u32 from = cell(count - 1), passing = count > kept ? count - kept : 0;
    u64 at = row;
    Raw<VEC> old[AHEAD];
    if (OTHER)
#pragma unroll
      for (u32 u = 0; u < AHEAD; u++)
        if (u + !whole < count) old[u] = fetch<VEC>(other + at + u * step);
    for (u32 n = 0; n < count; n += AHEAD) {
#pragma unroll
      for (u32 u = 0; u < AHEAD; u++) {
        u32 m = n + u;
        if (m >= count) break;
        if (m < passing) wait_but<RING - 1>();
        if (m + !whole < count) put(at, held(from, 0), STREAMS == 2 ? held(from, 1) : Raw<VEC>{}, old[u]);
        if (OTHER && m + AHEAD + !whole < count) old[u] = fetch<VEC>(other + at + AHEAD * step);
        if (m < passing) {
          if (m + RING < passing) copy(from, x, dy, at + RING * step);
          close_group();
        }
        from = from == ring && m + 1 < passing ? ring + (RING - 1) * size : from - size;
        at += step;
      }
    }
  }

  // Adds two sums per channel over all blocks of the slice: those of its channel c are then the sums over `parts` of the
  // result's [part][c] and [part][width + c]. Letters are [set][slice][slab][2][width].
  __device__ double* total(float* a, float* b, const Meeting& meeting, u32& parts) const {
    float* space = this->space();
    u32 columns = 2 * width, across = blockDim.x, slabs = gridDim.x;
    // Rows of a warp first, where they are whole.
    bool whole_rows = across <= 32 && (across & (across - 1)) == 0;
    if (whole_rows)
      for (u32 offset = across; offset < 32; offset *= 2)
#pragma unroll
        for (int j = 0; j < VEC; j++) {
          a[j] += __shfl_xor_sync(0xffffffffu, a[j], offset);
          b[j] += __shfl_xor_sync(0xffffffffu, b[j], offset);
        }
    u32 lines = whole_rows ? threads / 32 : blockDim.y, line = whole_rows ? thread / 32 : threadIdx.y;
    if (!whole_rows || thread % 32 < across) {
      float* mine = space + line * columns + threadIdx.x * VEC;
#pragma unroll
      for (int j = 0; j < VEC; j += 4) {
        *reinterpret_cast<float4*>(mine + j) = make_float4(a[j], a[j + 1], a[j + 2], a[j + 3]);
        *reinterpret_cast<float4*>(mine + width + j) = make_float4(b[j], b[j + 1], b[j + 2], b[j + 3]);
      }
    }
    __syncthreads();
    u64* letters = meeting.letters + (u64)(blockIdx.z * gridDim.y + blockIdx.y) * slabs * columns;
    for (u32 i = thread; i < columns; i += threads) {
      float sum = 0.f;
#pragma unroll 8
      for (u32 t = 0; t < lines; t++) sum += space[t * columns + i];
      send(letters + blockIdx.x * columns + i, sum, launch);
    }
    // As many threads per column as there are.
    double* totals = reinterpret_cast<double*>(space + lines * columns);
    parts = max(threads / columns, 1u);
    u32 part = parts > 1 ? thread / columns : 0;
    if (part < parts)
      for (u32 i = thread - part * columns; i < columns; i += threads) {
        double sum = 0;
        for (u32 slab = part; slab < slabs; slab += AHEAD * parts) {
          u64 got[AHEAD];
          bool here;
          do {
            here = true;
#pragma unroll
            for (u32 u = 0; u < AHEAD; u++)
              if (slab + u * parts < slabs) got[u] = look(letters + (slab + u * parts) * columns + i);
#pragma unroll
            for (u32 u = 0; u < AHEAD; u++)
              if (slab + u * parts < slabs) here &= (u32)(got[u] >> 32) == launch;
          } while (!here);
#pragma unroll
          for (u32 u = 0; u < AHEAD; u++)
            if (slab + u * parts < slabs) sum += __uint_as_float((u32)got[u]);
        }
        totals[part * columns + i] = sum;
      }
    __syncthreads();
    // All blocks know the number of this launch once all have come here.
    u32 blocks = gridDim.x * gridDim.y * gridDim.z;
    if (thread == 0 && atomicInc(meeting.turn + 1, blocks - 1) == blocks - 1) meeting.turn[0] = launch;
    return totals;
  }
  __device__ float* behind(double* totals, u32 parts) const { return reinterpret_cast<float*>(totals + parts * 2 * width); }
};

// μ, 1/σ and the running statistics, then y = clamp(γ·(x − μ)/σ + β + residual). x or residual may be y; `rule` as in
// norm.cu. `copy` gets x, where it is not null.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_forward_once(const act* x, const act* residual, act* y, act* copy, const float* gamma, const float* beta, float* mean,
                      float* inverse, float epsilon, int rule, float momentum, const u32* control, float* running_mean,
                      float* running_variance, Division d, u32 parameter_sets, float low, float high, Meeting meeting) {
  Share<1> share(d, meeting);
  u32 width = d.width, sets = gridDim.z, c = share.column(), start = blockIdx.y * width;
  u32 own = parameter_sets == 1 ? 0 : blockIdx.z * d.channels, mine = blockIdx.z * d.channels;
  share.begin(x, nullptr);
  // Distances from the first row: no precision is lost where the mean is far from zero. Whoever writes that row (x may be
  // y) has letters from all who read it.
  Pack<VEC> k = load<VEC>(x + share.first);
  float s[VEC], q[VEC], scale[VEC], shift[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    s[j] = q[j] = 0.f;
    scale[j] = gamma[own + c + j];
    shift[j] = beta[own + c + j];
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
  u32 parts;
  double* totals = share.total(s, q, meeting, parts);
  float* lines = share.behind(totals, parts);
  double per_row = 1.0 / d.rows;
  for (u32 i = share.thread; i < width; i += share.threads) {
    double sum = 0, squares = 0;
    for (u32 part = 0; part < parts; part++) {
      sum += totals[part * 2 * width + i];
      squares += totals[part * 2 * width + width + i];
    }
    double distance = sum * per_row, m2 = squares - sum * distance;
    if (m2 < 0) m2 = 0;
    lines[i] = (float)distance;
    lines[width + i] = 1.f / sqrtf((float)(m2 * per_row + (double)epsilon));
    lines[2 * width + i] = (float)(m2 / (d.rows - 1.0));
  }
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.y == 0)
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      u32 i = threadIdx.x * VEC + j;
      mean[mine + c + j] = k.f[j] + lines[i];
      inverse[mine + c + j] = lines[width + i];
      meeting.set_sums[mine + c + j] = lines[2 * width + i];
    }
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    u32 i = threadIdx.x * VEC + j;
    scale[j] *= lines[width + i];
    shift[j] = fmaf(-(k.f[j] + lines[i]), scale[j], shift[j]);
  }
  auto put = [&](u64 at, const Raw<VEC>& raw, const Raw<VEC>&, const Raw<VEC>& old) {
    Pack<VEC> p = unpack<VEC>(raw), o;
    if (residual) o = unpack<VEC>(old);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float z = fmaf(p.f[j], scale[j], shift[j]);
      p.f[j] = clamp(residual ? z + o.f[j] : z, low, high);
    }
    store<VEC>(y + at, p);
    if (copy) *reinterpret_cast<uint4*>(copy + at) = raw.bits;
  };
  if (residual) share.write<true>(x, nullptr, residual, put);
  else share.write<false>(x, nullptr, nullptr, put);
  if (blockIdx.x != 0 || !rule) return;
  // As many sets of running statistics as of parameters; the others are the means of their sets' updates.
  u32 sharing = sets / parameter_sets, begin = sharing > 1 ? 0 : blockIdx.z;
  if (sharing > 1 && !comes_last(meeting.tickets + blockIdx.y, sets)) return;
  __syncthreads();
  double weight = rule == 1 ? (double)momentum : 1.0 / (control[1] > 0 ? control[1] : 1);
  for (u32 i = start + share.thread; i < start + width; i += share.threads) {
    double m = 0, v = 0;
    for (u32 set = begin; set < begin + sharing; set++) {
      m += __ldcg(mean + set * d.channels + i);
      v += __ldcg(meeting.set_sums + set * d.channels + i);
    }
    running_mean[own + i] = (float)((1.0 - weight) * running_mean[own + i] + weight / sharing * m);
    running_variance[own + i] = (float)((1.0 - weight) * running_variance[own + i] + weight / sharing * v);
  }
}

// dβ = Σdz, dγ = Σdz·x̂, dx (+)= γ/σ·(dz − Σdz/M − x̂·Σ(dz·x̂)/M). dx may be dy, or null.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_backward_once(const act* x, const act* dy, act* dx, const float* gamma, const float* beta, const float* mean,
                       const float* inverse, float* dscale, float* dshift, int add_parameters, int add, Division d,
                       u32 parameter_sets, float low, float high, Meeting meeting) {
  Share<2> share(d, meeting);
  u32 width = d.width, sets = gridDim.z, c = share.column(), start = blockIdx.y * width;
  u32 own = parameter_sets == 1 ? 0 : blockIdx.z * d.channels, mine = blockIdx.z * d.channels;
  share.begin(x, dy);
  float mu[VEC], scale[VEC], shift[VEC], s[VEC], q[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    mu[j] = mean[mine + c + j];
    scale[j] = gamma[own + c + j] * inverse[mine + c + j];
    shift[j] = fmaf(-mu[j], scale[j], beta[own + c + j]);
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
  u32 parts;
  double* totals = share.total(s, q, meeting, parts);
  // What dx has of a row's x, and of nothing.
  float *lines = share.behind(totals, parts), per_row = 1.f / d.rows;
  float* sums = meeting.set_sums + 2 * mine + start;
  for (u32 i = share.thread; i < width; i += share.threads) {
    double sum = 0, products = 0;
    for (u32 part = 0; part < parts; part++) {
      sum += totals[part * 2 * width + i];
      products += totals[part * 2 * width + width + i];
    }
    float r = inverse[mine + start + i], ds = (float)sum, dq = (float)products * r;
    lines[i] = ds;
    lines[width + i] = dq * r;
    if (blockIdx.x == 0) {
      sums[i] = ds;
      sums[d.channels + i] = dq;
    }
  }
  __syncthreads();
  if (dx) {
    float slope[VEC], offset[VEC];
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      u32 i = threadIdx.x * VEC + j;
      slope[j] = -scale[j] * lines[width + i] * per_row;
      offset[j] = -scale[j] * lines[i] * per_row - slope[j] * mu[j];
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
    if (add) share.write<true>(x, dy, dx, put);
    else share.write<false>(x, dy, nullptr, put);
  }
  u32 sharing = sets / parameter_sets, begin = sharing > 1 ? 0 : blockIdx.z;
  if (blockIdx.x != 0 || (sharing > 1 && !comes_last(meeting.tickets + blockIdx.y, sets))) return;
  __syncthreads();
  for (u32 i = start + share.thread; i < start + width; i += share.threads) {
    float s = add_parameters ? dshift[own + i] : 0.f, q = add_parameters ? dscale[own + i] : 0.f;
    for (u32 set = begin; set < begin + sharing; set++) {
      s += __ldcg(meeting.set_sums + 2 * set * d.channels + i);
      q += __ldcg(meeting.set_sums + (2 * set + 1) * d.channels + i);
    }
    dshift[own + i] = s;
    dscale[own + i] = q;
  }
}
