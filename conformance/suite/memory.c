/* memory.c - buffers with guard bands, streams, and all that a rule must give
 * back in the end. */
#include <sys/mman.h>
#include <unistd.h>

#include "suite/suite.h"

#define GUARD 64u

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static kc_buffer *buffers;

#define KEPT 16384u
static struct {
  kd_stream *stream;
  kd_event *event;
  kc_buffer *busy; /* what kc_busy copies to on the stream */
} kept[KEPT];
static uint32_t kept_count;
uint32_t kc_generation;

/* ---- host memory ---------------------------------------------------------------- */

void *kc_take(uint64_t size) {
  void *memory = calloc(1, size + 1);
  if (!memory)
    kc_stop("the suite has no %llu bytes left", (unsigned long long)size);
  return memory;
}

typedef struct lent {
  struct lent *next;
  max_align_t data[];
} lent;
static lent *all_lent;

void *kc_lend(uint64_t size) {
  lent *made = kc_take(sizeof *made + size);
  made->next = all_lent;
  all_lent = made;
  return made->data;
}

static void free_lent(void) {
  while (all_lent) {
    lent *next = all_lent->next;
    free(all_lent);
    all_lent = next;
  }
}

void *kc_fenced(uint64_t size) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t capacity = (size + page - 1) / page * page;
  char *at = mmap(NULL, capacity + page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + capacity, page, PROT_NONE) != 0)
    kc_stop("the suite can't map a guard page");
  return at + capacity - size;
}

void kc_pattern(void *data, uint64_t size, uint64_t seed) {
  kc_random random = {seed * 77 + 5};
  unsigned char *at = data;
  uint64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word = kc_next(&random);
    memcpy(at + i, &word, 8);
  }
  for (; i < size; i++)
    at[i] = (unsigned char)kc_next(&random);
}

uint64_t kc_differs(const void *a, const void *b, uint64_t size) {
  if (memcmp(a, b, size) == 0) return size;
  const unsigned char *x = a, *y = b;
  for (uint64_t i = 0; i < size; i++)
    if (x[i] != y[i]) return i;
  return size;
}

/* ---- buffers ---------------------------------------------------------------------- */

static uint64_t round_up(uint64_t size, uint64_t to) {
  return (size + to - 1) / to * to;
}

static void guard_bytes(unsigned char *bytes, uint64_t count, uint64_t salt) {
  for (uint64_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)(0xc3 ^ (i * 29 + salt * 7));
}

kd_status kc_buffer_try(kd_device *device, uint32_t space, uint64_t size,
                        kc_buffer **out_buffer) {
  unsigned char guard[GUARD];
  kc_buffer *made = kc_take(sizeof *made);
  uint64_t align = kc_space(space).alignment;
  void *address = NULL;
  made->device = device;
  made->space = space;
  made->size = size;
  made->offset = round_up(GUARD, align ? align : 64);
  made->total = made->offset + size + GUARD;
  kd_status status =
      KC_CALL(kd_status,
              kc_allocate(device, space, made->total, &made->handle, &address),
              "memory.allocate(space %u, %llu bytes)", space,
              (unsigned long long)made->total);
  if (status != KD_OK) {
    free(made);
    return status;
  }
  made->address = address ? (char *)address + made->offset : NULL;
  guard_bytes(guard, GUARD, 1);
  kd_status front = KC_CALL(kd_status,
                            kp.m.copy_in(device, NULL, guard, made->handle,
                                         made->offset - GUARD, GUARD),
                            "memory.copy_in(guard in front)");
  guard_bytes(guard, GUARD, 2);
  kd_status back = KC_CALL(kd_status,
                           kp.m.copy_in(device, NULL, guard, made->handle,
                                        made->offset + size, GUARD),
                           "memory.copy_in(guard behind)");
  if (front != KD_OK || back != KD_OK) {
    kp.m.release(device, made->handle);
    free(made);
    return front != KD_OK ? front : back;
  }
  pthread_mutex_lock(&listing);
  made->next = buffers;
  if (buffers) buffers->before = made;
  buffers = made;
  pthread_mutex_unlock(&listing);
  *out_buffer = made;
  return KD_OK;
}

kc_buffer *kc_buffer_in(kd_device *device, uint32_t space, uint64_t size) {
  kc_buffer *made = NULL;
  kd_status status = kc_buffer_try(device, space, size, &made);
  if (status != KD_OK)
    kc_stop("no buffer of %llu bytes in space %u: %s: %s",
            (unsigned long long)size, space, kd_status_name(status),
            kc_message());
  return made;
}

kc_buffer *kc_buffer_make(uint64_t size) {
  return kc_buffer_in(kc_device(), 0, size);
}

kc_buffer *kc_buffer_piece(const kc_buffer *of, uint64_t offset,
                           uint64_t size) {
  kc_buffer *made = kc_take(sizeof *made);
  *made = *of;
  made->next = made->before = NULL;
  made->offset += offset;
  made->address = of->address ? of->address + offset : NULL;
  made->size = size;
  made->piece = true;
  return made;
}

bool kc_buffer_intact(kc_buffer *buffer) {
  if (buffer->piece) return true;
  unsigned char guard[GUARD], now[GUARD];
  static const char *const sides[] = {"in front of", "behind"};
  bool intact = true;
  for (int side = 0; side < 2; side++) {
    uint64_t at = side ? buffer->offset + buffer->size : buffer->offset - GUARD;
    guard_bytes(guard, GUARD, (uint64_t)side + 1);
    memset(now, 0, sizeof now);
    if (KC_CALL(
            kd_status,
            kp.m.copy_out(buffer->device, NULL, buffer->handle, at, now, GUARD),
            "memory.copy_out(guard %s)", sides[side]) != KD_OK)
      continue;
    uint64_t first = kc_differs(guard, now, GUARD);
    if (first == GUARD) continue;
    intact = false;
    kc_violation("mem.no-overrun",
                 "byte %llu %s a buffer of %llu bytes was changed to 0x%02x",
                 (unsigned long long)(side ? first : GUARD - first),
                 sides[side], (unsigned long long)buffer->size, now[first]);
  }
  return intact;
}

static void unlink_buffer(kc_buffer *buffer) {
  pthread_mutex_lock(&listing);
  if (buffer->before)
    buffer->before->next = buffer->next;
  else
    buffers = buffer->next;
  if (buffer->next) buffer->next->before = buffer->before;
  pthread_mutex_unlock(&listing);
}

static void free_whole(kc_buffer *buffer) {
  kc_buffer_intact(buffer);
  unlink_buffer(buffer);
  KC_DO(kp.m.release(buffer->device, buffer->handle), "memory.release(%llu)",
        (unsigned long long)buffer->size);
  free(buffer);
}

void kc_buffer_free(kc_buffer *buffer) {
  if (!buffer) return;
  if (buffer->piece)
    free(buffer);
  else
    free_whole(buffer);
}

void kc_write(kc_buffer *buffer, uint64_t offset, const void *data,
              uint64_t size) {
  kc_ok(KC_CALL(kd_status,
                kp.m.copy_in(buffer->device, NULL, data, buffer->handle,
                             buffer->offset + offset, size),
                "memory.copy_in(offset %llu, %llu bytes)",
                (unsigned long long)(buffer->offset + offset),
                (unsigned long long)size),
        "copy_in");
}

void kc_read(kc_buffer *buffer, uint64_t offset, void *data, uint64_t size) {
  kc_ok(KC_CALL(kd_status,
                kp.m.copy_out(buffer->device, NULL, buffer->handle,
                              buffer->offset + offset, data, size),
                "memory.copy_out(offset %llu, %llu bytes)",
                (unsigned long long)(buffer->offset + offset),
                (unsigned long long)size),
        "copy_out");
}

uint64_t kc_round_trip(kc_buffer *buffer, uint64_t seed) {
  char *in = kc_take(buffer->size), *out = kc_take(buffer->size);
  kc_pattern(in, buffer->size, seed);
  kc_write(buffer, 0, in, buffer->size);
  kc_beat();
  kc_read(buffer, 0, out, buffer->size);
  uint64_t first = kc_differs(in, out, buffer->size);
  free(in);
  free(out);
  return first;
}

/* ---- streams and events -------------------------------------------------------------- */

static void suite_memory_keep(kd_stream *stream, kd_event *event) {
  pthread_mutex_lock(&listing);
  if (kept_count < KEPT) {
    kept[kept_count].stream = stream;
    kept[kept_count].busy = NULL;
    kept[kept_count++].event = event;
  }
  pthread_mutex_unlock(&listing);
}

static void suite_memory_forget(const void *what) {
  pthread_mutex_lock(&listing);
  for (uint32_t i = kept_count; i-- > 0;)
    if (kept[i].stream == what || kept[i].event == what) {
      kept[i] = kept[--kept_count];
      break;
    }
  pthread_mutex_unlock(&listing);
}

kd_stream *kc_stream_make(kd_device *device) {
  kd_stream *stream = NULL;
  kc_ok(KC_CALL(kd_status, kp.s.create(device, 0, 0, &stream),
                "stream.create(priority 0)"),
        "stream.create");
  suite_memory_keep(stream, NULL);
  return stream;
}

void kc_stream_free(kd_stream *stream) {
  suite_memory_forget(stream);
  KC_DO(kp.s.destroy(stream), "stream.destroy");
}

kd_event *kc_event_make(kd_device *device) {
  kd_event *event = NULL;
  kc_ok(KC_CALL(kd_status, kp.e.create(device, 0, &event), "event.create"),
        "event.create");
  suite_memory_keep(NULL, event);
  return event;
}

void kc_event_free(kd_event *event) {
  suite_memory_forget(event);
  KC_DO(kp.e.destroy(event), "event.destroy");
}

kd_status kc_finish(kd_stream *stream) {
  if (kp.s.synchronize)
    return KC_CALL(kd_status, kp.s.synchronize(stream), "stream.synchronize");
  kd_event *event = kc_event_make(kc_device());
  kc_ok(KC_CALL(kd_status, kp.e.record(event, stream), "event.record"),
        "event.record");
  kd_status status =
      KC_CALL(kd_status, kp.e.wait(event, UINT64_MAX), "event.wait(for ever)");
  kc_event_free(event);
  return status;
}

#define BUSY_SIZE (UINT64_C(1) << 20)

/* One for each stream: two must not write the same memory at once. */
static kc_buffer *busy_target(kd_stream *stream) {
  kc_buffer *made = NULL;
  for (int pass = 0; pass < 2; pass++) {
    pthread_mutex_lock(&listing);
    for (uint32_t i = 0; i < kept_count; i++)
      if (kept[i].stream == stream) {
        if (!kept[i].busy) kept[i].busy = made;
        made = kept[i].busy;
      }
    pthread_mutex_unlock(&listing);
    if (made) break;
    made = kc_buffer_make(BUSY_SIZE);
  }
  return made;
}

/* Copies within the host's reach that take about `time`: how many was measured
 * at the first call. */
void kc_busy(kd_stream *stream, uint64_t time) {
  static char *source;
  static double each;
  static uint32_t of;
  const uint64_t size = BUSY_SIZE;
  kc_buffer *target = busy_target(stream);
  if (!source) source = kc_take(size);
  if (!each || of != kc_generation) {
    of = kc_generation;
    for (uint32_t n = 4; n <= 64; n *= 4) { /* the first four are cold */
      uint64_t begin = kc_now();
      for (uint32_t i = 0; i < n; i++)
        kp.m.copy_in(target->device, stream, source, target->handle,
                     target->offset, size);
      kc_ok(kc_finish(stream), "copies that take time");
      each = (double)(kc_now() - begin) / n;
      if (n > 4 && each * n > 4e6) break;
    }
  }
  uint64_t count = (uint64_t)((double)time / each) + 1;
  uint32_t capacity =
      kc_info()->max_in_flight; /* the rest is for what follows */
  if (capacity && count > capacity / 2) count = capacity / 2;
  for (uint64_t i = 0; i < count && i < 100000; i++) {
    kd_status status =
        KC_CALL(kd_status,
                kp.m.copy_in(target->device, stream, source, target->handle,
                             target->offset, size),
                "memory.copy_in(stream, to keep it busy)");
    if (status != KD_OK) break;
  }
}

/* ---- the end ---------------------------------------------------------------------------- */

static void close_all(void) {
  for (uint32_t i = 0; i < kept_count && kp.open; i++)
    if (kept[i].stream) kc_finish(kept[i].stream);
  while (kept_count && kp.open) {
    if (kept[kept_count - 1].stream)
      kc_stream_free(kept[kept_count - 1].stream);
    else
      kc_event_free(kept[kept_count - 1].event);
  }
  while (buffers && kp.open)
    free_whole(buffers);
  if (!kp.open) return;
  kc_close_devices();
  kc_close();
  if (!atomic_load(&kc_host.fail_at) && atomic_load(&kc_host.live) != 0)
    kc_violation("life.host-allocs-balanced",
                 "%d blocks (%lld bytes) of kd_host.allocate were not released"
                 " when close had returned",
                 atomic_load(&kc_host.live),
                 (long long)atomic_load(&kc_host.live_bytes));
}

void kc_tidy(void) {
  kc_generation++;
  close_all();
  free_lent();
}
