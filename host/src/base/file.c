/* file.c - files mapped for reading, and files that are replaced whole. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static keel_status map(int fd, const char *path, keel_file *out_file) {
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

static keel_status open_to_read(const char *path, int *out_fd) {
  *out_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (*out_fd >= 0) return KD_OK;
  keel_status status = errno == ENOENT   ? KD_NOT_FOUND
                       : errno == EACCES ? KD_PERMISSION_DENIED
                                         : KD_UNAVAILABLE;
  return keel_fail(status, "%s: %s", path, strerror(errno));
}

keel_status keel_file_open(const char *path, keel_file *out_file) {
  int fd = -1;
  KEEL_TRY(open_to_read(path, &fd));
  keel_status status = map(fd, path, out_file);
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

/* Whether the opened file, with all links followed, lies beside another file. */
static bool opened_beside(int fd, const char *beside) {
  char opened[PATH_MAX], link[64], folder[PATH_MAX], *real;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (!realpath(link, opened)) return false;
  const char *slash = strrchr(beside, '/');
  int length = slash ? (int)(slash + 1 - beside) : 0;
  if (length >= (int)sizeof folder) return false;
  snprintf(folder, sizeof folder, "%.*s", length ? length : 1,
           length ? beside : ".");
  real = realpath(folder, NULL);
  bool inside = real && lies_in(opened, real);
  free(real);
  if (inside || !(real = realpath(beside, NULL))) return inside;
  *strrchr(real, '/') = 0;
  inside = lies_in(opened, real);
  free(real);
  return inside;
}

keel_status keel_file_open_beside(const char *path, const char *beside,
                                  keel_file *out_file) {
  int fd = -1;
  KEEL_TRY(open_to_read(path, &fd));
  keel_status status = opened_beside(fd, beside)
                           ? map(fd, path, out_file)
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

keel_status keel_file_replace(const char *path,
                              keel_status (*write)(void *context, FILE *file),
                              void *context) {
  keel_text fresh = {0};
  keel_text_add(&fresh, "%s.new", path);
  FILE *file = fopen(keel_text_get(&fresh), "wb");
  keel_status status =
      file ? write(context, file)
           : keel_fail(errno == EACCES ? KD_PERMISSION_DENIED : KD_UNAVAILABLE,
                       "%s: can't be written: %s", path, strerror(errno));
  if (file) {
    bool whole = !ferror(file);
    whole = fclose(file) == 0 && whole;
    if (status == KD_OK && (!whole || rename(keel_text_get(&fresh), path) != 0))
      status = keel_fail(KD_UNAVAILABLE, "%s: can't be written: %s", path,
                         strerror(errno));
    if (status != KD_OK) unlink(keel_text_get(&fresh));
  }
  keel_text_free(&fresh);
  return status;
}

bool keel_trusts_environment(void) {
  return getauxval(AT_SECURE) == 0;
}
