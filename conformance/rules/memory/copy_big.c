/* copy_big.c - copies of more bytes, and at larger offsets, than 32 bits can say. */
#include <sys/mman.h>

#include "rules/rules.h"

#define FOUR (UINT64_C(1) << 32)
#define SIZE (FOUR + (UINT64_C(1) << 16))
#define NEED (UINT64_C(9) << 30) /* a buffer and host memory, both of SIZE */

/* Where something stands that is not 0: also at equal places of the first and the second
 * four GiB. */
static const uint64_t places[] = {0,    4096,        FOUR / 2 + 8, FOUR - 4096,
                                  FOUR, FOUR + 4096, SIZE - 8};
#define PLACES KC_COUNT_OF(places)

static uint64_t copy_big_mark(size_t i) {
  return UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
}

void kc_copy_big(void) {
  const uint64_t size = UINT64_C(96) << 20;
  kc_buffer *buffer = NULL;
  if (size * 2 > kc.max_memory ||
      kc_buffer_try(kc_device(), 0, size, &buffer) != KD_OK)
    kc_unclaimed("the device has no %llu MiB to spare",
                 (unsigned long long)(size >> 20));
  uint64_t first = kc_round_trip(buffer, 1);
  kc_check(first == size, "byte %llu of %llu is wrong",
           (unsigned long long)first, (unsigned long long)size);
  kc_buffer_free(buffer);
}

/* Host memory that is there when somebody writes to it; with marks, or what they are not. */
static char *sparse(bool marked) {
  char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    kc_unclaimed("this process can't have more than 4 GiB of host memory");
  for (size_t i = 0; i < PLACES; i++) {
    uint64_t word = marked ? copy_big_mark(i) : ~copy_big_mark(i);
    memcpy(at + places[i], &word, sizeof word);
  }
  return at;
}

static void check_marks(kc_buffer *buffer, const char *what) {
  for (size_t i = 0; i < PLACES; i++) {
    uint64_t word = 0;
    kc_read(buffer, places[i], &word, sizeof word);
    kc_check(word == copy_big_mark(i),
             "%s the word at byte %llu is 0x%llx, not 0x%llx", what,
             (unsigned long long)places[i], (unsigned long long)word,
             (unsigned long long)copy_big_mark(i));
  }
}

static void check_word(kc_buffer *buffer, uint64_t at, uint64_t want,
                       const char *what) {
  uint64_t word = 0;
  kc_read(buffer, at, &word, sizeof word);
  kc_check(word == want, "%s the word at byte %llu is 0x%llx, not 0x%llx", what,
           (unsigned long long)at, (unsigned long long)word,
           (unsigned long long)want);
}

/* Little, behind the first four GiB: what lies at the same place in them stays. */
static void far_offsets(kc_buffer *buffer) {
  uint64_t far = FOUR + 512, word = 77, none = 0;
  kc_write(buffer, 512, &none, sizeof none);
  kc_write(buffer, far, &word, sizeof word);
  check_word(buffer, 512, 0, "after copy_in to byte 2^32 + 512");
  check_word(buffer, far, 77, "after copy_in");
  if (kp.m.copy) {
    kc_ok(kp.m.copy(buffer->device, NULL, buffer->handle, buffer->offset + far,
                    buffer->handle, buffer->offset + far + 64, sizeof word),
          "copy");
    check_word(buffer, 512 + 64, 0, "after a copy to byte 2^32 + 576");
    check_word(buffer, far + 64, 77, "after a copy");
  }
  if (!kp.m.fill) return;
  kc_ok(kp.m.fill(buffer->device, NULL, buffer->handle, buffer->offset + far,
                  sizeof word, &none, 1),
        "fill");
  check_word(buffer, far, 0, "after a fill");
  check_word(buffer, far + 64, kp.m.copy ? 77 : 0, "after a fill beside it");
}

static void check_fill(kc_buffer *buffer) {
  char none = 0;
  if (!kp.m.fill) return;
  kc_ok(kc_try_fill(NULL, buffer, SIZE, &none, 1), "fill");
  for (size_t i = 0; i < PLACES; i++)
    check_word(buffer, places[i], 0, "after a fill of more than 4 GiB");
}

static void check_out(kc_buffer *buffer, const char *source) {
  char *back = sparse(false);
  kc_read(buffer, 0, back, SIZE);
  for (size_t i = 0; i < PLACES; i++)
    kc_check(!memcmp(back + places[i], source + places[i], 8),
             "copy_out of more than 4 GiB did not bring the word at byte %llu",
             (unsigned long long)places[i]);
  munmap(back, SIZE);
}

static atomic_bool ended;

/* Copies of so many bytes take long. */
static void *beats(void *unused) {
  (void)unused;
  for (int i = 0; i < 400 && !atomic_load(&ended); i++) {
    kc_sleep(100 * KC_MS);
    kc_beat();
  }
  return NULL;
}

void kc_copy_over_4_gib(void) {
  kc_buffer *buffer = NULL;
  pthread_t thread;
  if (kc.max_memory < NEED)
    kc_unclaimed(
        "--max-memory is %llu MiB, and copies of over 4 GiB take"
        " %llu",
        (unsigned long long)(kc.max_memory >> 20),
        (unsigned long long)(NEED >> 20));
  if (kc_buffer_try(kc_device(), 0, SIZE, &buffer) != KD_OK)
    kc_unclaimed("the device has no buffer of more than 4 GiB");
  char *source = sparse(true);
  atomic_store(&ended, false);
  bool beating = pthread_create(&thread, NULL, beats, NULL) == 0;
  kc_write(buffer, 0, source, SIZE);
  check_marks(buffer, "after copy_in of more than 4 GiB");
  check_out(buffer, source);
  far_offsets(buffer);
  check_fill(buffer);
  atomic_store(&ended, true);
  if (beating) pthread_join(thread, NULL);
  munmap(source, SIZE);
  kc_buffer_free(buffer);
}
