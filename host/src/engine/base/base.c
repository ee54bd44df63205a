/* base.c - growing text, arenas, hashes, the clock and the log. */
#include "base/base.h"
#include "system/environment.h"
#include "system/locale.h"
#include "system/printable.h"

#include <time.h>

#include <kd/host.h>

void keel_text_add(keel_text *text, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int need = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (need > 0 && !text->failed) {
    size_t want = text->size + (size_t)need + 1;
    if (want > text->capacity) {
      size_t capacity = want * 2;
      char *data = realloc(text->data, capacity);
      if (data) {
        text->data = data;
        text->capacity = capacity;
      } else {
        text->failed = true;
      }
    }
    if (!text->failed) {
      vsnprintf(text->data + text->size, (size_t)need + 1, format, again);
      text->size += (size_t)need;
      assert(text->size < text->capacity);
    }
  }
  va_end(again);
}

void keel_text_free(keel_text *text) {
  free(text->data);
  *text = (keel_text){0};
}

/* ---- arena ---------------------------------------------------------------- */

#define ARENA_LEAST 192u /* bytes of a block */
#define ARENA_MOST  65536u

struct keel_arena_block {
  keel_arena_block *next;
  size_t used, size;
  _Alignas(16) char data[];
};

void *keel_arena_take(keel_arena *arena, size_t size) {
  size_t need = (size + 15) & ~(size_t)15;
  keel_arena_block *block = arena->blocks;
  if (!block || block->size - block->used < need) {
    /* small at first: an op of a graph has an arena of its own, and few attributes */
    size_t capacity = block ? block->size * 2 : ARENA_LEAST;
    if (capacity > ARENA_MOST) capacity = ARENA_MOST;
    if (capacity < need) capacity = need;
    block = calloc(1, sizeof *block + capacity);
    if (!block) {
      keel_no_memory(capacity);
      arena->failed = true;
      return NULL;
    }
    block->size = capacity;
    block->next = arena->blocks;
    arena->blocks = block;
  }
  void *memory = block->data + block->used;
  block->used += need;
  assert(block->used <= block->size);
  return memory;
}

void *keel_arena_copy_bytes(keel_arena *arena, const void *bytes, size_t size) {
  void *copy = keel_arena_take(arena, size ? size : 1);
  if (copy && size) memcpy(copy, bytes, size);
  return copy;
}

char *keel_arena_copy(keel_arena *arena, const char *string) {
  return keel_arena_copy_bytes(arena, string, strlen(string) + 1);
}

uint64_t keel_arena_bytes(const keel_arena *arena) {
  uint64_t bytes = 0;
  for (const keel_arena_block *block = arena->blocks; block;
       block = block->next)
    bytes += sizeof *block + block->size;
  return bytes;
}

void keel_arena_free(keel_arena *arena) {
  for (keel_arena_block *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  arena->blocks = NULL;
}

/* ---- arrays that grow ------------------------------------------------------- */

/* The capacity that comes next; 0: memory can't have so much. */
static uint32_t more_capacity(uint32_t capacity, size_t size) {
  if (capacity <= UINT32_MAX / 4) return capacity * 2 + 8;
  keel_no_memory((uint64_t)capacity * size);
  return 0;
}

void *keel_grow(void *array, uint32_t *capacity, size_t size) {
  uint32_t more = more_capacity(*capacity, size);
  void *larger = more ? realloc(array, more * size) : NULL;
  if (more && !larger) keel_no_memory(more * size);
  if (!larger) return array;
  *capacity = more;
  return larger;
}

void *keel_arena_grow(keel_arena *arena, void *array, uint32_t *capacity,
                      size_t size) {
  uint32_t more = more_capacity(*capacity, size);
  void *larger = more ? keel_arena_take(arena, more * size) : NULL;
  if (!larger) return array;
  if (*capacity) memcpy(larger, array, *capacity * size);
  *capacity = more;
  return larger;
}

/* ---- small helpers -------------------------------------------------------- */

uint64_t keel_hash(uint64_t seed, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < size; i++)
    seed = (seed ^ at[i]) * KEEL_HASH_STEP;
  return seed;
}

uint64_t keel_hash_string(uint64_t seed, const char *string) {
  return keel_hash(seed, string, strlen(string) + 1);
}

uint64_t keel_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

unsigned keel_distance(const char *a, const char *b) {
  enum { ROOM = 64 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= ROOM || m >= ROOM) return 99;
  unsigned row[ROOM + 1];
  for (size_t j = 0; j <= m; j++)
    row[j] = (unsigned)j;
  for (size_t i = 1; i <= n; i++) {
    unsigned corner = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= m; j++) {
      unsigned above = row[j];
      unsigned same = corner + (a[i - 1] != b[j - 1]);
      unsigned least = above < row[j - 1] ? above + 1 : row[j - 1] + 1;
      row[j] = same < least ? same : least;
      corner = above;
    }
  }
  return row[m];
}

/* ---- log ------------------------------------------------------------------ */

static void write_to_stderr(void *context, uint32_t level, const char *line) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  (void)context;
  fprintf(stderr, "keel: %s: %s\n", names[level < 4 ? level : 3], line);
}

void keel_log_init(keel_log *log) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  const char *wanted = keel_environment("KEEL_LOG");
  bool known = !wanted || !*wanted;
  log->level = KD_LOG_WARNING;
  for (uint32_t i = 0; wanted && i < KEEL_COUNT_OF(names); i++) {
    if (strcmp(wanted, names[i]) != 0) continue;
    log->level = i;
    known = true;
  }
  if (!log->write) log->write = write_to_stderr;
  if (!known)
    keel_log_line(log, KD_LOG_WARNING,
                  "KEEL_LOG is \"%s\"; it is error, warning, info or debug",
                  wanted);
}

static void write_line(const keel_log *log, uint32_t level, const char *prefix,
                       const char *format, va_list args) {
  char line[2048];
  keel_plain plain = keel_plain_begin();
  int at = snprintf(line, sizeof line, "%s", prefix);
  if (at >= 0 && (size_t)at < sizeof line)
    vsnprintf(line + at, sizeof line - (size_t)at, format, args);
  keel_plain_end(plain);
  log->write(log->context, level, keel_make_printable(line, "\n\t"));
}

void keel_log_args(const keel_log *log, uint32_t level, const char *prefix,
                   const char *format, va_list args) {
  if (level <= log->level) write_line(log, level, prefix, format, args);
}

void keel_log_always(const keel_log *log, uint32_t level, const char *format,
                     ...) {
  va_list args;
  va_start(args, format);
  write_line(log, level, "", format, args);
  va_end(args);
}

void keel_log_line(const keel_log *log, uint32_t level, const char *format,
                   ...) {
  va_list args;
  va_start(args, format);
  keel_log_args(log, level, "", format, args);
  va_end(args);
}
