/* copy.c - copies and fills. */
#include <sys/mman.h>
#include <unistd.h>

#include "rules/rules.h"

static void copy_in_out(void) {
  static const uint64_t sizes[] = {
      1,  2,  3,  4,  5,   7,   8,    9,    15,   16,    17,     31,
      33, 63, 64, 65, 127, 129, 1000, 4095, 4097, 65535, 1048577};
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    uint64_t size = sizes[i];
    if (!kc_case("size=%llu", (unsigned long long)size)) continue;
    char *in = kc_take(size), *out = kc_take(size + 8);
    kc_buffer *buffer = kc_buffer_make(size);
    for (int round = 0; round < 2; round++) {
      kc_pattern(in, size, i + (uint64_t)round);
      memset(out, 0x77, size + 8);
      kc_write(buffer, 0, in, size);
      kc_read(buffer, 0, out, size);
      uint64_t first = kc_differs(in, out, size);
      kc_check(first == size, "byte %llu of %llu came back as another",
               (unsigned long long)first, (unsigned long long)size);
      bool whole = true;
      for (int k = 0; k < 8; k++)
        whole &= out[size + (uint64_t)k] == 0x77;
      kc_check(whole, "copy_out of %llu bytes wrote more to host memory",
               (unsigned long long)size);
    }
    kc_buffer_free(buffer);
    free(in);
    free(out);
  }
}

static void copy_offsets(void) {
  enum { SIZE = 96 };
  char model[SIZE], piece[40], back[SIZE];
  kc_buffer *buffer = kc_buffer_make(SIZE);
  kc_pattern(model, SIZE, 1);
  kc_write(buffer, 0, model, SIZE);
  for (uint64_t to = 0; to < 17; to++)
    for (uint64_t size = 1; size < 40; size += 6) {
      kc_pattern(piece, size, to * 41 + size);
      kc_write(buffer, to + 8, piece, size);
      memcpy(model + to + 8, piece, size);
      kc_read(buffer, 0, back, SIZE);
      uint64_t first = kc_differs(model, back, SIZE);
      kc_check(first == SIZE,
               "after copy_in of %llu bytes to offset %llu byte %llu is wrong",
               (unsigned long long)size, (unsigned long long)to + 8,
               (unsigned long long)first);
      kc_read(buffer, to, back, size);
      first = kc_differs(model + to, back, size);
      kc_check(first == size,
               "copy_out of %llu bytes from offset %llu: byte %llu is wrong",
               (unsigned long long)size, (unsigned long long)to,
               (unsigned long long)first);
    }
  kc_buffer_free(buffer);
}

static void copy_zero(void) {
  char in[16] = "abcdefghijklmno", out[16];
  kc_buffer *buffer = kc_buffer_make(16), *other = kc_buffer_make(16);
  kc_write(buffer, 0, in, 16);
  kc_write(other, 0, in, 16);
  kc_ok(kc_try_copy_in(NULL, buffer, 0, NULL, 0), "copy_in of nothing");
  kc_ok(kc_try_copy_out(NULL, buffer, 16, NULL, 0), "copy_out of nothing");
  if (kp.m.copy) kc_ok(kc_try_copy(NULL, buffer, other, 0), "copy of nothing");
  char zero = 0;
  if (kp.m.fill)
    kc_ok(kc_try_fill(NULL, buffer, 0, &zero, 1), "fill of nothing");
  kc_read(buffer, 0, out, 16);
  kc_check(!memcmp(in, out, 16), "a copy or fill of 0 bytes changed something");
  kc_read(other, 0, out, 16);
  kc_check(!memcmp(in, out, 16), "a copy of 0 bytes changed its target");
  kc_buffer_free(buffer);
  kc_buffer_free(other);
}

static void copy_device(void) {
  if (!kp.m.copy) kc_unclaimed("memory.copy is NULL");
  enum { SIZE = 5000 };
  static char a[SIZE], b[SIZE], back[SIZE];
  kc_buffer *x = kc_buffer_make(SIZE), *y = kc_buffer_make(SIZE);
  kc_pattern(a, SIZE, 1);
  kc_pattern(b, SIZE, 2);
  kc_write(x, 0, a, SIZE);
  kc_write(y, 0, b, SIZE);
  static const uint64_t moves[][3] = {{0, 0, SIZE}, {1, 0, 99},
                                      {0, 3, 1001}, {77, 4000, 1000},
                                      {4999, 0, 1}, {13, 17, 4000}};
  for (size_t i = 0; i < KC_COUNT_OF(moves); i++) {
    uint64_t from = moves[i][0], to = moves[i][1], size = moves[i][2];
    kc_write(y, 0, b, SIZE);
    kc_ok(kp.m.copy(x->device, NULL, x->handle, x->offset + from, y->handle,
                    y->offset + to, size),
          "copy");
    kc_read(y, 0, back, SIZE);
    char want[SIZE];
    memcpy(want, b, SIZE);
    memcpy(want + to, a + from, size);
    uint64_t first = kc_differs(want, back, SIZE);
    kc_check(first == SIZE,
             "copy of %llu bytes from %llu to %llu: byte %llu is wrong",
             (unsigned long long)size, (unsigned long long)from,
             (unsigned long long)to, (unsigned long long)first);
  }
  /* within one buffer, ranges that do not overlap */
  kc_ok(kp.m.copy(x->device, NULL, x->handle, x->offset, x->handle,
                  x->offset + 2500, 2500),
        "copy within a buffer");
  kc_read(x, 0, back, SIZE);
  kc_check(!memcmp(back, a, 2500) && !memcmp(back + 2500, a, 2500),
           "a copy within one buffer is wrong");
  kc_buffer_free(x);
  kc_buffer_free(y);
}

static void copy_spaces(void) {
  if (!kp.m.copy) kc_unclaimed("memory.copy is NULL");
  const kd_device_info *info = kc_info();
  if (info->space_count < 2) kc_unclaimed("there is one space");
  char in[700], out[700];
  for (uint32_t s = 0; s < info->space_count; s++)
    for (uint32_t t = 0; t < info->space_count; t++) {
      kc_buffer *x = kc_buffer_in(kc_device(), s, sizeof in);
      kc_buffer *y = kc_buffer_in(kc_device(), t, sizeof in);
      kc_pattern(in, sizeof in, s * 8 + t);
      kc_write(x, 0, in, sizeof in);
      kc_ok(kc_try_copy(NULL, x, y, sizeof in), "copy between spaces");
      kc_read(y, 0, out, sizeof out);
      kc_check(!memcmp(in, out, sizeof in),
               "a copy from space %u to space %u is wrong", s, t);
      kc_buffer_free(x);
      kc_buffer_free(y);
    }
}

/* What a synchronous copy is done with when its call returns: the source may be scribbled
 * over, or what came out is looked at. wrong: about a byte's number. */
static void copy_at_once(uint64_t size, bool scribbles, const char *wrong) {
  char *in = kc_lend(size), *want = kc_lend(size);
  char *out = kc_lend(size), *seen = kc_lend(size);
  kc_buffer *buffer = kc_buffer_make(size);
  for (uint64_t i = 0; i < 10; i++) {
    kc_pattern(in, size, i);
    memcpy(want, in, size);
    kc_write(buffer, 0, in, size);
    if (scribbles) memset(in, 0xee, size);
    memset(out, 0, size);
    kc_read(buffer, 0, out, size);
    memcpy(seen, out, size); /* at once */
    uint64_t first = kc_differs(want, seen, size);
    kc_check(first == size, "byte %llu %s", (unsigned long long)first, wrong);
  }
  kc_buffer_free(buffer);
}

static void copy_host_reusable(void) {
  copy_at_once(300000, true,
               "was read from host memory after a synchronous copy_in had"
               " returned");
}

static void copy_out_done(void) {
  copy_at_once(400000, false,
               "was not there when a synchronous copy_out returned");
}

static void copy_kinds_of_memory(void) {
  enum { SIZE = 6000 };
  char stack[SIZE], back[SIZE];
  char path[600];
  snprintf(path, sizeof path, "%s/copy.bin", kc.scratch ? kc.scratch : "/tmp");
  FILE *file = fopen(path, "w+be");
  KC_NEED(file != NULL, "the suite can't write %s", path);
  kc_pattern(stack, SIZE, 3);
  fwrite(stack, 1, SIZE, file);
  fflush(file);
  void *mapped = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  fclose(file);
  KC_NEED(mapped != MAP_FAILED, "the suite can't map %s", path);
  const void *sources[] = {stack, mapped, kc_fenced(SIZE)};
  static const char *const names[] = {"the stack", "a mapped file",
                                      "memory with a guard page behind it"};
  memcpy((void *)(uintptr_t)sources[2], stack, SIZE);
  kc_buffer *buffer = kc_buffer_make(SIZE);
  for (size_t i = 0; i < KC_COUNT_OF(sources); i++) {
    memset(back, 0, SIZE);
    kc_write(buffer, 0, back, SIZE);
    kc_write(buffer, 0, sources[i], SIZE);
    kc_read(buffer, 0, back, SIZE);
    kc_check(!memcmp(back, stack, SIZE), "a copy from %s is wrong", names[i]);
  }
  char *fence = kc_fenced(SIZE);
  kc_read(buffer, 0, fence, SIZE);
  kc_check(!memcmp(fence, stack, SIZE), "a copy to %s is wrong", names[2]);
  munmap(mapped, SIZE);
  kc_buffer_free(buffer);
}

static void copy_source_untouched(void) {
  enum { SIZE = 8192 };
  char *source = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KC_NEED(source != MAP_FAILED, "the suite can't map pages");
  kc_pattern(source, SIZE, 1);
  mprotect(source, SIZE, PROT_READ);
  kc_buffer *buffer = kc_buffer_make(SIZE);
  kc_write(buffer, 0, source, SIZE); /* a write to the source would fault */
  char back[SIZE];
  kc_read(buffer, 0, back, SIZE);
  kc_check(!memcmp(back, source, SIZE),
           "a copy from read-only memory is wrong");
  munmap(source, SIZE);
  kc_buffer_free(buffer);
}

static void copy_fill(void) {
  if (!kp.m.fill) kc_unclaimed("memory.fill is NULL");
  static const uint32_t widths[] = {1, 2, 4, 8, 16};
  enum { SIZE = 1024 };
  for (size_t w = 0; w < KC_COUNT_OF(widths); w++) {
    uint32_t width = widths[w];
    if (!kc_case("pattern=%u", width)) continue;
    unsigned char pattern[16], want[SIZE], back[SIZE];
    kc_buffer *buffer = kc_buffer_make(SIZE);
    for (uint64_t at = 0; at < 5; at++)
      for (uint64_t n = 1; n < 30; n += 7) {
        kc_pattern(want, SIZE, at + n);
        kc_write(buffer, 0, want, SIZE);
        kc_pattern(pattern, 16, at * 3 + n);
        uint64_t offset = at * width, size = n * width;
        kc_ok(kp.m.fill(buffer->device, NULL, buffer->handle,
                        buffer->offset + offset, size, pattern, width),
              "fill");
        memset(pattern, 0, 0);
        for (uint64_t i = 0; i < size; i++)
          want[offset + i] = pattern[i % width];
        kc_read(buffer, 0, back, SIZE);
        uint64_t first = kc_differs(want, back, SIZE);
        kc_check(first == SIZE,
                 "fill of %llu bytes at %llu with a pattern of %u: byte %llu is"
                 " wrong",
                 (unsigned long long)size, (unsigned long long)offset, width,
                 (unsigned long long)first);
      }
    kc_buffer_free(buffer);
  }
}

/* More than what a driver takes along with a call: in and out of one buffer, each time
 * other data. */
static void large_order(void) {
  enum { ROUNDS = 8, BYTES = 300000 };
  kd_stream *stream = kc_stream_make(kc_device());
  kc_buffer *buffer = kc_buffer_make(BYTES);
  char *in = kc_lend((uint64_t)ROUNDS * BYTES);
  char *out = kc_lend((uint64_t)ROUNDS * BYTES);
  for (uint64_t i = 0; i < ROUNDS; i++) {
    kc_pattern(in + i * BYTES, BYTES, i + 1);
    for (uint64_t half = 0; half < BYTES; half += BYTES / 2)
      kc_copy_in(stream, buffer, half, in + i * BYTES + half, BYTES / 2);
    kc_copy_out(stream, buffer, 0, out + i * BYTES, BYTES);
  }
  kc_drain(stream);
  for (uint64_t i = 0; i < ROUNDS; i++)
    kc_check(!memcmp(in + i * BYTES, out + i * BYTES, BYTES),
             "round %llu of %d bytes came out other than it went in",
             (unsigned long long)i, BYTES);
}

/* Copies in a stream stand in its order with kernels. */
static void copy_order(void) {
  large_order();
  kc_unary unary;
  kc_unary_need(512, &unary);
  kc_run *run = kc_unary_run(&unary);
  kd_stream *stream = kc_stream_make(run->device);
  enum { ROUNDS = 60, BYTES = 512 * 4 };
  static float in[ROUNDS][512], out[ROUNDS][512];
  kc_random random = kc_seed();
  uint32_t rounds = kc.quick ? 20 : ROUNDS;
  value *values[ROUNDS];
  int64_t dims[1] = {512};
  for (uint32_t i = 0; i < rounds; i++) {
    values[i] = kc_floats(1, dims, &random);
    value_store(values[i], in[i]);
    kc_copy_in(stream, run->in_buffers[0], 0, in[i], BYTES);
    kc_ok(kc_run_enqueue(run, stream), "enqueue");
    kc_copy_out(stream, run->out_buffers[0], 0, out[i], BYTES);
  }
  kc_drain(stream);
  for (uint32_t i = 0; i < rounds; i++) {
    kc_unary_compare(&unary, values[i], out[i], "a round's output");
    value_free(values[i]);
  }
  kc_run_free(run);
  kc_unary_free(&unary);
}

static void copy_stream_reusable(void) {
  enum { SIZE = 200000 };
  char *want = kc_lend(SIZE);
  kc_trip trip = kc_trip_make(SIZE);
  kd_stream *stream = kc_stream_make(kc_device());
  for (uint64_t i = 0; i < 6; i++) {
    kc_trip_enqueue(&trip, stream, i, 2 * KC_MS);
    kc_pattern(want, SIZE, i);
    kc_drain(stream);
    memset(trip.in, 0xdd, SIZE);
    uint64_t first = kc_differs(want, trip.out, SIZE);
    kc_check(first == SIZE, "byte %llu is wrong when the stream is done",
             (unsigned long long)first);
    kc_read(trip.buffer, 0, trip.out, SIZE);
    first = kc_differs(want, trip.out, SIZE);
    kc_check(first == SIZE,
             "byte %llu was read from host memory after the stream had passed"
             " the copy",
             (unsigned long long)first);
  }
  kc_buffer_free(trip.buffer);
}

static void copy_stream_fill(void) {
  if (!kp.m.fill) kc_unclaimed("memory.fill is NULL");
  enum { SIZE = 4096 };
  kc_buffer *buffer = kc_buffer_make(SIZE), *other = kc_buffer_make(SIZE);
  kd_stream *stream = kc_stream_make(kc_device());
  char out[SIZE];
  for (int i = 0; i < 20; i++) {
    char byte = (char)(i + 1);
    kc_fill(stream, buffer, SIZE, &byte, 1);
    byte = 99; /* the pattern is the plugin's once the call has returned */
    if (kp.m.copy) kc_copy(stream, buffer, other, SIZE);
    kc_copy_out(stream, kp.m.copy ? other : buffer, 0, out, SIZE);
    kc_drain(stream);
    bool all = true;
    for (int k = 0; k < SIZE; k++)
      all &= out[k] == (char)(i + 1);
    kc_check(all,
             "a fill, a copy and a copy_out in one stream went out of"
             " order, or the pattern was read late");
  }
  kc_buffer_free(buffer);
  kc_buffer_free(other);
}

static const kc_rule rules[] = {
    KC_RULE(MUST, CORE, "copy.in-out", copy_in_out, KC_CASES, "memory.h",
            "Copies from a buffer to host memory",
            "kd_memory_table.copy_in kd_memory_table.copy_out",
            "Odd sizes show copies that are done in words."),
    KC_RULE(MUST, CORE, "copy.offsets", copy_offsets, 0, "memory.h",
            "A range is `size` bytes from `offset`",
            "kd_memory_table.copy_in kd_memory_table.copy_out",
            "Offsets that are dropped, doubled or rounded."),
    KC_RULE(MUST, CORE, "copy.zero", copy_zero, 0, "memory.h",
            "0 bytes are legal and do nothing",
            "kd_memory_table.copy_in kd_memory_table.copy_out"
            " kd_memory_table.copy kd_memory_table.fill",
            "Some drivers take 0 for the whole buffer, or refuse it; empty"
            " tensors are common in detection models."),
    KC_RULE(MUST, CORE, "copy.device-device", copy_device, 0, "memory.h",
            "Copies between two buffers of the device", "kd_memory_table.copy",
            "Source and target offsets get mixed up."),
    KC_RULE(MUST, CORE, "copy.between-spaces", copy_spaces, 0, "memory.h",
            "Copies between two buffers of the device, in any of its spaces",
            "kd_memory_table.copy kd_plugin.space",
            "Staging through pinned memory is a copy between spaces."),
    KC_RULE(MUST, CORE, "copy.host-reusable", copy_host_reusable, 0, "memory.h",
            "it returns when the data has moved", "kd_memory_table.copy_in",
            "A pointer kept past the call is read when the host has put other"
            " data there (ggml-org/llama.cpp#27572)."),
    KC_RULE(MUST, CORE, "copy.out-done", copy_out_done, 0, "memory.h",
            "`stream` is NULL for a synchronous call",
            "kd_memory_table.copy_out",
            "copy_out that only enqueues gives half of the last result"
            " (ggml-org/llama.cpp#18310)."),
    KC_RULE(MUST, CORE, "copy.any-host-memory", copy_kinds_of_memory, 0,
            "memory.h",
            "Host memory may be of any kind: heap, stack, a mapped"
            " file",
            "kd_memory_table.copy_in kd_memory_table.copy_out",
            "Pinning on the fly fails on the stack and on files, and reading a"
            " whole page past the end faults."),
    KC_RULE(MUST, CORE, "copy.source-untouched", copy_source_untouched, 0,
            "memory.h",
            "stays valid and unchanged until the stream has completed them",
            "kd_memory_table.copy_in", "Constants lie in read-only memory."),
    KC_RULE(MUST, CORE, "copy.fill-patterns", copy_fill, KC_CASES, "memory.h",
            "Fills a range with a repeated pattern of 1, 2, 4, 8 or 16"
            " bytes",
            "kd_memory_table.fill",
            "Drivers have fills of 1, 2 and 4 bytes only; the others are the"
            " plugin's work."),
    KC_RULE(SHOULD, CORE, "copy.big", kc_copy_big, KC_LONG, "memory.h",
            "Sizes are 64 bits wide", "kd_memory_table.copy_in",
            "Lengths that pass through an int fail at 2 GiB, those that pass"
            " through pages of descriptors much earlier."),
    KC_RULE(SHOULD, CORE, "copy.over-4-gib", kc_copy_over_4_gib, KC_LONG,
            "memory.h", "Sizes are 64 bits wide",
            "kd_memory_table.copy_in kd_memory_table.copy_out"
            " kd_memory_table.copy kd_memory_table.fill",
            "Sizes and offsets that pass through 32 bits. It takes"
            " --max-memory 9G."),
    KC_RULE(MUST, ASYNC, "copy.order", copy_order, 0, "memory.h",
            "With a stream, copies and fills run in stream order",
            "kd_memory_table.copy_in kd_memory_table.copy_out"
            " kd_kernel_def.enqueue",
            "Copies on another queue than kernels need an order of their"
            " own."),
    KC_RULE(MUST, ASYNC, "copy.stream-done", copy_stream_reusable, 0,
            "memory.h", "the call returns at once where it can",
            "kd_memory_table.copy_in kd_memory_table.copy_out",
            "Host memory is the application's again when the stream has passed"
            " the copy, not before, and not later."),
    KC_RULE(MUST, ASYNC, "copy.stream-fill", copy_stream_fill, 0, "memory.h",
            "The pattern is copied before the call returns",
            "kd_memory_table.fill kd_memory_table.copy",
            "The pattern usually lies on the caller's stack."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(odd_tail, "copy.in-out", KC_AROUND, "copies are done in words, tails are forgotten"),
    DEFECT_AS(out_offset, "copy.offsets", KC_AROUND, "copy_out ignores its offset's low bits"),
    DEFECT_AS(zero_is_all, "copy.zero", KC_AROUND, "size 0 is the whole buffer"),
    DEFECT_AS(source_offset, "copy.device-device", KC_AROUND, "the source offset is ignored"),
    DEFECT(other_space, "copy.between-spaces", "copies between spaces do nothing"),
    DEFECT_AS(host_pointer_kept, "copy.host-reusable", KC_AROUND, "the source is read after copy_in returned"),
    DEFECT_AS(out_early, "copy.out-done", KC_AROUND, "copy_out returns before the data is there"),
    DEFECT_AS(page_reader, "copy.any-host-memory", KC_AROUND, "whole lines are read past the source's end"),
    DEFECT_AS(writes_source, "copy.source-untouched", KC_AROUND, "the source is written back to"),
    DEFECT_AS(fill_four, "copy.fill-patterns", KC_AROUND, "patterns over 4 bytes are cut"),
    DEFECT_AS(length_24, "copy.big", KC_AROUND, "lengths pass through 24 bits"),
    DEFECT_AS(copy_32_bits, "copy.over-4-gib", KC_ROOM, "copy_in has a size of 32 bits"),
    DEFECT_AS(out_32_bits, "copy.over-4-gib", KC_ROOM, "copy_out has a size of 32 bits"),
    DEFECT_AS(fill_32_bits, "copy.over-4-gib", KC_ROOM, "fill has a size of 32 bits"),
    DEFECT_AS(offset_32_bits, "copy.over-4-gib", KC_ROOM, "copy_in has an offset of 32 bits"),
    DEFECT_AS(copies_unordered, "copy.order", KC_AROUND | KC_RACE, "copies in a stream run at once"),
    DEFECT(copy_late, "copy.stream-done", "copies in a stream are read after it has passed"),
    DEFECT(pattern_kept, "copy.stream-fill", "the pattern's pointer is kept"),
};
/* clang-format on */

KC_AREA(copy, "Copies and fills");
