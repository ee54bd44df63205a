/* store_test.c - what plugins compile is kept whole, or not at all. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/library.h"
#include "loader/loader.h"
#include "testing.h"

static char folder[] = "/tmp/keel-store-XXXXXX";
static char entries[64];
static keel_library library = {.name = "acme"};

static const char *in_entries(const char *name) {
  static char path[400];
  snprintf(path, sizeof path, "%s/%s", entries, name);
  return path;
}

/* The name of the only entry, but for those that begin with a dot. */
static const char *only_entry(void) {
  static char name[300];
  DIR *all = opendir(entries);
  *name = 0;
  for (struct dirent *at; all && (at = readdir(all));)
    if (at->d_name[0] != '.') snprintf(name, sizeof name, "%s", at->d_name);
  if (all) closedir(all);
  return name;
}

static bool gives(const char *key, const char *want) {
  void *blob = NULL;
  uint64_t size = 0;
  if (keel_store_get(&library.host, key, &blob, &size) != KD_OK) return false;
  bool same = size == strlen(want) && !memcmp(blob, want, size);
  free(blob);
  return same;
}

static void what_was_put_comes_back(void **state) {
  (void)state;
  assert_int_equal(keel_store_put(&library.host, "key", "blob", 4), KD_OK);
  assert_true(gives("key", "blob"));
  assert_false(gives("other", "blob"));
  keel_store_put(&library.host, "key", "", 0);
  assert_true(gives("key", ""));
}

static void a_damaged_blob_is_none(void **state) {
  (void)state;
  keel_store_put(&library.host, "key", "a blob of some size", 19);
  FILE *file = fopen(in_entries(only_entry()), "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -3, SEEK_END), 0);
  fputc('X', file);
  fclose(file);
  assert_false(gives("key", "a blob of some size"));
  assert_false(gives("key", "a blob of some sXze"));
}

static void a_cut_blob_is_none(void **state) {
  (void)state;
  for (off_t size = 0; size < 39; size += 3) {
    keel_store_put(&library.host, "key", "a blob of some size", 19);
    assert_int_equal(truncate(in_entries(only_entry()), size), 0);
    assert_false(gives("key", "a blob of some size"));
  }
}

static void leave_behind(const char *name, time_t age) {
  FILE *file = fopen(in_entries(name), "wb");
  const struct timespec when[2] = {{.tv_sec = time(NULL) - age},
                                   {.tv_sec = time(NULL) - age}};
  assert_non_null(file);
  fclose(file);
  assert_int_equal(utimensat(AT_FDCWD, in_entries(name), when, 0), 0);
}

static void what_killed_processes_left_goes(void **state) {
  (void)state;
  leave_behind(".new-killed", 86400);
  leave_behind(".new-at-work", 1);
  keel_store_put(&library.host, "key", "blob", 4);
  assert_int_not_equal(access(in_entries(".new-killed"), F_OK), 0);
  assert_int_equal(access(in_entries(".new-at-work"), F_OK), 0);
  unlink(in_entries(".new-at-work"));
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(entries, sizeof entries, "%s/keel/acme", folder);
  return setenv("XDG_CACHE_HOME", folder, 1);
}

static int tear_down(void **state) {
  char path[96];
  (void)state;
  unlink(in_entries(only_entry()));
  rmdir(entries);
  snprintf(path, sizeof path, "%s/keel", folder);
  rmdir(path);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_put_comes_back),
      cmocka_unit_test(a_damaged_blob_is_none),
      cmocka_unit_test(a_cut_blob_is_none),
      cmocka_unit_test(what_killed_processes_left_goes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
