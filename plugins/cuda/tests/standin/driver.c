/* driver.c - devices, contexts, memory and modules of the stand-in. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin.h"

context standin_contexts[DEVICES] = {{.device = 0}, {.device = 1}};
static _Thread_local context *stack[16];
static _Thread_local int depth;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t launches;

static void put_text(char *out, size_t room, const char *text) {
  snprintf(out, room, "%s", text);
}

/* Bytes of a device. */
static size_t total(void) {
  const char *text = getenv("STANDIN_MEMORY");
  return text ? (size_t)strtoull(text, NULL, 10) : (size_t)3 << 30;
}

/* ---- faults that were asked for ------------------------------------------------------ */

static cu_result asked_fault(const char *call) {
  static _Atomic int calls;
  const char *text = getenv("STANDIN_FAULT");
  size_t size = strlen(call);
  if (!text || strncmp(text, call, size) != 0 || text[size] != ':')
    return CU_OK;
  char *rest = NULL;
  long number = strtol(text + size + 1, &rest, 10);
  if (*rest != ':' || atomic_fetch_add(&calls, 1) + 1 != number) return CU_OK;
  return (cu_result)strtol(rest + 1, NULL, 10);
}

cu_result standin_enter(const char *call, context **out_context) {
  context *now = depth ? stack[depth - 1] : NULL;
  cu_result fault = asked_fault(call);
  if (!now) return CU_NOT_INITIALIZED;
  *out_context = now;
  if (__atomic_load_n(&now->broken, __ATOMIC_ACQUIRE)) return now->broken;
  return fault;
}

void standin_count_launch(context *of) {
  const char *text = getenv("STANDIN_LOSE"), *slow = getenv("STANDIN_SLOW");
  if (slow) usleep(1000 * (useconds_t)strtoul(slow, NULL, 10));
  uint64_t number = atomic_fetch_add(&launches, 1) + 1;
  if (text && strtoull(text, NULL, 10) == number)
    __atomic_store_n(&of->broken, CU_ILLEGAL_ADDRESS, __ATOMIC_RELEASE);
}

void standin_slow_copy(size_t size) {
  const char *slow = size > 65536 ? getenv("STANDIN_SLOW_COPIES") : NULL;
  if (slow) usleep(1000 * (useconds_t)strtoul(slow, NULL, 10));
}

/* ---- the library ------------------------------------------------------------------------ */

API cu_result cuInit(unsigned flags) {
  return flags ? CU_INVALID_VALUE : asked_fault("cuInit");
}

API cu_result cuDriverGetVersion(int *version) {
  *version = 13000;
  return CU_OK;
}

API cu_result cuGetErrorName(cu_result code, const char **name) {
  static const struct {
    cu_result code;
    const char *name;
  } names[] = {{CU_OK, "CUDA_SUCCESS"},
               {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
               {CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
               {CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
               {CU_NOT_READY, "CUDA_ERROR_NOT_READY"},
               {CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
               {CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
               {CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].code == code) {
      *name = names[i].name;
      return CU_OK;
    }
  *name = NULL;
  return CU_INVALID_VALUE;
}

API cu_result cuGetErrorString(cu_result code, const char **text) {
  *text = code == CU_OUT_OF_MEMORY ? "out of memory"
          : code == CU_ILLEGAL_ADDRESS
              ? "an illegal memory access was encountered"
              : "a failure of the stand-in";
  return CU_OK;
}

API cu_result cuDeviceGetCount(int *count) {
  *count = DEVICES;
  return asked_fault("cuDeviceGetCount");
}

API cu_result cuDeviceGet(cu_device *device, int index) {
  *device = index;
  return index < DEVICES ? CU_OK : CU_INVALID_VALUE;
}

API cu_result cuDeviceGetName(char *name, int size, cu_device device) {
  char text[64];
  snprintf(text, sizeof text, "Stand-in for a GPU %c", 'A' + device);
  put_text(name, (size_t)size, text);
  return CU_OK;
}

API cu_result cuDeviceGetUuid(cu_uuid *uuid, cu_device device) {
  memset(uuid->bytes, 0x51, sizeof uuid->bytes);
  uuid->bytes[15] = (unsigned char)device;
  return CU_OK;
}

API cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device) {
  (void)device;
  *bytes = total();
  return CU_OK;
}

API cu_result cuDeviceGetAttribute(int *value, int what, cu_device device) {
  (void)device;
  *value = what == CU_MULTIPROCESSORS ? 2
           : what == CU_COMPUTE_MAJOR ? 9
           : what == CU_CLOCK         ? 1500000
           : what == CU_GROUP_SIZE    ? 1024
           : what == CU_MEMORY_POOLS  ? getenv("STANDIN_NO_POOLS") == NULL
                                      : 0;
  return CU_OK;
}

API cu_result cuDeviceCanAccessPeer(int *can, cu_device from, cu_device to) {
  *can = from != to;
  return CU_OK;
}

API cu_result cuDevicePrimaryCtxRetain(cu_context *out, cu_device device) {
  *out = &standin_contexts[device];
  return asked_fault("cuDevicePrimaryCtxRetain");
}

API cu_result cuDevicePrimaryCtxRelease_v2(cu_device device) {
  __atomic_store_n(&standin_contexts[device].broken, CU_OK, __ATOMIC_RELEASE);
  return CU_OK;
}

API cu_result cuCtxPushCurrent_v2(cu_context of) {
  if (depth == 16) return CU_INVALID_VALUE;
  stack[depth++] = of;
  return CU_OK;
}

API cu_result cuCtxPopCurrent_v2(cu_context *out) {
  if (!depth) return CU_INVALID_VALUE;
  *out = stack[--depth];
  return CU_OK;
}

API cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return CU_OK;
}

/* ---- memory ------------------------------------------------------------------------------ */

#define HEAD 256

/* STANDIN_SKEW: how far all memory lies behind where it should; less than HEAD. */
static size_t skew(void) {
  const char *text = getenv("STANDIN_SKEW");
  return text ? strtoul(text, NULL, 10) % HEAD : 0;
}

/* The size stands before the memory. */
static cu_result take(context *here, size_t size, void **out) {
  size_t room = HEAD + size + skew();
  pthread_mutex_lock(&lock);
  bool fits = size <= total() - here->used;
  if (fits) here->used += size;
  pthread_mutex_unlock(&lock);
  char *memory =
      fits ? aligned_alloc(HEAD, (room + HEAD - 1) / HEAD * HEAD) : NULL;
  if (!memory && fits) {
    pthread_mutex_lock(&lock);
    here->used -= size;
    pthread_mutex_unlock(&lock);
  }
  if (!memory) return CU_OUT_OF_MEMORY;
  memcpy(memory, &size, sizeof size);
  memcpy(memory + sizeof size, &here, sizeof here);
  *out = memory + HEAD + skew();
  return CU_OK;
}

static void give(void *memory) {
  char *head = (char *)memory - (uintptr_t)memory % HEAD - HEAD;
  size_t size = 0;
  context *of = NULL;
  memcpy(&size, head, sizeof size);
  memcpy(&of, head + sizeof size, sizeof of);
  pthread_mutex_lock(&lock);
  of->used -= size;
  pthread_mutex_unlock(&lock);
  free(head);
}

API cu_result cuMemGetInfo_v2(size_t *available, size_t *all) {
  ENTER("cuMemGetInfo");
  pthread_mutex_lock(&lock);
  *available = total() - here->used;
  pthread_mutex_unlock(&lock);
  *all = total();
  return CU_OK;
}

API cu_result cuMemAlloc_v2(cu_pointer *out, size_t size) {
  void *memory = NULL;
  ENTER("cuMemAlloc");
  cu_result code = take(here, size, &memory);
  *out = (cu_pointer)(uintptr_t)memory;
  return code;
}

API cu_result cuMemFree_v2(cu_pointer memory) {
  give((void *)(uintptr_t)memory);
  return CU_OK;
}

/* The driver would make memory a part of the graph, which is not wanted. */
API cu_result cuMemAllocAsync(cu_pointer *out, size_t size, cu_stream stream) {
  void *memory = NULL;
  ENTER("cuMemAllocAsync");
  if (standin_records(stream)) return CU_NOT_SUPPORTED;
  cu_result code = take(here, size, &memory);
  /* what the stream frees before is there for what it asks for behind */
  if (code == CU_OUT_OF_MEMORY && size <= total() &&
      cuStreamSynchronize(stream) == CU_OK)
    code = take(here, size, &memory);
  *out = (cu_pointer)(uintptr_t)memory;
  return code;
}

static void free_job(void *memory) {
  give(memory);
}

API cu_result cuMemFreeAsync(cu_pointer memory, cu_stream stream) {
  ENTER("cuMemFreeAsync");
  job *j = standin_job(JOB_FREE);
  j->call = free_job;
  j->context = (void *)(uintptr_t)memory;
  return standin_push(stream, j);
}

static struct pinned {
  struct pinned *next;
  const char *memory;
  size_t size;
} * all_pinned;

bool standin_pinned(const void *memory) {
  pthread_mutex_lock(&lock);
  const struct pinned *p = all_pinned;
  while (p && ((const char *)memory < p->memory ||
               (const char *)memory >= p->memory + p->size))
    p = p->next;
  pthread_mutex_unlock(&lock);
  return p != NULL;
}

static cu_result pin(void *memory, size_t size) {
  struct pinned *p = malloc(sizeof *p);
  if (!p) return CU_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  *p = (struct pinned){all_pinned, memory, size};
  all_pinned = p;
  pthread_mutex_unlock(&lock);
  return CU_OK;
}

static void unpin(const void *memory) {
  pthread_mutex_lock(&lock);
  struct pinned **at = &all_pinned;
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  struct pinned *gone = *at;
  if (gone) *at = gone->next;
  pthread_mutex_unlock(&lock);
  free(gone);
}

API cu_result cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  (void)flags;
  ENTER("cuMemHostAlloc");
  if (size > total()) return CU_OUT_OF_MEMORY;
  *out = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return *out ? pin(*out, size) : CU_OUT_OF_MEMORY;
}

API cu_result cuMemFreeHost(void *memory) {
  unpin(memory);
  free(memory);
  return CU_OK;
}

API cu_result cuDeviceGetDefaultMemPool(cu_pool *pool, cu_device device) {
  *pool = (cu_pool)(void *)&standin_contexts[device];
  return CU_OK;
}

API cu_result cuMemPoolSetAttribute(cu_pool pool, int what, void *value) {
  (void)pool;
  (void)value;
  return what == CU_POOL_THRESHOLD ? CU_OK : CU_INVALID_VALUE;
}

API cu_result cuMemPoolTrimTo(cu_pool pool, size_t keep) {
  (void)pool;
  (void)keep;
  return CU_OK;
}

/* ---- modules ------------------------------------------------------------------------------ */

/* Around what the dynamic linker does: it has a lock of its own, which ThreadSanitizer does
 * not see. */
static pthread_mutex_t linking = PTHREAD_MUTEX_INITIALIZER;

struct cu_module_of {
  int file; /* open as long as the library is: dlopen knows libraries by their paths */
  void *library;
  function function;
};

/* A "cubin": a size, and a shared library. */
API cu_result cuModuleLoadData(cu_module *out, const void *image) {
  char path[64];
  uint64_t size = 0;
  ENTER("cuModuleLoadData");
  memcpy(&size, image, sizeof size);
  int file = memfd_create("standin", MFD_CLOEXEC);
  struct cu_module_of *module = calloc(1, sizeof *module);
  if (file < 0 || !module ||
      write(file, (const char *)image + 8, (size_t)size) != (ssize_t)size) {
    free(module);
    if (file >= 0) close(file);
    return CU_OUT_OF_MEMORY;
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  module->file = file;
  pthread_mutex_lock(&linking);
  module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  pthread_mutex_unlock(&linking);
  if (!module->library) {
    fprintf(stderr, "stand-in: %s\n", dlerror());
    close(file);
    free(module);
    return CU_NO_BINARY_FOR_GPU;
  }
  *out = module;
  return CU_OK;
}

API cu_result cuModuleUnload(cu_module module) {
  pthread_mutex_lock(&linking);
  dlclose(module->library);
  pthread_mutex_unlock(&linking);
  close(module->file);
  free(module);
  return CU_OK;
}

API cu_result cuModuleGetFunction(cu_function *out, cu_module module,
                                  const char *name) {
  ENTER("cuModuleGetFunction");
  void *run = dlsym(module->library, "standin_run");
  void *sizes = dlsym(module->library, "standin_sizes");
  if (!run || !sizes || strcmp(name, "family") != 0) return CU_INVALID_VALUE;
  memcpy(&module->function.run, &run, sizeof run);
  memcpy(&module->function.sizes, sizes, sizeof module->function.sizes);
  *out = &module->function;
  return CU_OK;
}
