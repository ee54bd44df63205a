/* safe.c - checks whether another user could have planted or could replace a file. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/loader.h"

#define LINKS_MOST 40 /* the most links that Linux follows */

/* A walk along a path: the place reached, without links, and the rest. */
typedef struct walk {
  const char *path;
  char at[PATH_MAX], left[PATH_MAX];
  unsigned links;
} walk;

static bool is_ours(uid_t owner) {
  return owner == 0 || owner == geteuid();
}

/* In a folder that is writable by everyone, the sticky bit leaves an entry to its owner, the
 * folder's and root. */
static keel_status check_entry(const walk *all, const char *folder,
                               const char *entry, const struct stat *facts) {
  struct stat around;
  if (stat(folder, &around) != 0 || !(around.st_mode & S_IWOTH)) return KD_OK;
  if (!(around.st_mode & S_ISVTX))
    return keel_fail(
        KD_PERMISSION_DENIED,
        "%s: its folder %s is writable by everyone, and has no sticky bit",
        all->path, folder);
  if (is_ours(facts->st_uid) && is_ours(around.st_uid)) return KD_OK;
  return keel_fail(
      KD_PERMISSION_DENIED,
      "%s: the folder %s is writable by everyone, and %s there belongs to user "
      "%u, not to you or root",
      all->path, folder, is_ours(facts->st_uid) ? "it" : entry,
      (unsigned)(is_ours(facts->st_uid) ? around.st_uid : facts->st_uid));
}

/* Continues with the link's target. */
static keel_status safe_follow(walk *all, const char *link) {
  char target[PATH_MAX], left[PATH_MAX];
  ssize_t size = readlink(link, target, sizeof target - 1);
  if (size < 0 || ++all->links > LINKS_MOST)
    return keel_fail(KD_NOT_FOUND, "%s: %s", all->path,
                     strerror(size < 0 ? errno : ELOOP));
  target[size] = 0;
  int used = snprintf(left, sizeof left, "%s/%s", target, all->left);
  if (used < 0 || (size_t)used >= sizeof left)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: too long", all->path);
  memcpy(all->left, left, (size_t)used + 1);
  if (target[0] == '/') all->at[0] = 0;
  return KD_OK;
}

/* One part of the path: `all->at` is a folder, "" the root. */
static keel_status step(walk *all, const char *part) {
  char entry[PATH_MAX];
  struct stat facts;
  if (!*part || !strcmp(part, ".")) return KD_OK;
  if (!strcmp(part, "..")) {
    char *slash = strrchr(all->at, '/');
    if (slash) *slash = 0;
    return KD_OK;
  }
  int used = snprintf(entry, sizeof entry, "%s/%s", all->at, part);
  if (used < 0 || (size_t)used >= sizeof entry)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: too long", all->path);
  if (lstat(entry, &facts) != 0)
    return keel_fail(KD_NOT_FOUND, "%s: no such file", all->path);
  KEEL_TRY(check_entry(all, *all->at ? all->at : "/", entry, &facts));
  if (S_ISLNK(facts.st_mode)) return safe_follow(all, entry);
  if (S_ISREG(facts.st_mode) && (facts.st_mode & S_IWOTH))
    return keel_fail(KD_PERMISSION_DENIED,
                     "%s: the file is writable by everyone", all->path);
  memcpy(all->at, entry, (size_t)used + 1);
  return KD_OK;
}

keel_status keel_path_check(const char *path) {
  walk all = {.path = path};
  char *folder = *path == '/' ? NULL : getcwd(all.at, sizeof all.at);
  int used = snprintf(all.left, sizeof all.left, "%s%s%s", folder ? folder : "",
                      folder ? "/" : "", path);
  all.at[0] = 0; /* the working folder is walked, too */
  if (used < 0 || (size_t)used >= sizeof all.left)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: too long", path);
  while (all.left[0]) {
    char part[NAME_MAX + 1];
    size_t size = strcspn(all.left, "/");
    bool more = all.left[size] == '/';
    if (size >= sizeof part)
      return keel_fail(KD_INVALID_ARGUMENT, "%s: too long", path);
    memcpy(part, all.left, size);
    part[size] = 0;
    memmove(all.left, all.left + size + more,
            strlen(all.left + size + more) + 1);
    KEEL_TRY(step(&all, part));
  }
  return KD_OK;
}
