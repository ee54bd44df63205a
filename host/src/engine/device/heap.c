/* heap.c - size classes, the threads' lists, and the way to the device. */
#include "device/heap.h"

#include <sched.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/refs.h"
#include "device/context.h"
#include "device/failures.h"
#include "device/lost.h"
#include "device/stream.h"

#define SMALL_KEPT  16 /* buffers of one class that a thread keeps */
#define SHRINK_FROM (UINT64_C(1) << 20) /* bytes */
#define TRIM_FROM   (UINT64_C(64) << 20)
#define LARGER      3 /* classes: a buffer of at most twice the size serves, too */

_Thread_local keel_thread_lists keel_lists;

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static keel_thread_lists *all_lists;
static keel_heap *slots[KEEL_HEAP_SLOTS];
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

/* Four size classes per power of two, from 64 bytes: 64 80 96 112 128 160 ... */
static uint32_t class_of(uint64_t size, uint64_t *out_rounded) {
  if (size <= 64) {
    *out_rounded = 64;
    return 0;
  }
  uint32_t top = 63 - (uint32_t)__builtin_clzll(size - 1);
  uint32_t shift = top - 2;
  uint64_t steps = ((size - 1) >> shift) + 1; /* 5 to 8 quarters */
  *out_rounded = steps << shift;
  assert(steps > 4 && steps <= 8 && *out_rounded >= size);
  return (top - 6) * 4 + (uint32_t)(steps - 4);
}

/* ---- from and to the device ---------------------------------------------- */

static void give_back(keel_buffer *buffer) {
  keel_heap *heap = buffer->heap;
  assert(buffer->class < KEEL_HEAP_CLASSES && !buffer->maps);
  assert(!heap->device || atomic_load(&heap->pieces));
  assert(atomic_load(&heap->context->allocated) >= buffer->size);
  atomic_fetch_sub_explicit(&heap->alive[buffer->class], 1,
                            memory_order_relaxed);
  if (heap->device) {
    keel_device_drain_quietly(heap->device);
    heap->device->plugin->memory.release(heap->device->handle, buffer->handle);
    atomic_fetch_sub_explicit(&heap->bytes, buffer->size, memory_order_relaxed);
    /* release: pairs with the acquire before the device is closed */
    atomic_fetch_sub_explicit(&heap->pieces, 1, memory_order_release);
  } else {
    free(buffer->address);
  }
  atomic_fetch_sub_explicit(&heap->context->allocated, buffer->size,
                            memory_order_relaxed);
  free(buffer);
}

/* Returns the bytes. */
static uint64_t give_back_all(keel_buffer *buffer) {
  uint64_t bytes = 0;
  for (keel_buffer *next; buffer; buffer = next) {
    next = buffer->next;
    bytes += buffer->size;
    atomic_fetch_sub_explicit(&buffer->heap->context->pooled, buffer->size,
                              memory_order_relaxed);
    give_back(buffer);
  }
  return bytes;
}

/* ---- the heap's own lists ------------------------------------------------------
 *
 * A thread takes a whole list, keeps its first buffer and puts the rest back: so no list changes
 * while another thread reads it (no ABA). A thread that finds the list empty in between asks the
 * device for more. */

static void put_list(keel_heap *heap, uint32_t class, keel_buffer *first) {
  keel_buffer *last = first;
  while (last->next)
    last = last->next;
  keel_buffer *head =
      atomic_load_explicit(&heap->lists[class], memory_order_relaxed);
  do {
    last->next = head;
    /* release: publishes the links and the memory's contents */
  } while (!atomic_compare_exchange_weak_explicit(&heap->lists[class], &head,
                                                  first, memory_order_release,
                                                  memory_order_relaxed));
}

static keel_buffer *take_list(keel_heap *heap, uint32_t class) {
  /* acquire: pairs with the release above */
  return atomic_exchange_explicit(&heap->lists[class], NULL,
                                  memory_order_acquire);
}

void keel_heap_trim(keel_heap *heap) {
  keel_lost_enter(heap->device);
  for (uint32_t i = 0; i < KEEL_HEAP_CLASSES; i++)
    give_back_all(take_list(heap, i));
  keel_lost_leave(heap->device);
}

/* The limit covers all devices. */
void keel_heap_trim_all(keel_context *context) {
  keel_heap_trim(&context->host);
  for (uint32_t i = 0; i < context->device_count; i++)
    keel_heap_trim(&keel_devices(context)[i]->heap);
}

/* free() keeps memory that lies between blocks in use. */
static void return_to_system(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void keel_heap_shrink(keel_context *context, keel_device *device) {
  if (atomic_load_explicit(&context->pooled, memory_order_relaxed) <
      SHRINK_FROM)
    return;
  keel_heap_trim(&context->host);
  if (device && keel_device_addressable(device) && !device->stream)
    keel_heap_trim(&device->heap);
  return_to_system();
}

/* Whether one buffer more of a class would be more than there have been. Only a hint: relaxed. */
static bool is_most(const keel_heap *heap, uint32_t class) {
  return atomic_load_explicit(&heap->alive[class], memory_order_relaxed) >=
         atomic_load_explicit(&heap->most[class], memory_order_relaxed);
}

/* Makes room for the first allocation of a class beyond its earlier number: frees as much of pooled
 * buffers of smaller classes, the largest first. Tensors that grow would leave two buffers of each
 * class behind. Where sizes come again, this ends, also with several runs at once: the largest class
 * reaches what is needed of it, then the next does. */
static void replace_smaller(keel_heap *heap, uint32_t class, uint64_t size) {
  uint64_t given = 0;
  if (size < SHRINK_FROM || !is_most(heap, class)) return;
  for (uint32_t i = class; i-- > KEEL_SMALL_CLASSES && given < size;) {
    if (!atomic_load_explicit(&heap->lists[i], memory_order_relaxed)) continue;
    given += give_back_all(take_list(heap, i));
    atomic_store_explicit(&heap->most[i], atomic_load(&heap->alive[i]),
                          memory_order_relaxed);
  }
  /* what is allocated next lies there, unless it is much */
  if (given >= TRIM_FROM && keel_device_addressable(heap->device))
    return_to_system();
}

/* Counts one that has been allocated. */
static void count_alive(keel_heap *heap, uint32_t class) {
  uint32_t now =
      atomic_fetch_add_explicit(&heap->alive[class], 1, memory_order_relaxed) +
      1;
  if (now > atomic_load_explicit(&heap->most[class], memory_order_relaxed))
    atomic_store_explicit(&heap->most[class], now, memory_order_relaxed);
}

static uint32_t heap_kind_of(const keel_heap *heap) {
  return atomic_load_explicit(&heap->export_kind, memory_order_relaxed);
}

static keel_status heap_allocate(keel_heap *heap, keel_buffer *buffer) {
  keel_device *device = heap->device;
  if (!device) {
    /* C11 requires a size that is a multiple of the alignment */
    buffer->address = aligned_alloc(64, (buffer->size + 63) & ~UINT64_C(63));
    return buffer->address ? KD_OK : keel_no_memory(buffer->size);
  }
  keel_clear_error();
  const kd_allocation wanted = {.struct_size = sizeof wanted,
                                .size = buffer->size,
                                .export_kind = buffer->export_kind};
  kd_status status = device->plugin->memory.allocate(
      device->handle, &wanted, &buffer->handle, &buffer->address);
  if (status == KD_OK) {
    atomic_fetch_add_explicit(&heap->pieces, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&heap->bytes, buffer->size, memory_order_relaxed);
  }
  status = keel_device_check(device, status);
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "%s can't allocate %llu bytes", device->name,
              (unsigned long long)buffer->size);
  return status;
}

/* Counts `size` bytes; false if that exceeds the limit. */
static bool reserve(keel_context *context, uint64_t size) {
  uint64_t now = atomic_fetch_add_explicit(&context->allocated, size,
                                           memory_order_relaxed) +
                 size;
  if (now > context->memory_limit || now < size) {
    atomic_fetch_sub_explicit(&context->allocated, size, memory_order_relaxed);
    return false;
  }
  uint64_t peak = atomic_load_explicit(&context->peak, memory_order_relaxed);
  while (now > peak && !atomic_compare_exchange_weak_explicit(
                           &context->peak, &peak, now, memory_order_relaxed,
                           memory_order_relaxed)) {
  }
  return true;
}

/* Adds a full device's memory usage to the message. */
static keel_status say_what_is_left(keel_device *device) {
  kd_memory_stats stats = {.struct_size = sizeof stats};
  if (device && device->plugin->memory.stats &&
      device->plugin->memory.stats(device->handle, 0, &stats) == KD_OK &&
      stats.total)
    keel_while(KD_OUT_OF_MEMORY,
               "%s has %llu of %llu bytes free, and this process holds %llu in"
               " %llu buffers",
               device->name, (unsigned long long)stats.available,
               (unsigned long long)stats.total, (unsigned long long)stats.used,
               (unsigned long long)stats.buffers);
  return KD_OUT_OF_MEMORY;
}

/* If exportable memory has run out and need not be exportable, allocates ordinary
 * memory. */
static keel_status allocate_any(keel_heap *heap, keel_buffer *buffer,
                                bool must) {
  keel_status status = heap_allocate(heap, buffer);
  if (status != KD_UNIMPLEMENTED || must || !buffer->export_kind) return status;
  buffer->export_kind = 0;
  return heap_allocate(heap, buffer);
}

/* On a device, NULL: on the host; waits: pools may be trimmed to make room. */
static keel_status reserve_or_say(keel_context *context, uint64_t size,
                                  const keel_device *device, bool waits) {
  if (reserve(context, size)) return KD_OK;
  if (waits) keel_heap_trim_all(context);
  if (waits && reserve(context, size)) return KD_OK;
  return keel_fail(
      KD_OUT_OF_MEMORY,
      "%llu bytes on %s exceed the limit of %llu bytes (%llu are taken)",
      (unsigned long long)size, device ? device->name : "host",
      (unsigned long long)context->memory_limit,
      (unsigned long long)atomic_load(&context->allocated));
}

keel_status keel_heap_reserve(keel_context *context, uint64_t size) {
  return reserve_or_say(context, size, NULL, true);
}

void keel_heap_give_back(keel_context *context, uint64_t size) {
  atomic_fetch_sub_explicit(&context->allocated, size, memory_order_relaxed);
}

/* kind: the kind of export that it must allow (not pooled); 0: the heap's setting. waits: pools may
 * be trimmed to make room. */
static keel_status heap_grow(keel_heap *heap, uint64_t size, uint32_t class,
                             uint32_t kind, bool waits,
                             keel_buffer **out_buffer) {
  keel_context *context = heap->context;
  if (waits && !kind) replace_smaller(heap, class, size);
  KEEL_TRY(reserve_or_say(context, size, heap->device, waits));
  keel_buffer *buffer = calloc(1, sizeof *buffer);
  keel_status status = buffer ? KD_OK : keel_no_memory(sizeof *buffer);
  if (buffer) {
    buffer->heap = heap;
    buffer->class = class;
    buffer->size = size;
    buffer->export_kind = kind                         ? kind
                          : class < KEEL_SMALL_CLASSES ? 0
                                                       : heap_kind_of(heap);
    status = allocate_any(heap, buffer, kind != 0);
    if (status == KD_OUT_OF_MEMORY && waits) {
      /* copies that have ended let go of their memory */
      if (heap->device) keel_device_drain_quietly(heap->device);
      /* frees pooled memory: this host's, then the plugin's */
      keel_heap_trim(heap);
      if (heap->device && heap->device->plugin->memory.trim)
        heap->device->plugin->memory.trim(heap->device->handle);
      status = allocate_any(heap, buffer, kind != 0);
    }
  }
  if (status != KD_OK) {
    keel_heap_give_back(context, size);
    free(buffer);
    return status == KD_OUT_OF_MEMORY ? say_what_is_left(heap->device) : status;
  }
  count_alive(heap, class);
  *out_buffer = buffer;
  return KD_OK;
}

/* ---- taking and freeing --------------------------------------------------- */

static bool has_own_lists(const keel_heap *heap, uint32_t class) {
  return class < KEEL_SMALL_CLASSES && heap->slot < KEEL_HEAP_SLOTS;
}

static keel_buffer *take_pooled(keel_heap *heap, uint32_t class) {
  keel_buffer **own = has_own_lists(heap, class)
                          ? &keel_lists.buffers[heap->slot][class]
                          : NULL;
  if (own && *own) {
    keel_buffer *buffer = *own;
    assert(keel_lists.counts[heap->slot][class]);
    *own = buffer->next;
    keel_lists.counts[heap->slot][class]--;
    return buffer;
  }
  /* check first, so that an empty list costs no write */
  if (!atomic_load_explicit(&heap->lists[class], memory_order_relaxed))
    return NULL;
  keel_buffer *buffer = take_list(heap, class);
  if (buffer && buffer->next) put_list(heap, class, buffer->next);
  if (buffer)
    atomic_fetch_sub_explicit(&heap->context->pooled, buffer->size,
                              memory_order_relaxed);
  return buffer;
}

/* One of a class that is not much larger. */
static keel_buffer *take_larger(keel_heap *heap, uint32_t class) {
  keel_buffer *buffer = NULL;
  for (uint32_t i = 1; i <= LARGER && !buffer && class + i < KEEL_HEAP_CLASSES;
       i++)
    buffer = take_pooled(heap, class + i);
  return buffer;
}

static keel_status heap_take(keel_heap *heap, uint64_t size, bool waits,
                             keel_buffer **out_buffer) {
  uint64_t rounded = 0;
  if (size > (UINT64_C(1) << 45))
    return keel_fail(KD_OUT_OF_MEMORY, "no machine has %llu bytes of memory",
                     (unsigned long long)size);
  uint32_t class = class_of(size, &rounded);
  KEEL_TRY(keel_device_enter(heap->device));
  keel_buffer *buffer = take_pooled(heap, class);
  if (!buffer &&
      rounded >= SHRINK_FROM) { /* another thread may hold the list */
    sched_yield();
    buffer = take_pooled(heap, class);
    if (!buffer) buffer = take_larger(heap, class);
  }
  keel_status status =
      buffer ? KD_OK : heap_grow(heap, rounded, class, 0, waits, &buffer);
  keel_lost_leave(heap->device);
  if (status != KD_OK) return status;
  assert(buffer->heap == heap && buffer->size >= size);
  keel_refs_init(&buffer->refs);
  keel_failures_writes(buffer, 0);
  *out_buffer = buffer;
  return KD_OK;
}

keel_status keel_heap_take(keel_heap *heap, uint64_t size,
                           keel_buffer **out_buffer) {
  return heap_take(heap, size, true, out_buffer);
}

keel_status keel_heap_take_now(keel_heap *heap, uint64_t size,
                               keel_buffer **out_buffer) {
  return heap_take(heap, size, false, out_buffer);
}

keel_status keel_heap_take_exported(keel_heap *heap, uint64_t size,
                                    uint32_t kind, keel_buffer **out_buffer) {
  uint64_t rounded = 0;
  uint32_t class = class_of(size, &rounded);
  KEEL_TRY(keel_device_enter(heap->device));
  keel_status status = heap_grow(heap, size, class, kind, true, out_buffer);
  keel_lost_leave(heap->device);
  if (status != KD_OK) return status;
  keel_refs_init(&(*out_buffer)->refs);
  atomic_init(&(*out_buffer)->exported, true);
  return KD_OK;
}

keel_status keel_heap_wrap(keel_heap *heap, const void *data, uint64_t size,
                           void (*done)(void *), void *done_context,
                           keel_buffer **out_buffer) {
  keel_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return keel_no_memory(sizeof *buffer);
  keel_refs_init(&buffer->refs);
  buffer->class = KEEL_UNPOOLED;
  buffer->heap = heap;
  buffer->address = (void *)(uintptr_t)data;
  buffer->size = size;
  buffer->done = done;
  buffer->done_context = done_context;
  *out_buffer = buffer;
  return KD_OK;
}

/* Devices that work on host addresses read such memory in place, until their streams have
 * completed. */
static void await_readers(const keel_context *context) {
  for (uint32_t i = 0; i < context->device_count; i++) {
    keel_device *device = keel_devices(context)[i];
    /* acquire: its stream */
    if (keel_device_addressable(device) &&
        atomic_load_explicit(&device->ready, memory_order_acquire))
      keel_device_drain(device);
  }
}

/* Waits for the stream first: the device may still read it. */
static void end_import(keel_buffer *buffer) {
  keel_heap *heap = buffer->heap;
  keel_device *device = heap->device;
  keel_lost_enter(device);
  keel_device_drain_quietly(device);
  device->plugin->memory.release(device->handle, buffer->handle);
  /* release: pairs with the acquire before the device is closed */
  atomic_fetch_sub_explicit(&heap->pieces, 1, memory_order_release);
  keel_lost_leave(device);
  if (buffer->owner) keel_buffer_release(buffer->owner);
  free(buffer);
}

keel_status keel_heap_import(keel_heap *heap, keel_buffer *owner,
                             const void *data, uint64_t size,
                             keel_buffer **out_buffer) {
  keel_device *device = heap->device;
  const kd_external_table *external = &device->plugin->external;
  uint32_t alignment = device->space.alignment ? device->space.alignment : 64;
  if (!external->import_memory || !size ||
      !(device->info.flags & KD_DEVICE_INTEGRATED) ||
      !keel_aligned_to(data, alignment))
    return KD_UNIMPLEMENTED;
  keel_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return KD_UNIMPLEMENTED;
  const kd_external memory = {.struct_size = sizeof memory,
                              .kind = KD_EXTERNAL_HOST_POINTER,
                              .handle = (uint64_t)(uintptr_t)data,
                              .size = size,
                              .access = KD_READ};
  keel_status status = keel_device_enter(device);
  if (status == KD_OK) {
    keel_clear_error();
    status = external->import_memory(device->handle, &memory, &buffer->handle,
                                     &buffer->address);
    if (status == KD_OK)
      atomic_fetch_add_explicit(&heap->pieces, 1, memory_order_relaxed);
    keel_lost_leave(device);
  }
  if (status != KD_OK) {
    free(buffer);
    return status == KD_DEVICE_LOST ? status : KD_UNIMPLEMENTED;
  }
  keel_refs_init(&buffer->refs);
  buffer->class = KEEL_IMPORTED;
  buffer->heap = heap;
  buffer->size = size;
  buffer->owner = keel_buffer_retain(owner);
  *out_buffer = buffer;
  return KD_OK;
}

static void pool(keel_buffer *buffer) {
  keel_heap *heap = buffer->heap;
  uint32_t class = buffer->class;
  if (has_own_lists(heap, class)) {
    uint8_t *count = &keel_lists.counts[heap->slot][class];
    if (*count < SMALL_KEPT) {
      if (!keel_lists.listed) keel_lists_enrol();
      keel_buffer **list = &keel_lists.buffers[heap->slot][class];
      buffer->next = *list;
      *list = buffer;
      ++*count;
      return;
    }
  }
  if (class < KEEL_SMALL_CLASSES) {
    if (!heap->device) {
      give_back(buffer);
      return;
    }
  } else if (buffer->export_kind != heap_kind_of(heap)) {
    /* the setting has changed */
    give_back(buffer);
    return;
  }
  uint64_t pooled = atomic_fetch_add_explicit(
      &heap->context->pooled, buffer->size, memory_order_relaxed);
  if (pooled + buffer->size > heap->context->pool_limit) {
    buffer->next = NULL;
    give_back_all(buffer);
    return;
  }
  buffer->next = NULL;
  put_list(heap, class, buffer);
}

/* Frees buffers that are not pooled: external memory, and views. */
static void end_special(keel_buffer *buffer) {
  if (buffer->class == KEEL_IMPORTED) {
    end_import(buffer);
  } else if (buffer->class == KEEL_MAPPED) {
    buffer->done(buffer);
  } else {
    await_readers(buffer->heap->context);
    if (buffer->done) buffer->done(buffer->done_context);
    free(buffer);
  }
}

void keel_buffer_free(keel_buffer *buffer) {
  keel_device *device = buffer->heap->device;
  if (buffer->class >= KEEL_HEAP_CLASSES) {
    end_special(buffer);
    return;
  }
  bool lost = keel_lost_enter(device);
  /* relaxed: ordered by the reference count */
  if (lost || atomic_load_explicit(&buffer->exported, memory_order_relaxed))
    give_back(buffer); /* it must not be reused */
  else
    pool(buffer);
  keel_lost_leave(device);
}

/* ---- threads and slots ---------------------------------------------------- */

/* Returns whether anything was freed. Freeing a device's memory waits for its work, whose
 * buffers then go onto this thread's own lists. */
static bool drain_slot(keel_thread_lists *lists, uint32_t slot) {
  bool had = false;
  for (uint32_t i = 0; i < KEEL_SMALL_CLASSES; i++)
    for (keel_buffer *buffer; (buffer = lists->buffers[slot][i]); had = true) {
      lists->buffers[slot][i] = buffer->next;
      lists->counts[slot][i]--;
      give_back(buffer);
    }
  return had;
}

static bool drain_all(keel_thread_lists *lists) {
  bool had = false;
  for (uint32_t slot = 0; slot < KEEL_HEAP_SLOTS; slot++)
    had |= drain_slot(lists, slot);
  return had;
}

/* They are linked by their first word. */
static void free_tensors(keel_thread_lists *lists) {
  for (void *at = lists->tensors, *next; at; at = next) {
    memcpy(&next, at, sizeof next);
    free(at);
  }
  lists->tensors = NULL;
  lists->tensor_count = 0;
}

static void end_thread(void *unused) {
  (void)unused;
  keel_thread_lists *lists = &keel_lists;
  pthread_mutex_lock(&listing);
  while (drain_all(lists))
    ;
  if (lists->listed) {
    if (lists->previous)
      lists->previous->next = lists->next;
    else
      all_lists = lists->next;
    if (lists->next) lists->next->previous = lists->previous;
    lists->listed = false;
  }
  pthread_mutex_unlock(&listing);
  free_tensors(lists);
}

/* The process's last thread ends without running key destructors. Buffers that are still on its
 * lists are of contexts that were not closed: they are left to the process's end, as plugins, whose
 * drivers may have ended before, are no longer called. */
__attribute__((destructor)) static void end_process(void) {
  if (keel_lists.listed) free_tensors(&keel_lists);
}

static void make_key(void) {
  pthread_key_create(&thread_end, end_thread);
}

void keel_lists_enrol(void) {
  pthread_once(&thread_end_once, make_key);
  pthread_setspecific(thread_end, &keel_lists);
  pthread_mutex_lock(&listing);
  keel_lists.next = all_lists;
  keel_lists.previous = NULL;
  if (all_lists) all_lists->previous = &keel_lists;
  all_lists = &keel_lists;
  keel_lists.listed = true;
  pthread_mutex_unlock(&listing);
}

void keel_heap_init(keel_heap *heap, keel_context *context,
                    keel_device *device) {
  heap->context = context;
  heap->device = device;
  heap->slot = KEEL_HEAP_SLOTS;
}

void keel_heap_enlist(keel_heap *heap) {
  if (heap->slot < KEEL_HEAP_SLOTS) return;
  pthread_mutex_lock(&listing);
  uint32_t slot = 0;
  while (slot < KEEL_HEAP_SLOTS && slots[slot])
    slot++;
  if (slot < KEEL_HEAP_SLOTS) slots[slot] = heap;
  heap->slot = slot;
  pthread_mutex_unlock(&listing);
}

/* With the lists of this thread. */
static void empty(keel_heap *heap) {
  keel_device *device = heap->device;
  /* acquire: its handle */
  if (device && !atomic_load_explicit(&device->ready, memory_order_acquire))
    return;
  bool lost = keel_lost_enter(device);
  if (heap->slot < KEEL_HEAP_SLOTS)
    while (drain_slot(&keel_lists, heap->slot)) {
    }
  keel_heap_trim(heap);
  if (device && !lost && device->plugin->memory.trim)
    device->plugin->memory.trim(device->handle);
  keel_lost_leave(device);
}

void keel_trim(keel_context *context) {
  empty(&context->host);
  for (uint32_t i = 0; i < context->device_count; i++)
    empty(&keel_devices(context)[i]->heap);
  return_to_system();
}

void keel_heap_drain(keel_heap *heap) {
  if (!keel_lists.listed) keel_lists_enrol(); /* not under the lock */
  pthread_mutex_lock(&listing);
  for (keel_thread_lists *lists = all_lists;
       lists && heap->slot < KEEL_HEAP_SLOTS; lists = lists->next)
    drain_slot(lists, heap->slot);
  pthread_mutex_unlock(&listing);
  keel_heap_trim(heap);
}

void keel_heap_deinit(keel_heap *heap) {
  keel_heap_drain(heap);
  if (heap->slot == KEEL_HEAP_SLOTS) return;
  pthread_mutex_lock(&listing);
  assert(slots[heap->slot] == heap);
  slots[heap->slot] = NULL;
  pthread_mutex_unlock(&listing);
}
