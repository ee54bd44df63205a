/* files.h - files that tests make, and what they hold. */
#ifndef KEEL_TESTS_FILES_H
#define KEEL_TESTS_FILES_H

#include <unistd.h>

#include "tests.h"

/* An empty file, whose name ends in XXXXXX and gets other letters. */
static inline void make_file(char *path) {
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
}

static inline void write_bytes(const char *path, const void *data,
                               size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text) {
  write_bytes(path, text, strlen(text));
}

/* All of a file, and a zero behind it; to be freed. */
static inline char *read_bytes(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *out_size = (size_t)ftell(file);
  rewind(file);
  char *data = calloc(*out_size + 1, 1);
  assert_int_equal(fread(data, 1, *out_size, file), *out_size);
  fclose(file);
  return data;
}

#endif /* KEEL_TESTS_FILES_H */
