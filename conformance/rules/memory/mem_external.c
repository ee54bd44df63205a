/* mem_external.c - memory that something else owns: import and export. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rules/memory/mem.h"
#include "rules/rules.h"

static void *pages(uint64_t size, int rights) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) kc_stop("the suite can't map pages");
  kc_pattern(at, size, 8);
  mprotect(at, size, rights);
  return at;
}

static kd_status import(void *memory, uint64_t offset, uint64_t size,
                        uint32_t access, kd_buffer **out) {
  void *address = NULL;
  const kd_external from = {.struct_size = sizeof from,
                            .kind = KD_EXTERNAL_HOST_POINTER,
                            .handle = (uint64_t)(uintptr_t)memory,
                            .offset = offset,
                            .size = size,
                            .access = access};
  return KC_CALL(kd_status,
                 kp.x.import_memory(kc_device(), &from, out, &address),
                 "external.import_memory(host pointer, %llu bytes from %llu)",
                 (unsigned long long)size, (unsigned long long)offset);
}

void mem_import(void) {
  if (!kp.x.import_memory) kc_unclaimed("external.import_memory is NULL");
  uint64_t size = 8192;
  char *memory = pages(size, PROT_READ | PROT_WRITE), *back = kc_take(size);
  kd_buffer *buffer = NULL;
  uint32_t access = KD_READ | KD_WRITE;
  kd_status status = import(memory, 0, size, access, &buffer);
  if (status == KD_UNIMPLEMENTED)
    status = import(memory, 0, size, access = KD_READ, &buffer);
  if (status == KD_UNIMPLEMENTED) kc_untested("it imports no host memory");
  kc_ok(status, "import_memory");
  kc_ok(kp.m.copy_out(kc_device(), NULL, buffer, 0, back, size), "copy_out");
  kc_check(!memcmp(memory, back, size), "imported memory reads otherwise");
  char new[100] = "written through the buffer";
  if (access & KD_WRITE)
    kc_ok(kp.m.copy_in(kc_device(), NULL, new, buffer, 4096, sizeof new),
          "copy_in");
  mem_give(buffer);
  kc_check(!(access & KD_WRITE) || !memcmp(memory + 4096, new, sizeof new),
           "what was written to imported memory is not there: it is a copy");
  status = import(memory, 4096, 4096, access, &buffer);
  if (status == KD_OK) {
    kc_ok(kp.m.copy_out(kc_device(), NULL, buffer, 0, back, 4096), "copy_out");
    kc_check(!memcmp(memory + 4096, back, 4096),
             "memory imported from an offset reads otherwise");
    mem_give(buffer);
  } else {
    kc_check(status == KD_UNIMPLEMENTED, "import from an offset returned %s",
             kd_status_name(status));
  }
  back[size - 1] = memory[size - 1];
  /* still ours: readable, and to be unmapped by us alone */
  char byte = memory[size - 1];
  kc_check(byte == back[size - 1], "imported memory changed by its release");
  kc_check(munmap(memory, size) == 0, "imported memory was unmapped");
  free(back);
}

void mem_import_readonly(void) {
  if (!kp.x.import_memory) kc_unclaimed("external.import_memory is NULL");
  uint64_t size = 8192;
  char *memory = pages(size, PROT_READ), *back = kc_take(size);
  kd_buffer *buffer = NULL;
  kd_status status = import(memory, 0, size, KD_READ, &buffer);
  if (status == KD_UNIMPLEMENTED)
    kc_unclaimed("it imports no read-only host memory");
  kc_ok(status, "import_memory of read-only pages");
  kc_ok(kp.m.copy_out(kc_device(), NULL, buffer, 8, back, size - 8),
        "copy_out");
  kc_check(!memcmp(memory + 8, back, size - 8),
           "imported memory reads otherwise");
  mem_give(buffer);
  munmap(memory, size);
  free(back);
}

/* Allocates to be exported as a kind, with these bytes at 64, and exports. False: the
 * device does not. */
static bool export_as(uint32_t kind, const char *in, uint64_t size,
                      kd_buffer **out_buffer, kd_external *out_there) {
  void *address = NULL;
  const kd_allocation wanted = {
      .struct_size = sizeof wanted, .size = 8192, .export_kind = kind};
  *out_there = (kd_external){.struct_size = sizeof *out_there, .kind = kind};
  *out_buffer = NULL;
  kd_status status = kp.m.allocate(kc_device(), &wanted, out_buffer, &address);
  if (status == KD_UNIMPLEMENTED) return false;
  kc_ok(status, "allocate");
  kc_ok(kp.m.copy_in(kc_device(), NULL, in, *out_buffer, 64, size), "copy_in");
  status = KC_CALL(kd_status,
                   kp.x.export_memory(kc_device(), *out_buffer, out_there),
                   "external.export_memory(kind %u)", kind);
  if (status == KD_OK) {
    kc_check(out_there->size >= 8192 && (out_there->access & KD_READ),
             "what was exported has %llu bytes, access %u",
             (unsigned long long)out_there->size, out_there->access);
    return true;
  }
  kc_check(status == KD_UNIMPLEMENTED, "export_memory of kind %u returned %s",
           kind, kd_status_name(status));
  mem_give(*out_buffer);
  return false;
}

static kd_status import_there(const kd_external *there, kd_buffer **out) {
  void *address = NULL;
  return KC_CALL(kd_status,
                 kp.x.import_memory(kc_device(), there, out, &address),
                 "external.import_memory(kind %u, %llu bytes)", there->kind,
                 (unsigned long long)there->size);
}

/* Both buffers are of the same bytes. */
static void compare_exported(kd_buffer *buffer, kd_buffer *other,
                             const kd_external *there, char *in, char *out,
                             uint64_t size) {
  bool descriptor = there->kind != KD_EXTERNAL_HOST_POINTER;
  if (there->access & KD_WRITE) {
    in[0] = (char)~in[0];
    kc_ok(kp.m.copy_in(kc_device(), NULL, in, other, 64, 1), "copy_in");
    kc_ok(kp.m.copy_out(kc_device(), NULL, buffer, 64, out, 1), "copy_out");
    kc_check(out[0] == in[0],
             "what is written to imported memory is not in the exported: it is"
             " a copy");
  }
  if (descriptor) mem_give(buffer); /* the memory lives on */
  kc_ok(kp.m.copy_out(kc_device(), NULL, other, 64, out, size), "copy_out");
  kc_check(!memcmp(in, out, size), "exported memory reads otherwise");
  mem_give(other);
  if (!descriptor) mem_give(buffer);
}

static const uint32_t exports[] = {KD_EXTERNAL_HOST_POINTER,
                                   KD_EXTERNAL_OPAQUE_FD, KD_EXTERNAL_DMA_BUF,
                                   KD_EXTERNAL_SHARED_FD};

void mem_export(void) {
  char in[512], out[512];
  uint32_t good = 0;
  if (!kp.x.export_memory) kc_unclaimed("external.export_memory is NULL");
  for (size_t i = 0; i < KC_COUNT_OF(exports); i++) {
    kd_buffer *buffer = NULL, *other = NULL;
    kd_external there;
    kc_pattern(in, sizeof in, 6);
    if (!export_as(exports[i], in, sizeof in, &buffer, &there)) continue;
    good++;
    kd_status status =
        kp.x.import_memory ? import_there(&there, &other) : KD_OK;
    if (other && status == KD_OK) {
      compare_exported(buffer, other, &there, in, out, sizeof in);
      continue;
    }
    kc_check(status == KD_OK, "what was exported can't be imported: %s",
             kc_message());
    if (exports[i] != KD_EXTERNAL_HOST_POINTER)
      close((int)there.handle); /* still ours */
    mem_give(buffer);
  }
  if (!good) kc_unclaimed("it exports memory in no way");
}

static bool mem_external_is_open(int file) {
  return fcntl(file, F_GETFD) >= 0;
}

/* A pipe is no memory. */
static void import_no_memory(uint32_t kind) {
  int pipes[2];
  kd_buffer *buffer = NULL;
  if (pipe(pipes) != 0) kc_stop("the suite gets no pipe");
  const kd_external from = {.struct_size = sizeof from,
                            .kind = kind,
                            .handle = (uint64_t)pipes[0],
                            .size = 8192,
                            .access = KD_READ};
  kd_status status = import_there(&from, &buffer);
  if (kc_check(status != KD_OK, "a pipe was imported as memory of kind %u",
               kind))
    kc_check(mem_external_is_open(pipes[0]),
             "an import of kind %u failed, and the descriptor is closed", kind);
  else
    mem_give(buffer);
  if (mem_external_is_open(pipes[0])) close(pipes[0]);
  close(pipes[1]);
}

void mem_import_descriptor(void) {
  char in[512];
  uint32_t good = 0;
  if (!kp.x.export_memory || !kp.x.import_memory)
    kc_unclaimed("a slot of the external table is NULL");
  for (size_t i = 0; i < KC_COUNT_OF(exports); i++) {
    kd_buffer *buffer = NULL, *other = NULL;
    kd_external there;
    kc_pattern(in, sizeof in, 7);
    if (exports[i] == KD_EXTERNAL_HOST_POINTER ||
        !export_as(exports[i], in, sizeof in, &buffer, &there))
      continue;
    good++;
    int file = (int)there.handle;
    kc_check(mem_external_is_open(file), "the exported descriptor %d is none",
             file);
    if (import_there(&there, &other) == KD_OK) {
      mem_give(other);
      kc_check(!mem_external_is_open(file),
               "descriptor %d of kind %u is still open, and what was imported"
               " from it is released",
               file, exports[i]);
    }
    if (mem_external_is_open(file)) close(file);
    mem_give(buffer);
    import_no_memory(exports[i]);
  }
  if (!good) kc_unclaimed("it exports memory by no descriptor");
}
