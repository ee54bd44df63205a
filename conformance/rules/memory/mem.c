/* mem.c - allocation, spaces, mapping. */
#include "rules/memory/mem.h"

#include "rules/rules.h"

static kd_status mem_take(uint32_t space, uint64_t size, kd_buffer **out,
                          void **out_address) {
  *out = NULL;
  *out_address = NULL;
  return kc_allocate(kc_device(), space, size, out, out_address);
}

void mem_give(kd_buffer *buffer) {
  kp.m.release(kc_device(), buffer);
}

static void mem_alloc_free(void) {
  static const uint64_t sizes[] = {
      1, 2, 3, 7, 64, 255, 256, 257, 4095, 4096, 4097, 65537, 1 << 20, 5 << 20};
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    if (!kc_case("size=%llu", (unsigned long long)sizes[i])) continue;
    kc_buffer *buffer = kc_buffer_make(sizes[i]);
    kc_buffer *other = kc_buffer_make(sizes[i]);
    for (int k = 0; k < 2; k++) {
      uint64_t first = kc_round_trip(k ? other : buffer, i + (uint64_t)k * 50);
      kc_check(first == sizes[i], "byte %llu of %llu is not what was written",
               (unsigned long long)first, (unsigned long long)sizes[i]);
    }
    kc_buffer_free(buffer);
    kc_buffer_free(other);
  }
}

static void mem_alignment(void) {
  const kd_device_info *info = kc_info();
  uint32_t seen = 0;
  for (uint32_t s = 0; s < info->space_count; s++) {
    uint32_t align = kc_space(s).alignment ? kc_space(s).alignment : 64;
    kd_buffer *buffers[16];
    void *addresses[16];
    for (int i = 0; i < 16; i++) {
      kc_ok(mem_take(s, 1 + (uint64_t)i * 37, &buffers[i], &addresses[i]),
            "allocate");
      if (!addresses[i]) continue;
      seen++;
      kc_check((uintptr_t)addresses[i] % align == 0,
               "space %u: address %p of %d bytes is not aligned to %u", s,
               addresses[i], 1 + i * 37, align);
    }
    for (int i = 0; i < 16; i++)
      mem_give(buffers[i]);
  }
  if (!seen) kc_unclaimed("the device gives no addresses");
}

/* Sizes at which something is rounded: several buffers of each, whole. */
static void no_overlap_pages(void) {
  enum { EACH = 8 };
  static const uint64_t sizes[] = {
      4095,  4096,  4097,          8191,          8192,         8193,
      65535, 65537, (1 << 20) + 1, (2 << 20) - 1, (2 << 20) + 1};
  for (size_t s = 0; s < KC_COUNT_OF(sizes); s++) {
    kd_buffer *buffers[EACH];
    uint64_t size = sizes[s];
    unsigned char *bytes = kc_lend(size);
    for (int i = 0; i < EACH; i++) {
      void *address = NULL;
      kc_ok(mem_take(0, size, &buffers[i], &address), "allocate");
      memset(bytes, i + 1, size);
      kc_ok(kp.m.copy_in(kc_device(), NULL, bytes, buffers[i], 0, size),
            "copy_in");
    }
    for (int i = 0; i < EACH; i++) {
      uint64_t at = 0;
      kc_ok(kp.m.copy_out(kc_device(), NULL, buffers[i], 0, bytes, size),
            "copy_out");
      while (at < size && bytes[at] == i + 1)
        at++;
      int of = at < size ? bytes[at] - 1 : 0;
      bool known = of >= 0 && of < EACH;
      kc_check(
          at == size,
          "of %d buffers of %llu bytes, byte %llu of number %d holds %s %d%s",
          EACH, (unsigned long long)size, (unsigned long long)at, i,
          known ? "what was written to number" : "the byte",
          known ? of : of + 1, known ? ": is the size rounded down?" : "");
    }
    for (int i = 0; i < EACH; i++)
      mem_give(buffers[i]);
  }
}

static void mem_no_overlap(void) {
  enum { MANY = 600 };
  kd_buffer *buffers[MANY];
  uint64_t sizes[MANY];
  kc_random random = kc_seed();
  uint32_t count = kc.quick ? 150 : MANY;
  for (uint32_t i = 0; i < count; i++) {
    void *address = NULL;
    sizes[i] = 8 + kc_below(&random, 300);
    kc_ok(mem_take(0, sizes[i], &buffers[i], &address), "allocate");
    char bytes[320];
    kc_pattern(bytes, sizes[i], i);
    kc_ok(kp.m.copy_in(kc_device(), NULL, bytes, buffers[i], 0, sizes[i]),
          "copy_in");
  }
  for (uint32_t i = 0; i < count; i++) {
    char bytes[320], back[320];
    kc_pattern(bytes, sizes[i], i);
    kc_ok(kp.m.copy_out(kc_device(), NULL, buffers[i], 0, back, sizes[i]),
          "copy_out");
    uint64_t first = kc_differs(bytes, back, sizes[i]);
    kc_check(first == sizes[i],
             "byte %llu of buffer %u, of %llu bytes, was changed by another"
             " buffer",
             (unsigned long long)first, i, (unsigned long long)sizes[i]);
  }
  for (uint32_t i = 0; i < count; i++)
    mem_give(buffers[i]);
  no_overlap_pages();
}

static void mem_distinct(void) {
  kd_buffer *a = NULL, *b = NULL;
  void *x = NULL, *y = NULL;
  kc_ok(mem_take(0, 64, &a, &x), "allocate");
  kc_ok(mem_take(0, 64, &b, &y), "allocate");
  kc_check(a != NULL && b != NULL, "allocate returned KD_OK and no buffer");
  kc_check(a != b, "two buffers have one handle");
  kc_check(!x || x != y, "two buffers have one address");
  mem_give(a);
  mem_give(b);
}

static void mem_oom_size(void) {
  uint64_t total = kc_space(0).size;
  uint64_t most = kc_space(0).max_buffer;
  const uint64_t wrong[] = {UINT64_MAX,
                            UINT64_MAX - 15,
                            UINT64_MAX - 63,
                            UINT64_MAX - 4095,
                            (uint64_t)INT64_MAX,
                            UINT64_C(1) << 60,
                            total ? total * 4 : UINT64_MAX,
                            most ? most + (most < UINT64_MAX) : UINT64_MAX};
  for (size_t i = 0; i < KC_COUNT_OF(wrong); i++) {
    if (!kc_case("try=%zu", i)) continue;
    kd_buffer *buffer = (kd_buffer *)(uintptr_t)0x5a5a;
    void *address = (void *)(uintptr_t)0x5a5a;
    kd_status status = kc_allocate(kc_device(), 0, wrong[i], &buffer, &address);
    kc_check(status == KD_OUT_OF_MEMORY,
             "allocating %llu bytes of %llu returned %s",
             (unsigned long long)wrong[i], (unsigned long long)total,
             kd_status_name(status));
    kc_said(status, "allocate");
    kc_check(status == KD_OK || (buffer == (kd_buffer *)(uintptr_t)0x5a5a &&
                                 address == (void *)(uintptr_t)0x5a5a),
             "out_buffer or out_address was written by a failing allocation");
    if (status == KD_OK) mem_give(buffer);
  }
}

uint32_t mem_exhaust(kd_buffer **buffers, uint32_t capacity, uint64_t each,
                     bool *out_refused) {
  uint32_t count = 0;
  *out_refused = false;
  for (uint64_t used = 0; count < capacity && used + each <= kc.max_memory;
       used += each) {
    void *address = NULL;
    kd_status status = mem_take(0, each, &buffers[count], &address);
    if (status != KD_OK) {
      kc_check(status == KD_OUT_OF_MEMORY, "allocate returned %s",
               kd_status_name(status));
      *out_refused = true;
      break;
    }
    count++;
  }
  return count;
}

static void mem_oom_recover(void) {
  static kd_buffer *buffers[256];
  bool refused = false;
  for (int round = 0; round < 2; round++) {
    uint32_t count = mem_exhaust(buffers, 256, 16 << 20, &refused);
    kc_check(count > 0, "not even 16 MiB can be allocated in round %d", round);
    for (uint32_t i = 0; i < count; i++)
      mem_give(buffers[i]);
    kd_buffer *none = NULL; /* where the cap comes before the end */
    void *address = NULL;
    kc_check(mem_take(0, UINT64_MAX / 2, &none, &address) != KD_OK,
             "half of all addresses were allocated");
  }
  kc_buffer *after = kc_buffer_make(1 << 20);
  kc_check(after != NULL, " ");
  kc_buffer_free(after);
  kc_note("memory %s within --max-memory", refused ? "ran out" : "did not end");
}

static void mem_oom_busy(void) {
  static kd_buffer *buffers[256];
  kc_unary unary;
  kc_unary_need(5000, &unary);
  kc_run *run = kc_unary_run(&unary);
  kd_stream *stream = kc_stream_or_none();
  if (stream) kc_busy(stream, 5 * KC_MS);
  kc_ok(kc_run_enqueue(run, stream), "enqueue");
  bool refused = false;
  uint32_t count = mem_exhaust(buffers, 256, 32 << 20, &refused);
  kd_buffer *none = NULL;
  void *address = NULL;
  kd_status status = mem_take(0, UINT64_MAX / 2, &none, &address);
  kc_check(status == KD_OUT_OF_MEMORY, "allocate returned %s",
           kd_status_name(status));
  if (stream) kc_ok(kc_finish(stream), "work that ran beside the shortage");
  kc_unary_check(&unary, run, "the output of work beside the shortage");
  for (uint32_t i = 0; i < count; i++)
    mem_give(buffers[i]);
  kc_run_free(run);
  kc_unary_free(&unary);
}

static void mem_churn(void) {
  enum { LIVE = 64 };
  kc_buffer *live[LIVE] = {0};
  kc_random random = kc_seed();
  uint32_t rounds = kc.quick ? 300 : 3000;
  for (uint32_t i = 0; i < rounds; i++) {
    uint32_t at = (uint32_t)kc_below(&random, LIVE);
    if (live[at]) {
      uint64_t seed = 0, got = 0;
      seed = live[at]->size * 3;
      kc_read(live[at], 0, &got, 8);
      kc_check(got == seed, "a buffer of %llu bytes lost its first word",
               (unsigned long long)live[at]->size);
      kc_buffer_free(live[at]);
      live[at] = NULL;
    } else {
      live[at] = kc_buffer_make(8 + kc_below(&random, 20000));
      uint64_t seed = live[at]->size * 3;
      kc_write(live[at], 0, &seed, 8);
    }
  }
  for (uint32_t i = 0; i < LIVE; i++)
    kc_buffer_free(live[i]);
}

static void mem_spaces(void) {
  const kd_device_info *info = kc_info();
  for (uint32_t s = 0; s < info->space_count; s++) {
    if (!kc_case("space=%u", s)) continue;
    char in[3000], out[3000];
    kc_buffer *buffer = kc_buffer_in(kc_device(), s, sizeof in);
    kc_pattern(in, sizeof in, s + 9);
    kc_write(buffer, 0, in, sizeof in);
    kc_read(buffer, 0, out, sizeof out);
    kc_check(!memcmp(in, out, sizeof in), "copies to space %u are wrong", s);
    if (kp.m.map) {
      void *address = NULL;
      kd_status status = kp.m.map(kc_device(), buffer->handle, buffer->offset,
                                  sizeof in, 1, &address);
      bool visible = kc_space(s).flags & KD_SPACE_HOST_VISIBLE;
      kc_check(visible ? status == KD_OK : status == KD_UNIMPLEMENTED,
               "map of a buffer in space %u, which is%s host visible, returned"
               " %s",
               s, visible ? "" : " not", kd_status_name(status));
      if (status == KD_OK) {
        kc_check(address && !memcmp(address, in, sizeof in),
                 "map of space %u shows other bytes", s);
        kp.m.unmap(kc_device(), buffer->handle);
      }
    }
    kc_buffer_free(buffer);
  }
}

/* The first host visible space, or a case that is not claimed. */
static uint32_t mapped_space(void) {
  const kd_device_info *info = kc_info();
  if (!kp.m.map) kc_unclaimed("memory.map is NULL");
  for (uint32_t s = 0; s < info->space_count; s++)
    if (kc_space(s).flags & KD_SPACE_HOST_VISIBLE) return s;
  kc_unclaimed("no space is host visible");
}

static void *mem_map(kc_buffer *buffer, uint64_t offset, uint64_t size,
                     uint32_t access) {
  void *address = NULL;
  kc_ok(kp.m.map(kc_device(), buffer->handle, buffer->offset + offset, size,
                 access, &address),
        "map");
  KC_NEED(address != NULL, "map returned KD_OK and no address");
  return address;
}

static void mem_map_coherent(void) {
  uint32_t space = mapped_space();
  char in[2000], out[2000];
  kc_buffer *buffer = kc_buffer_in(kc_device(), space, sizeof in);
  for (int i = 0; i < 10; i++) {
    kc_pattern(in, sizeof in, (uint64_t)i);
    void *address = mem_map(buffer, 0, sizeof in, 2);
    memcpy(address, in, sizeof in);
    kp.m.unmap(kc_device(), buffer->handle);
    kc_read(buffer, 0, out, sizeof out);
    kc_check(!memcmp(in, out, sizeof in),
             "the device does not see what was written through map");
    kc_pattern(in, sizeof in, (uint64_t)i + 100);
    kc_write(buffer, 0, in, sizeof in);
    address = mem_map(buffer, 0, sizeof in, 1);
    kc_check(!memcmp(address, in, sizeof in),
             "map does not show what the device wrote");
    kp.m.unmap(kc_device(), buffer->handle);
  }
  kc_buffer_free(buffer);
}

static void mem_map_range(void) {
  uint32_t space = mapped_space();
  char in[4096], out[4096];
  kc_buffer *buffer = kc_buffer_in(kc_device(), space, sizeof in);
  kc_pattern(in, sizeof in, 1);
  kc_write(buffer, 0, in, sizeof in);
  char *address = mem_map(buffer, 1000, 100, 3);
  kc_check(!memcmp(address, in + 1000, 100),
           "map at an offset shows the wrong"
           " bytes");
  /* what is changed elsewhere meanwhile stays as it is */
  char other[500];
  kc_pattern(other, sizeof other, 2);
  kc_write(buffer, 3000, other, sizeof other);
  memset(address, 0x42, 100);
  kp.m.unmap(kc_device(), buffer->handle);
  memset(in + 1000, 0x42, 100);
  memcpy(in + 3000, other, sizeof other);
  kc_read(buffer, 0, out, sizeof out);
  uint64_t first = kc_differs(in, out, sizeof in);
  kc_check(first == sizeof in,
           "byte %llu changed, and bytes 1000 to 1099 were mapped",
           (unsigned long long)first);
  kc_buffer_free(buffer);
}

static void mem_map_kernel(void) {
  uint32_t space = mapped_space();
  if (space != 0) kc_unclaimed("tensors don't lie in a host visible space");
  kc_unary unary;
  kc_unary_need(200, &unary);
  kc_run *run = kc_unary_run(&unary);
  char zeros[800] = {0};
  kc_write(run->in_buffers[0], 0, zeros, sizeof zeros);
  void *address = mem_map(run->in_buffers[0], 0, 800, 2);
  value_store(unary.in, address);
  kp.m.unmap(kc_device(), run->in_buffers[0]->handle);
  kc_ok(kc_run_now(run), "the kernel");
  address = mem_map(run->out_buffers[0], 0, 800, 1);
  kc_unary_compare(&unary, unary.in, address, "the mapped output");
  kp.m.unmap(kc_device(), run->out_buffers[0]->handle);
  kc_run_free(run);
  kc_unary_free(&unary);
}

static void mem_reuse(void) {
  kc_unary unary;
  kc_unary_need(1000, &unary);
  for (int i = 0; i < 30; i++)
    kc_check(kc_try_op(&unary.op, &kc_plain), "%s did not run", unary.op.name);
  kc_unary_free(&unary);
}

static void mem_trim(void) {
  if (!kp.m.trim) kc_unclaimed("memory.trim is NULL");
  char in[4000], out[4000];
  kc_buffer *live = kc_buffer_make(sizeof in);
  kc_pattern(in, sizeof in, 12);
  kc_write(live, 0, in, sizeof in);
  for (int i = 0; i < 20; i++)
    kc_buffer_free(kc_buffer_make(100000));
  kp.m.trim(kc_device());
  kc_read(live, 0, out, sizeof out);
  kc_check(!memcmp(in, out, sizeof in), "trim took memory that is in use");
  kc_buffer_free(kc_buffer_make(100000));
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "mem.alloc-free", mem_alloc_free, KC_CASES, "memory.h",
            "Allocates a buffer of at least `size` bytes (never 0)",
            "kd_memory_table.allocate kd_memory_table.release KD_OK"
            " kd_allocation.struct_size kd_allocation.size kd_allocation.space"
            " kd_allocation.flags"
            " KD_SPACE_DEVICE",
            "The whole of the size can be used, whatever the page or the block"
            " of the driver is."),
    KC_RULE(MUST, CORE, "mem.alignment", mem_alignment, 0, "memory.h",
            "uninitialised, with the alignment of the space",
            "kd_memory_table.allocate kd_space.alignment",
            "Vector loads fault on less than was promised, DMA engines move the"
            " wrong bytes."),
    KC_RULE(MUST, CORE, "mem.no-overlap", mem_no_overlap, 0, "memory.h",
            "No two live buffers share a byte",
            "kd_memory_table.allocate kd_memory_table.copy_in",
            "A sub-allocator that forgets padding, or rounds down, lets"
            " neighbours write into each other."),
    KC_RULE(MUST, CORE, "mem.no-overrun", kc_smoke, KC_WATCHED, "memory.h",
            "Nothing outside the range changes",
            "kd_memory_table.copy_in kd_memory_table.copy"
            " kd_memory_table.fill kd_kernel_def.enqueue",
            "Watched behind every copy and kernel of all rules, by guard bands"
            " around each buffer. The usual cause is a size rounded up to a"
            " block without a bounds check."),
    KC_RULE(MUST, CORE, "mem.distinct", mem_distinct, 0, "memory.h",
            "out_ parameters are written on KD_OK only",
            "kd_memory_table.allocate kd_memory_table.release",
            "KD_OK with a NULL or shared handle is met by a crash much later."),
    KC_RULE(
        MUST, CORE, "mem.oom-size", mem_oom_size, KC_CASES, "memory.h",
        "KD_OUT_OF_MEMORY (the message has the requested and the free size)",
        "kd_memory_table.allocate KD_OUT_OF_MEMORY",
        "A size plus its padding wraps around to a small number: the"
        " allocation succeeds and everything is written past its end."),
    KC_RULE(
        MUST, CORE, "mem.oom-recover", mem_oom_recover, 0, "memory.h",
        "A device that is out of memory keeps working, and can allocate"
        " again when buffers are released",
        "KD_OUT_OF_MEMORY kd_memory_table.release",
        "A pool that remembers its failure turns one large model into a dead"
        " service."),
    KC_RULE(MUST, CORE, "mem.oom-busy", mem_oom_busy, 0, "memory.h",
            "A failed allocation does not disturb running work",
            "KD_OUT_OF_MEMORY kd_kernel_def.enqueue",
            "An out-of-memory path that resets the device loses what runs on"
            " it."),
    KC_RULE(MUST, CORE, "mem.full-launch", mem_full_launch, KC_CASES,
            "memory.h", "A device that is out of memory keeps working",
            "KD_OUT_OF_MEMORY kd_kernel_def.enqueue kd_memory_table.allocate",
            "A kernel that takes memory of the device for itself, finds none,"
            " does nothing and returns KD_OK gives the user what was in the"
            " output before."),
    KC_RULE(SHOULD, CORE, "mem.churn", mem_churn, 0, "memory.h",
            "the host releases it once, when no work uses it any more",
            "kd_memory_table.allocate kd_memory_table.release",
            "Thousands of allocations of random sizes show what a pool does at"
            " its edges."),
    KC_RULE(MUST, CORE, "mem.spaces", mem_spaces, KC_CASES, "memory.h",
            "KD_UNIMPLEMENTED (not host-visible)",
            "kd_memory_table.map kd_memory_table.unmap KD_SPACE_HOST_VISIBLE"
            " KD_UNIMPLEMENTED kd_plugin.space",
            "An address for memory that the host can't reach faults at its"
            " first use."),
    KC_RULE(MUST, CORE, "mem.map-coherent", mem_map_coherent, 0, "memory.h",
            "`unmap` ends the mapping and makes writes visible to work that"
            " is enqueued afterwards",
            "kd_memory_table.map kd_memory_table.unmap KD_SPACE_COHERENT",
            "A forgotten flush works on one machine and not on the next."),
    KC_RULE(MUST, CORE, "mem.map-range", mem_map_range, 0, "memory.h",
            "Maps a range of a buffer in a host-visible space to a host"
            " address",
            "kd_memory_table.map",
            "A map that copies the whole buffer out and back undoes what was"
            " written meanwhile."),
    KC_RULE(MUST, CORE, "mem.map-kernel", mem_map_kernel, 0, "memory.h",
            "`access`: KD_READ, KD_WRITE or both",
            "kd_memory_table.map kd_kernel_def.enqueue",
            "Kernels and maps must see the same memory."),
    KC_RULE(MUST, EXTERNAL, "mem.import-host", mem_import, 0, "memory.h",
            "Makes a buffer of memory that something else owns, without a"
            " copy",
            "kd_external_table.import_memory KD_EXTERNAL_HOST_POINTER"
            " kd_external.handle kd_external.offset kd_external.size"
            " kd_external.access kd_external.struct_size KD_READ KD_WRITE",
            "Freeing what was imported takes a model's weights away from under"
            " the application."),
    KC_RULE(MUST, EXTERNAL, "mem.import-readonly", mem_import_readonly, 0,
            "memory.h", "nothing writes without KD_WRITE",
            "kd_external_table.import_memory kd_external.reserved",
            "Weights are mapped from files without the right to write; padding"
            " them in place faults."),
    KC_RULE(MUST, EXTERNAL, "mem.export", mem_export, 0, "memory.h",
            "the memory lives as long as the buffer or anything imported"
            " from it",
            "kd_external_table.export_memory kd_allocation.export_kind"
            " KD_EXTERNAL_OPAQUE_FD"
            " KD_EXTERNAL_DMA_BUF KD_EXTERNAL_SHARED_FD",
            "The handle must reach the same bytes."),
    KC_RULE(MUST, EXTERNAL, "mem.import-descriptor", mem_import_descriptor, 0,
            "memory.h",
            "a descriptor passes to the plugin on KD_OK, and stays the"
            " caller's otherwise",
            "kd_external_table.import_memory kd_external_table.export_memory"
            " kd_external.handle KD_INVALID_ARGUMENT",
            "A descriptor that nobody closes ends a service after a thousand"
            " frames; one that two close takes another file away."),
    KC_RULE(MUST, CORE, "mem.reuse", mem_reuse, 0, "kernel.h",
            "contents are undefined",
            "kd_memory_table.release kd_launch.workspace",
            "Fresh memory is often zero and reused memory is not: kernels that"
            " rely on zeros fail on the second run only."),
    KC_RULE(MUST, CORE, "mem.trim", mem_trim, 0, "memory.h",
            "Gives the system back any memory that the plugin keeps for"
            " reuse",
            "kd_memory_table.trim", "What is in use is not kept for reuse."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(alloc_short, "mem.alloc-free", "the last byte of a buffer is not there"),
    DEFECT(misaligned, "mem.alignment", "addresses have half of the alignment"),
    DEFECT(overlap, "mem.no-overlap", "small buffers overlap by 8 bytes"),
    DEFECT(pages_down, "mem.no-overlap", "sizes are rounded down to pages"),
    DEFECT_AS(copy_rounds_up, "mem.no-overrun", KC_AROUND, "copies are rounded up to 4 bytes"),
    DEFECT(same_handle, "mem.distinct", "equal sizes get one handle"),
    DEFECT_AS(size_wraps, "mem.oom-size", KC_AROUND, "size plus padding wraps around"),
    DEFECT_AS(oom_other_code, "mem.oom-size", KC_AROUND, "a lack of memory is called INTERNAL"),
    DEFECT_AS(oom_poisons, "mem.oom-recover", KC_AROUND, "a lack of memory is remembered for ever"),
    DEFECT(full_unwritten, "mem.full-launch", "an enqueue without device memory returns KD_OK and writes nothing"),
    DEFECT(oom_resets, "mem.oom-busy", "a lack of memory drops the work in flight"),
    DEFECT(churn_mixes, "mem.churn", "a freed buffer's memory is cleared late"),
    DEFECT(map_device_memory, "mem.spaces", "device memory is mapped to a garbage address"),
    DEFECT(map_no_flush, "mem.map-coherent", "unmap forgets to write back"),
    DEFECT(map_whole, "mem.map-range", "map copies the whole buffer out and back"),
    DEFECT(map_kernel_stale, "mem.map-kernel", "maps of tensors' memory are never written back"),
    DEFECT(import_copies, "mem.import-host", "imported memory is a copy"),
    DEFECT(import_frees, "mem.import-host", "imported pages are unmapped by release"),
    DEFECT(import_pads, "mem.import-readonly", "imported memory is padded in place"),
    DEFECT(import_private, "mem.export", "what is written to imported memory stays private"),
    DEFECT(export_wrong, "mem.export", "an exported handle leads to a copy of old data"),
    DEFECT(import_closes, "mem.import-descriptor", "a failed import closes the descriptor"),
    DEFECT(import_keeps, "mem.import-descriptor", "imported descriptors are never closed"),
    DEFECT(needs_zeros, "mem.reuse", "a kernel adds to its output"),
    DEFECT(trim_takes_live, "mem.trim", "trim clears what is in use"),
};
/* clang-format on */

KC_AREA(mem, "Memory");
