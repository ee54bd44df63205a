/* file.c - files mapped for reading, and files that are replaced whole. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "system/save.h"

#define MOST (UINT64_C(1) << 20) /* bytes that are written at once */

static keel_status file_map(int fd, const char *path, keel_file *out_file) {
  struct stat facts;
  if (fstat(fd, &facts) != 0)
    return keel_fail(KD_UNAVAILABLE, "%s: %s", path, strerror(errno));
  if (!S_ISREG(facts.st_mode))
    return keel_fail(KD_INVALID_ARGUMENT, "%s: is not a regular file", path);
  out_file->size = (uint64_t)facts.st_size;
  out_file->data = NULL;
  if (!out_file->size) return KD_OK;
  void *data = mmap(NULL, out_file->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED)
    return keel_fail(KD_UNAVAILABLE, "%s: can't be mapped: %s", path,
                     strerror(errno));
  out_file->data = data;
  return KD_OK;
}

static keel_status open_to_read(const char *path, int flags, int *out_fd) {
  *out_fd = open(path, flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (*out_fd >= 0) return KD_OK;
  keel_status status = errno == ENOENT   ? KD_NOT_FOUND
                       : errno == EACCES ? KD_PERMISSION_DENIED
                                         : KD_UNAVAILABLE;
  return keel_fail(status, "%s: %s", path, strerror(errno));
}

keel_status keel_file_open(const char *path, keel_file *out_file) {
  int fd = -1;
  KEEL_TRY(open_to_read(path, 0, &fd));
  keel_status status = file_map(fd, path, out_file);
  close(fd);
  return status;
}

keel_status keel_file_open_own(const char *path, keel_file *out_file) {
  struct stat facts;
  int fd = -1;
  KEEL_TRY(open_to_read(path, O_NOFOLLOW, &fd));
  bool own = fstat(fd, &facts) == 0 && facts.st_uid == geteuid();
  keel_status status =
      own ? file_map(fd, path, out_file)
          : keel_fail(KD_PERMISSION_DENIED, "%s: is another user's", path);
  close(fd);
  return status;
}

static keel_status file_fill(int fd, const char *name, const void *data,
                             uint64_t size) {
  const char *from = data;
  while (size) {
    ssize_t written = write(fd, from, size < MOST ? size : MOST);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return keel_fail(errno == ENOMEM || errno == ENOSPC ? KD_OUT_OF_MEMORY
                                                          : KD_UNAVAILABLE,
                       "%s: no memory for a copy of it: %s", name,
                       strerror(errno));
    from += written;
    size -= (uint64_t)written;
  }
  return KD_OK;
}

/* A file that is nowhere but in memory: its pages can be evicted as any file's. */
keel_status keel_file_copy(const char *name, const void *data, uint64_t size,
                           keel_file *out_file) {
  int fd = memfd_create("keel", MFD_CLOEXEC);
  if (fd < 0)
    return keel_fail(KD_UNAVAILABLE, "%s: no memory for a copy of it: %s", name,
                     strerror(errno));
  keel_status status = file_fill(fd, name, data, size);
  if (status == KD_OK) status = file_map(fd, name, out_file);
  close(fd);
  return status;
}

/* Whether `path` lies in `folder`, or below; both are without links. */
static bool lies_in(const char *path, const char *folder) {
  size_t size = strlen(folder);
  while (size && folder[size - 1] == '/')
    size--;
  return !strncmp(path, folder, size) && path[size] == '/';
}

/* Whether the opened file, with all links followed, lies in the folder of another file: in
 * that of its name, or in that of the file that this leads to. */
static bool opened_beside(int fd, const char *beside) {
  char link[64], opened[PATH_MAX], path[PATH_MAX], folder[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (!realpath(link, opened)) return false;
  const char *slash = strrchr(beside, '/');
  size_t length = slash ? (size_t)(slash + 1 - beside) : 0;
  if (length >= sizeof path) return false;
  snprintf(path, sizeof path, "%.*s.", (int)length, beside);
  if (realpath(path, folder) && lies_in(opened, folder)) return true;
  if (!realpath(beside, folder)) return false;
  *strrchr(folder, '/') = 0;
  return lies_in(opened, folder);
}

keel_status keel_file_open_beside(const char *path, const char *beside,
                                  keel_file *out_file) {
  int fd = -1;
  KEEL_TRY(open_to_read(path, 0, &fd));
  keel_status status = opened_beside(fd, beside)
                           ? file_map(fd, path, out_file)
                           : keel_fail(KD_PERMISSION_DENIED,
                                       "%s: leads out of the folder of %s by a"
                                       " link",
                                       path, beside);
  close(fd);
  return status;
}

void keel_file_evict(const void *data, uint64_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)data + size) / page * page;
  if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void keel_file_close(keel_file *file) {
  if (file->data) munmap((void *)(uintptr_t)file->data, file->size);
  *file = (keel_file){0};
}

static keel_status not_written(const char *path, int error, bool replaces) {
  bool refused = error == EACCES || error == EPERM || error == EROFS;
  return keel_fail(refused ? KD_PERMISSION_DENIED : KD_UNAVAILABLE,
                   "%s: can't be written: %s%s", path, strerror(error),
                   replaces ? "; the file that was there is as it was" : "");
}

keel_status keel_file_replace(const char *path, mode_t mode,
                              keel_status (*write)(void *context, FILE *file),
                              void *context) {
  keel_save save;
  if (!keel_save_begin(&save, path, mode))
    return not_written(path, errno, false);
  keel_status status = write(context, save.file);
  bool replaces = save.replaces, keep = status == KD_OK;
  if (!keel_save_end(&save, keep) && keep)
    return not_written(path, errno, replaces);
  return status;
}

typedef struct passing {
  keel_status (*write)(void *context, const void *data, uint64_t size);
  void *context;
  keel_status status;
} passing;

static ssize_t file_pass_on(void *cookie, const char *data, size_t size) {
  passing *self = cookie;
  if (self->status == KD_OK)
    self->status = self->write(self->context, data, size);
  return self->status == KD_OK ? (ssize_t)size : 0;
}

keel_status keel_file_pass(keel_status (*print)(void *context, FILE *file),
                           void *context,
                           keel_status (*write)(void *context, const void *data,
                                                uint64_t size),
                           void *write_context) {
  passing self = {write, write_context, KD_OK};
  FILE *file =
      fopencookie(&self, "wb", (cookie_io_functions_t){.write = file_pass_on});
  if (!file) return keel_no_memory(sizeof *file);
  keel_status status = print(context, file);
  fclose(file);
  if (self.status == KD_OK) return status;
  return keel_fail(self.status, "the application's function refused the data");
}
