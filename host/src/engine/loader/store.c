/* store.c - a persistent store for blobs that plugins compile.
 *
 * One file an entry in $XDG_CACHE_HOME/keel/PLUGIN, named by the key's hash;
 * it holds the key, so that a clash of hashes is a miss, and a sum, so that
 * damage is one. Files come by rename, so that other processes see whole ones
 * only; the oldest go when the folder grows past its bound, and what a process
 * that was killed has left behind goes after a while. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/context.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "system/environment.h"

#define FRESH        ".new-" /* in the name of a file that is being written */
#define FRESH_LASTS  600     /* seconds after which it is no longer written */
#define DEFAULT_MIBS 4096

/* How an entry begins; then come the key with its NUL, and the blob. */
typedef struct store_head {
  char magic[8];
  uint64_t sum; /* of what follows */
} store_head;

static const char magic[8] = {'k', 'e', 'e', 'l', 'b', 'l', 'b', '1'};

static uint64_t store_sum_of(const void *key, size_t key_size, const void *blob,
                             uint64_t size) {
  return keel_hash(keel_hash(KEEL_HASH_SEED, key, key_size), blob, size);
}

/* Others could put entries of theirs into a folder that is not this user's alone. */
static bool make_folder(const char *path) {
  struct stat facts;
  return (mkdir(path, 0700) == 0 || errno == EEXIST) &&
         stat(path, &facts) == 0 && facts.st_uid == geteuid() &&
         !(facts.st_mode & (S_IWGRP | S_IWOTH));
}

static bool folder_of(const kd_host *host, keel_text *folder) {
  const keel_library *library = (const keel_library *)(const void *)host;
  char cache[PATH_MAX];
  if (!library->name ||
      !keel_user_folder("XDG_CACHE_HOME", ".cache", cache, sizeof cache))
    return false;
  bool made = mkdir(cache, 0700) == 0 || errno == EEXIST;
  keel_text_add(folder, "%s/keel", cache);
  made = made && make_folder(keel_text_get(folder));
  keel_text_add(folder, "/%s", library->name);
  return made && make_folder(keel_text_get(folder)) && !folder->failed;
}

static void store_name_of(keel_text *path, const char *key) {
  keel_text_add(path, "/%016llx",
                (unsigned long long)keel_hash_string(KEEL_HASH_SEED, key));
}

/* The blob of an entry, or NULL: it is of another key, damaged or of an older form. */
static const uint8_t *blob_in(const keel_file *file, const char *key,
                              uint64_t *out_size) {
  size_t key_size = strlen(key) + 1;
  store_head head;
  if (file->size < sizeof head + key_size) return NULL;
  memcpy(&head, file->data, sizeof head);
  const uint8_t *there = file->data + sizeof head, *blob = there + key_size;
  *out_size = file->size - sizeof head - key_size;
  if (memcmp(head.magic, magic, sizeof magic) != 0 ||
      memcmp(there, key, key_size) != 0 ||
      head.sum != store_sum_of(key, key_size, blob, *out_size))
    return NULL;
  return blob;
}

kd_status keel_store_get(const kd_host *host, const char *key, void **out_blob,
                         uint64_t *out_size) {
  keel_text path = {0};
  keel_file file = {0};
  kd_status status = KD_NOT_FOUND;
  if (folder_of(host, &path)) {
    store_name_of(&path, key);
    const uint8_t *blob = NULL;
    uint64_t size = 0;
    if (keel_file_open_own(keel_text_get(&path), &file) == KD_OK)
      blob = blob_in(&file, key, &size);
    void *copy = blob ? malloc(size + 1) : NULL;
    if (copy) {
      memcpy(copy, blob, size);
      *out_blob = copy;
      *out_size = size;
      status = KD_OK;
    }
    keel_file_close(&file);
  }
  keel_text_free(&path);
  return status;
}

/* Bytes that a plugin's folder may have: KEEL_CACHE_SIZE, in MiB. */
static uint64_t limit_of(void) {
  const char *text = keel_environment("KEEL_CACHE_SIZE");
  char *end = NULL;
  unsigned long long mibs = text && *text ? strtoull(text, &end, 10) : 0;
  bool good = end && !*end && *text != '-' && mibs < UINT64_MAX >> 20;
  return (good ? mibs : DEFAULT_MIBS) << 20;
}

/* Removes files of processes that were killed, and the oldest files until the folder fits. */
static void bound(const char *folder, uint64_t limit) {
  time_t now = time(NULL);
  for (;;) {
    DIR *entries = opendir(folder);
    if (!entries) return;
    uint64_t total = 0;
    char oldest[256] = "";
    time_t when = 0;
    for (struct dirent *entry; (entry = readdir(entries));) {
      struct stat facts;
      bool fresh = strstr(entry->d_name, FRESH) != NULL;
      if ((entry->d_name[0] == '.' && !fresh) ||
          fstatat(dirfd(entries), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) !=
              0)
        continue;
      if (fresh) {
        if (facts.st_mtime < now - FRESH_LASTS)
          unlinkat(dirfd(entries), entry->d_name, 0);
        continue;
      }
      total += (uint64_t)facts.st_size;
      if (!oldest[0] || facts.st_mtime < when) {
        snprintf(oldest, sizeof oldest, "%s", entry->d_name);
        when = facts.st_mtime;
      }
    }
    bool over =
        total > limit && oldest[0] && unlinkat(dirfd(entries), oldest, 0) == 0;
    closedir(entries);
    if (!over) return;
  }
}

typedef struct entry {
  const char *key;
  const void *blob;
  uint64_t size;
} entry;

static keel_status write_entry(void *context, FILE *file) {
  const entry *self = context;
  size_t key_size = strlen(self->key) + 1;
  store_head head = {
      .sum = store_sum_of(self->key, key_size, self->blob, self->size)};
  memcpy(head.magic, magic, sizeof magic);
  fwrite(&head, sizeof head, 1, file);
  fwrite(self->key, 1, key_size, file);
  if (self->size) fwrite(self->blob, 1, self->size, file);
  return KD_OK;
}

/* An entry is a regular file: anything else with its name is removed. */
static void remove_other(const char *path) {
  struct stat facts;
  if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) unlink(path);
}

/* Each process will compile it. */
static void tell_too_large(const kd_host *host, uint64_t size, uint64_t limit) {
  const keel_library *library = (const keel_library *)(const void *)host;
  if (library->speaker)
    keel_log_line(&library->speaker->context->log, KD_LOG_WARNING,
                  "kernels that %s compiled, %llu MiB, are not kept for other "
                  "processes: the store of a plugin has at most %llu MiB; set "
                  "KEEL_CACHE_SIZE to more",
                  library->name, (unsigned long long)(size >> 20),
                  (unsigned long long)(limit >> 20));
}

kd_status keel_store_put(const kd_host *host, const char *key, const void *blob,
                         uint64_t size) {
  keel_text folder = {0}, path = {0};
  uint64_t limit = limit_of();
  if (limit && size > limit) tell_too_large(host, size, limit);
  if (size <= limit && folder_of(host, &folder)) {
    entry it = {key, blob, size};
    keel_text_add(&path, "%s", keel_text_get(&folder));
    store_name_of(&path, key);
    remove_other(keel_text_get(&path));
    keel_file_replace(keel_text_get(&path), 0600, write_entry, &it);
    bound(keel_text_get(&folder), limit);
  }
  keel_text_free(&folder);
  keel_text_free(&path);
  return KD_OK;
}
