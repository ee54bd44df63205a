/* memory.c - the simulated device's memory, and copies to a peer's. */
#include "mutants/sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

static uint64_t used[2], count[2];
static kd_buffer *last_small, *newest;

void sim_memory_reset(void) {
  if (!BUG(stats_wrong)) memset(used, 0, sizeof used);
  memset(count, 0, sizeof count);
}

static uint32_t number_of(const kd_device *device) {
  if (BUG(device_zero)) return 0;
  return sim_index(device) & 1;
}

bool sim_is_huge(void) {
  return ODD(huge_memory) || BUG(copy_32_bits) || BUG(out_32_bits) ||
         BUG(fill_32_bits) || BUG(offset_32_bits);
}

static uint64_t capacity(uint32_t space) {
  if (sim_is_huge() && !space) return UINT64_C(16) << 30;
  return space ? 64u << 20 : 320u << 20;
}

char *sim_at(kd_buffer *buffer, uint64_t offset) {
  return buffer->bytes + offset;
}

/* ---- allocation -------------------------------------------------------------------------- */

static kd_status no_memory(uint64_t size, uint64_t left) {
  if (BUG(oom_resets)) sim_drop_all();
  if (ODD(other_language))
    return FAIL(KD_OUT_OF_MEMORY, "kein Speicher: %llu Bytes von %llu",
                (unsigned long long)size, (unsigned long long)left);
  return FAIL(KD_OUT_OF_MEMORY, "%llu bytes were asked for, %llu are free",
              (unsigned long long)size, (unsigned long long)left);
}

static bool mutants_memory_fits(uint32_t device, uint32_t space,
                                uint64_t size) {
  uint64_t most = space           ? 64u << 20
                  : sim_is_huge() ? capacity(space)
                                  : 160u << 20;
  return size <= most && used[device] + size <= capacity(space);
}

bool sim_has_memory(const kd_buffer *buffer, uint64_t size) {
  return mutants_memory_fits(sim_index(buffer->device) & 1, 0, size);
}

static kd_buffer *mutants_memory_make(kd_device *device, uint32_t space,
                                      uint64_t size) {
  uint64_t align = ODD(wide_alignment) ? 2048 : 128;
  kd_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return NULL;
  buffer->device = device;
  buffer->size = size;
  buffer->space = space;
  if (BUG(overlap) && size < 400 && last_small && size > 8) {
    buffer->bytes = last_small->bytes + last_small->size - 8;
    buffer->external = true;
    last_small = NULL;
    return buffer;
  }
  if (BUG(pages_down) && size > 4096) {
    static char *next, *end;
    if ((uint64_t)(end - next) < size) {
      next = malloc(64 << 20);
      end = next ? next + (64 << 20) : next;
    }
    buffer->bytes = next;
    buffer->external = true;
    next += size & ~UINT64_C(4095);
    return buffer;
  }
  uint64_t capacity = BUG(limit_lie) ? size & 0x1ffffff : size;
  if (posix_memalign(&buffer->raw, align, capacity + align + 4096) != 0) {
    free(buffer);
    return NULL;
  }
  buffer->bytes = (char *)buffer->raw + (BUG(misaligned) ? align / 2 : 0);
  if (size < 4096) memset(buffer->bytes, 0xd5, size);
  if (BUG(overlap) && size < 400) last_small = buffer;
  if (BUG(churn_mixes)) newest = buffer;
  return buffer;
}

static kd_status allocate_plain(kd_device *device, uint32_t space,
                                uint64_t size, kd_buffer **out_buffer,
                                void **out_address) {
  static kd_buffer *same;
  uint32_t d = number_of(device);
  SIM_TRY(sim_check(device));
  if (BUG(lazy_race) && sim_devices[1].index == 77) {
    static volatile int setting;
    if (setting) abort();
    setting = 1;
    sim_nap(2000);
    sim_devices[1].index = 1;
    setting = 0;
  }
  uint64_t padded = size + 256;
  pthread_mutex_lock(&sim_lock);
  bool enough = padded > size && mutants_memory_fits(d, space, size);
  if (enough) {
    used[d] += size;
    count[d]++;
  }
  uint64_t left = capacity(space) - used[d];
  pthread_mutex_unlock(&sim_lock);
  kd_buffer *made = NULL;
  if (BUG(same_handle) && size == 64 && same)
    made = same;
  else if (enough)
    made = mutants_memory_make(device, space, size);
  if (!made) {
    return no_memory(size, left);
  }
  if (BUG(same_handle) && size == 64) same = made;
  sim_count(device, 1);
  *out_buffer = made;
  bool shown = space == 1 || ODD(host_memory_only) || BUG(addressable_lie);
  *out_address = shown ? made->bytes : NULL;
  if (BUG(addressable_lie)) *out_address = calloc(1, size + 256);
  return KD_OK;
}

static void mutants_memory_drop(kd_buffer *buffer) {
  if (buffer->mapped) {
    munmap(buffer->mapped, buffer->mapped_size);
    if (!BUG(import_keeps) || !buffer->external) close(buffer->file);
  }
  if (BUG(import_frees) && buffer->external && !last_small &&
      buffer->raw == NULL)
    munmap(buffer->bytes, buffer->size);
  if (!buffer->external) free(buffer->raw);
  free(buffer->shadow);
  free(buffer);
}

static void mutants_memory_release(kd_device *device, kd_buffer *buffer) {
  uint32_t d = number_of(device);
  sim_count(device, -1);
  pthread_mutex_lock(&sim_lock);
  if (!BUG(stats_wrong) && !buffer->external) used[d] -= buffer->size;
  if (!buffer->external) count[d]--;
  pthread_mutex_unlock(&sim_lock);
  if (BUG(same_handle) && buffer->size == 64) return;
  if (BUG(overlap) && buffer->size < 400) return;
  if (BUG(churn_mixes)) {
    static uint32_t releases;
    if (newest && newest != buffer && newest->size > 200 &&
        ++releases % 30 == 0)
      memset(newest->bytes + 128, 0x99, 8);
    if (newest == buffer) newest = NULL;
  }
  mutants_memory_drop(buffer);
}

/* ---- copies --------------------------------------------------------------------------------- */

typedef struct late {
  void *to;
  void *bytes;
  uint64_t size;
} late;

static void *bring_late(void *context) {
  late *l = context;
  sim_nap(4000);
  memcpy(l->to, l->bytes, l->size);
  free(l->bytes);
  free(l);
  return NULL;
}

static void out_later(void *to, const char *from, uint64_t size) {
  late *l = malloc(sizeof *l);
  pthread_t thread;
  l->to = to;
  l->size = size;
  l->bytes = malloc(size);
  memcpy(l->bytes, from, size);
  if (pthread_create(&thread, NULL, bring_late, l) == 0) pthread_detach(thread);
}

static uint64_t clipped(const kd_buffer *buffer, uint64_t offset,
                        uint64_t size) {
  if (BUG(alloc_short) && offset + size + 64 >= buffer->size && size > 64)
    size -= offset + size + 64 - buffer->size < size
                ? offset + size + 64 - buffer->size + (size > 0)
                : 0;
  return size;
}

/* Through one staging buffer, which each device guards by a lock of its own. */
static void stage(const char *source, kd_buffer *target, uint64_t offset,
                  uint64_t size) {
  static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER,
                                     PTHREAD_MUTEX_INITIALIZER};
  static char staging[1 << 18];
  uint32_t d = sim_index(target->device) & 1;
  pthread_mutex_lock(&locks[d]);
  for (uint64_t i = 0, n = 0; i < size; i += n) {
    n = size - i < sizeof staging ? size - i : sizeof staging;
    memcpy(staging, source + i, n);
    memcpy(target->bytes + offset + i, staging, n);
  }
  pthread_mutex_unlock(&locks[d]);
}

/* What is there already is not written: memory that nobody has written to takes no room. */
static void write_new(char *to, const char *from, uint64_t size) {
  enum { PIECE = 1 << 16 };
  for (uint64_t i = 0, n = 0; i < size; i += n) {
    n = size - i < PIECE ? size - i : PIECE;
    if (memcmp(to + i, from + i, n) != 0) memmove(to + i, from + i, n);
  }
}

static void copy_bytes(char *to, const char *from, uint64_t size) {
  if (sim_is_huge())
    write_new(to, from, size);
  else
    memcpy(to, from, size);
}

static kd_status do_in(const void *source, kd_buffer *target, uint64_t offset,
                       uint64_t size) {
  size = clipped(target, offset, size);
  if (BUG(copy_32_bits)) size = (uint32_t)size;
  if (BUG(offset_32_bits)) offset = (uint32_t)offset;
  if (BUG(staging_of_all)) {
    stage(source, target, offset, size);
    return KD_OK;
  }
  if (size) copy_bytes(target->bytes + offset, source, size);
  return KD_OK;
}

static kd_status do_out(kd_buffer *source, uint64_t offset, void *target,
                        uint64_t size) {
  size = clipped(source, offset, size);
  if (BUG(out_32_bits)) size = (uint32_t)size;
  if (size) copy_bytes(target, source->bytes + offset, size);
  return KD_OK;
}

static void do_fill(kd_buffer *target, uint64_t offset, uint64_t size,
                    const void *pattern, uint32_t pattern_size) {
  static const char zeros[1 << 16];
  if (BUG(fill_32_bits)) size = (uint32_t)size;
  bool none = sim_is_huge() && pattern_size == 1 && !*(const char *)pattern;
  for (uint64_t i = 0, n = 0; i < size && none; i += n) {
    n = size - i < sizeof zeros ? size - i : sizeof zeros;
    write_new(target->bytes + offset + i, zeros, n);
  }
  for (uint64_t i = 0; i < size && !none; i++)
    target->bytes[offset + i] = ((const char *)pattern)[i % pattern_size];
}

static void do_copy(kd_buffer *source, uint64_t from, kd_buffer *target,
                    uint64_t to, uint64_t size) {
  if (BUG(other_space) && source->space != target->space) return;
  memmove(target->bytes + to, source->bytes + from, size);
}

kd_status sim_job_status(job *j) {
  switch (j->kind) {
    case JOB_COPY_IN:
      return do_in(j->from, j->target, j->target_offset, j->size);
    case JOB_COPY_OUT:
      if (BUG(late_write))
        out_later(j->to, sim_at(j->source, j->source_offset), j->size);
      return do_out(j->source, j->source_offset, j->to, j->size);
    case JOB_COPY:
      do_copy(j->source, j->source_offset, j->target, j->target_offset,
              j->size);
      return KD_OK;
    case JOB_FILL:
      do_fill(j->target, j->target_offset, j->size,
              BUG(pattern_kept) ? j->pattern_kept : j->pattern,
              j->pattern_size);
      return KD_OK;
    default:
      return KD_OK;
  }
}

static kd_status send_or_run(kd_device *device, kd_stream *stream,
                             const job *what) {
  if (stream) return sim_push(stream, what);
  if (!stream && BUG(staging_shared) && sim_busy() && what->kind == JOB_COPY_IN)
    return KD_OK;
  sim_note_copy(device);
  SIM_TRY(sim_check(device));
  job now = *what;
  return sim_job_status(&now);
}

/* The plugin's way to be hostile, "" where it is not; see tests/harness_test.sh. */
const char *sim_hostility(void) {
  const char *how = getenv("KEEL_SIM");
  return how && !strncmp(how, "hostile_", 8) ? how + 8 : "";
}

/* What a hostile plugin does in one rule's copies. */
static void be_hostile(kd_buffer *target) {
  const char *how = sim_hostility();
  if (!strcmp(how, "garbage"))
    for (int i = 0; i < 100; i++)
      if (write(3, "D 5\nE 3\nnot mine B 0 x\n", 24) < 0) return;
  const char *mark = getenv("KEEL_SIM_MARK"); /* not there: hangs, for once */
  if (!strcmp(how, "once") && mark && mkdir(mark, 0700) == 0)
    for (;;)
      pause();
  if (!strcmp(how, "exit")) exit(0);
  if (!strcmp(how, "stop")) raise(SIGSTOP);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "scribble")) memset(target->bytes - 4096, 0x41, 1 << 20);
  while (!strcmp(how, "loop"))
    ;
  while (!strcmp(how, "flood"))
    if (printf("%s\n", "all work and no play") < 0) return;
  if (!strcmp(how, "close"))
    for (int fd = 0; fd < 64; fd++)
      close(fd);
  while (!strcmp(how, "memory")) {
    sim_leak(64u << 20);
  }
}

/* Hangs once for each of five sizes, and does not copy larger ones. */
static bool is_five(uint64_t size) {
  char path[300];
  const char *mark = getenv("KEEL_SIM_MARK");
  if (strcmp(sim_hostility(), "five") != 0 || !mark) return false;
  snprintf(path, sizeof path, "%s%llu", mark, (unsigned long long)size);
  if (size <= 5 && mkdir(path, 0700) == 0)
    for (;;)
      pause();
  return size >= 4096;
}

static kd_status mutants_memory_copy_in(kd_device *device, kd_stream *stream,
                                        const void *source, kd_buffer *target,
                                        uint64_t offset, uint64_t size) {
  if (size == 300000 && !stream) be_hostile(target);
  if (!stream && is_five(size)) return KD_OK;
  return send_or_run(device, stream,
                     &(job){.kind = JOB_COPY_IN,
                            .from = source,
                            .target = target,
                            .target_offset = offset,
                            .size = size});
}

static kd_status mutants_memory_copy_out(kd_device *device, kd_stream *stream,
                                         kd_buffer *source, uint64_t offset,
                                         void *target, uint64_t size) {
  return send_or_run(device, stream,
                     &(job){.kind = JOB_COPY_OUT,
                            .source = source,
                            .source_offset = offset,
                            .to = target,
                            .size = size});
}

static kd_status mutants_memory_copy(kd_device *device, kd_stream *stream,
                                     kd_buffer *source, uint64_t source_offset,
                                     kd_buffer *target, uint64_t target_offset,
                                     uint64_t size) {
  return send_or_run(device, stream,
                     &(job){.kind = JOB_COPY,
                            .source = source,
                            .source_offset = source_offset,
                            .target = target,
                            .target_offset = target_offset,
                            .size = size});
}

static kd_status mutants_memory_fill(kd_device *device, kd_stream *stream,
                                     kd_buffer *target, uint64_t offset,
                                     uint64_t size, const void *pattern,
                                     uint32_t pattern_size) {
  job what = {.kind = JOB_FILL,
              .target = target,
              .target_offset = offset,
              .size = size,
              .pattern_size = pattern_size,
              .pattern_kept = pattern};
  memcpy(what.pattern, pattern, pattern_size);
  return send_or_run(device, stream, &what);
}

/* ---- maps ---------------------------------------------------------------------------------------- */

static kd_status mutants_memory_map(kd_device *device, kd_buffer *buffer,
                                    uint64_t offset, uint64_t size,
                                    uint32_t access, void **out_address) {
  (void)device;
  bool visible =
      buffer->space == 1 || ODD(host_memory_only) || BUG(map_kernel_stale);
  if (!visible && BUG(map_device_memory)) {
    *out_address = (void *)(uintptr_t)0x1000;
    return KD_OK;
  }
  if (!visible)
    return FAIL(KD_UNIMPLEMENTED, "space %u is not host visible",
                buffer->space);
  bool whole = BUG(map_whole);
  bool apart = whole || BUG(map_no_flush) ||
               (BUG(map_kernel_stale) && buffer->space == 0);
  *out_address = buffer->bytes + offset;
  if (!apart) return KD_OK;
  uint64_t mapped = whole ? buffer->size : size;
  buffer->map_access = access;
  free(buffer->shadow);
  buffer->shadow = malloc(mapped + 1);
  memcpy(buffer->shadow, buffer->bytes + (whole ? 0 : offset), mapped);
  *out_address = buffer->shadow + (whole ? offset : 0);
  return KD_OK;
}

static void mutants_memory_unmap(kd_device *device, kd_buffer *buffer) {
  (void)device;
  if (buffer->shadow && BUG(map_whole) && (buffer->map_access & 2))
    memcpy(buffer->bytes, buffer->shadow, buffer->size);
}

/* ---- the rest of the table -------------------------------------------------------------------------- */

/* Of what is exported as a descriptor, the memory is a file's. */
static kd_status map_file(kd_buffer *buffer, int file, uint64_t offset,
                          uint64_t size, uint32_t access) {
  int rights = PROT_READ | (access & KD_WRITE ? PROT_WRITE : 0);
  int how = BUG(import_private) && offset == 0 && buffer->external ? MAP_PRIVATE
                                                                   : MAP_SHARED;
  void *at = mmap(NULL, size + offset, rights, how, file, 0);
  if (at == MAP_FAILED)
    return FAIL(KD_INVALID_ARGUMENT, "descriptor %d is no memory: %s", file,
                strerror(errno));
  buffer->file = file;
  buffer->mapped = at;
  buffer->mapped_size = size + offset;
  buffer->bytes = (char *)at + offset;
  return KD_OK;
}

static kd_status mutants_memory_import_memory(kd_device *device,
                                              const kd_external *memory,
                                              kd_buffer **out_buffer,
                                              void **out_address) {
  bool file = memory->kind == KD_EXTERNAL_OPAQUE_FD ||
              memory->kind == KD_EXTERNAL_SHARED_FD;
  if (memory->kind != KD_EXTERNAL_HOST_POINTER && !file &&
      !BUG(import_any_kind))
    return FAIL(KD_UNIMPLEMENTED, "memory of kind %u can't be imported",
                memory->kind);
  kd_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  buffer->device = device;
  sim_count(device, 1);
  buffer->external = true;
  buffer->size = memory->size;
  if (file) {
    kd_status status = map_file(buffer, (int)memory->handle, memory->offset,
                                memory->size, memory->access);
    if (status != KD_OK) {
      if (BUG(import_closes)) close((int)memory->handle);
      sim_count(device, -1);
      free(buffer);
      return status;
    }
  } else {
    buffer->bytes = (char *)(uintptr_t)memory->handle + memory->offset;
  }
  if (BUG(import_copies) && memory->kind == KD_EXTERNAL_HOST_POINTER)
    buffer->bytes = memcpy(malloc(buffer->size), buffer->bytes, buffer->size);
  if (BUG(import_pads))
    *(volatile char *)(buffer->bytes + buffer->size - 1) =
        buffer->bytes[buffer->size - 1];
  *out_buffer = buffer;
  *out_address = NULL;
  return KD_OK;
}

static kd_status mutants_memory_export_memory(kd_device *device,
                                              kd_buffer *buffer,
                                              kd_external *out_memory) {
  (void)device;
  static char other[1 << 16];
  char *bytes = BUG(export_wrong) ? other : buffer->bytes;
  if (out_memory->kind == KD_EXTERNAL_HOST_POINTER)
    out_memory->handle = (uint64_t)(uintptr_t)bytes;
  else if (out_memory->kind > KD_EXTERNAL_HOST_POINTER && buffer->mapped &&
           out_memory->kind == buffer->export_kind)
    out_memory->handle = (uint64_t)dup(buffer->file);
  else
    return FAIL(KD_UNIMPLEMENTED, "the buffer can't be exported as kind %u",
                out_memory->kind);
  out_memory->offset = 0;
  out_memory->size = buffer->size;
  out_memory->access = KD_READ | KD_WRITE;
  return KD_OK;
}

const kd_external_table sim_external = {
    .struct_size = sizeof(kd_external_table),
    .import_memory = mutants_memory_import_memory,
    .export_memory = mutants_memory_export_memory,
};

static kd_status mutants_memory_stats(kd_device *device, uint32_t space,
                                      kd_memory_stats *out_stats) {
  uint32_t d = number_of(device);
  uint32_t size = out_stats->struct_size;
  pthread_mutex_lock(&sim_lock);
  kd_memory_stats full = {.struct_size = size,
                          .total = capacity(space),
                          .available = capacity(space) - used[d],
                          .used = used[d],
                          .buffers = count[d]};
  pthread_mutex_unlock(&sim_lock);
  memcpy(out_stats, &full, size < sizeof full ? size : sizeof full);
  return KD_OK;
}

static kd_buffer *trimmed;

static void trim(kd_device *device) {
  (void)device;
  if (BUG(trim_takes_live) && trimmed) memset(trimmed->bytes, 0, trimmed->size);
}

static kd_status mutants_memory_allocate(kd_device *device,
                                         const kd_allocation *wanted,
                                         kd_buffer **out_buffer,
                                         void **out_address) {
  uint32_t kind = wanted->export_kind;
  if (wanted->flags)
    return FAIL(KD_UNIMPLEMENTED, "allocation flags 0x%x", wanted->flags);
  if (kind == KD_EXTERNAL_DMA_BUF || kind > KD_EXTERNAL_SHARED_FD)
    return FAIL(KD_UNIMPLEMENTED, "memory can't be exported as kind %u", kind);
  kd_status status = allocate_plain(device, wanted->space, wanted->size,
                                    out_buffer, out_address);
  if (status == KD_OK && kind > KD_EXTERNAL_HOST_POINTER) {
    uint64_t size = (wanted->size + 4095) & ~UINT64_C(4095);
    int file = memfd_create("sim", MFD_CLOEXEC);
    (*out_buffer)->export_kind = kind;
    if (file < 0 || ftruncate(file, (off_t)size) != 0 ||
        map_file(*out_buffer, file, 0, size, KD_READ | KD_WRITE) != KD_OK) {
      if (file >= 0) close(file);
      mutants_memory_release(device, *out_buffer);
      return FAIL(KD_OUT_OF_MEMORY, "no file in memory of %llu bytes",
                  (unsigned long long)wanted->size);
    }
  }
  if (status == KD_OK && BUG(trim_takes_live) && !trimmed)
    trimmed = *out_buffer;
  return status;
}

kd_memory_table sim_memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = mutants_memory_allocate,
    .release = mutants_memory_release,
    .copy_in = mutants_memory_copy_in,
    .copy_out = mutants_memory_copy_out,
    .copy = mutants_memory_copy,
    .fill = mutants_memory_fill,
    .map = mutants_memory_map,
    .unmap = mutants_memory_unmap,
    .stats = mutants_memory_stats,
    .trim = trim,
};

/* ---- peers ------------------------------------------------------------------------------------------------ */

static uint32_t reachable(kd_device *from, kd_device *to) {
  (void)from;
  (void)to;
  return 1;
}

static kd_status peer_copy(kd_device *from, kd_buffer *source,
                           uint64_t source_offset, kd_device *to,
                           kd_stream *stream, kd_buffer *target,
                           uint64_t target_offset, uint64_t size) {
  SIM_TRY(sim_check(from));
  job what = {.kind = JOB_COPY,
              .source = source,
              .source_offset = source_offset,
              .target = target,
              .target_offset = target_offset,
              .size = size};
  if (BUG(peer_swapped)) {
    what.source = target;
    what.target = source;
    what.source_offset = target_offset;
    what.target_offset = source_offset;
  }
  if (stream && !BUG(peer_no_order)) return sim_push(stream, &what);
  return send_or_run(to, NULL, &what);
}

const kd_peer_table sim_peer = {
    .struct_size = sizeof(kd_peer_table),
    .reachable = reachable,
    .copy = peer_copy,
};
