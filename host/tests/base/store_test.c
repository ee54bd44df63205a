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

TEST_THAT(what_was_put_comes_back) {
  expect_ok(keel_store_put(&library.host, "key", "blob", 4));
  assert_true(gives("key", "blob"));
  assert_false(gives("other", "blob"));
  keel_store_put(&library.host, "key", "", 0);
  assert_true(gives("key", ""));
}

/* A compiler's form of a model has all of its weights. */
TEST_THAT(large_blobs_are_kept_as_far_as_the_variable_says) {
  const uint64_t size = UINT64_C(80) << 20;
  char *blob = calloc(size + 1, 1);
  void *back = NULL;
  uint64_t got = 0;
  assert_non_null(blob);
  expect_ok(keel_store_put(&library.host, "large", blob, size));
  expect_ok(keel_store_get(&library.host, "large", &back, &got));
  assert_int_equal(got, size);
  free(back);

  setenv("KEEL_CACHE_SIZE", "40", 1);
  keel_store_put(&library.host, "larger", blob, size);
  assert_int_equal(keel_store_get(&library.host, "larger", &back, &got),
                   KD_NOT_FOUND);
  keel_store_put(&library.host, "small", blob, 10); /* the oldest goes */
  assert_int_equal(keel_store_get(&library.host, "large", &back, &got),
                   KD_NOT_FOUND);
  setenv("KEEL_CACHE_SIZE", "0", 1);
  keel_store_put(&library.host, "none", blob, 0);
  assert_int_equal(keel_store_get(&library.host, "none", &back, &got),
                   KD_NOT_FOUND);
  unsetenv("KEEL_CACHE_SIZE");
  free(blob);
}

TEST_THAT(a_damaged_blob_is_none) {
  keel_store_put(&library.host, "key", "a blob of some size", 19);
  FILE *file = fopen(in_entries(only_entry()), "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -3, SEEK_END), 0);
  fputc('X', file);
  fclose(file);
  assert_false(gives("key", "a blob of some size"));
  assert_false(gives("key", "a blob of some sXze"));
}

TEST_THAT(a_cut_blob_is_none) {
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

TEST_THAT(what_killed_processes_left_goes) {
  leave_behind(".new-killed", 86400);
  leave_behind(".new-at-work", 1);
  keel_store_put(&library.host, "key", "blob", 4);
  assert_int_not_equal(access(in_entries(".new-killed"), F_OK), 0);
  assert_int_equal(access(in_entries(".new-at-work"), F_OK), 0);
  unlink(in_entries(".new-at-work"));
}

TEST_THAT(an_entry_of_another_user_is_none) {
  if (geteuid() != 0) skip();
  keel_store_put(&library.host, "key", "blob", 4);
  assert_int_equal(chown(in_entries(only_entry()), 1234, 0), 0);
  assert_false(gives("key", "blob"));
  assert_int_equal(chown(in_entries(only_entry()), 0, 0), 0);
  assert_true(gives("key", "blob"));
  /* nor is one of a folder into which others may put theirs */
  assert_int_equal(chown(entries, 1234, 0), 0);
  assert_false(gives("key", "blob"));
  assert_int_equal(chown(entries, 0, 0), 0);
  static const mode_t open_to[] = {0777, 0770, 01777, 0702};
  for (size_t i = 0; i < sizeof open_to / sizeof *open_to; i++) {
    assert_int_equal(chmod(entries, open_to[i]), 0);
    assert_false(gives("key", "blob"));
  }
  assert_int_equal(chmod(entries, 0700), 0);
  assert_true(gives("key", "blob"));
}

TEST_THAT(an_entry_that_is_a_link_is_none) {
  char entry[400], other[400];
  keel_store_put(&library.host, "key", "blob", 4);
  snprintf(entry, sizeof entry, "%s", in_entries(only_entry()));
  snprintf(other, sizeof other, "%s", in_entries(".other"));
  assert_int_equal(rename(entry, other), 0);
  assert_int_equal(symlink(other, entry), 0);
  assert_false(gives("key", "blob"));
  keel_store_put(&library.host, "key", "newer", 5);
  assert_true(gives("key", "newer"));
  unlink(entry);
  assert_int_equal(mkfifo(entry, 0600), 0); /* and nothing waits for a writer */
  assert_false(gives("key", "blob"));
  keel_store_put(&library.host, "key", "newest", 6);
  assert_true(gives("key", "newest"));
  assert_int_equal(unlink(other), 0);
}

/* By an application whose folder is anywhere. */
TEST_THAT(a_folder_that_is_not_absolute_is_not_made) {
  char here[400];
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(folder), 0);
  setenv("XDG_CACHE_HOME", "relative", 1);
  char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  setenv("HOME", "home", 1);
  keel_store_put(&library.host, "key", "blob", 4);
  assert_false(gives("key", "blob"));
  assert_int_not_equal(access("relative", F_OK), 0);
  assert_int_not_equal(access("home", F_OK), 0);
  setenv("XDG_CACHE_HOME", folder, 1);
  if (home)
    setenv("HOME", home, 1);
  else
    unsetenv("HOME");
  free(home);
  assert_int_equal(chdir(here), 0);
}

SETUP(set_up) {
  if (!mkdtemp(folder)) return -1;
  snprintf(entries, sizeof entries, "%s/keel/acme", folder);
  return setenv("XDG_CACHE_HOME", folder, 1);
}

SETUP(tear_down) {
  char path[96];
  unlink(in_entries(only_entry()));
  rmdir(entries);
  snprintf(path, sizeof path, "%s/keel", folder);
  rmdir(path);
  return rmdir(folder);
}

RUN_TESTS(set_up, tear_down)
