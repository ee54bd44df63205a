/* store.c - a persistent store for what plugins compile.
 *
 * One file an entry in $XDG_CACHE_HOME/keel/PLUGIN, named by the key's hash;
 * it holds the key, so that a clash of hashes is a miss. Files come by rename,
 * so that other processes see whole ones only; the oldest go when the folder
 * grows past its bound. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/library.h"
#include "loader/loader.h"

#define FOLDER_MOST (UINT64_C(256) << 20)

static bool make_folder(const char *path) {
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool folder_of(const kd_host *host, keel_text *folder) {
  const keel_library *library = (const keel_library *)(const void *)host;
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (!library->name || !keel_trusts_environment()) return false;
  if (cache && *cache) {
    keel_text_add(folder, "%s", cache);
  } else if (home && *home) {
    keel_text_add(folder, "%s/.cache", home);
  } else {
    return false;
  }
  bool made = make_folder(keel_text_get(folder));
  keel_text_add(folder, "/keel");
  made = made && make_folder(keel_text_get(folder));
  keel_text_add(folder, "/%s", library->name);
  return made && make_folder(keel_text_get(folder)) && !folder->failed;
}

static void name_of(keel_text *path, const char *key) {
  keel_text_add(path, "/%016llx",
                (unsigned long long)keel_hash_string(KEEL_HASH_SEED, key));
}

kd_status keel_store_get(const kd_host *host, const char *key, void **out_blob,
                         uint64_t *out_size) {
  keel_text path = {0};
  keel_file file = {0};
  size_t head = strlen(key) + 1;
  kd_status status = KD_NOT_FOUND;
  if (folder_of(host, &path)) {
    name_of(&path, key);
    if (keel_file_open(keel_text_get(&path), &file) == KD_OK &&
        file.size > head && !memcmp(file.data, key, head)) {
      void *blob = malloc(file.size - head);
      if (blob) {
        memcpy(blob, file.data + head, file.size - head);
        *out_blob = blob;
        *out_size = file.size - head;
        status = KD_OK;
      }
    }
    keel_file_close(&file);
  }
  keel_text_free(&path);
  return status;
}

/* Removes the oldest files until the folder fits. */
static void bound(const char *folder) {
  for (;;) {
    DIR *entries = opendir(folder);
    if (!entries) return;
    uint64_t total = 0;
    char oldest[256] = "";
    time_t when = 0;
    for (struct dirent *entry; (entry = readdir(entries));) {
      struct stat facts;
      if (entry->d_name[0] == '.' ||
          fstatat(dirfd(entries), entry->d_name, &facts, 0) != 0)
        continue;
      total += (uint64_t)facts.st_size;
      if (!oldest[0] || facts.st_mtime < when) {
        snprintf(oldest, sizeof oldest, "%s", entry->d_name);
        when = facts.st_mtime;
      }
    }
    bool over = total > FOLDER_MOST && oldest[0] &&
                unlinkat(dirfd(entries), oldest, 0) == 0;
    closedir(entries);
    if (!over) return;
  }
}

static bool write_all(int fd, const void *data, uint64_t size) {
  const char *at = data;
  while (size) {
    ssize_t wrote = write(fd, at, size < (1u << 30) ? size : (1u << 30));
    if (wrote < 0 && errno != EINTR) return false;
    if (wrote > 0) {
      at += wrote;
      size -= (uint64_t)wrote;
    }
  }
  return true;
}

kd_status keel_store_put(const kd_host *host, const char *key, const void *blob,
                         uint64_t size) {
  keel_text folder = {0}, path = {0}, fresh = {0};
  if (size <= FOLDER_MOST / 4 && folder_of(host, &folder)) {
    keel_text_add(&path, "%s", keel_text_get(&folder));
    name_of(&path, key);
    keel_text_add(&fresh, "%s/.new-XXXXXX", keel_text_get(&folder));
    int fd = fresh.failed ? -1 : mkostemp(fresh.data, O_CLOEXEC);
    if (fd >= 0) {
      bool whole =
          write_all(fd, key, strlen(key) + 1) && write_all(fd, blob, size);
      whole = close(fd) == 0 && whole;
      if (!whole || rename(fresh.data, keel_text_get(&path)) != 0)
        unlink(fresh.data);
      bound(keel_text_get(&folder));
    }
  }
  keel_text_free(&folder);
  keel_text_free(&path);
  keel_text_free(&fresh);
  return KD_OK;
}
