/* shared.h - memory that is a file of its own, as KD_EXTERNAL_SHARED_FD names it: who has
 * the descriptor maps the same bytes. For plugins of devices that use host memory. */
#ifndef KEEL_PLUGINS_SHARED_H
#define KEEL_PLUGINS_SHARED_H

#include <errno.h>
#include <fcntl.h>
#include <kd/kd.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct shared_memory {
  char *at;      /* NULL: none */
  uint64_t size; /* bytes that are mapped, whole pages */
  int file;
} shared_memory;

static inline uint64_t shared_page(void) {
  return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Whole pages; 0: no machine has so many. */
static inline uint64_t shared_rounded(uint64_t size) {
  uint64_t page = shared_page();
  return size > INT64_MAX - page ? 0 : (size + page - 1) / page * page;
}

static inline int shared_map(int file, uint64_t size, uint32_t access,
                             shared_memory *out) {
  int rights = PROT_READ | (access & KD_WRITE ? PROT_WRITE : 0);
  void *at = mmap(NULL, (size_t)size, rights, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return errno;
  *out = (shared_memory){at, size, file};
  return 0;
}

/* New memory, whose file never gets shorter. 0, or why not, as errno says. */
static inline int shared_make(uint64_t size, shared_memory *out) {
  uint64_t rounded = shared_rounded(size);
  if (!rounded) return ENOMEM;
  int file = memfd_create("keel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return errno;
  int error = ftruncate(file, (off_t)rounded) == 0 ? 0 : errno;
  if (!error) {
    (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
    error = shared_map(file, rounded, KD_READ | KD_WRITE, out);
  }
  if (error) close(file);
  return error;
}

/* Whether a descriptor's file has all of what is said of it; what is no file in memory
 * says nothing of its size. Some drivers would wait for what a pipe has to say. */
static inline bool shared_holds(const kd_external *memory) {
  struct stat facts;
  if (memory->handle > INT32_MAX || fstat((int)memory->handle, &facts) != 0)
    return false;
  uint64_t all = (uint64_t)facts.st_size;
  if (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) ||
      S_ISDIR(facts.st_mode))
    return false;
  return !S_ISREG(facts.st_mode) ||
         (memory->offset <= all && memory->size <= all - memory->offset);
}

/* Maps what somebody else made, from the file's begin to the last byte that `memory`
 * reaches. The descriptor stays the caller's, and is closed by nobody here. KD_OK,
 * KD_INVALID_ARGUMENT (it is no such file), KD_UNIMPLEMENTED. */
static inline kd_status shared_open(const kd_host *host,
                                    const kd_external *memory,
                                    shared_memory *out) {
  struct stat facts;
  int error = EBADF;
  if (shared_holds(memory) && fstat((int)memory->handle, &facts) == 0 &&
      S_ISREG(facts.st_mode))
    error = shared_map((int)memory->handle,
                       shared_rounded(memory->offset + memory->size),
                       memory->access, out);
  if (!error) return KD_OK;
  return host->fail(error == EBADF ? KD_INVALID_ARGUMENT : KD_UNIMPLEMENTED,
                    "descriptor %llu is not memory of %llu bytes from %llu: %s",
                    (unsigned long long)memory->handle,
                    (unsigned long long)memory->size,
                    (unsigned long long)memory->offset, strerror(error));
}

/* A descriptor of the caller's own; -1: there is none left. */
static inline int shared_descriptor(const shared_memory *memory) {
  return fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
}

static inline void shared_end(const shared_memory *memory) {
  if (!memory->at) return;
  munmap(memory->at, (size_t)memory->size);
  close(memory->file);
}

#endif /* KEEL_PLUGINS_SHARED_H */
