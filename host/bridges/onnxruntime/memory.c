/* memory.c - memory of a device that the host cannot address, as ONNX Runtime
 * wants it: addresses that it adds offsets to.
 *
 * A piece of memory is a range of addresses at which nothing lies: to touch
 * them is a fault. What is there are values of Keel, each at the address that
 * it was put to. Values never change, so to write is to put another one, to
 * copy is to put the same one, and a partition that finds the value which
 * another has put uses it as it is, on the device. The memory itself belongs to
 * the values, and is free when these are.
 *
 * Whoever looks for other bytes than those of one value, as a slice, gets them
 * all the same, by way of the host. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bridge.h"

/* Bytes of a value, or some of them. */
typedef struct piece {
  uintptr_t begin;
  uint64_t size;
  keel_tensor *value; /* retained */
  uint64_t offset;    /* of the bytes in it */
  runtime *held;      /* the value's, retained */
} piece;

/* A range that an allocator gave away. */
typedef struct range {
  uintptr_t begin;
  uint64_t size;
  runtime *held; /* the allocator's, retained */
  keel_device *device;
  piece *pieces; /* in the order of their addresses; they do not overlap */
  uint32_t count;
} range;

typedef struct memory {
  ort_allocator base;
  const ort_memory_info *info;
  runtime *held;
  keel_device *device;
} memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range **ranges; /* in the order of their addresses */
static size_t range_count, range_capacity;
static _Atomic(size_t) in_use; /* ranges, for those who do not lock */

/* ---- ranges --------------------------------------------------------------------- */

/* The index of the first range that ends after the address. */
static size_t search(uintptr_t address) {
  size_t low = 0, high = range_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ranges[middle]->begin + ranges[middle]->size <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The range that the address is in, or NULL. */
static range *onnxruntime_memory_find(uintptr_t address) {
  size_t at = search(address);
  return at < range_count && ranges[at]->begin <= address ? ranges[at] : NULL;
}

static bool insert(range *one) {
  if (range_count == range_capacity) {
    size_t capacity = range_capacity * 2 + 64;
    range **larger = realloc(ranges, capacity * sizeof(range *));
    if (!larger) return false;
    ranges = larger;
    range_capacity = capacity;
  }
  size_t at = search(one->begin);
  memmove(&ranges[at + 1], &ranges[at], (range_count - at) * sizeof(range *));
  ranges[at] = one;
  atomic_store(&in_use, ++range_count);
  return true;
}

/* Takes the range that begins there out of the list. */
static range *onnxruntime_memory_take_out(uintptr_t begin) {
  size_t at = search(begin);
  if (at == range_count || ranges[at]->begin != begin) return NULL;
  range *one = ranges[at];
  range_count--;
  memmove(&ranges[at], &ranges[at + 1], (range_count - at) * sizeof(range *));
  atomic_store(&in_use, range_count);
  return one;
}

static void onnxruntime_memory_drop(piece *pieces, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    keel_tensor_release(pieces[i].value);
    runtime_release(pieces[i].held);
  }
  free(pieces);
}

/* ---- the allocator -------------------------------------------------------------- */

static void *reserve(size_t size) {
  void *address = mmap(NULL, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? NULL : address;
}

static void *alloc(ort_allocator *base, size_t size) {
  memory *self = (memory *)base;
  range *one = size ? calloc(1, sizeof *one) : NULL;
  void *address = one ? reserve(size) : NULL;
  if (!address) {
    free(one);
    return NULL;
  }
  *one = (range){.begin = (uintptr_t)address,
                 .size = size,
                 .held = runtime_retain(self->held),
                 .device = self->device};
  pthread_mutex_lock(&lock);
  bool done = insert(one);
  pthread_mutex_unlock(&lock);
  if (done) return address;
  munmap(address, size);
  runtime_release(one->held);
  free(one);
  return NULL;
}

static void free_range(ort_allocator *base, void *address) {
  (void)base;
  if (!address) return;
  pthread_mutex_lock(&lock);
  range *one = onnxruntime_memory_take_out((uintptr_t)address);
  pthread_mutex_unlock(&lock);
  if (!one) return;
  munmap(address, one->size);
  onnxruntime_memory_drop(one->pieces, one->count);
  runtime_release(one->held);
  free(one);
}

static const ort_memory_info *info(const ort_allocator *base) {
  return ((const memory *)base)->info;
}

ort_status *memory_create(runtime *held, keel_device *device,
                          const ort_memory_info *described,
                          ort_allocator **out) {
  memory *self = calloc(1, sizeof *self);
  if (!self) return no_memory();
  self->base = (ort_allocator){.version = ORT_VERSION_USED,
                               .Alloc = alloc,
                               .Free = free_range,
                               .Info = info,
                               .Reserve = alloc};
  self->info = described;
  self->held = runtime_retain(held);
  self->device = device;
  *out = &self->base;
  return NULL;
}

void memory_destroy(ort_allocator *base) {
  memory *self = (memory *)base;
  runtime_release(self->held);
  free(self);
}

bool memory_at(const void *address, memory_place *out) {
  if (!address || !atomic_load(&in_use)) return false;
  pthread_mutex_lock(&lock);
  range *one = onnxruntime_memory_find((uintptr_t)address);
  if (one && out) *out = (memory_place){one->held, one->device};
  pthread_mutex_unlock(&lock);
  return one != NULL;
}

/* ---- values --------------------------------------------------------------------- */

/* What is left of a piece outside of [begin, end): none, one or two parts. */
static uint32_t onnxruntime_memory_cut(const piece *one, uintptr_t begin,
                                       uintptr_t end, piece out[2]) {
  uint32_t count = 0;
  if (one->begin < begin) {
    out[count] = *one;
    if (out[count].begin + out[count].size > begin)
      out[count].size = begin - one->begin;
    count++;
  }
  if (one->begin + one->size > end) {
    uint64_t skip = one->begin < end ? end - one->begin : 0;
    out[count] = *one;
    out[count].begin += skip;
    out[count].offset += skip;
    out[count].size -= skip;
    count++;
  }
  return count;
}

/* Puts a piece among those of a range, in new memory: what it covers goes. The
 * old pieces are the caller's then. */
static bool onnxruntime_memory_replace(range *in, const piece *added,
                                       piece **out_old, uint32_t *out_count) {
  const uintptr_t end = added->begin + added->size;
  uint32_t count = 0;
  piece *pieces = calloc((size_t)in->count * 2 + 1, sizeof *pieces);
  if (!pieces) return false;
  bool placed = false;
  for (uint32_t i = 0; i < in->count; i++) {
    piece parts[2];
    uint32_t left =
        onnxruntime_memory_cut(&in->pieces[i], added->begin, end, parts);
    for (uint32_t j = 0; j < left; j++) {
      if (!placed && parts[j].begin > added->begin) {
        pieces[count++] = *added;
        placed = true;
      }
      pieces[count++] = parts[j];
    }
  }
  if (!placed) pieces[count++] = *added;
  for (uint32_t i = 0; i < count; i++) {
    keel_tensor_retain(pieces[i].value);
    runtime_retain(pieces[i].held);
  }
  *out_old = in->pieces;
  *out_count = in->count;
  in->pieces = pieces;
  in->count = count;
  return true;
}

ort_status *memory_put(const void *address, runtime *held, keel_tensor *value) {
  piece added = {.begin = (uintptr_t)address,
                 .size = keel_tensor_size(value),
                 .value = value,
                 .held = held};
  piece *old = NULL;
  uint32_t count = 0;
  if (!added.size) return NULL;
  pthread_mutex_lock(&lock);
  range *in = onnxruntime_memory_find(added.begin);
  bool fits = in && added.size <= in->begin + in->size - added.begin;
  bool done = fits && onnxruntime_memory_replace(in, &added, &old, &count);
  pthread_mutex_unlock(&lock);
  onnxruntime_memory_drop(old, count);
  if (done) return NULL;
  return fits ? no_memory()
              : failure(ORT_FAIL,
                        "Keel: a value of %llu bytes does not fit into its "
                        "target memory",
                        (unsigned long long)added.size);
}

static bool is(const piece *one, const memory_want *want) {
  if (one->begin != (uintptr_t)want->address || one->offset ||
      one->size != want->size || one->held != want->held ||
      keel_tensor_size(one->value) != one->size ||
      keel_tensor_dtype(one->value) != want->dtype ||
      keel_tensor_rank(one->value) != want->rank)
    return false;
  return !want->rank || !memcmp(keel_tensor_dims(one->value), want->dims,
                                want->rank * sizeof *want->dims);
}

/* Copies a piece's bytes to `target`, which is at `begin`. */
static keel_status read_piece(const piece *one, uintptr_t begin, uint64_t size,
                              uint8_t *target) {
  uintptr_t from = one->begin > begin ? one->begin : begin;
  uintptr_t to = one->begin + one->size, end = begin + size;
  uint64_t whole = keel_tensor_size(one->value);
  if (to > end) to = end;
  if (!one->offset && one->size == whole && from == one->begin &&
      to == one->begin + one->size)
    return keel_tensor_read(one->value, target + (from - begin), whole);
  uint8_t *bytes = malloc(whole);
  if (!bytes) return KD_OUT_OF_MEMORY;
  keel_status status = keel_tensor_read(one->value, bytes, whole);
  if (status == KD_OK)
    memcpy(target + (from - begin), bytes + one->offset + (from - one->begin),
           to - from);
  free(bytes);
  return status;
}

/* The pieces that have bytes in [begin, begin + size), retained; -1: no memory. */
static int64_t onnxruntime_memory_gather(uintptr_t begin, uint64_t size,
                                         piece **out) {
  int64_t count = 0;
  pthread_mutex_lock(&lock);
  const range *in = onnxruntime_memory_find(begin);
  *out = calloc(in ? in->count + 1 : 1, sizeof **out);
  for (uint32_t i = 0; *out && in && i < in->count; i++) {
    const piece *one = &in->pieces[i];
    if (one->begin >= begin + size || one->begin + one->size <= begin) continue;
    keel_tensor_retain(one->value);
    runtime_retain(one->held);
    (*out)[count++] = *one;
  }
  pthread_mutex_unlock(&lock);
  return *out ? count : -1;
}

ort_status *memory_read(const void *address, void *target, uint64_t size) {
  piece *pieces = NULL;
  int64_t count = onnxruntime_memory_gather((uintptr_t)address, size, &pieces);
  if (count < 0) return no_memory();
  keel_status status = KD_OK;
  for (int64_t i = 0; i < count && status == KD_OK; i++)
    status = read_piece(&pieces[i], (uintptr_t)address, size, target);
  ort_status *failed = status == KD_OK ? NULL : keel_failure(status);
  onnxruntime_memory_drop(pieces, (uint32_t)count);
  return failed;
}

/* A value of other bytes than one piece's. */
static ort_status *assemble(const memory_want *want, keel_tensor **out) {
  void *bytes = calloc(1, want->size);
  if (!bytes) return no_memory();
  ort_status *status = memory_read(want->address, bytes, want->size);
  if (!status) {
    keel_status made = keel_tensor_create(want->held->context, want->dtype,
                                          want->rank, want->dims, bytes, out);
    if (made != KD_OK) status = keel_failure(made);
  }
  free(bytes);
  return status;
}

ort_status *memory_get(const memory_want *want, keel_tensor **out) {
  *out = NULL;
  pthread_mutex_lock(&lock);
  const range *in = onnxruntime_memory_find((uintptr_t)want->address);
  for (uint32_t i = 0; in && i < in->count && !*out; i++)
    if (is(&in->pieces[i], want))
      *out = keel_tensor_retain(in->pieces[i].value);
  pthread_mutex_unlock(&lock);
  return *out ? NULL : assemble(want, out);
}
