/* base.h - failing, logging, text, arenas and hashes, for all of the host. */
#ifndef KEEL_BASE_H
#define KEEL_BASE_H

#include <assert.h>
#include <keel/error.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define KEEL_COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* For `assert`, which release builds leave out: whether some thread holds the lock. */
#define KEEL_IS_LOCKED(mutex) (pthread_mutex_trylock(mutex) != 0)

/* Returns the status from the calling function if the call fails. */
#define KEEL_TRY(call)                                    \
  do {                                                    \
    keel_status keel_try_status = (call);                 \
    if (keel_try_status != KD_OK) return keel_try_status; \
  } while (0)

/* Records the text of a failure for this thread and returns the status. */
keel_status keel_fail(keel_status status, const char *format, ...)
    KD_PRINTF(2, 3);

/* Like keel_fail, for text that needs no formatting; it may be this thread's own
 * message. */
keel_status keel_fail_text(keel_status status, const char *text);

/* Appends "; while ..." to the text of a failure. Returns the status. */
keel_status keel_while(keel_status status, const char *format, ...)
    KD_PRINTF(2, 3);

/* Host memory ran out; `size` is the number of bytes requested. */
void keel_note_no_memory(uint64_t size);
static inline keel_status keel_no_memory(uint64_t size) {
  keel_note_no_memory(size);
  return KD_OUT_OF_MEMORY;
}

/* keel_clear_error forgets this thread's failure before a call into a plugin;
 * keel_has_error is 1 if the call has recorded one since. */
void keel_clear_error(void);
bool keel_has_error(void);

/* ---- text: a growing string ------------------------------------------- */

typedef struct keel_text {
  char *data; /* NUL-terminated; not NULL once anything has been added */
  size_t size, capacity;
  bool failed; /* memory ran out; the text is cut */
} keel_text;

void keel_text_add(keel_text *text, const char *format, ...) KD_PRINTF(2, 3);
void keel_text_free(keel_text *text);
static inline const char *keel_text_get(const keel_text *text) {
  return text->data ? text->data : "";
}

/* ---- arena: memory that is freed at once -------------------------------- */

typedef struct keel_arena_block keel_arena_block;
typedef struct keel_arena {
  keel_arena_block *blocks;
  bool failed; /* an allocation has failed */
} keel_arena;

/* Zeroed memory, aligned to 16 bytes; NULL if there is none (keel_fail has been called). */
void *keel_arena_take(keel_arena *arena, size_t size);
/* An array of `count` and one more, for which `pointer` is; many are taken, and
 * keel_arena.failed asked once. */
#define KEEL_ARENA_ARRAY(arena, pointer, count) \
  ((pointer) =                                  \
       keel_arena_take(arena, ((size_t)(count) + 1) * sizeof *(pointer)))
char *keel_arena_copy(keel_arena *arena, const char *string);
void *keel_arena_copy_bytes(keel_arena *arena, const void *bytes, size_t size);
void keel_arena_free(keel_arena *arena);
/* The bytes that it has taken. */
uint64_t keel_arena_bytes(const keel_arena *arena);

/* ---- arrays that grow ----------------------------------------------------- */

/* Whether an array has room for one more element, which is made where there is none. False:
 * memory ran out (keel_fail has been called), and all is as it was. `capacity` is an uint32_t
 * variable. */
#define KEEL_ROOM(array, count, capacity)                       \
  ((count) < (capacity) ||                                      \
   ((array) = keel_grow((array), &(capacity), sizeof *(array)), \
    (count) < (capacity)))

/* The same in an arena, which keeps what the array had before as well. */
#define KEEL_ARENA_ROOM(arena, array, count, capacity)                         \
  ((count) < (capacity) ||                                                     \
   ((array) = keel_arena_grow((arena), (array), &(capacity), sizeof *(array)), \
    (count) < (capacity)))

/* The array with more room, perhaps elsewhere; as it was if memory ran out. */
void *keel_grow(void *array, uint32_t *capacity, size_t size);
void *keel_arena_grow(keel_arena *arena, void *array, uint32_t *capacity,
                      size_t size);

/* ---- small helpers -------------------------------------------------------- */

/* FNV-1a; chain calls, starting from KEEL_HASH_SEED. */
#define KEEL_HASH_SEED UINT64_C(0xcbf29ce484222325)
#define KEEL_HASH_STEP UINT64_C(0x100000001b3)
uint64_t keel_hash(uint64_t seed, const void *bytes, size_t size);
uint64_t keel_hash_string(uint64_t seed, const char *string);

/* Computes a * b; false if the result overflows. */
static inline bool keel_mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

/* Whether an address is a multiple of a power of two. */
static inline bool keel_aligned_to(const void *address, uint32_t alignment) {
  assert(alignment && !(alignment & (alignment - 1)));
  return !((uintptr_t)address & (alignment - 1));
}

/* Nanoseconds of a monotonic clock. */
uint64_t keel_now(void);

/* The edit distance of two words (Damerau-Levenshtein, at most 99), for "did you mean". */
unsigned keel_distance(const char *a, const char *b);

/* ---- log ------------------------------------------------------------------ */

typedef struct keel_log {
  void (*write)(void *context, uint32_t level, const char *line);
  void *context;
  uint32_t level; /* the most verbose KD_LOG_* level that is written */
} keel_log;

void keel_log_init(keel_log *log);
void keel_log_line(const keel_log *log, uint32_t level, const char *format, ...)
    KD_PRINTF(3, 4);
/* Logs at any level: output that another variable requests. */
void keel_log_always(const keel_log *log, uint32_t level, const char *format,
                     ...) KD_PRINTF(3, 4);
void keel_log_args(const keel_log *log, uint32_t level, const char *prefix,
                   const char *format, va_list args);

/* ---- files ---------------------------------------------------------------- */

/* A file mapped for reading; data is NULL for an empty one. */
typedef struct keel_file {
  const uint8_t *data;
  uint64_t size;
} keel_file;

/* Opens regular files only, so it never blocks on a pipe or a device. */
keel_status keel_file_open(const char *path, keel_file *out_file);

/* The same for a file of this user's own, and no link; KD_PERMISSION_DENIED where it is
 * another's. */
keel_status keel_file_open_own(const char *path, keel_file *out_file);

/* The same for a file that another file names. With all links followed, it must lie in the
 * folder of `beside`, or of the file that `beside` links to; otherwise
 * KD_PERMISSION_DENIED. */
keel_status keel_file_open_beside(const char *path, const char *beside,
                                  keel_file *out_file);
/* A copy of memory that is mapped as a file is; `name` is for messages. */
keel_status keel_file_copy(const char *name, const void *data, uint64_t size,
                           keel_file *out_file);
void keel_file_close(keel_file *file);

/* Evicts pages of a mapped file, which are read from the file again on the next access; of
 * other memory, whose next access gives zeros. */
void keel_file_evict(const void *data, uint64_t size);

/* Writes a file as system/save.h has it: whole, or not at all. `mode` is what a new one gets,
 * less the umask. Returns KD_OK, what `write` returned, KD_PERMISSION_DENIED,
 * KD_UNAVAILABLE. */
#define KEEL_FILE_MODE 0666
keel_status keel_file_replace(const char *path, mode_t mode,
                              keel_status (*write)(void *context, FILE *file),
                              void *context);

/* Passes the output of `print` to the application's `write`, chunk by chunk. Returns what `print`
 * returned, or what `write` did when it was not KD_OK. */
keel_status keel_file_pass(keel_status (*print)(void *context, FILE *file),
                           void *context,
                           keel_status (*write)(void *context, const void *data,
                                                uint64_t size),
                           void *write_context);

#endif /* KEEL_BASE_H */
