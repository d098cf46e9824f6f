// Where a step's time goes on the GPU, kernel by kernel as they ran: loaded into any CUDA program by the driver, through CUPTI.
//
//   S=$(python3 -c "import nvidia.cu13 as c; print(c.__path__[0])")   # PyPI: nvidia-cuda-cupti, nvidia-cuda-crt, nvidia-cuda-runtime
//   cc -O2 -shared -fPIC -I$S/include benches/gpu_trace.c -o /tmp/trace.so -L$S/lib -l:libcupti.so.13
//   LD_LIBRARY_PATH=$S/lib TRACE=/tmp/trace.tsv CUDA_INJECTION64_PATH=/tmp/trace.so swn bench step …
//   python3 benches/gpu_trace.py /tmp/trace.tsv
//
// A line is when a kernel began, how long it took, both in nanoseconds, and its name.

#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *records) {
  *size = 8 << 20;
  *buffer = aligned_alloc(8, *size);
  *records = 0;
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  CUpti_Activity *record = NULL;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      CUpti_ActivityKernel9 *k = (CUpti_ActivityKernel9 *)record;
      fprintf(out, "%llu\t%llu\t%s\n", (unsigned long long)k->start, (unsigned long long)(k->end - k->start), k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      CUpti_ActivityMemcpy5 *k = (CUpti_ActivityMemcpy5 *)record;
      fprintf(out, "%llu\t%llu\tmemcpy\n", (unsigned long long)k->start, (unsigned long long)(k->end - k->start));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      CUpti_ActivityMemset4 *k = (CUpti_ActivityMemset4 *)record;
      fprintf(out, "%llu\t%llu\tmemset\n", (unsigned long long)k->start, (unsigned long long)(k->end - k->start));
    }
  }
  free(buffer);
}

static void end(void) {
  cuptiActivityFlushAll(1);
  fclose(out);
}

// The driver calls this when it starts.
int InitializeInjection(void) {
  const char *path = getenv("TRACE");
  out = path ? fopen(path, "w") : NULL;
  if (!out) {
    fprintf(stderr, "gpu_trace: TRACE must name a file that can be written\n");
    return 0;
  }
  cuptiActivityRegisterCallbacks(give, take);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  atexit(end);
  return 1;
}
