/* save.c - writes files whole, or not at all. */
#include "system/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define TRIES   100               /* others may be writing to the same path */
#define AT_ONCE ((size_t)1 << 30) /* the most that one call writes */

/* ---- the old file ------------------------------------------------------------------ */

static bool save_is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A descriptor of standard output or error where the path is another name of it. It shares
 * its position: what comes by either is kept. -1: it is not. */
static int open_standard(const char *path) {
  struct stat asked, there;
  if (stat(path, &asked) != 0) return -1;
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY ||
        fstat(fd, &there) != 0 || !save_is_same(&asked, &there))
      continue;
    fflush(fd == STDOUT_FILENO ? stdout : stderr);
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  }
  return -1;
}

/* Opens the old file, so that the system says whether it may be written, and whether its
 * links may be followed. Returns 0, ENOENT (there is none), or the error. */
static int open_old(keel_save *save, const char *path, mode_t mode) {
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;
  struct stat link;
  save->fd = open(path, flags);
  if (save->fd < 0 && errno == ENOENT && lstat(path, &link) == 0 &&
      S_ISLNK(link.st_mode)) {
    save->fd = open(path, flags | O_CREAT, mode);
    save->made = save->fd >= 0;
  }
  if (save->fd < 0 || fstat(save->fd, &save->old) != 0) return errno;
  save->in_place = !S_ISREG(save->old.st_mode);
  save->replaces = !save->in_place;
  return 0;
}

/* ---- where it goes ------------------------------------------------------------------ */

/* Opens the folder of a path without links at its end, and takes its name there. */
static int open_folder(keel_save *save, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *folder = slash ? strndup(path, (size_t)(slash + 1 - path)) : NULL;
  if (slash && !folder) return ENOMEM;
  int error = !*name                              ? EISDIR
              : strlen(name) >= sizeof save->name ? ENAMETOOLONG
                                                  : 0;
  if (!error) {
    memcpy(save->name, name, strlen(name) + 1);
    save->folder =
        open(folder ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (save->folder < 0) error = errno;
  }
  free(folder);
  return error;
}

/* The same for a file that is open, which links may have led to. EAGAIN: another one has
 * taken its place since. */
static int find_folder(keel_save *save, const char *path) {
  struct stat there;
  char *real = realpath(path, NULL);
  if (!real) return errno == ENOENT ? EAGAIN : errno;
  int error = open_folder(save, real);
  if (!error &&
      (fstatat(save->folder, save->name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
       !save_is_same(&there, &save->old)))
    error = EAGAIN;
  free(real);
  return error;
}

static void close_both(keel_save *save) {
  if (save->fd >= 0) close(save->fd);
  if (save->folder >= 0) close(save->folder);
  save->fd = save->folder = -1;
}

static int find_place(keel_save *save, const char *path, mode_t mode) {
  int error = EAGAIN;
  save->fd = open_standard(path);
  save->in_place = save->fd >= 0;
  if (save->in_place) return 0;
  for (int i = 0; i < TRIES && error == EAGAIN; i++) {
    close_both(save);
    error = open_old(save, path, mode);
    if (error == ENOENT) return *path ? open_folder(save, path) : ENOENT;
    if (!error && save->replaces) error = find_folder(save, path);
  }
  return error;
}

/* ---- the file that is written ---------------------------------------------------------- */

/* NAME.new-0123456789abcdef */
static int choose_name(keel_save *save) {
  unsigned long long number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return errno;
  snprintf(save->fresh, sizeof save->fresh, "%.200s.new-%016llx", save->name,
           number);
  return 0;
}

/* One without a name goes by itself where the process is killed. */
static int open_fresh(keel_save *save, mode_t mode) {
  int error = 0;
  if (save->fd >= 0) close(save->fd);
  save->fd = -1;
  if (access("/proc/self/fd", X_OK) == 0)
    save->fd =
        openat(save->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  for (int i = 0; i < TRIES && save->fd < 0; i++) {
    error = choose_name(save);
    if (error) break;
    save->fd =
        openat(save->folder, save->fresh,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    error = errno;
    if (save->fd < 0 && error != EEXIST) break;
  }
  if (save->fd >= 0) return 0;
  save->fresh[0] = 0;
  return error;
}

/* Waits where a pipe that does not block is full. */
static void wait_for_room(int fd) {
  struct pollfd room = {.fd = fd, .events = POLLOUT};
  poll(&room, 1, -1);
}

static ssize_t save_take(void *cookie, const char *data, size_t size) {
  keel_save *save = cookie;
  for (size_t done = 0; done < size && !save->error;) {
    size_t piece = size - done < AT_ONCE ? size - done : AT_ONCE;
    ssize_t wrote = write(save->fd, data + done, piece);
    if (wrote > 0)
      done += (size_t)wrote;
    else if (wrote < 0 && errno == EAGAIN)
      wait_for_room(save->fd);
    else if (wrote == 0 || errno != EINTR)
      save->error = wrote ? errno : EIO;
  }
  return save->error ? 0 : (ssize_t)size;
}

/* ---- the old file's rights --------------------------------------------------------------- */

/* A group that the process may not give gets no more than all have; nor does a program of
 * another user's rights become one of this user's. */
static int keep_rights(const keel_save *save) {
  struct stat own;
  mode_t mode = save->old.st_mode & 07777;
  if (fstat(save->fd, &own) != 0) return errno;
  bool same = own.st_uid == save->old.st_uid && own.st_gid == save->old.st_gid;
  if (!same && fchown(save->fd, save->old.st_uid, save->old.st_gid) != 0) {
    mode &= 01777;
    if (own.st_gid != save->old.st_gid &&
        fchown(save->fd, (uid_t)-1, save->old.st_gid) != 0)
      mode = (mode & ~(mode_t)070) | (mode & 07) << 3;
  }
  if ((own.st_mode & 07777) == mode) return 0;
  return fchmod(save->fd, mode) ? errno : 0;
}

/* ---- its place ---------------------------------------------------------------------------- */

/* Gives a file a name that has none. */
static int give_name(keel_save *save) {
  char at[64];
  int error = 0;
  snprintf(at, sizeof at, "/proc/self/fd/%d", save->fd);
  for (int i = 0; i < TRIES; i++) {
    error = choose_name(save);
    if (!error &&
        linkat(AT_FDCWD, at, save->folder, save->fresh, AT_SYMLINK_FOLLOW) != 0)
      error = errno;
    if (error != EEXIST) break;
  }
  if (error) save->fresh[0] = 0;
  return error;
}

/* What replaces a file is on the disk before it does: after a loss of power one of the two
 * is there. */
static int bring_to_disk(const keel_save *save) {
  if (!save->replaces || fdatasync(save->fd) == 0) return 0;
  return errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

static int save_put(keel_save *save) {
  int error = save->replaces ? keep_rights(save) : 0;
  if (!error) error = bring_to_disk(save);
  if (!error && !save->fresh[0]) error = give_name(save);
  if (!error &&
      renameat(save->folder, save->fresh, save->folder, save->name) != 0)
    error = errno;
  if (!error) save->fresh[0] = 0;
  return error;
}

/* ---- begin and end -------------------------------------------------------------------------- */

/* Removes what was made, and closes. */
static void save_drop(keel_save *save, bool whole) {
  struct stat there;
  if (save->fresh[0]) unlinkat(save->folder, save->fresh, 0);
  if (!whole && save->made &&
      fstatat(save->folder, save->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      save_is_same(&there, &save->old))
    unlinkat(save->folder, save->name, 0);
  close_both(save);
}

bool keel_save_begin(keel_save *save, const char *path, mode_t mode) {
  *save = (keel_save){.fd = -1, .folder = -1};
  int error = find_place(save, path, mode);
  if (!error && !save->in_place)
    error = open_fresh(
        save, save->replaces ? (save->old.st_mode & 0700) | 0600 : mode);
  if (!error) {
    save->file =
        fopencookie(save, "wb", (cookie_io_functions_t){.write = save_take});
    if (!save->file) error = errno;
  }
  if (error) save_drop(save, false);
  errno = error;
  return !error;
}

bool keel_save_end(keel_save *save, bool keep) {
  bool closed = fclose(save->file) == 0;
  int error = save->error ? save->error : closed ? 0 : EIO;
  if (!error && keep && !save->in_place) error = save_put(save);
  /* a file system that is somewhere else may say so here only */
  if (!error && keep && save->in_place) {
    if (close(save->fd) != 0) error = errno;
    save->fd = -1;
  }
  save_drop(save, keep && !error);
  save->file = NULL;
  errno = error;
  return !error;
}
