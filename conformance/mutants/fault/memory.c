/* memory.c - defects of memory and copies, around a plugin. */
#include "mutants/fault/fault.h"

static kd_memory_table memory;

static kd_status fault_memory_failed(kd_status status, uint64_t size) {
  if (BUG(oom_other_code)) return host->fail(KD_INTERNAL, "no memory, %d", 1);
  if (BUG(errno_code)) return -12;
  if (BUG(mute_oom)) host->fail(KD_OK, "%s", "");
  if (BUG(vague_oom)) host->fail(status, "%s", "out of memory");
  if (BUG(global_message)) {
    static char text[128];
    snprintf(text, sizeof text, "no %llu bytes", (unsigned long long)size);
    nap(200);
    return host->fail(status, "%s", text);
  }
  return status;
}

static void act_up(void) {
  if (BUG(alloc_slow)) nap(5000);
  if (BUG(unlocked_list)) {
    static volatile int top;
    int at = top;
    nap(1);
    if (at != top) abort();
    top = (at + 1) % 4;
  }
}

static kd_status fault_memory_allocate(kd_device *device,
                                       const kd_allocation *wanted,
                                       kd_buffer **out_buffer,
                                       void **out_address) {
  kd_allocation passed = *wanted;
  uint64_t size = wanted->size;
  static atomic_bool poisoned, first = true;
  static _Thread_local bool mine;
  act_up();
  if (atomic_exchange(&first, false)) mine = true;
  if (BUG(context_tls) && !mine)
    return host->fail(KD_FAILED_PRECONDITION, "no context on thread %d", 2);
  if (BUG(size_wraps) && size + 4096 < size) passed.size += 4096;
  if (BUG(oom_poisons) && poisoned)
    return host->fail(KD_OUT_OF_MEMORY, "no %llu bytes",
                      (unsigned long long)size);
  kd_status status =
      inner_memory.allocate(device, &passed, out_buffer, out_address);
  if (status == KD_OK) {
    if (BUG(fails_on_success)) host->fail(KD_OUT_OF_MEMORY, "almost, %d", 1);
    return status;
  }
  poisoned = true;
  if (BUG(out_written)) *out_buffer = NULL;
  return fault_memory_failed(status, size);
}

/* ---- copies ----------------------------------------------------------------------- */

static struct {
  kd_device *device;
  const void *from;
  kd_buffer *target;
  uint64_t offset, size;
} delayed;

static void run_delayed(void) {
  if (delayed.from)
    inner_memory.copy_in(delayed.device, NULL, delayed.from, delayed.target,
                         delayed.offset, delayed.size);
  delayed.from = NULL;
}

static kd_status fault_memory_copy_in(kd_device *device, kd_stream *stream,
                                      const void *source, kd_buffer *target,
                                      uint64_t offset, uint64_t size) {
  static char shared[1 << 16];
  if (BUG(copies_unordered)) stream = NULL;
  if (BUG(reopen_dirty) && fault_device_opens > 1) return KD_OK;
  if (BUG(length_24)) size &= 0xffffff;
  if (BUG(page_reader) && size > 64)
    for (uint64_t i = 0; i < 128; i++)
      (void)((const volatile char *)source)[size + i];
  if (BUG(writes_source) && size > 4000)
    *(volatile char *)(uintptr_t)source = *(const char *)source;
  if (BUG(host_pointer_kept) && !stream && size > 100000) {
    delayed.device = device;
    delayed.from = source;
    delayed.target = target;
    delayed.offset = offset;
    delayed.size = size;
    return KD_OK;
  }
  if (BUG(odd_tail) && size > 4) size &= ~UINT64_C(3);
  if (BUG(zero_is_all) && !size) {
    char junk[8] = {1};
    return inner_memory.copy_in(device, stream, junk, target, offset, 8);
  }
  if (BUG(global_scratch) && size > 1000 && size < sizeof shared) {
    memcpy(shared, source, size);
    nap(50);
    return inner_memory.copy_in(device, NULL, shared, target, offset, size);
  }
  kd_status status =
      inner_memory.copy_in(device, stream, source, target, offset, size);
  if (BUG(copy_rounds_up) && size % 4) {
    char junk[4] = {0x3c, 0x3c, 0x3c, 0x3c};
    inner_memory.copy_in(device, NULL, junk, target, offset + size,
                         4 - size % 4);
  }
  return status;
}

typedef struct late {
  char *to, *bytes;
  uint64_t size;
} late;

static void *bring_late(void *context) {
  late *l = context;
  nap(800);
  memcpy(l->to, l->bytes, l->size);
  free(l->bytes);
  free(l);
  return NULL;
}

static kd_status fault_memory_copy_out(kd_device *device, kd_stream *stream,
                                       kd_buffer *source, uint64_t offset,
                                       void *target, uint64_t size) {
  run_delayed();
  if (BUG(out_offset)) offset &= ~UINT64_C(7);
  if (BUG(out_early) && !stream && size > 100000) {
    late *l = malloc(sizeof *l);
    char *bytes = malloc(size);
    if (!l || !bytes) abort();
    *l = (late){target, bytes, size};
    kd_status status =
        inner_memory.copy_out(device, NULL, source, offset, bytes, size);
    start_thread(bring_late, l);
    return status;
  }
  return inner_memory.copy_out(device, stream, source, offset, target, size);
}

static kd_status fault_memory_copy(kd_device *device, kd_stream *stream,
                                   kd_buffer *source, uint64_t source_offset,
                                   kd_buffer *target, uint64_t target_offset,
                                   uint64_t size) {
  if (BUG(source_offset) && source_offset > 200)
    source_offset &= ~UINT64_C(255);
  return inner_memory.copy(device, stream, source, source_offset, target,
                           target_offset, size);
}

static kd_status fault_memory_fill(kd_device *device, kd_stream *stream,
                                   kd_buffer *target, uint64_t offset,
                                   uint64_t size, const void *pattern,
                                   uint32_t pattern_size) {
  if (BUG(fill_four) && pattern_size > 4) pattern_size = 4;
  return inner_memory.fill(device, stream, target, offset, size, pattern,
                           pattern_size);
}

static kd_status fault_memory_stats(kd_device *device, uint32_t space,
                                    kd_memory_stats *out_stats) {
  if (BUG(stats_overrun))
    memset((char *)out_stats + out_stats->struct_size, 0, 8);
  return inner_memory.stats(device, space, out_stats);
}

void wrap_memory(void) {
  memory = inner_memory;
  memory.allocate = fault_memory_allocate;
  memory.copy_in = fault_memory_copy_in;
  memory.copy_out = fault_memory_copy_out;
  if (memory.copy) memory.copy = fault_memory_copy;
  if (memory.fill) memory.fill = fault_memory_fill;
  if (memory.stats) memory.stats = fault_memory_stats;
  if (BUG(half_table)) memory.unmap = NULL;
  outer.memory = &memory;
}
